"""``thunder.core``: prims, transforms, trace."""

from fulgurite.thunder.core import prims as prims
from fulgurite.thunder.core import trace as trace
from fulgurite.thunder.core import transforms as transforms
