"""Numbers that vary are inputs of a program where they are only used as numbers, and guards elsewhere."""

import collections
import dataclasses
import functools
import itertools
import math
import operator
import random
import types

import pytest
import torch

import fulgurite as fg
from fulgurite import prims

VALUES = [
    0.5,
    0.25,
    -1.5,
    0.0,
    -0.0,
    1.0,
    2.0,
    3.0,
    0.5,
    float("nan"),
    float("inf"),
    1e-30,
    0.1,
    0.2,
    0.3,
]
INTS = [1, 2, 3, 0, -1, 5, 300, 301, 1, 2, 7, 8, 9, 10]


def outcome(f, *args):
    try:
        return f(*args)
    except Exception as e:  # noqa: BLE001 the same must come out of the compiled function
        return type(e), str(e)


def assert_same(a, b):
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert torch.equal(torch.nan_to_num(a, 77.0), torch.nan_to_num(b, 77.0))
        assert torch.equal(torch.signbit(a), torch.signbit(b)) or a.isnan().any()
    elif isinstance(a, (tuple, list)) and not isinstance(a[0], type):
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert repr(a) == repr(b)


def same_as_eager(f, calls):
    g = fg.jit(f)
    for args in calls:
        assert_same(outcome(f, *args), outcome(g, *args))
    return g


def programs(g):
    return len(fg._C._entries(g))


X = torch.linspace(-1, 1, 5)
ONE = 1

FOLLOWED = {
    "times": lambda x, a: x * a,
    "reflected minus": lambda x, a: a - x,
    "plus alpha": lambda x, a: torch.add(x, x, alpha=a),
    "method alpha": lambda x, a: x.add(x, alpha=a),
    "in place": lambda x, a: x.clone().mul_(a),
    "in place with a view": lambda x, a: x.clone()[1:].sub_(a),
    "arithmetic": lambda x, a: x * (1 - a) + x / (a + 3.5),
    "powers": lambda x, a: x * (a * a) ** 0.5,
    "math": lambda x, a: x * math.exp(-a * a),
    "lerp": lambda x, a: x.lerp(x * 2, a),
    "addcmul": lambda x, a: torch.addcmul(x, x, x, value=a),
    "clamp": lambda x, a: x.clamp(min=a),
    "fill": lambda x, a: torch.full_like(x, 1.0).fill_(a),
    "comparison of a tensor": lambda x, a: (x > a).float(),
    "a list": lambda x, a: torch._foreach_mul([x, x], [a, 2.0])[0],
    "a list of one number": lambda x, a: torch._foreach_add([x, x], a)[1],
    "a list built by a loop": lambda x, a: torch._foreach_mul([x, x], [a / i for i in (1, 2)])[1],
    "through a function": lambda x, a: (lambda s=2.0, *, k: x * k)(k=a),
    "through a dict": lambda x, a: x * {"a": a}["a"],
    "through an object": lambda x, a: x * Holder(a).value,
    "through zip": lambda x, a: sum(t * k for t, k in zip([x, x], [a, 1.0], strict=True)),
    "a branch": lambda x, a: x * a if a > 0 else x - a,
    "round": lambda x, a: x * round(a, 1),
}

