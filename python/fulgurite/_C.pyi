# Written by tools/generate_stubs.py; do not edit.
from collections.abc import Callable, Sequence
import types


__version__: str
torch_version: str

class Error(RuntimeError):
    pass

class ExecutorError(Error):
    pass

class CompileError(RuntimeError):
    pass

class JitFunction:
    """A function compiled by fulgurite.jit."""

    def __repr__(self, /):
        """Return repr(self)."""

    def __call__(self, /, *args, **kwargs):
        """Call self as a function."""

    def __get__(self, instance, owner=None, /):
        """Return an attribute of instance, which is of type owner."""

    __vectorcalloffset__: types.MemberDescriptorType = ...

    __wrapped__: types.GetSetDescriptorType = ...

class Trace:
    """A program: immutable, printable, runnable."""

    @staticmethod
    def parse(text: str) -> Trace:
        """
        Reads a trace from the Python text that `python()` prints. Raises ValueError (FG-301) with line and column.
        """

    def python(self, depth: int = 1, locations: bool = True, full_paths: bool = False) -> str:
        """
        The trace as Python that runs. depth: how many levels of composite operators are opened; 0 opens all.
        """

    def cpp(self) -> str:
        """The trace as C++ against ATen."""

    def identical(self, arg: Trace, /) -> bool: ...

    def difference(self, arg: Trace, /) -> str: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def __len__(self) -> int: ...

    def ops(self) -> list[str]:
        """Ids of the operators, in order: 'aten.add.Tensor', ..."""

    @property
    def name(self) -> str: ...

    @property
    def stage(self) -> str: ...

    @property
    def milliseconds(self) -> float: ...

    def __call__(self, *args) -> object:
        """
        Runs the trace on tensors, one per input; returns the outputs as a tuple.
        """

def _jit(fn: object, name: str, *, fullgraph: bool, caching: bool, reinplace: bool, functional_leaves: bool, write_back_at_once: bool, max_entries: int, max_branches: int, executors: Sequence[Executor]) -> object: ...

def _is_jitted(arg: object, /) -> bool: ...

def _hits(arg: object, /) -> int: ...

def _misses(arg: object, /) -> int: ...

def _entries(arg: object, /) -> list: ...

def _fallbacks(arg: object, /) -> list: ...

def _parts(arg: object, /) -> list: ...

def _recompiles(arg: object, /) -> list[str]: ...

def _clear(arg: object, /) -> None: ...

def _set_event_hook(hook: object | None) -> None: ...

def _self_test() -> str: ...

def _key_name() -> str: ...

def _derive_statistics() -> tuple: ...

def _runs_on_any(arg0: str, arg1: str, /) -> tuple: ...

def _watcher_supported() -> tuple: ...

class Watched:
    """What one run of a callable depended on and did."""

    def check(self) -> bool:
        """Whether everything that the run read is as it was."""

    def explain_failure(self) -> str:
        """
        The first guard that fails now, with its old and new value; empty if all hold.
        """

    def guards(self) -> list[tuple[str, str, str]]:
        """(kind, expression, reason) of each guard."""

    def effects(self) -> list[tuple[str, str, str, int]]:
        """
        (kind, text, file, line) of each write that outlives the call, in order.
        """

    def refusals(self) -> list[tuple[str, str, int]]:
        """(what, file, line): why this run must not be reused."""

    def tensors(self) -> list:
        """(tensor, path) of each tensor that was reached through Python."""

    @property
    def opcodes(self) -> int: ...

def _watch(callable: object, args: tuple, kwargs: dict) -> tuple:
    """Calls `callable` under watch and returns its result and what was seen."""

def _where() -> tuple[str, int, str]: ...

class Executor:
    """The core's side of an executor (fulgurite.extend)."""

    def __init__(self, name: str, version: str) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def implemented(self) -> list[str]:
        """Ids of the operators that it has an offer for."""

    def define(self, name: str, schema: str, fn: Callable, meta: Callable, has_effect: bool, is_random: bool) -> None:
        """Defines an operator of the executor's. Raises ValueError (FG-403)."""

    def implement(self, name: str, overload: str, as_: str | None, checker: object | None, transform: object | None) -> None:
        """Offers to run an operator. Raises ValueError (FG-404, FG-405)."""

    def support(self, name: str, overload: str, checker: object | None) -> None: ...

    def fuse_with(self, arg: Callable, /) -> None: ...

def _register_executor(arg: Executor, /) -> None: ...

def _deregister_executor(arg: str, /) -> None: ...

def _all_executors() -> list[Executor]: ...

def _default_executors() -> list[Executor]: ...

def _always_executors() -> list[Executor]: ...

def _add_default_executor(arg: Executor, /) -> None: ...

def _add_always_executor(arg: Executor, /) -> None: ...

def _remove_default_executor(arg: Executor, /) -> None: ...

def _remove_always_executor(arg: Executor, /) -> None: ...

def _can_stand_for(arg0: str, arg1: str, arg2: str, /) -> str: ...

class RuleError(Error):
    pass

def _set_rule(id: str, part: str, function: object | None, name: str) -> None: ...

def _op_id(arg: str, /) -> str: ...

def _rule_ids() -> list[str]: ...

def _dtypes() -> dict: ...

def _rule_place() -> str: ...

def _rules_generation() -> int: ...

def _get_grad(arg: object, /) -> object: ...

def _put_grad(arg0: object, arg1: object, /) -> None: ...

def _default_augmented_forward(arg0: str, arg1: tuple, /) -> tuple: ...

def _default_backward(arg0: tuple, arg1: tuple, /) -> object: ...

def _default_rule_text(arg0: str, arg1: tuple, /) -> tuple: ...
