"""``thunder.functional``: ``jit`` for functions."""

from fulgurite import jit as jit

__all__ = ["jit"]
