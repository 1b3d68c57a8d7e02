"""What a call returns is what eager returns, object by object, when a program serves the call."""

import collections
import dataclasses
import enum
import functools
import types
import typing

import pytest
import torch
from torch import nn

import fulgurite as fg


class Ordered(collections.OrderedDict):
    pass


class Items(list):
    pass


class Fields(dict):
    pass


class Row(tuple):
    pass


class Named(typing.NamedTuple):
    a: typing.Any
    b: int


class Colour(enum.Enum):
    RED = 1


class Bits(enum.Flag):
    A = 1
    B = 2


class Slots:
    __slots__ = ("a", "b")


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: typing.Any
    b: int = 3


@dataclasses.dataclass
class Box:
    a: typing.Any = None
    names: set = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Counting(dict):
    """Its ``__post_init__`` ran once, in the call."""

    a: typing.Any = None
    made: typing.ClassVar[int] = 0

    def __post_init__(self):
        self["a"] = self.a
        self["twice"] = self.a * 2


def helper(t, k):
    return t * k


def counter():
    n = 0

    def increase():
        nonlocal n
        n += 1
        return n

    def get():
        return n

    return increase, get


def shared_counter(x):
    increase, get = counter()
    increase()
    return increase, get, x + 1


def decorated(x):
    y = x + 1

    @functools.wraps(helper)
    def inner(k):
        return helper(y, k)

    return inner


def with_attributes(x):
    y = x * 2

    def f(z, w=y, *, k=3) -> int:
        "Says something."
        return z + w * k

    f.tag = y
    f.__name__ = "g"
    return f


def recursive(x):
    def f(n):
        return x if n == 0 else f(n - 1) * 2

    return f


def extra_attribute(x):
    box = Box(x + 1)
    box.extra = x * 2
    return box


def shared(x):
    items = [x + 1]
    return items, {"again": items}, (items, x)


def contains_itself(x):
    items = [x + 1]
    items.append(items)
    return items


def moved(x):
    d = collections.OrderedDict(a=x + 1, b=x * 2)
    d.move_to_end("a")
    return d


def ordered_subclass(x):
    d = Ordered()
    d["a"] = x + 1
    d.note = x.shape
    return d


def defaults(x):
    d = collections.defaultdict(list)
    d["a"].append(x + 1)
    return d


def slots(x):
    s = Slots()
    s.a = x + 1
    return s


def flags(x):
    return Colour.RED, Bits.A | Bits.B, x + 1


SERVED = {
    "ordered_dict": lambda x: collections.OrderedDict(a=x + 1, b=x * 2),
    "moved": moved,
    "ordered_subclass": ordered_subclass,
    "list_subclass": lambda x: Items([x + 1, 2]),
    "dict_subclass": lambda x: Fields(a=x + 1),
    "tuple_subclass": lambda x: Row((x + 1, 2)),
    "named_tuple": lambda x: Named(x + 1, 2),
    "defaultdict": defaults,
    "counter": lambda x: (collections.Counter("abca"), x + 1),
    "deque": lambda x: collections.deque([x + 1, 2], maxlen=3),
    "set": lambda x: ({1, 2, "a", 3.5, None}, x + 1),
    "set_of_one_tensor": lambda x: {x + 1},
    "set_of_tensors": lambda x: {x + 1, x * 2},
    "frozenset": lambda x: (frozenset(["a", "b", ("c", 1)]), x + 1),
    "frozenset_of_tensors": lambda x: frozenset([x + 1]),
    "range": lambda x: (range(x.shape[0]), x + 1),
    "slice": lambda x: (slice(1, x.shape[0], None), x + 1),
    "slice_of_a_tensor": lambda x: slice(x + 1),
    "partial": lambda x: functools.partial(helper, x + 1, k=2),
    "keys": lambda x: {"a": x + 1}.keys(),
    "values": lambda x: {"a": x + 1, "b": 2}.values(),
    "items": lambda x: {"a": x + 1, "b": 2}.items(),
    "bytearray": lambda x: (bytearray(b"ab"), x + 1),
    "namespace": lambda x: types.SimpleNamespace(a=x + 1, b=2),
    "enums": flags,
    "types": lambda x: (type(x), int, Box, x + 1),
    "singletons": lambda x: (..., NotImplemented, None, 1 + 2j, x.dtype, x.shape, x + 1),
    "slots": slots,
    "frozen_dataclass": lambda x: Frozen(x + 1),
    "dataclass_with_a_set": lambda x: Box(x + 1, {"a", "b"}),
    "extra_attribute": extra_attribute,
    "dict_dataclass": lambda x: Counting(x + 1),
    "shared": shared,
    "contains_itself": contains_itself,
    "closure": lambda x: (lambda z: z * x),
    "default_argument": lambda x: (lambda z=x * 2: z + 1),
    "with_attributes": with_attributes,
    "decorated": decorated,
    "recursive": recursive,
    "shared_counter": shared_counter,
    "method": lambda x: Named(x + 1, 1)._asdict,
    "parameter": lambda x: nn.Parameter(x.detach() + 1),
    "module": lambda x: (nn.LayerNorm(2), x + 1),
}
# Not made again: the call is eager's.
REFUSED = {
    "class": lambda x: type("A", (), {"v": x + 1}),
    "generator": lambda x: (x + i for i in range(2)),
    "iterator": lambda x: iter([x + 1]),
    "builtin_method": lambda x: [x + 1].append,
    "long_set": lambda x: (set(range(100)), x + 1),
    "mixed_set": lambda x: {x + 1, "a", 1},
}


