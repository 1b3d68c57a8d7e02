"""Functions that go another way for other data: a call that leaves one program goes on in another one, with what
was computed so far (src/run/branch_tree.h). Everything is compared with eager, bit by bit."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import fulgurite as fg
from helpers import branching
from helpers.ways import (
    RANDOM,
    assert_same,
    by_size,
    chain,
    early_exit,
    full,
    loop,
    mixed_types,
    nested,
    numbers,
    raises,
    run,
    same,
    went_on,
)

SEEDS = 100


@pytest.fixture
def heavy() -> Iterator[list[int]]:
    """An executor that runs ``erfc`` and counts its runs, in programs only: [runs]."""
    runs = [0]

    def erfc(x):
        runs[0] += 1
        return torch.erfc(x)

    executor = fg.extend.OperatorExecutor("counting")
    fg.extend.register_executor(executor)
    op = executor.register_operator("erfc", meta=lambda x: torch.empty_like(x), fn=erfc)
    executor.register_implementation("aten.erfc", op)
    yield runs
    fg.extend.deregister_executor(executor)


def counted(f: Callable) -> Any:
    return fg.jit(f, executors=["counting", *fg.extend.get_default_executors()])


@pytest.mark.parametrize(
    "f", [chain, nested, loop, early_exit, raises, numbers, mixed_types, by_size]
)
@pytest.mark.parametrize("grad", [False, True])
def test_ways(f, grad):
    same(f, full(*RANDOM, grad=grad))


@pytest.mark.parametrize("reinplace", [False, True])
def test_a_loop_of_many_lengths(reinplace):
    g = same(loop, full(*(0.15 * 1.6**n for n in range(20))), reinplace=reinplace)
    assert fg.cache_misses(g) <= 20
    assert len(fg._C._entries(g)) == fg.cache_misses(g)


@pytest.mark.no_round_trip
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("start", range(0, SEEDS, 50))
def test_random_ways(start, grad, count):
    for seed in range(start, start + 50):
        source = branching.draw(seed, grad)
        scope: dict[str, Any] = {"torch": torch}
        exec(source, scope)
        g = fg.jit(scope["f"], reinplace=seed % 4 != 3)
        r = torch.Generator().manual_seed(seed)
        calls = [
            tuple((torch.randn(4, generator=r) * 2).requires_grad_(grad) for _ in range(2))
            for _ in range(10)
        ]
        for i in [*range(10), *range(9, -1, -1), *range(0, 10, 3), *range(1, 10, 3), *range(10)]:
            wanted = run(scope["f"], calls[i], i)
            assert_same(run(g, calls[i], i), wanted, f"seed {seed}, call {i}\n{source}")
        count("Random ways", "programs")
        count("Random ways", "calls served", fg.cache_hits(g))
        count("Random ways", "runs that went on in another program", went_on(g))
        for reason in fg.fallbacks(g):
            assert reason.code != "FG-208", f"{reason}\n{source}"
            count("Random ways", f"calls not served: {reason.code}", reason.count)


# ---- the beginning runs once --------------------------------------------------------------------------------
def test_the_common_beginning_runs_once(heavy):
    def f(x):
        y = torch.erfc(x)
        if x[0] > 2:
            return y + 1
        if x[0] > 1:
            return y * 2
        if x[0] > 0:
            return y - 3
        return y / 4

    calls = full(2.5, 1.5, 0.5, -0.5)
    g = counted(f)
    for _ in range(3):
        for call in calls:
            g(*call)
    hits = fg.cache_hits(g)
    for i in (0, 3, 1, 2, 0, 2, 3, 1):
        heavy[0] = 0
        result = g(*calls[i])
        assert heavy == [1]
        assert torch.equal(result, f(*calls[i]))
    assert fg.cache_hits(g) == hits + 8


def test_a_loop_runs_each_round_once(heavy):
    def f(x):
        rounds = 0
        while x.abs().max() > 1:
            x = torch.erfc(x) * 0 + x * 0.5
            rounds += 1
        return x * rounds

    g = counted(f)
    calls = full(*(2.0**n * 0.9 for n in range(1, 13)))
    for _ in range(2):
        for call in calls:
            g(*call)
    hits = fg.cache_hits(g)
    order = [5, 11, 2, 7, 0, 9, 1, 10, 3, 8, 4, 6]
    for i in order:
        heavy[0] = 0
        result = g(*calls[i])
        assert heavy == [i + 1]
        assert torch.equal(result, f(*calls[i]))
    assert fg.cache_hits(g) == hits + len(order)


def test_a_kernel_of_the_beginning_runs_once():
    runs, groups = [0], []

    def fuse(group):
        groups.append(group.ops())

        def kernel(*inputs):
            runs[0] += 1
            return group(*inputs)

        return kernel

    executor = fg.extend.FusionExecutor("fusing_branches", fuse=fuse)
    for op in ("aten.sin", "aten.mul", "aten.add"):
        executor.register_supported(op)

    def f(x):
        y = (x.sin() * x + 1).sin()
        if x.sum() > 2:
            return y * 2 + x
        if x.sum() > 0:
            return y + x * 3
        return (y + 1) * y

    g = fg.jit(f, executors=[executor, *fg.extend.get_default_executors()])
    calls = full(1.0, 0.25, -1.0)
    for _ in range(3):
        for call in calls:
            g(*call)
    hits = fg.cache_hits(g)
    for i in (0, 2, 1, 0, 1, 2):
        runs[0] = 0
        assert torch.equal(g(*calls[i]), f(*calls[i]))
        assert runs == [2], groups  # the beginning's, and that of the way
    assert fg.cache_hits(g) == hits + 6


def test_what_only_one_way_uses_is_computed_there(heavy):
    """The first program does not have the value: dead code goes."""

    def f(x):
        y = torch.erfc(x)
        z = y.sin() * x
        if x.sum() > 0:
            return x + 1
        return y + z

    g = counted(f)
    calls = full(1.0, -1.0)
    for i in (0, 1, 0, 1, 0, 1):
        assert torch.equal(g(*calls[i]), f(*calls[i]))
    g(*calls[0])
    heavy[0] = 0
    g(*calls[0])
    assert heavy == [0]  # nobody wants it
    g(*calls[1])
    assert heavy == [1] and went_on(g) > 0


def test_operators_of_a_loop_are_counted_by_the_profiler():
    g = fg.jit(loop)
    calls = full(*(0.15 * 1.6**n for n in range(8)))
    for _ in range(3):
        for call in calls:
            g(*call)
    order = [3, 7, 0, 5, 1, 6, 2, 4]

    def sines(f: Any) -> int:
        with torch.autograd.profiler.profile(use_kineto=False) as p:
            for i in order:
                f(*calls[i])
        return sum(e.count for e in p.key_averages() if e.key in ("aten::sin", "aten::sin_"))

    hits = fg.cache_hits(g)
    assert sines(g) == sines(loop)
    assert fg.cache_hits(g) == hits + len(order)


# ---- guards -------------------------------------------------------------------------------------------------
FACTOR = 2.0
MODE = "a"


def by_globals(x):
    y = x.sin()
    if x.sum() > 0:
        return y * FACTOR if MODE == "a" else y + 1
    if MODE == "b":
        return y - FACTOR
    return y - 1


def test_what_a_branch_reads_is_guarded_where_it_is_read(monkeypatch):
    g = fg.jit(by_globals)

    def both():
        for v in (1.0, -1.0, 1.0, -1.0):
            x = torch.full((3,), v)
            assert torch.equal(g(x), by_globals(x))

    both()
    for factor, mode in ((3.0, "a"), (3.0, "b"), (2.0, "b"), (2.0, "a"), (3.0, "b")):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        monkeypatch.setitem(globals(), "MODE", mode)
        both()
    hits = fg.cache_hits(g)
    both()
    assert fg.cache_hits(g) == hits + 4 and went_on(g) > 0


def test_the_guards_of_many_branches_are_checked_once(monkeypatch):
    def f(x):
        k = int(x[0])
        y = x * 2 if MODE == "a" else x * 3
        for i in range(6):
            if k == i:
                return y + i
        return y

    g = fg.jit(f)
    calls = full(*range(7))
    for _ in range(2):
        for call in calls:
            assert torch.equal(g(*call), f(*call))
    checks = [e["checks"] for e in fg._C._entries(g)]
    hits = fg.cache_hits(g)
    for call in calls:
        g(*call)
    assert fg.cache_hits(g) == hits + 7
    # Each call checked all that one program reads, and no second one.
    assert sum(e["checks"] for e in fg._C._entries(g)) == sum(checks) + 7
    checks = [e["checks"] for e in fg._C._entries(g)]
    monkeypatch.setitem(globals(), "MODE", "b")
    assert torch.equal(g(*calls[0]), f(*calls[0]))
    assert sum(e["checks"] for e in fg._C._entries(g) if e["hits"]) == sum(checks) + 1


def test_another_argument_of_the_same_shape():
    """Inputs that differ from call to call: the second program has the call's own."""

    class Holder:
        def __init__(self, v):
            self.w = torch.full((3,), v)

    def f(x, holder):
        y = x * holder.w
        if y.sum() > 0:
            return y + holder.w
        return y - x

    g = fg.jit(f)
    for i in range(24):
        holder, x = Holder(float(i % 5) - 2), torch.full((3,), float(i % 7) - 3)
        assert torch.equal(g(x, holder), f(x, holder)), i


