"""Executors: who runs an operator.

    ex = fg.extend.OperatorExecutor("mine", version="0.1")
    fg.extend.register_executor(ex)
    sine = ex.register_operator("sine", meta=lambda x: torch.empty_like(x), fn=my_sine)
    ex.register_implementation("aten.sin", sine, checker=lambda x: x.dtype == torch.float32)
    fg.jit(f, executors=[ex, *fg.extend.get_default_executors()])

Each operator of a program goes to the first executor of the list that will have it; ``aten``, which takes
everything, is last. ``fulgurite.explain`` says who took what, and why others did not. See
docs/adding_an_executor.md.
"""

from __future__ import annotations

import difflib
import enum
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fulgurite import _C
from fulgurite._C import ExecutorError

__all__ = [
    "Executor",
    "ExecutorError",
    "FusionExecutor",
    "OpTags",
    "OperatorExecutor",
    "Value",
    "add_always_executor",
    "add_default_executor",
    "deregister_executor",
    "get_all_executors",
    "get_always_executors",
    "get_default_executors",
    "get_executor",
    "register_executor",
    "remove_always_executor",
    "remove_default_executor",
    "resolve_executors",
]


class OpTags(enum.Enum):
    """What is said of an operator beyond its schema."""

    DONT_DCE = "it has an effect: it runs although nobody uses its results"
    RANDOM_OP = "it draws from the default random generator"


@dataclass(frozen=True)
class Value:
    """A tensor of a program, as a checker sees it: what it is like, without contents."""

    name: str
    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", torch.Size(self.shape))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return self.shape.numel()

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        return self.strides if dim is None else self.strides[dim]

    def is_contiguous(self) -> bool:
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return 0 in self.shape
            expected *= size
        return True


# ---- operators by what users write -----------------------------------------------------------------------
def _overloads(op: Any) -> list[tuple[str, str]]:
    """Name and overloads of ``op``: an OpOverload, a packet (all its overloads), a function of torch that is an
    operator, or an id ("aten.add.Tensor", "aten.add", "aten::add"). Raises ValueError (FG-404)."""
    if isinstance(op, torch._ops.OpOverload):
        return [(op._schema.name, op._schema.overload_name)]
    if isinstance(op, torch._ops.OpOverloadPacket):
        name = op._qualified_op_name
    elif isinstance(op, str):
        name = op
    else:
        name = torch.jit._builtins._find_builtin(op) if callable(op) else None
        if name is None:
            raise ValueError(
                f"FG-404: {op!r} is no operator; expected one of torch.ops, an id such as 'aten.add.Tensor', "
                "or a function of torch that is an operator"
            )
    overload = None
    if "::" not in name:
        parts = name.split(".")
        if len(parts) not in (2, 3):
            raise ValueError(f"FG-404: {name!r} is no id of an operator, such as 'aten.add.Tensor'")
        name, overload = "::".join(parts[:2]), parts[2] if len(parts) == 3 else None
    elif "." in name:
        name, overload = name.split(".", 1)
    if overload is not None:
        overload = "" if overload == "default" else overload
    all_names = torch._C._dispatch_get_all_op_names()
    found = [n.partition(".")[2] for n in all_names if n.partition(".")[0] == name]
    if not found:
        namespace, _, base = name.partition("::")
        names = {
            n.partition(".")[0][len(namespace) + 2 :]
            for n in all_names
            if n.startswith(namespace + "::")
        }
        near = difflib.get_close_matches(base, names, n=1)
        hint = f"; did you mean {namespace}.{near[0]}?" if near else ""
        raise ValueError(f"FG-404: there is no operator {name.replace('::', '.')!r}{hint}")
    if overload is None:
        return [(name, o) for o in found]
    if overload not in found:
        raise ValueError(
            f"FG-404: {name.replace('::', '.')} has no overload {overload!r}; it has "
            + ", ".join(repr(o or "default") for o in found)
        )
    return [(name, overload)]


def _schema(name: str, overload: str) -> Any:
    return next(
        s for s in torch._C._jit_get_schemas_for_operator(name) if s.overload_name == overload
    )


