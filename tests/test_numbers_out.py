"""Numbers that a call returns or stores: the program gives them, and no value is guarded."""

import math
import types

import pytest
import torch

import fulgurite as fg


class State:
    """What outlives the calls; compared with eager's after each."""

    def __init__(self):
        self.n = 0
        self.loss = 0.0
        self.best = math.inf
        self.losses = []
        self.stats = {"n": 0, "mean": 0.0}
        self.betas = (0.9, 0.5)

    def __eq__(self, other):
        return repr(vars(self)) == repr(vars(other))

    def __repr__(self):
        return repr(vars(self))


def returns_item(s, x):
    return x * 2, x.sum().item()


def returns_arithmetic(s, x):
    mean = x.mean().item()
    return {"loss": mean, "twice": [mean * 2, int((x > 0).sum())], "x": x + mean}


def returns_only_a_number(s, x):
    return x.sum().item() / 4


def accumulates(s, x):
    s.loss += x.sum().item()
    return x + 1


def averages(s, x):
    s.loss = 0.9 * s.loss + 0.1 * x.mean().item()
    return x * s.loss


def appends(s, x):
    s.losses.append(x.sum().item())
    return x + 1


def counts(s, x):
    s.stats["n"] += int((x > 0).sum())
    s.stats["mean"] = x.sum().item() / 4
    return x


def uses_its_counter(s, x):
    s.n += 1
    return x * (1 - 0.9**s.n)


def stores_and_reads_back(s, x):
    s.n += 1
    s.n = s.n * 2 - s.n // 2
    s.loss = float(s.n) + x.sum().item()
    return x + s.loss, s.n


def stores_an_object(s, x):
    s.stats = {"n": s.n, "mean": x.mean().item(), "pair": (s.loss, [x.max().item()])}
    s.n += 3
    return x


def keeps_the_best(s, x):
    s.best = min(s.best, x.sum().item())
    return x


def warms_up(s, x):
    s.n += 1
    return x * min(1.0, s.n / 5) * max(0.1, 1 - s.n / 100)


def takes_a_tuple_apart(s, x):
    a, b = s.betas
    s.betas = (a * 0.9, b)
    return x * a + b


def makes_a_tensor(s, x):
    t = torch.tensor(x.sum().item() / 3)
    u = t.mul_(2)
    s.n += 1
    return x * t + u, torch.as_tensor(s.n), torch.tensor(float(s.n), dtype=torch.float64)


def many_operators(s, x):
    s.n += 1
    n = s.n
    a = (n % 3, n // 2, n & 6, n | 8, n ^ 5, n << 2, n >> 1, ~n, -n, n**2, abs(-n), n / 7)
    m = n * 0.37 - 1.9
    b = (m % 0.5, m // 0.5, m**2, round(m), math.floor(m), math.ceil(m), int(m), abs(m))
    return a, b, math.copysign(2.0, m), math.fmod(m, 0.3), math.tanh(m), math.isnan(m), x + m


def lists_elements(s, x):
    a, b, *rest = x.tolist()
    s.losses = (x * 2).long().tolist()
    s.loss = a * b
    return x + rest[0], x.view(2, 2).tolist(), x.sum().tolist()


def goes_on_while_finite(s, x):
    if math.isfinite(x.sum().item()):
        s.loss = x.sum().item()
    return x


PROGRAMS = [v for v in list(globals().values()) if isinstance(v, types.FunctionType)]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("where", ["attribute", "closure"])
def test_numbers_flow_out_of_one_program(f, where):
    eager, compiled = State(), State()

    def over(state):
        return lambda x: f(state, x)

    plain = over(eager)
    g = fg.jit(over(compiled)) if where == "closure" else fg.jit(f)
    calls = 20
    for i in range(calls):
        x = torch.linspace(-1, 1, 4) * (i % 7 - 2) + i
        a = plain(x)
        b = g(x.clone()) if where == "closure" else g(compiled, x.clone())
        assert repr(a) == repr(b)
        assert eager == compiled, i
    assert fg.cache_hits(g) >= calls - 4, (fg.fallbacks(g), fg.recompiles(g))
    assert not [r for r in fg.fallbacks(g) if r.code != "FG-203"]


def test_a_number_that_is_stored_where_it_was_is_written_again():
    box = types.SimpleNamespace(a=0.0, b=1.0)

    def f(x):
        box.b = x.sum().item()
        return x

    g = fg.jit(f)
    for v in (1.0, 1.0, 2.0, 2.0, 1.0):
        g(torch.full((1,), v))
        assert box.b == v
        box.b = -1.0


def test_an_overflow_leaves_the_program_before_anything_is_stored():
    box = types.SimpleNamespace(n=2**61)

    def f(x):
        box.n = box.n * 2
        return x + 1

    g = fg.jit(f)
    expected = 2**61
    for _ in range(5):
        g(torch.ones(2))
        expected *= 2
        assert box.n == expected


def test_two_ways_to_one_tuple():
    a = types.SimpleNamespace(t=(1.0, 2.0))
    b = types.SimpleNamespace(t=a.t)

    def f(x):
        p, q = a.t
        r, s = b.t
        return x * p + q * r - s

    g = fg.jit(f)
    x = torch.linspace(0, 1, 3)
    for i in range(8):
        a.t = (1.0 + i, 2.0)
        b.t = a.t if i % 3 else (3.0, i * 0.5)
        assert torch.equal(f(x), g(x))


def test_a_dict_of_tensors_by_tensor():
    first, second = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(2))
    state = {}

    def f(x):
        for p in (first, second):
            if p not in state:
                state[p] = {"n": 0, "sum": torch.zeros(2)}
            state[p]["n"] += 1
            state[p]["sum"] = state[p]["sum"] + x
        return state[first]["sum"] * state[second]["n"]

    g = fg.jit(f)
    for i in range(1, 9):
        assert torch.equal(g(torch.ones(2)), torch.full((2,), float(i * i)))
        assert state[first]["n"] == i
    assert fg.cache_hits(g) >= 5, (fg.fallbacks(g), fg.recompiles(g))
    state.clear()
    assert torch.equal(g(torch.ones(2)), torch.ones(2))
