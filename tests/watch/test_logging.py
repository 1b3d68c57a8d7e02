"""What a call logs is logged again by each call that a program serves, from the same line."""

import io
import logging

import pytest
import torch

import fulgurite as fg


class Journal:
    """A logger of its own with handlers for plain streams."""

    def __init__(
        self, formats=("%(levelname)s %(name)s %(filename)s:%(lineno)d %(funcName)s %(message)s",)
    ):
        self.logger = logging.Logger("fulgurite.journal", logging.INFO)
        self.streams = []
        for form in formats:
            self.streams.append(io.StringIO())
            handler = logging.StreamHandler(self.streams[-1])
            handler.setFormatter(logging.Formatter(form))
            self.logger.addHandler(handler)

    def texts(self):
        return [s.getvalue() for s in self.streams]


def constant(log, x):
    log.info("forward")
    return x * 2


def arguments(log, x):
    log.warning("shape %s, %d elements, %.3f", tuple(x.shape), x.numel(), x.mean().item())
    return x * 2


def text(log, x):
    log.info(f"loss {x.mean().item():.4f} {x.sum():.2f}")
    return x * 2


def through_functions(log, x):
    def report(value):
        log.log(logging.ERROR, "value %r", value)

    report(x.max().item())
    log.debug("not shown")
    return x * 2


def by_a_mapping(log, x):
    log.info("%(a)s %(b)s", {"a": 1, "b": "two"})
    return x * 2


@pytest.mark.parametrize("f", [constant, arguments, text, through_functions, by_a_mapping])
def test_is_logged_by_each_call(f):
    ours, eager = Journal(), Journal()
    compiled, plain = fg.jit(lambda x: f(ours.logger, x)), lambda x: f(eager.logger, x)
    for i in range(6):
        x = torch.arange(3.0) + i
        assert torch.equal(compiled(x), plain(x))
        assert ours.texts() == eager.texts()
    assert fg.cache_hits(compiled) >= 4, fg.fallbacks(compiled)


def test_level_and_handlers_are_those_of_the_call():
    ours, eager = Journal(), Journal()
    compiled, plain = (
        fg.jit(lambda x: constant(ours.logger, x)),
        lambda x: constant(eager.logger, x),
    )

    def changed(change):
        for journal in (ours, eager):
            change(journal)
        for i in range(3):
            x = torch.ones(2) * i
            assert torch.equal(compiled(x), plain(x))
        assert ours.texts() == eager.texts()

    changed(lambda j: None)
    changed(lambda j: j.logger.setLevel(logging.ERROR))
    changed(lambda j: j.logger.setLevel(logging.DEBUG))
    changed(lambda j: j.logger.handlers[0].setFormatter(logging.Formatter("%(message)s!")))
    changed(lambda j: j.logger.handlers[0].setLevel(logging.CRITICAL))
    changed(lambda j: j.logger.handlers.pop())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda log, seen: log.addFilter(lambda r: seen.append(r.getMessage()) or True),
        lambda log, seen: log.handlers[0].addFilter(lambda r: seen.append(r.getMessage()) or True),
        lambda log, seen: setattr(log.handlers[0], "emit", lambda r: seen.append(r.getMessage())),
        lambda log, seen: log.addHandler(
            type("H", (logging.Handler,), {"emit": lambda s, r: seen.append(r)})()
        ),
    ],
    ids=["filter", "filter of a handler", "emit", "handler"],
)
def test_handlers_of_the_users_run_in_order(spoil):
    """Whatever they do is part of the program, so Python runs the call, also if they come later."""
    for warm in (0, 3):
        journal, seen = Journal(), []
        compiled = fg.jit(lambda x, j=journal, s=seen: (constant(j.logger, x), len(s)))
        for _ in range(warm):
            compiled(torch.ones(2))
        spoil(journal.logger, seen)
        for i in range(4):
            assert compiled(torch.ones(2))[1] == len(seen) == i + 1
