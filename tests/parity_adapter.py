"""fulgurite as the parity cases want it: ``--jit parity_adapter:jit --hits parity_adapter:hits``."""

import fulgurite


def jit(function):
    return fulgurite.jit(function, leaf_inplace="error")


def hits(jitted) -> int:
    return fulgurite.cache_hits(jitted)