def _accepts(fn: Callable, args: Sequence, kwargs: dict) -> bool | None:
    """Whether ``fn`` can be called so; None if it does not tell."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _fitted(fn: Callable, schema: Any, args: Sequence, kwargs: dict) -> tuple[list, dict]:
    """The arguments, without those at the end that have their defaults if ``fn`` does not take them."""
    args, kwargs = list(args), dict(kwargs)
    if _accepts(fn, args, kwargs) is not False:
        return args, kwargs
    arguments = {a.name: a for a in schema.arguments}
    kwargs = {
        n: v
        for n, v in kwargs.items()
        if not (arguments[n].has_default_value() and arguments[n].default_value == v)
    }
    positional = [a for a in schema.arguments if not a.kwarg_only]
    while args and _accepts(fn, args, kwargs) is False:
        last = positional[len(args) - 1]
        if not (last.has_default_value() and last.default_value == args[-1]):
            break
        args.pop()
    return args, kwargs


def _checker(checker: Callable | None, schema: Any) -> Callable | None:
    if checker is None:
        return None

    def verdict(args: list, kwargs: dict) -> tuple[bool, str]:
        args, kwargs = _fitted(checker, schema, args, kwargs)
        found = checker(*args, **kwargs)
        if isinstance(found, str):
            return False, found
        if isinstance(found, tuple):
            takes, reason = found
            return bool(takes), str(reason or "")
        return bool(found), ""

    return verdict


# ---- schemas ---------------------------------------------------------------------------------------------
def _schema_text(name: str, meta: Any, fn: Callable, mutates_args: Iterable[str]) -> str:
    """The schema of a new operator: that of ``meta`` if it is an operator, else from the annotations of ``meta``
    or ``fn``; what has none is a Tensor."""
    if isinstance(meta, torch._ops.OpOverloadPacket):
        meta = meta.default
    if isinstance(meta, torch._ops.OpOverload):
        text = str(meta._schema)
        return text[text.index("(") :]
    try:
        signature = inspect.signature(meta, eval_str=True)
        try:
            of_fn = inspect.signature(fn, eval_str=True)
        except ValueError:  # a builtin has none
            of_fn = inspect.Signature()
        parameters = []
        for p in signature.parameters.values():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise ValueError(f"its meta function takes {p}; name the arguments one by one")
            annotation = p.annotation
            if annotation is p.empty and p.name in of_fn.parameters:
                annotation = of_fn.parameters[p.name].annotation
            if annotation is p.empty:
                annotation = torch.Tensor if p.default in (p.empty, None) else type(p.default)
                if p.default is None:
                    annotation = torch.Tensor | None
            parameters.append(p.replace(annotation=annotation))
        returns = signature.return_annotation
        if returns is signature.empty:
            returns = of_fn.return_annotation
        if returns is signature.empty:
            returns = torch.Tensor

        def prototype() -> None: ...

        prototype.__signature__ = inspect.Signature(parameters, return_annotation=returns)
        return torch.library.infer_schema(prototype, mutates_args=tuple(mutates_args))
    except (TypeError, ValueError, NameError) as problem:
        raise ValueError(
            f"FG-403: the schema of the operator {name!r} cannot be told from its meta function: {problem}. "
            "Annotate the arguments and the result (Tensor, int, float, bool, str, lists of these, Optional), "
            "or give an operator of torch as meta or like"
        ) from None


def _check_takes(name: str, schema: str, fn: Callable) -> None:
    """Raises ValueError (FG-403) if ``fn`` cannot be called with the arguments of the schema."""
    try:
        arguments = torch._C.parse_schema(name + schema).arguments
    except RuntimeError:
        return  # told by the core
    positional = [a.name for a in arguments if not a.kwarg_only]
    keywords = {a.name: None for a in arguments if a.kwarg_only}
    if _accepts(fn, positional, keywords) is False:
        raise ValueError(
            f"FG-403: the implementation of {name!r} takes {inspect.signature(fn)}, but is called with "
            f"({', '.join([*positional, *(f'{k}=' for k in keywords)])}), as {name}{schema} says"
        )


# ---- executors -------------------------------------------------------------------------------------------
class Executor:
    """An executor: a name, a version, offers to run operators. Use OperatorExecutor or FusionExecutor.

    Raises ValueError (FG-401) if the name is no identifier, or "aten".
    """

    def __init__(self, name: str, *, version: Any = None) -> None:
        self._core = _C.Executor(str(name), "" if version is None else str(version))
        _wrappers[self._core] = self

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def version(self) -> str:
        return self._core.version

    @property
    def implemented(self) -> list[str]:
        """Ids of the operators that it has an offer for, sorted."""
        return self._core.implemented

    def __repr__(self) -> str:
        version = f" {self.version}" if self.version else ""
        return f"<fulgurite executor {self.name}{version}: {len(self.implemented)} operators>"

    def __reduce__(self) -> Any:
        return get_executor, (self.name,)  # executors are known by name

    def __copy__(self) -> Executor:
        return self

    def __deepcopy__(self, memo: dict) -> Executor:
        return self


class OperatorExecutor(Executor):
    """An executor that runs single operators, or composite ones (``torch.nn.functional.layer_norm``) as a whole."""

    def register_operator(
        self,
        name: str,
        *,
        meta: Any = None,
        fn: Callable | None = None,
        like: Any = None,
        tags: Iterable[OpTags] = (),
        replaces: Any = None,
        mutates_args: Iterable[str] = (),
    ) -> torch._ops.OpOverload:
        """Makes an operator that programs and rules can call, and that this executor runs by ``fn``.

        ``meta`` says what the results are like. It is an operator of torch, whose schema the new one then has
        (``like`` is another name for that), or a function in torch operators that is called with tensors on the
        device "meta". Arguments and result without annotation are tensors. ``replaces`` is an operator for which
        it is offered at once. The same name again puts another ``fn`` in place, and drops programs that ran the
        old one.

        Raises ValueError: FG-402 without ``meta``, FG-403 if there is no schema, or another one than before.
        """
        meta = like if meta is None else meta
        if meta is None or not callable(meta):
            raise ValueError(
                f"FG-402: the operator {name!r} has no meta function; give meta=, a function that returns tensors "
                "like the results, or an operator of torch that has the same ones"
            )
        if fn is None or not callable(fn):
            raise ValueError(f"FG-402: the operator {name!r} has no implementation; give fn=")
        schema = _schema_text(name, meta, fn, mutates_args)
        _check_takes(name, schema, fn)
        tags = frozenset(tags)
        for tag in tags:
            if not isinstance(tag, OpTags):
                raise ValueError(f"FG-403: {tag!r} is no tag; known are {[str(t) for t in OpTags]}")
        self._core.define(
            name,
            schema,
            fn,
            meta,
            has_effect=OpTags.DONT_DCE in tags,
            is_random=OpTags.RANDOM_OP in tags,
        )
        op = getattr(getattr(torch.ops, self._core.namespace), name).default
        op.id = f"{self._core.namespace}.{name}"
        if replaces is not None:
            self.register_implementation(replaces, op)
        return op

    def register_implementation(
        self,
        op: Any,
        by: torch._ops.OpOverload | None = None,
        *,
        checker: Callable | None = None,
        execution_transform: Callable | None = None,
    ) -> None:
        """Offers to run ``op`` by ``by``, an operator of ``register_operator``, or by what ``execution_transform`` does.

        ``op`` is an operator of torch, prim, function of torch, or id; without an overload all those that ``by``
        can stand for. ``checker`` is called with the operator's arguments when a program is compiled (tensors are
        ``Value``'s) and returns whether to take it: a bool, a reason for declining, or both as a tuple. The
        transform gets tensors of the recorded shapes, and calls other operators; what it calls stands in the
        program then, and is claimed in its turn.

        Programs that were compiled with another offer are dropped. Raises ValueError (FG-404, FG-405).
        """
        if (by is None) == (execution_transform is None):
            raise ValueError("FG-405: give either an operator or an execution_transform")
        if by is not None and not isinstance(by, torch._ops.OpOverload):
            raise ValueError(f"FG-405: {by!r} is no operator; register_operator makes one")
        overloads = _overloads(op)
        by_name = None if by is None else by._schema.name
        if by is not None and len(overloads) > 1:
            problems = {o: _C._can_stand_for(by_name, *o) for o in overloads}
            fitting = [o for o, why in problems.items() if not why]
            if not fitting:
                raise ValueError("FG-405: " + next(iter(problems.values())))
            overloads = fitting
        if by is None and len(overloads) > 1:
            overloads = [o for o in overloads if not _schema(*o).is_mutable]
        for name, overload in overloads:
            schema = _schema(name, overload)
            transform = execution_transform and _transform(execution_transform, schema)
            self._core.implement(name, overload, by_name, _checker(checker, schema), transform)

    _register_implementation = register_implementation


def _transform(fn: Callable, schema: Any) -> Callable:
    @functools.wraps(fn)
    def transform(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _fitted(fn, schema, args, kwargs)
        return fn(*args, **kwargs)

    return transform


class FusionExecutor(Executor):
    """An executor that runs groups of operators in one piece.

    It says which operators may be in a group (``register_supported``), and makes kernels of groups: in ``fuse``,
    a method of a subclass or an argument.
    """

    def __init__(
        self, name: str, *, version: Any = None, fuse: Callable[[_C.Trace], Any] | None = None
    ) -> None:
        super().__init__(name, version=version)
        if fuse is not None:
            self.fuse = fuse
        self._core.fuse_with(lambda trace: self.fuse(trace))

    def fuse(self, group: _C.Trace) -> Callable | str | None:
        """Makes a kernel: a function of the group's inputs (tensors) that returns its outputs, one tensor or a tuple.

        ``group`` is a trace: it prints, ``group.ops()`` lists its operators, and it can be called, which runs it
        by ATen. None, or a reason, declines: the operators go to the next executors.
        """
        raise NotImplementedError(f"executor {self.name} has no fuse")

    def register_supported(self, op: Any, checker: Callable | None = None) -> None:
        """Admits an operator (all overloads of it, if none is named) to groups, if ``checker`` agrees.

        Raises ValueError: FG-404 for an unknown operator, FG-405 for one that writes its arguments.
        """
        overloads = _overloads(op)
        if len(overloads) > 1:
            overloads = [o for o in overloads if not _schema(*o).is_mutable]
        for name, overload in overloads:
            self._core.support(name, overload, _checker(checker, _schema(name, overload)))


# ---- the registry ----------------------------------------------------------------------------------------
_wrappers: dict[_C.Executor, Executor] = {}


def _wrapped(core: _C.Executor) -> Executor:
    if core not in _wrappers:
        executor = object.__new__(Executor)
        executor._core = core
        _wrappers[core] = executor
    return _wrappers[core]


def register_executor(ex: Executor) -> Executor:
    """Makes it known by its name, in place of one that had the name before; returns it."""
    _C._register_executor(_core_of(ex))
    return ex


def deregister_executor(ex: Executor | str) -> None:
    """Forgets it; programs that used it are dropped, and it takes nothing until it is registered again."""
    _C._deregister_executor(ex if isinstance(ex, str) else _core_of(ex).name)


def get_all_executors() -> tuple[Executor, ...]:
    """All that are registered, ``aten`` last."""
    return tuple(_wrapped(c) for c in _C._all_executors())


def get_default_executors() -> tuple[Executor, ...]:
    """Those of a ``jit`` without ``executors``, in order."""
    return tuple(_wrapped(c) for c in _C._default_executors())


def get_always_executors() -> tuple[Executor, ...]:
    """Those that every program tries before ``aten``."""
    return tuple(_wrapped(c) for c in _C._always_executors())


def get_executor(name: str) -> Executor:
    """By name. Raises ValueError (FG-401), which names the nearest."""
    known = {e.name: e for e in get_all_executors()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    raise ValueError(f"FG-401: there is no executor {name!r}; {hint}")


def add_default_executor(ex: Executor | str) -> None:
    """Puts it first in the default list, for functions that are jitted from now on."""
    _C._add_default_executor(_core_of(ex))


def add_always_executor(ex: Executor | str) -> None:
    """Has every function that is jitted from now on try it before ``aten``."""
    _C._add_always_executor(_core_of(ex))


def remove_default_executor(ex: Executor | str) -> None:
    _C._remove_default_executor(_core_of(ex))


def remove_always_executor(ex: Executor | str) -> None:
    _C._remove_always_executor(_core_of(ex))


def resolve_executors(executors: Sequence[Executor | str] | None) -> tuple[Executor, ...]:
    """The list that ``jit(executors=...)`` means; None: the default one. Raises ValueError (FG-401)."""
    if executors is None:
        return get_default_executors()
    if isinstance(executors, (str, Executor)):
        executors = (executors,)
    return tuple(_wrapped(_core_of(e)) for e in executors)


def _core_of(ex: Executor | str) -> _C.Executor:
    if isinstance(ex, str):
        return get_executor(ex)._core
    if isinstance(ex, Executor):
        return ex._core
    raise ValueError(f"FG-401: {ex!r} is no executor, and no name of one")