# The value itself is looked at, in ways that nobody follows.
FIXED = {
    "str": lambda x, a: x * float(str(a)),
    "format": lambda x, a: x + len(f"{a}"),
    "sum": lambda x, a: x * sum([a, 1.0]),
    "max": lambda x, a: x * max(a, 0.1),
    "map": lambda x, a: x * next(map(math.sin, [a])),
    "map of a generator": lambda x, a: x * list(map(math.sin, (k for k in [a])))[0],
    "sum of a generator": lambda x, a: x * sum(k for k in [a, 1.0]),
    "sum of a function": lambda x, a: x * sum(map(lambda k: k, [a])),
    "sorted": lambda x, a: x * sorted([a, 0.3])[0],
    "in": lambda x, a: x * 2 if a in (0.5, 1.0) else x,
    "in a set": lambda x, a: x * 2 if a in {0.5, 1.0} else x,
    "a key": lambda x, a: x * {0.5: 3.0}.get(a, 4.0),
    "tuple comparison": lambda x, a: x * 2 if (a, 1) < (0.3, 2) else x,
    "reduce": lambda x, a: x * functools.reduce(operator.mul, [a, 2.0]),
    "operator": lambda x, a: x * operator.add(a, 1.0),
    "accumulate": lambda x, a: x * list(itertools.accumulate([a, 1.0]))[-1],
    "partial of a C function": lambda x, a: x * functools.partial(math.copysign, 1.0)(a),
    "a method of float": lambda x, a: x * 2 if a.is_integer() else x,
    "hash": lambda x, a: x * (hash(a) % 7 if a == a else 1),
    "hex": lambda x, a: x * float.fromhex(a.hex()),
    "a tensor": lambda x, a: x * torch.tensor(a),
    "a tensor of a list": lambda x, a: x * torch.tensor([a, 1.0])[0],
    "arange": lambda x, a: torch.arange(abs(a) if abs(a) < 9 else 1.0),
    "dropout": lambda x, a: torch.nn.functional.dropout(x, 0.0 if a > 0 else 0.5, training=False),
    "gelu of a composite": lambda x, a: torch.nn.functional.leaky_relu(x, a),
    "division of a number": lambda x, a: x * (1 / a),
    "dataclass equality": lambda x, a: x * 2 if Holder(a) == Holder(0.5) else x,
    "namedtuple": lambda x, a: x * sum(Pair(a, 1.0)),
    "namespace": lambda x, a: x * types.SimpleNamespace(v=a).v,
    "deque": lambda x, a: x * collections.deque([a, 1.0])[0],
    "returned": lambda x, a: (x * a, a),
    "returned in a dict": lambda x, a: {"x": x, "a": [a + 1.0]}["a"],
    "set item": lambda x, a: setitem(x.clone(), a),
    "divmod": lambda x, a: x * (a % 0.3),
    "chained comparison": lambda x, a: x if 0.0 <= a < 1.0 else -x,
    "not": lambda x, a: x if not a else -x,
    "and": lambda x, a: x * (a and 2.0),
    "complex": lambda x, a: (x * complex(a, 1.0)).real,
    "try": lambda x, a: tried(x, a),
    "while": lambda x, a: halved(x, a),
    "join": lambda x, a: x + len(",".join([str(a), "1"])),
    "copysign": lambda x, a: x * math.copysign(1.0, a),
    "isnan": lambda x, a: x if math.isnan(a) else -x,
    "is": lambda x, a: x if a is None else x * a,
    "int": lambda x, a: x * int(a if abs(a) < 9 else 1.0),
}


@dataclasses.dataclass
class Holder:
    value: float


Pair = collections.namedtuple("Pair", "a b")


def setitem(t, a):
    t[0] = a
    return t


def tried(x, a):
    try:
        return x * math.log(a)
    except ValueError:
        return x


def halved(x, a):
    n = 0
    while 1e-2 < abs(a) < 1e3 and n < 9:
        a = a / 2
        n += 1
    return x * a + n


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_followed_number_is_an_input(name):
    g = same_as_eager(FOLLOWED[name], [(X, a) for a in VALUES])
    assert programs(g) <= 5, fg._C._recompiles(g)


@pytest.mark.parametrize("name", FIXED)
def test_a_number_that_is_looked_at_is_guarded(name):
    same_as_eager(FIXED[name], [(X, a) for a in VALUES + VALUES])


@pytest.mark.parametrize("name", [*FOLLOWED, *FIXED])
def test_numbers_out_of_tensors(name):
    f = (FOLLOWED | FIXED)[name]
    same_as_eager(lambda x, t: f(x, t.item()), [(X, torch.tensor(a)) for a in VALUES + VALUES])


@pytest.mark.parametrize("name", [*FOLLOWED, *FIXED])
def test_numbers_in_attributes(name):
    f = (FOLLOWED | FIXED)[name]
    config = types.SimpleNamespace(a=0.0)
    holder = Holder(0.0)

    def program(x):
        return f(x, holder.value)

    g = fg.jit(program)
    for a in VALUES:
        config.a = holder.value = a
        assert_same(outcome(program, X), outcome(g, X))