def parts_of(f):
    cells = [c.cell_contents for c in f.__closure__ or ()]
    return [f.__code__, f.__name__, f.__qualname__, f.__doc__, f.__module__, f.__defaults__,
            f.__kwdefaults__, f.__annotations__, f.__dict__, cells]  # fmt: skip


def shape(value, seen):
    """A value in comparable form; objects that are one object get one number."""
    name = type(value).__name__
    if isinstance(value, torch.Tensor):
        number = seen.setdefault(id(value), len(seen))
        return (name, number, value.tolist(), value.requires_grad)
    simple = (int, float, str, bytes, range, complex, torch.dtype, types.CodeType, enum.Enum, type)
    if value is None or value in (..., NotImplemented) or isinstance(value, simple):
        return (name, value)
    if id(value) in seen:
        return (name, seen[id(value)])
    number = seen.setdefault(id(value), len(seen))
    inside = [getattr(value, "__dict__", None)] if not isinstance(value, types.FunctionType) else []
    inside += [getattr(value, s, None) for s in getattr(type(value), "__slots__", ())]
    if isinstance(value, dict):
        inside += [list(value.items()), getattr(value, "default_factory", None)]
    elif isinstance(value, types.FunctionType):
        inside += parts_of(value)
    elif isinstance(value, types.MethodType):
        inside += [value.__func__, value.__self__]
    elif isinstance(value, functools.partial):
        inside += [value.func, value.args, value.keywords]
    elif isinstance(value, slice):
        inside += [value.start, value.stop, value.step]
    elif isinstance(value, (set, frozenset)) and any(isinstance(v, torch.Tensor) for v in value):
        return (name, number, sorted(v.tolist() for v in value))  # the order is that of addresses
    elif hasattr(value, "__iter__"):
        inside += [getattr(value, "maxlen", None), *value]
    return (name, number, [shape(v, seen) for v in inside])


def check(name, f, calls=6):
    compiled = fg.jit(f)
    for i in range(calls):
        x = torch.arange(3.0) + i
        found, expected = compiled(x), f(x)
        keep = [found, expected]
        assert shape(found, {}) == shape(expected, {}), f"call {i} of {name}"
        for result in keep:
            assert result is not None
    return compiled


@pytest.mark.parametrize("name", SERVED)
def test_is_made_again(name):
    compiled = check(name, SERVED[name])
    assert fg.cache_hits(compiled) >= 4, fg.fallbacks(compiled)


@pytest.mark.parametrize("name", REFUSED)
def test_is_left_to_eager(name):
    f = REFUSED[name]
    compiled = fg.jit(f)
    for i in range(3):
        x = torch.arange(3.0) + i
        found, expected = compiled(x), f(x)
        assert type(found) is type(expected)
    assert fg.cache_hits(compiled) == 0
    assert fg.fallbacks(compiled)[0].code == "FG-202"


def test_closures_have_variables_of_their_own():
    compiled = fg.jit(shared_counter)
    made = [compiled(torch.ones(2)) for _ in range(4)]
    assert fg.cache_hits(compiled) >= 2
    for increase, get, _ in made:
        assert (increase(), increase(), get()) == (2, 3, 3)


def test_gradients_flow_through_what_a_closure_holds():
    def f(x):
        y = x.sin()
        return lambda z: (z * y).sum()

    compiled = fg.jit(f)
    for i in range(5):
        x = (torch.arange(3.0) + i).requires_grad_()
        z = torch.ones(3) * i
        (found,) = torch.autograd.grad(compiled(x)(z), x)
        (expected,) = torch.autograd.grad(f(x)(z), x)
        assert torch.equal(found, expected)
    assert fg.cache_hits(compiled) >= 3


def test_a_container_of_an_argument_is_the_argument():
    def f(d):
        return d["items"], d["items"][0] + 1

    compiled = fg.jit(f)
    for i in range(4):
        d = {"items": [torch.ones(2) * i]}
        assert compiled(d)[0] is d["items"]
    assert fg.cache_hits(compiled) == 3


def test_a_container_on_an_object_is_that_container():
    box = Box([torch.ones(2)])
    compiled = fg.jit(lambda x: (box.a, x + box.a[0]))
    for _ in range(4):
        assert compiled(torch.ones(2))[0] is box.a
    assert fg.cache_hits(compiled) >= 2


def test_a_set_goes_on_as_eagers_does():
    def f(x):
        return {"b", "a", 3, 17}, x + 1

    compiled = fg.jit(f)
    for _ in range(4):
        found, expected = compiled(torch.ones(2))[0], f(torch.ones(2))[0]
        for k in range(40):
            found.add(k * 7)
            expected.add(k * 7)
        assert list(found) == list(expected)
    assert fg.cache_hits(compiled) == 3


def test_results_do_not_share_what_is_made():
    compiled = fg.jit(lambda x: ({"a", "b"}, bytearray(b"x"), [x + 1]))
    first, second, third = (compiled(torch.ones(2)) for _ in range(3))
    second[0].add("c")
    second[1].extend(b"y")
    assert third[0] == {"a", "b"} and third[1] == b"x" and first[0] == {"a", "b"}
