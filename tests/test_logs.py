"""FULGURITE_LOGS: its grammar, and what is logged when."""

import logging
import subprocess
import sys
import time

import pytest
import torch

import fulgurite as fg
from fulgurite import logs
from fulgurite.inspection import function_of


@pytest.fixture(autouse=True)
def restore():
    yield
    logs.configure(None)


def test_grammar_is_that_of_torch_logs():
    assert logs.parse("+guards,-cache,trace") == {
        "guards": logging.DEBUG,
        "cache": logging.ERROR,
        "trace": logging.INFO,
    }
    assert logs.parse("") == {}
    assert logs.parse(" passes , ") == {"passes": logging.INFO}


def test_all_stands_for_every_component_and_later_items_win():
    assert logs.parse("all") == dict.fromkeys(logs.COMPONENTS, logging.INFO)
    assert logs.parse("+all,-guards")["guards"] == logging.ERROR
    assert logs.parse("+all,-guards")["trace"] == logging.DEBUG


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("+gaurds", "did you mean 'guards'"),
        ("xyz", "components are trace, guards"),
        ("+", "components are"),
    ],
)
def test_unknown_component_is_an_error_that_helps(text, hint):
    with pytest.raises(ValueError, match="FG-015: unknown log component") as e:
        logs.parse(text)
    assert hint in str(e.value)


def test_unknown_component_in_the_environment_stops_the_import():
    done = subprocess.run(
        [sys.executable, "-c", "import fulgurite"], env={**_environment(), "FULGURITE_LOGS": "cahce"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ValueError: FG-015: unknown log component 'cahce' in 'cahce'; did you mean 'cache'?"
    )


def _environment():
    import os

    return {k: v for k, v in os.environ.items() if not k.startswith("FULGURITE_")}


def test_levels_are_those_of_standard_loggers():
    logs.configure("+guards,-fallbacks,trace")
    assert logging.getLogger("fulgurite.guards").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("fulgurite.fallbacks").isEnabledFor(logging.WARNING)
    assert not logging.getLogger("fulgurite.trace").isEnabledFor(logging.DEBUG)
    assert logging.getLogger("fulgurite.cache").getEffectiveLevel() == logging.WARNING
    logs.configure(None)
    assert logging.getLogger("fulgurite.fallbacks").isEnabledFor(logging.WARNING)
    assert logging.getLogger("fulgurite").propagate


def add(x, y):
    return x + y


def compiled():
    f = fg.jit(add)
    f(torch.ones(2), torch.ones(2))
    return f


class Collected(logging.Handler):
    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append((record.name, record.levelname, record.getMessage()))


@pytest.fixture
def records():
    """What the loggers say at the levels that ``configure`` gives them."""
    handler = Collected()
    logging.getLogger("fulgurite").addHandler(handler)
    yield lambda: handler.said
    logging.getLogger("fulgurite").removeHandler(handler)


def tell(jitted, event, detail):
    logs._on_event(function_of(jitted), event, detail)


def test_nothing_is_said_of_a_compiled_call_without_the_variable(records):
    tell(compiled(), "compiled", {})
    assert records() == []


def test_each_component_says_its_part_of_a_compiled_call(records):
    f = compiled()
    logs.configure("all")
    tell(f, "compiled", {})
    said = {name: text for name, _, text in records()}
    assert said["fulgurite.cache"].startswith("add: compiled a program of 1 operators in ")
    assert "functionalize" in said["fulgurite.passes"]
    assert "torch.add(x, y)" in said["fulgurite.trace"]
    assert said["fulgurite.guards"].endswith("guards") and "check(" not in said["fulgurite.guards"]


def test_debug_says_every_stage_and_guard(records):
    f = compiled()
    logs.configure("+trace,+guards")
    tell(f, "compiled", {})
    said = records()
    assert sum(name == "fulgurite.trace" for name, _, _ in said) == len(fg.last_traces(f))
    assert any("check(" in text for _, _, text in said)


def test_recording_again_says_why(records):
    f = compiled()
    logs.configure("cache")
    tell(f, "recompile", "x: recorded f32[2]; given f32[3]")
    assert records() == [
        ("fulgurite.cache", "INFO", "add: recorded again: x: recorded f32[2]; given f32[3]")
    ]


def clock(x):
    return x * time.time()


def test_a_reason_to_run_eagerly_is_one_warning(records):
    f = fg.jit(clock)
    logs.configure(None)
    for _ in range(2):
        f(torch.ones(2))
    ((name, level, text),) = records()
    assert (name, level) == ("fulgurite.fallbacks", "WARNING")
    assert text.startswith("clock: this call runs eagerly: FG-200: ") and "time.time" in text


@pytest.mark.parametrize("code", sorted(logs._PASSING))
def test_reasons_that_pass_are_no_warnings(records, code):
    f = compiled()
    tell(f, "fallback", f"{code}: something")
    assert records() == []
    logs.configure("fallbacks")
    tell(f, "fallback", f"{code}: something")
    assert [level for _, level, _ in records()] == ["INFO"]


def test_the_core_tells_its_events():
    program = (
        "import torch, fulgurite as fg\n"
        "f = fg.jit(lambda x: x + 1)\n"
        "f(torch.ones(2)); f(torch.ones(2)); f(torch.ones(3))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**_environment(), "FULGURITE_LOGS": "cache"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    assert [line.split(":")[1].split(" in ")[0].strip() for line in lines] == [
        "compiled a program of 1 operators", "recorded again", "compiled a program of 1 operators",
    ]  # fmt: skip
    assert all(line.startswith("[fulgurite cache] ") for line in lines)