# ---- bounds -------------------------------------------------------------------------------------------------
def test_a_tree_is_bounded():
    def f(x):
        n = 0
        while x.max() > 0:
            x = x - 1
            n += 1
        return x + n

    g = fg.jit(f, max_branches=4)
    for round_ in range(40):
        for n in range(12):
            x = torch.full((2,), float(n + round_ % 2))
            assert torch.equal(g(x), f(x))
    assert len(fg._C._entries(g)) <= 4
    found = [r for r in fg.fallbacks(g) if r.code == "FG-213"]
    assert len(found) == 1 and found[0].count > 10
    assert "max_branches" in found[0].reason and "test_branches.py" in found[0].reason
    assert fg.cache_hits(g) > 0
    with pytest.raises(fg.CompileError, match="FG-213"):
        strict = fg.jit(f, max_branches=2, fullgraph=True)
        for n in range(4):
            strict(torch.full((2,), float(n)))


def test_a_full_tree_follows_the_data():
    def f(x):
        n = 0
        while x.max() > 0:
            x = x - 1
            n += 1
        return x + n

    g = fg.jit(f, max_branches=3)
    for n in (0, 1, 2):
        g(torch.full((2,), float(n)))
    for _ in range(80):
        g(torch.full((2,), 9.0))
    hits = fg.cache_hits(g)
    g(torch.full((2,), 9.0))
    assert fg.cache_hits(g) == hits + 1


