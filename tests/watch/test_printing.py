"""What a call prints is printed again by each call that a program serves, to the stream as it is then."""

# ruff: noqa: UP030, UP031, UP032

import contextlib
import io
import sys

import pytest
import torch
from torch import nn

import fulgurite as fg


def printed(f, *calls):
    """The text of each call, and whether a program served it."""
    texts, served = [], []
    for args in calls:
        hits = fg.cache_hits(f) if hasattr(f, "__wrapped__") or "fulgurite" in repr(f) else 0
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            f(*args)
        texts.append(stream.getvalue())
        served.append(fg.cache_hits(f) - hits if "fulgurite" in repr(f) else 0)
    return texts, served


def keyword_arguments(x):
    print("a", 1, 2.5, None, True, sep=", ", end="!\n", flush=True)
    return x + 1


def by_dict(x):
    print(*("a", "b"), **{"sep": "-", "end": ""})
    return x + 1


def shapes(x):
    print("forward", tuple(x.shape), x.dtype, x.shape, [x.dim(), {"n": x.shape[0]}])
    return x + 1


def several(x):
    print()
    print("")
    for i in range(3):
        print(i, end=" ")
    return x + 1


def formatted(x):
    print(f"{x.shape[0]:>4}|{'%d' % x.dim()}|{x.dtype!r}")  # noqa: UP031
    return x * 2


def to_stream(x):
    sys.stdout.write("direct\n")
    sys.stdout.flush()
    return x * 2


def unicode(x):
    print("Grüße, 世界")
    return x * 2


def in_a_branch(x):
    if x.sum() > 0:
        print("positive")
    else:
        print("negative")
    return x * 2


SERVED = {
    f.__name__: f
    for f in (keyword_arguments, by_dict, shapes, several, formatted, unicode, in_a_branch)
}


@pytest.mark.parametrize("name", SERVED)
def test_is_printed_by_each_call(name):
    f = SERVED[name]
    calls = [(torch.ones(3) * s,) for s in (1, -1, 1, -1, 1)]
    expected, _ = printed(f, *calls)
    found, served = printed(fg.jit(f), *calls)
    assert found == expected
    assert served[2:] == [1, 1, 1]


def number(x):
    print(x.sum().item())
    return nn.functional.relu(x) + 1


def formatted_number(x):
    print(f"loss {x.mean().item():.3f}, {len(x)} elements,", x.sum().item() * 2, "in all", sep="|")
    return x + 1


def kept_text(x):
    first = f"{x.sum().item()!r}"
    line = f"<{x.max().item():>8.2f}>"
    pair = (first, f"{x.sum().item():e} and {x.dim()}")
    y = x * 2
    print(line, pair[1])
    return y


def width(x):
    print(f"{x.sum().item():{4 + x.dim()}.1f}")
    return x + 1


def digit(x):
    for i in range(3):
        print(f"{i}{int(x.numel())}")
    return x + 1


def tensor_without_dimensions(x):
    print(f"loss {x.mean():.3f} of {x.sum()} and {(x > 0).sum():4d}")
    return x * 2


class Shown:
    def __init__(self, value):
        self.value = value

    def __format__(self, spec):
        return f"<{self.value:{spec}}>"


def by_a_format_method(x):
    print(f"{Shown(x.mean().item()):.3f}")
    return x * 2


def by_percent(x):
    mean, count = x.mean().item(), (x > 0).sum().item()
    print("%s %5.1f|%-8.2e|%d %03d %+d %r%%" % ("run", mean, mean, count, count, count, mean))
    print(
        "%s %s %.2f" % (tuple(x.shape), [1, 2], mean),
        "%.3f" % mean,
        "%5d|%-5d|% d" % (count, -count, count),
    )
    return x * 2


def by_braces(x):
    mean, count = x.mean().item(), (x > 0).sum().item()
    print("epoch {} loss {:.3f} {name:>6} {{}}".format(3, mean, name="run"))
    print("{0} {1:>8.2e} {0:05d} {2} {3!s}".format(count, mean, x.shape, mean))
    return x * 2


def put_together(x):
    mean = x.mean().item()
    print("loss " + str(mean) + "; " + repr(mean) + format(mean, "9.3f"))
    print(", ".join([f"{v:.2f}" for v in x.tolist()]), "-".join(("a", str(mean))))
    line = "a"
    line += f" {mean:.1f}"
    line += "!"
    print(line)
    return x * 2


def joined(x):
    print("loss " + f"{x.sum().item():.2f}")
    return x + 1


NUMBERS = [number, formatted_number, kept_text, width, digit, tensor_without_dimensions, by_a_format_method,
           by_percent, by_braces, put_together, joined]  # fmt: skip


@pytest.mark.parametrize("f", NUMBERS)
def test_numbers_of_the_data(f):
    calls = [(torch.arange(3.0) * (i - 2.5) + i / 3,) for i in range(8)]
    compiled = fg.jit(f)
    assert printed(compiled, *calls)[0] == printed(f, *calls)[0]
    assert fg.cache_hits(compiled) >= 6, fg.fallbacks(compiled)