INTEGERS = {
    "times": lambda x, n: x * n,
    "power": lambda x, n: x * 0.9**n,
    "sums": lambda x, n: x + (n * 3 - 1),
    "over": lambda x, n: x * (n / 4),
    "sizes": lambda x, n: x.repeat(abs(n) % 3 + 1),
    "size itself": lambda x, n: torch.ones(n % 4),
    "index": lambda x, n: x[n % 5],
    "list index": lambda x, n: x * [1.0, 2.0, 3.0][n % 3],
    "range": lambda x, n: sum((x * i for i in range(n % 4)), x),
    "shift": lambda x, n: x * (1 << (n % 5)),
    "big": lambda x, n: x * float(n * 10**18 * 10**3 % 7),
    "floor": lambda x, n: x * (n // 2),
    "float": lambda x, n: x * float(n),
    "dtype": lambda x, n: x.long() * n,
    "dim": lambda x, n: x.sum(0 if n > 2 else -1),
    "is": lambda x, n: x * 2 if n == 1 else x * n,
    "is a small int": lambda x, n: x * 2 if n is ONE else x * n,
    "returned": lambda x, n: (lambda k: k)(n),
    "bool": lambda x, n: x if n else -x,
    "neg": lambda x, n: x * -n,
    "math": lambda x, n: x * math.sqrt(n * n) + math.exp(n % 3),
    "floor of a large int": lambda x, n: x * float(math.floor(n + 2**60 + 1) - 2**60),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    f = INTEGERS[name]
    same_as_eager(f, [(X, n) for n in INTS + INTS])
    same_as_eager(lambda x, t: f(x, t.item()), [(X, torch.tensor(n)) for n in INTS + INTS])


def test_functions_of_math_take_integers():
    """A step count that only becomes a coefficient."""
    g = same_as_eager(lambda x, n: x * (n / 10) + math.sqrt(n), [(X, n) for n in range(20, 0, -1)])
    assert programs(g) <= 2, fg._C._recompiles(g)
    assert fg.cache_hits(g) >= 18


def test_two_attributes_that_hold_the_same_object():
    shared = 0.1234
    c = types.SimpleNamespace()
    box = Holder(shared)
    other = Holder(shared)

    def f(x):
        return x * box.value + other.value

    g = fg.jit(f)
    for a, b in [
        (shared, shared),
        (2.0, shared),
        (3.0, shared),
        (shared, shared),
        (shared, 5.0),
        (1.5, 1.5),
    ]:
        box.value, other.value = a, b
        assert torch.equal(f(X), g(X))
    assert c is not None


def test_a_literal_equal_to_the_number():
    same_as_eager(lambda x, a: x * a + 0.5, [(X, 0.25), (X, 0.5), (X, 0.75), (X, 0.5)])
    same_as_eager(lambda x, a: torch.add(x, 1.0, alpha=a), [(X, 2.0), (X, 1.0), (X, 3.0)])
    same_as_eager(lambda x, a: torch.addcdiv(x, x, x + 3, value=a), [(X, 2.0), (X, 1.0), (X, 3.0)])


def test_another_type_is_another_program():
    g = same_as_eager(
        lambda x, a: x.long() * a, [(X, 1.0), (X, 2.0), (X, 3), (X, 4), (X, True), (X, 5.0)]
    )
    assert programs(g) >= 3


def test_gradients_through_numbers():
    def loss(x, w, a):
        return (x * w * a).sum() + a * (w / (2 + a)).sum() + (w - a).pow(2).sum()

    g = fg.jit(loss)
    for i in range(8):
        a = 0.3 * i
        w = torch.randn(5, requires_grad=True)
        v = w.detach().clone().requires_grad_()
        loss(X, w, a).backward()
        g(X, v, a).backward()
        assert torch.equal(w.grad, v.grad)
    assert programs(g) <= 3


def test_gradients_of_gradients_through_numbers():
    def f(w, a):
        return (w * w * a).sum()

    g = fg.jit(f)
    for i in range(6):
        w = torch.randn(5, requires_grad=True)
        (e,) = torch.autograd.grad(f(w, 0.5 * i), w, create_graph=True)
        (c,) = torch.autograd.grad(g(w, 0.5 * i), w, create_graph=True)
        assert torch.equal(e, c)
        assert torch.equal(*(torch.autograd.grad(t.sum(), w)[0] for t in (e, c)))


def test_gradients_where_the_formula_looks_at_the_number():
    def f(w, a):
        return torch.pow(w, a).sum() + torch.add(w, w, alpha=a).sum() + (a - w).sum()

    g = fg.jit(f)
    for a in [2.0, 1.0, 0.0, 3.0, 2.0, 0.5]:
        w = torch.rand(5, requires_grad=True)
        v = w.detach().clone().requires_grad_()
        f(w, a).backward()
        g(v, a).backward()
        assert torch.equal(w.grad, v.grad)


IN_GRADIENTS = {
    "add alpha": lambda w, a: torch.add(w, w * 2, alpha=a),
    "sub alpha": lambda w, a: torch.sub(w, w * 2, alpha=a),
    "reflected minus": lambda w, a: a - w,
    "lerp": lambda w, a: w.lerp(w * 2, a),
    "addcmul": lambda w, a: torch.addcmul(w, w, w * 3, value=a),
    "clamp": lambda w, a: w.clamp(min=a),
    "masked fill": lambda w, a: w.masked_fill(w > 0.5, a),
    "leaky relu": lambda w, a: torch.nn.functional.leaky_relu(w - 0.5, a),
    "threshold": lambda w, a: torch.nn.functional.threshold(w, 0.5, a),
    "power": lambda w, a: w**a,
    "power of a number": lambda w, a: a**w,
}


@pytest.mark.parametrize("name", IN_GRADIENTS)
def test_numbers_in_gradients(name):
    f = IN_GRADIENTS[name]
    g = fg.jit(lambda w, a: f(w, a).sum())
    for a in [
        0.3,
        0.7,
        1.0,
        0.0,
        2.0,
        0.3,
        1.0,
        -1.0,
        0.5,
        0.0,
        0.9,
        *(0.01 * i for i in range(12)),
    ]:
        w = torch.rand(5, requires_grad=True)
        v = w.detach().clone().requires_grad_()
        f(w, a).sum().backward()
        g(v, a).backward()
        assert torch.equal(torch.nan_to_num(w.grad, 7), torch.nan_to_num(v.grad, 7)), a
    if not name.startswith("power") and name != "lerp":
        assert programs(g) <= 7, fg._C._recompiles(g)
        assert fg.cache_hits(g) >= 10, fg.fallbacks(g)


def test_a_branch_on_data_is_guarded_by_its_outcome():
    g = same_as_eager(
        lambda x: x * 2 if x.sum().item() > 0 else x - 1,
        [(torch.randn(4) + i % 3 - 1,) for i in range(20)],
    )
    assert programs(g) == 2


def test_loss_scaled_by_itself_is_one_program():
    g = same_as_eager(lambda x: x * x.sum().item(), [(torch.randn(4),) for _ in range(10)])
    assert programs(g) == 1


def test_an_exception_raised_by_data():
    def f(x):
        if x.max().item() > 2:
            raise ValueError(f"too large: {x.max().item()}")
        return x * 2

    same_as_eager(f, [(torch.full((2,), float(i % 4)),) for i in range(16)])


def test_many_lengths_that_come_again_are_no_storm():
    g = fg.jit(lambda x: x.sin() + 1)
    for _ in range(3):
        for n in range(1, 65):
            x = torch.randn(n)
            assert torch.equal(g(x), x.sin() + 1)
    assert fg.cache_misses(g) == 64
    assert not fg._C._fallbacks(g)


def test_traces_with_numbers_run_and_parse():
    g = same_as_eager(
        lambda x, a: x * a + x * x.sum().item() ** 2.0, [(X + 2, 0.1 * i) for i in range(5)]
    )
    entry = fg._C._entries(g)[0]
    for stage in entry["forward"]:
        text = stage.python(full_paths=True, depth=0)
        assert fg.Trace.parse(text).identical(stage), text


def test_a_while_loop_over_data():
    def f(x):
        n = 0
        while x.abs().max().item() > 1:
            x = x / 2
            n += 1
        return x * n

    calls = [(torch.full((3,), float(v)),) for v in (0.5, 3, 9, 0.5, 17, 3, 9, 17, 33, 0.5, 3, 9)]
    g = same_as_eager(f, calls + calls)
    assert programs(g) == 5
    assert fg.cache_misses(g) == 5


def test_shapes_that_depend_on_data():
    g = same_as_eager(
        lambda x: x[x > 0].sum() * x.nonzero().shape[0],
        [(torch.tensor([1.0, -1, 2, -2][:4]) * (1 if i % 2 else -1) + i % 3,) for i in range(24)],
    )
    assert fg.cache_hits(g) >= 12


def test_a_branch_finds_its_program_from_what_the_data_were():
    def f(x):
        k = int(x[0].item())
        return x * 2 if k == 0 else x + 1 if k == 1 else x - 3 if k == 2 else x / 4

    calls = [(torch.tensor([float(i * 7 % 4), 1.0]),) for i in range(40)]
    g = same_as_eager(f, calls)
    assert fg.cache_misses(g) <= 5


def test_numbers_that_went_through_containers_do_not_stick_to_none():
    def f(x, a):
        kept = []
        kept.append(a)
        known = {"a": a}.get("b")
        steps = [k * 2 for k in kept if known is None and isinstance(k, float)]
        return x * steps[0] if {None: 1}.get(known) else x

    g = same_as_eager(f, [(X, 0.1 * i) for i in range(8)])
    assert programs(g) <= 3


@pytest.mark.parametrize("training", [True, False])
def test_an_average_over_all_batches(training):
    """The factor is 1 / number of batches: read out of a tensor of integers, and handed on by a composite."""

    def make():
        torch.manual_seed(0)
        return torch.nn.BatchNorm2d(3, momentum=None).train(training)

    eager, module = make(), make()
    compiled = fg.jit(module)
    for i in range(8):
        found, expected = [], []
        for m, results in ((compiled, found), (eager, expected)):
            x = (torch.arange(24.0).view(2, 3, 2, 2) * (i + 1)).sin().requires_grad_()
            y = m(x)
            (y * y.detach().cos()).sum().backward()
            results += [y.detach(), x.grad]
        for m, results in ((module, found), (eager, expected)):
            results += [m.weight.grad, m.bias.grad, *m.buffers()]
        for a, b in zip(found, expected, strict=True):
            assert torch.equal(a, b)
    assert fg.cache_hits(compiled) >= 6, (fg.fallbacks(compiled), fg.recompiles(compiled))


def test_float_of_a_tensor_of_integers():
    g = fg.jit(lambda x, n: x * (1.0 / float(n)) + float(n) // 2)
    for n in (1, 2, 7, -3, 2**52 + 1):
        x, count = torch.ones(2), torch.tensor(n)
        assert torch.equal(g(x, count), x * (1.0 / float(count)) + float(count) // 2)
    assert fg.cache_hits(g) == 4, fg.recompiles(g)
    # Beyond what floats hold exactly it is guarded.
    for n in (2**53 + 1, 2**53, 2**60 + 3, 2**60 + 2):
        x, count = torch.ones(2), torch.tensor(n)
        assert torch.equal(g(x, count), x * (1.0 / float(count)) + float(count) // 2)


def test_one_item_of_a_dict_that_holds_other_numbers():
    for read in ("d.get('last')", "d.pop('last')", "d.setdefault('last', 2.0)"):
        space = {"d": {"n": 0, "last": 0.5}}
        exec(
            "def f(x):\n    d['n'] += 1\n    last = " + read + "\n    d['last'] = d['n'] * 0.5\n"
            "    return x * last\n",
            space,
        )
        f, d = fg.jit(space["f"]), space["d"]
        expected = 0.5
        for n in range(1, 10):
            assert torch.equal(f(torch.ones(2)), torch.ones(2) * expected)
            expected = n * 0.5
            assert d == {"n": n, "last": expected}
        assert fg.cache_hits(f) >= 5, (fg.fallbacks(f), fg.recompiles(f))


def test_objects_whose_text_c_code_makes():
    def namespace(x):
        space = types.SimpleNamespace()
        space.n = x.sum().item()
        return x + 1, repr(space), space == types.SimpleNamespace(n=3.0)

    def exception(x):
        e = ValueError()
        e.args = (x.sum().item(),)
        return x + 1, str(e)

    for f in (namespace, exception):
        same_as_eager(f, [(torch.ones(3) * i,) for i in (1, 1, 2, 2, 1, 3)])


def test_rounding_to_digits_is_that_of_python() -> None:
    draw = random.Random(0)
    values = [0.5, 1.5, 2.675, -0.04, 0.0, -0.0, 1e300, 5e-324, math.inf, -math.inf, 1e22, 0.125]
    values += [draw.uniform(-100, 100) for _ in range(2000)]
    values += [draw.randrange(-10000, 10000) / 16 for _ in range(500)]  # ties
    for value in values:
        for digits in (0, 1, 2, 3, 10, 17, 30, 400):
            ours = prims.float_round_to(value, digits)
            assert repr(ours) == repr(round(value, digits)), (value, digits)
