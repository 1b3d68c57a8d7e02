"""``thunder.extend``."""

from fulgurite.extend import FusionExecutor as FusionExecutor
from fulgurite.extend import OperatorExecutor as OperatorExecutor
from fulgurite.extend import add_always_executor as add_always_executor
from fulgurite.extend import add_default_executor as add_default_executor
from fulgurite.extend import deregister_executor as deregister_executor
from fulgurite.extend import get_all_executors as get_all_executors
from fulgurite.extend import get_always_executors as get_always_executors
from fulgurite.extend import get_default_executors as get_default_executors
from fulgurite.extend import get_executor as get_executor
from fulgurite.extend import register_executor as register_executor
from fulgurite.extend import remove_always_executor as remove_always_executor
from fulgurite.extend import remove_default_executor as remove_default_executor
