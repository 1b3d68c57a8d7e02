"""Objects that differ from call to call: what a program does with which object it is holds for that object only."""

import pytest
import torch

import fulgurite as fg


class Item:
    def __init__(self, v):
        self.v = v


ITEMS = [Item(float(i)) for i in range(8)]
BY_ITEM = {c: c.v for c in ITEMS}
SOME, FEW = set(ITEMS[:4]), ITEMS[:4]
PAIR = (ITEMS[2], 1)

USES = {
    "key": lambda c: BY_ITEM[c],
    "get": lambda c: BY_ITEM.get(c, -1),
    "in a set": lambda c: c in SOME,
    "in a list": lambda c: c in FEW,
    "index": lambda c: FEW.index(c) if c.v < 4 else 9,
    "count": lambda c: FEW.count(c),
    "equal": lambda c: c == ITEMS[2],
    "is": lambda c: c is ITEMS[2],
    "is not": lambda c: ITEMS[2] is not c,
    "equal tuples": lambda c: (c, 1) == (ITEMS[2], 1),
    "hash": lambda c: hash(c) == hash(ITEMS[2]),
    "id": lambda c: id(c) == id(ITEMS[2]),
    "key of a new dict": lambda c: {c: 5}.get(ITEMS[2], 0),
    "item of a new set": lambda c: ITEMS[2] in {c},
    "item of a new list": lambda c: ITEMS[2] in [c],
    "set of a list": lambda c: len(set([c, ITEMS[2]])),
    "pairs": lambda c: dict([(c, 5)]).get(ITEMS[2], 0),
    "in a tuple": lambda c: PAIR[0].v + c.v * 10,
    "text": lambda c: repr(c) == repr(ITEMS[2]),
    "looked up": lambda c: ITEMS[2].v + c.v * 10,
}


@pytest.mark.parametrize("name", USES)
def test_identity_of_an_argument(name):
    use = USES[name]

    def f(c, x):
        return x * use(c) + c.v

    compiled = fg.jit(f)
    x = torch.ones(1)
    for i in [0, 1, 5, 2, 3, 4, 2, 6, 7, 2, 0]:
        assert torch.equal(compiled(ITEMS[i], x), f(ITEMS[i], x)), i


@pytest.mark.parametrize("name", USES)
def test_identity_of_what_is_in_an_attribute(name):
    use, holder = USES[name], Item(None)

    def f(x):
        return x * use(holder.v) + holder.v.v

    compiled = fg.jit(f)
    x = torch.ones(1)
    for i in [0, 1, 5, 2, 3, 4, 2, 6, 7, 2, 0]:
        holder.v = ITEMS[i]
        assert torch.equal(compiled(x), f(x)), i


def test_arguments_that_are_one_object():
    def f(a, b, x):
        return x * b.v

    compiled, x = fg.jit(f), torch.ones(1)
    for i in range(5):
        c = Item(float(i))
        assert compiled(c, c, x).item() == i
    for i in range(5):
        assert compiled(Item(1.0), Item(10.0 + i), x).item() == 10 + i
    assert fg.cache_hits(compiled) >= 3


def test_lists_that_are_one_list():
    def f(a, b):
        return b, a[0] + 1

    compiled, x = fg.jit(f), torch.ones(1)
    items = [x]
    for _ in range(3):
        assert compiled(items, items)[0] is items
    for _ in range(3):
        one, two = [x], [x * 2]
        assert compiled(one, two)[0] is two


def test_the_object_of_a_method_as_an_argument():
    class Scaled(Item):
        def f(self, other, x):
            return x * self.v + other.v * 10

    owner = Scaled(1.0)
    compiled, x = fg.jit(owner.f), torch.ones(1)
    for other in (owner, Scaled(2.0), owner, Scaled(3.0), owner, Scaled(4.0), Scaled(5.0)):
        assert compiled(other, x).item() == 1 + other.v * 10


def test_what_is_only_read_is_still_followed():
    def f(c, x):
        return x * c.v if c is not None and isinstance(c, Item) else x

    compiled, x = fg.jit(f), torch.ones(1)
    for i in range(10):
        assert compiled(Item(float(i)), x).item() == i
    assert fg.cache_hits(compiled) >= 6