class Loop:
    def __init__(self):
        self.n = 0
        self.total = 0.0


def test_counters():
    def step(state, x):
        state.n += 1
        state.total += x.sum().item()
        print(f"step {state.n}: {state.total / state.n:.4f}")
        return x * 2

    compiled = fg.jit(step)
    states = Loop(), Loop()
    for i in range(14):
        x = torch.arange(3.0) * i
        a, _ = printed(compiled, (states[0], x))
        b, _ = printed(step, (states[1], x))
        assert a == b and vars(states[0]) == vars(states[1])
    assert fg.cache_hits(compiled) >= 10, (fg.fallbacks(compiled), fg.recompiles(compiled))


def tensor(x):
    print(x)
    return x + 1


def whole_number(x):
    print(int(x.sum()))
    return x + 1


def in_a_list(x):
    print([x.sum().item()])
    return x + 1


def used_later(x):
    n = x.sum().item()
    print(f"{n:.1f}")
    return x + len(str(n))


@pytest.mark.parametrize("f", [tensor, whole_number, in_a_list, used_later])
def test_other_text_of_the_data_is_left_to_eager(f):
    calls = [(torch.arange(3.0) + i / 3,) for i in range(6)]
    compiled = fg.jit(f)
    assert printed(compiled, *calls)[0] == printed(f, *calls)[0]
    assert fg.cache_hits(compiled) == 0 and not fg.programs(compiled)
    assert {r.code for r in fg.fallbacks(compiled)} == {"FG-201", "FG-209"}


def look(expression):
    space = {"names": {}, "keep": []}
    exec(
        "def f(x):\n    n = x.sum().item()\n    s = f'{n}'\n    t = f'a{n:.1f}b'\n    "
        + expression
        + "\n    return x + 1, r\n",
        space,
    )
    return space["f"], space


LOOKS = [
    "r = s", "r = [t]", "r = len(s)", "r = s[0]", "r = list(s)", "a, *r = t", "r = [*t]", "r = {s: 1}",
    "r = s == '3.0'", "r = 'a' in t", "r = s + t", "r = '%s' % s", "r = f'{s}!'", "r = f'{s:>9}'",
    "r = 1 if s > '3' else 2", "r = s.replace('.', ',')", "r = ''.join([s, t])", "r = [c for c in s]",
    "r = hash(s)", "r = str(s)", "r = repr(t)", "r = float(s)", "r = sorted(t)", "r = max(s, t)",
    "r = list(zip(s, t))", "r = (lambda *a: len(a))(*s)", "r = dict(a=s)", "keep.append(s); r = keep[-1]",
    "names['k'] = t; r = names", "names[s] = 1; r = list(names)", "r = isinstance(s, str)", "r = not s",
    "print(s); keep.append(s); r = None", "print(*[s]); r = t", "print(t, s); r = s", "r = (c for c in (s,)).__next__",
    "r = s.encode()", "r = slice(s)", "r = {s, 'q'} == {'3.0', 'q'}", "r = f'{n:.2f}' if n > 4 else 'less'",
    "r = (lambda: s)", "r = type('C', (), {'v': 1})().__class__.__name__ + s", "r = s.__len__()",
    "import operator; r = operator.getitem(s, 0)", "r = getattr(s, 'upper')()", "r = s.split('.')",
    "s = f'{x.sum()!s}'; r = s", "s = f'{x.sum():.1f}'; r = len(s)", "s = f'{x.mean()}'; keep.append(s); r = s", "r = x.sum().__format__('.2f')",
    "r = '%.2f' % n", "r = '%s %s' % (s, n)", "r = ['{:.1f} {}'.format(n, t)]", "r = len('%d' % int(n))", "r = str(n)[0]", "r = {repr(n): 1}",
    "r = '%05.1f %5s %i' % (n, n, int(n))", "r = (str(n) + s) * 2", "r = '%s' % [n]", "r = '{0!r:>9}'.format(n)", "r = ','.join([str(n)] * 2)", "r = '%x' % int(n)",
    "r = format(x.sum(), '.1f')", "r = n.__format__('.1f')", "r = '{}'.format(s)", "r = int(s.split('.')[0])", "r = s * 2", "r = bool(s) and t", "r = next(iter(t))",
]  # fmt: skip


@pytest.mark.parametrize("expression", LOOKS)
def test_whoever_looks_at_a_text_gets_this_one(expression):
    """Texts with numbers in them are only put together and printed; anything else is guarded, or not compiled."""
    (f, space), (g, other) = look(expression), look(expression)
    compiled = fg.jit(f)
    for i in range(6):
        x = torch.ones(3) * (i % 3 + 1)
        (a, r), (b, expected) = compiled(x), g(x)
        assert torch.equal(a, b)
        if callable(r):
            r, expected = r(), expected()
        assert r == expected and type(r) is type(expected)
        assert space["names"] == other["names"] and space["keep"] == other["keep"]


