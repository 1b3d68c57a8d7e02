"""``thunder.executors``."""

from fulgurite.thunder.executors import torchex as torchex