def test_programs_that_are_gone_are_not_gone_on_in():
    g = fg.jit(chain)
    calls = full(*RANDOM)
    for i in range(4):
        for call in calls:
            assert torch.equal(g(*call), chain(*call))
        if i == 1:
            fg._C._clear(g)


# ---- threads ------------------------------------------------------------------------------------------------
def test_two_threads():
    g = fg.jit(loop)
    calls = full(*(0.15 * 1.7**n for n in range(12)))
    wanted = [loop(*call) for call in calls]
    for call in calls:
        g(*call)
    wrong: list[str] = []

    def work(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(200):
            i = generator.randrange(len(calls))
            y, n = g(*calls[i])
            if n != wanted[i][1] or not torch.equal(y, wanted[i][0]):
                wrong.append(f"call {i}")

    threads = [threading.Thread(target=work, args=(s,)) for s in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert fg.cache_hits(g) >= 400, fg.explain(g)


# ---- what is said about it ----------------------------------------------------------------------------------
def test_explain_shows_the_tree():
    g = same(chain, full(*RANDOM))
    said = fg.explain(g)
    text = str(said)
    assert "branches on data: 5 programs" in text and "ways.py" in text, text
    assert text.count("True: program") + text.count("False: program") == 5, text
    assert "elif s &gt; -4:" in said.html()
    by_question = [[d.answer for d in p.decisions] for p in said.programs]
    assert sorted(by_question) == sorted(
        [*([*["False"] * n, "True"] for n in range(4)), ["False"] * 4]
    )