def test_a_step_that_is_printed_now_and_then():
    net = nn.Linear(3, 1)

    def step(x, i):
        y = net(x)
        if i % 5 == 0:
            print("step", i)
        return y

    compiled = fg.jit(step)
    calls = [(torch.ones(2, 3), i) for i in range(30)]
    found, served = printed(compiled, *calls)
    assert found == printed(step, *calls)[0]
    assert sum(served) >= 20, fg.fallbacks(compiled)


def test_capture_of_pytest(capsys):
    f = fg.jit(shapes)
    for _ in range(4):
        f(torch.ones(2))
    out = capsys.readouterr().out
    assert out.count("forward (2,)") == 4 and fg.cache_hits(f) == 3


def test_file_descriptors(capfd):
    f = fg.jit(to_stream)
    g = fg.jit(lambda x: (print("warned", file=sys.stderr), x + 1)[1])
    for _ in range(4):
        f(torch.ones(2))
        g(torch.ones(2))
    out, err = capfd.readouterr()
    assert out == "direct\n" * 4 and err == "warned\n" * 4
    assert fg.cache_hits(f) == 3 and fg.cache_hits(g) == 3


class Loud(io.StringIO):
    """Python code that sees each write, in order with the rest of the program."""

    def __init__(self, log):
        super().__init__()
        self.log = log

    def write(self, text):
        self.log.append(text)
        return super().write(text)


def test_a_stream_of_the_users_runs_in_order(monkeypatch):
    log = []

    def f(x):
        print("before", len(log))
        return x + len(log)

    compiled = fg.jit(f)
    monkeypatch.setattr(sys, "stdout", Loud(log))
    for _ in range(5):
        before = len(log)
        assert compiled(torch.zeros(1)).item() == len(log) and len(log) > before
    assert fg.cache_hits(compiled) == 0


def test_a_stream_of_the_users_put_in_later(monkeypatch):
    log = []

    def f(x):
        print("text")
        return x + len(log)

    compiled = fg.jit(f)
    for _ in range(3):
        assert compiled(torch.zeros(1)).item() == 0
    assert fg.cache_hits(compiled) == 2
    monkeypatch.setattr(sys, "stdout", Loud(log))
    for _ in range(3):
        assert compiled(torch.zeros(1)).item() == len(log) > 0


def test_a_write_method_on_the_stream_itself(capsys):
    seen = []
    f = fg.jit(lambda x: (print("text"), x + len(seen))[1])
    for _ in range(3):
        f(torch.zeros(1))
    hits = fg.cache_hits(f)
    stream = io.TextIOWrapper(io.BytesIO(), write_through=True)
    stream.write = seen.append
    with contextlib.redirect_stdout(stream):
        for _ in range(2):
            assert f(torch.zeros(1)).item() == len(seen) > 0
    assert fg.cache_hits(f) == hits


def test_nothing_is_printed_by_a_run_that_is_abandoned():
    def f(x):
        print("run")
        if x.sum() > 0:
            return x + 1
        return x - 1

    compiled = fg.jit(f)
    calls = [(torch.ones(2) * s,) for s in (1, 1, -1, 1, -1, -1)]
    found, _ = printed(compiled, *calls)
    assert found == ["run\n"] * 6


def test_no_stream_and_a_closed_one(monkeypatch):
    f = fg.jit(lambda x: (print("text"), x + 1)[1])
    for _ in range(3):
        f(torch.ones(2))
    monkeypatch.setattr(sys, "stdout", None)
    assert torch.equal(f(torch.ones(2)), torch.ones(2) * 2)
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    with pytest.raises(ValueError, match="closed"):
        f(torch.ones(2))


def test_text_that_the_stream_cannot_take():
    f = fg.jit(lambda x: (print("ü"), x + 1)[1])
    for _ in range(3):
        with contextlib.redirect_stdout(io.StringIO()):
            f(torch.ones(2))
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="ascii")):
        with pytest.raises(UnicodeEncodeError):
            f(torch.ones(2))


def test_values_that_are_printed_are_guarded():
    class Config:
        name = "a"

    config = Config()
    f = fg.jit(lambda x: (print(config.name, config.sizes), x + 1)[1])
    config.sizes = [1, 2]
    texts = []
    for name, sizes in (("a", [1, 2]), ("a", [1, 2]), ("b", [1, 2]), ("b", [1, 3]), ("b", [1, 3])):
        config.name, config.sizes = name, sizes
        texts += printed(f, (torch.ones(2),))[0]
    assert texts == ["a [1, 2]\n", "a [1, 2]\n", "b [1, 2]\n", "b [1, 3]\n", "b [1, 3]\n"]


def test_a_module_that_prints_is_one_part():
    class Net(nn.Module):
        def forward(self, x):
            print("Net.forward")
            return x.sin() * 2

    net = Net()

    def f(x):
        y = net(x)
        print(y.sum())
        return y

    compiled = fg.jit(f)
    calls = [(torch.ones(2) * i,) for i in range(12)]
    assert printed(compiled, *calls)[0] == printed(f, *calls)[0]
    (part,) = fg.parts(compiled)
    assert fg.cache_hits(part) >= 3
