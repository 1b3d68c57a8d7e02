"""What the Python kernel of an operator changes is not recorded: a program that reads it as well gives eager's results all the same."""

import pytest
import torch

import fulgurite as fg


class Plain:
    n = 0


class Slots:
    __slots__ = ("n",)


def plain(asked):
    o = Plain()
    o.m = 1
    if asked:
        assert o.__dict__
    return o


def counter():
    count = 0

    def more():
        nonlocal count
        count += 1

    return more, lambda: count


def places():
    """Pairs of a function that changes something and one that looks at it."""
    for asked in (False, True):
        for how in ("store", "setattr", "update", "named", "spread"):
            o = plain(asked)
            change = {
                "store": lambda o=o: exec("o.n += 1", {"o": o}),
                "setattr": lambda o=o: setattr(o, "n", o.n + 1),
                "update": lambda o=o: o.__dict__.update(n=o.n + 1),
                "named": lambda o=o: object.__setattr__(o, "n", o.n + 1),
                "spread": lambda o=o: setattr(*(o, "n", o.n + 1)),
            }[how]
            yield f"{how}, {'a dict' if asked else 'no dict'}", change, lambda o=o: o.n
    s, items, keys, table, deep = Slots(), [0], set(), {"k": 0}, {"l": [0]}
    s.n = 0

    def store_slot():
        s.n += 1

    def store_item():
        items[0] += 1

    def store_deep():
        deep["l"][0] += 1

    def add_in_place():
        nonlocal_items = items
        nonlocal_items += [1]

    yield "slot", store_slot, lambda: s.n
    yield "item", store_item, lambda: items[0]
    yield "append", lambda: items.append(1), lambda: len(items)
    yield "in place", add_in_place, lambda: len(items)
    yield "slice", lambda: items.__setitem__(slice(0, 1), [7, 8]), lambda: sum(items)
    yield "set", lambda: keys.add(len(keys)), lambda: len(keys)
    yield "dict", lambda: table.update(k=table["k"] + 1), lambda: table["k"]
    yield "inside", store_deep, lambda: deep["l"][0]
    yield ("cell", *counter())


PLACES = {name: (change, look) for name, change, look in places()}
# (Names of operators are for the whole process.)
NUMBERS = {name: i for i, name in enumerate(PLACES)}


@pytest.mark.parametrize("name", PLACES)
def test_state_of_a_kernel_that_the_program_reads(name):
    change, look = PLACES[name]

    @torch.library.custom_op(f"fulgurite_kernel_state::f{NUMBERS[name]}", mutates_args=())
    def kernel(x: torch.Tensor) -> torch.Tensor:
        change()
        return x * 2

    def f(x):
        return kernel(x) + look()

    jitted, x = fg.jit(f), torch.ones(1)
    for _ in range(5):
        before = look()
        found = jitted(x).item()
        assert look() != before and found == 2 + look()


def test_state_of_a_kernel_that_the_program_does_not_read():
    o, p, seen = plain(False), plain(False), []

    @torch.library.custom_op("fulgurite_kernel_state::own", mutates_args=())
    def kernel(x: torch.Tensor) -> torch.Tensor:
        o.n += 1
        seen.append(o.n)
        return x * 2

    jitted = fg.jit(lambda x: kernel(x) + p.m)
    for i in range(5):
        assert jitted(torch.ones(1)).item() == 3 and len(seen) == i + 1
    assert fg.cache_hits(jitted) >= 3, fg.fallbacks(jitted)
