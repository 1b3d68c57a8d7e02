"""The demo: trains, agrees with eager, says so, and fails when it should."""

import argparse

import pytest
import torch

import fulgurite as fg
from fulgurite import demo
from fulgurite.demo import train as training
from fulgurite.demo.memory import peak_bytes
from fulgurite.demo.model import GPT, Config
from fulgurite.demo.text import python_topics

TINY = {"context": 8, "width": 16, "heads": 2, "blocks": 1}


@pytest.fixture(scope="module")
def text():
    return python_topics()


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    torch.set_rng_state(before[1])


def arguments(*given):
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    return parser.parse_args(given)


def tiny_outcome(text, steps=5, **config):
    c = Config(vocabulary=len(text.alphabet), **{**TINY, **config})
    return training.prepare(c, training.Plan(steps=steps, batch=2), text)


def test_demo_trains_and_writes_its_report_when_short(tmp_path, capsys):
    path = tmp_path / "report.html"
    assert demo.main(arguments("--short", "--steps", "6", "--report", str(path))) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "The losses agree at all 6 steps" in printed
    assert "5 calls served by a compiled program, 1 recorded or run eagerly" in printed
    assert "fallbacks: none" in printed
    assert "peak memory of a step" in printed
    page = path.read_text(encoding="utf-8")
    assert "scaled_dot_product_attention" in page and "Backward" in page


def test_losses_are_equal_step_by_step_when_dropout_is_on(text):
    outcome = tiny_outcome(text, dropout=0.2)
    assert list(training.train(outcome)) == [0, 1, 2, 3, 4]
    assert outcome.eager.losses == pytest.approx(outcome.compiled.losses, rel=1e-6)
    assert not outcome.disagreements
    assert outcome.same_random_stream()
    assert (outcome.hits, outcome.misses) == (4, 1)
    assert outcome.eager.losses[0] != outcome.eager.losses[-1]


def test_demo_fails_when_losses_disagree(text, tmp_path, capsys, monkeypatch):
    prepare = training.prepare

    def unequal(*given):
        outcome = prepare(*given)
        with torch.no_grad():
            outcome.compiled.model.head.weight.mul_(1.5)
        return outcome

    monkeypatch.setattr(training, "prepare", unequal)
    assert (
        demo.main(arguments("--short", "--steps", "3", "--report", str(tmp_path / "r.html"))) == 1
    )
    assert "the losses disagree at 3 of 3 steps" in " ".join(capsys.readouterr().out.split())


def test_demo_fails_when_nothing_is_compiled(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FULGURITE_CACHE", "no caching")
    assert (
        demo.main(arguments("--short", "--steps", "3", "--report", str(tmp_path / "r.html"))) == 1
    )
    assert "no step was served by a compiled program" in " ".join(capsys.readouterr().out.split())


def test_training_stops_when_its_time_is_over(text):
    c = Config(vocabulary=len(text.alphabet), **TINY)
    outcome = training.prepare(c, training.Plan(steps=1000, batch=2, seconds=0.0), text)
    assert list(training.train(outcome)) == [0]


def test_sample_is_served_by_one_program(text):
    outcome = tiny_outcome(text)
    model = fg.jit(GPT(outcome.config))
    written = training.sample(
        model, text, outcome.config.context, 6, torch.Generator().manual_seed(0)
    )
    assert len(written) == 6
    assert (fg.cache_misses(model), fg.cache_hits(model)) == (1, 5)
    assert model.training


def test_text_round_trips_through_its_alphabet(text):
    assert text.decode(text.training[:2000]).isascii()
    assert len(text.training) > 300_000
    x, y = text.batch(4, 16, torch.Generator().manual_seed(0))
    assert x.shape == y.shape == (4, 16) and torch.equal(x[:, 1:], y[:, :-1])


def test_peak_bytes_counts_what_is_held_at_one_time():
    x = torch.randn(1000)
    assert 8000 <= peak_bytes(lambda: (x + 1) * 2) < 9000
    assert 4000 <= peak_bytes(lambda: [x + 1 for _ in range(3)][0]) < 13000


@pytest.mark.parametrize("steps", ["0", "-3", "many"])
def test_steps_must_be_positive(steps):
    with pytest.raises(SystemExit):
        arguments("--steps", steps)
