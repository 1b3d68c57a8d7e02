"""Gradient rules, by operator: look at them, replace them.

    from fulgurite.rules import augmented_forward_impls, backward_impls

    print(inspect.getsource(backward_impls["aten.tanh"]))
    backward_impls[fg.prims.copy_.id] = lambda g: (2 * g, None)
    del backward_impls[fg.prims.copy_.id]          # the default again

Conventions. An *augmented forward* takes the operator's arguments (keyword-only ones as keywords, arguments at
their defaults left off) and returns ``(result, saved)``: ``result`` as the operator gives it, ``saved`` a tuple of
anything. A *backward* takes ``(*saved, *cotangents)``, one cotangent per tensor result, and returns one gradient
or None per tensor argument (a bare one if there is a single tensor argument); a list of tensors counts by element,
a number in place of a tensor counts, with None. A backward alone goes with the default augmented forward, whose
source shows what it saves.

Rules are written in torch operators. They run on made-up tensors when a program is compiled, so they must not look
at data, nor have effects; what they do is written into the program's traces, and is differentiated again under
``create_graph=True``. A change takes effect at once, in every thread: programs compiled with the old rule are
dropped. docs/rules.md says more.
"""

from __future__ import annotations

import inspect
import linecache
import re
import threading
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, NamedTuple

import torch

from fulgurite import _C
from fulgurite._C import RuleError
from fulgurite._rule_samples import sample_arguments


class VJPDual(NamedTuple):
    """What an augmented forward returns; a plain pair does as well."""

    primal: Any
    residuals: tuple


def op_id(op: Any) -> str:
    """The id of an operator: "aten.mul.Tensor" for itself, ``torch.ops.aten.mul.Tensor``, ``fg.prims.copy_``.

    Raises KeyError (FG-320) naming the nearest id for what does not exist.
    """
    if isinstance(op, torch._ops.OpOverload):
        op = str(op).removesuffix(".default")
    elif isinstance(op, torch._ops.OpOverloadPacket):
        op = str(op)
    elif not isinstance(op, str):
        op = getattr(op, "id", op)
    if not isinstance(op, str):
        raise KeyError(
            f"FG-320: an operator's id is a string such as 'aten.mul.Tensor', found {type(op).__name__}"
        )
    try:
        return _C._op_id(op)
    except RuleError as problem:
        raise KeyError(str(problem)) from None


def schema_of(op: str) -> torch._C.FunctionSchema:
    """The schema of an operator by id."""
    namespace, name, *overload = op.split(".")
    return torch._C._get_schema(f"{namespace}::{name}", overload[0] if overload else "")


# ---- default rules ---------------------------------------------------------------------------------------
class _Default:
    """A default rule. Callable while a rule for the same operator is traced, so that rules can build on it."""

    def __init__(self, op: str, half: int) -> None:
        self.id = op
        self.half = half
        self.__name__ = f"{('augmented_forward', 'backward')[half]}_{op.split('.')[1]}"
        self.__qualname__ = self.__name__
        self.__module__ = __name__
        self.__doc__ = f"The default {('augmented forward', 'backward')[half]} of {op}."

    @property
    def __wrapped__(self) -> Callable:
        return _printed(self.id)[self.half]

    def __repr__(self) -> str:
        return f"<default {('augmented forward', 'backward')[self.half]} of {self.id}>"


class DefaultAugmentedForward(_Default):
    """The operator itself; saves what its backward needs."""

    def __call__(self, *args: Any, **kwargs: Any) -> VJPDual:
        arguments = []
        for i, argument in enumerate(schema_of(self.id).arguments):
            if i < len(args):
                arguments.append(args[i])
            elif argument.name in kwargs:
                arguments.append(kwargs[argument.name])
            else:
                arguments.append(argument.default_value)
        results, saved = _C._default_augmented_forward(self.id, tuple(arguments))
        return VJPDual(results[0] if len(results) == 1 else results, saved)


class DefaultBackward(_Default):
    """PyTorch's derivative formula, or the one that fulgurite has for its own operators."""

    def __call__(self, *saved_and_cotangents: Any) -> tuple:
        returns = len(schema_of(self.id).returns)
        at = len(saved_and_cotangents) - returns
        return _C._default_backward(saved_and_cotangents[:at], saved_and_cotangents[at:])


_texts: dict[str, tuple[Callable, Callable]] = {}


def _printed(op: str) -> tuple[Callable, Callable]:
    """The two halves of a default rule as functions with source: the traces for small sample tensors."""
    if op in _texts:
        return _texts[op]
    problem = "no sample arguments are known for its schema"
    for arguments in sample_arguments(schema_of(op)):
        try:
            forward, backward = _C._default_rule_text(op, arguments)
            text = (_forward_by_convention(op, forward), _backward_by_convention(op, backward))
            break
        except (RuntimeError, TypeError, ValueError, IndexError) as found:
            problem = str(found).split("\n")[0]
    else:
        name = op.split(".")[1]
        text = tuple(
            f"def {half}_{name}(*args):\n    raise NotImplementedError({problem!r})\n"
            for half in ("augmented_forward", "backward")
        )
    functions = tuple(
        _function(source, f"<fulgurite rule {op}, {half}>")
        for source, half in zip(text, ("augmented forward", "backward"), strict=True)
    )
    return _texts.setdefault(op, functions)  # type: ignore[arg-type]


def _forward_by_convention(op: str, text: str) -> str:
    """The printed trace as a function that returns ``result, saved``."""
    text = text.replace("def computation(", f"def augmented_forward_{op.split('.')[1]}(")

    def result(found: re.Match) -> str:
        outputs, saved = found["outputs"].rstrip(","), found["saved"]
        return f"return {f'({outputs})' if ',' in outputs else outputs}, ({saved})"

    return re.sub(
        r"return \{'output': \((?P<outputs>.*?)\), 'flat_args'.*\}, \(\((?P<saved>.*)\), \(\)\)",
        result,
        text,
    )


def _backward_by_convention(op: str, text: str) -> str:
    """The printed trace as a function of what is saved, then cotangents."""
    parameters: list[str] = []
    lines = []
    for line in text.split("\n"):
        taken = re.fullmatch(
            r"    (\w+) = (?:saved_for_backward\[0\]\[\d+\]|cotangents\[\d+\])\s*# (.*?)\s*", line
        )
        if taken:
            parameters.append(f'{taken[1]}: "{taken[2].removesuffix("+g")}"')
        else:
            lines.append(line.replace("no_grad()  # as recorded", "no_grad()"))
    return "\n".join(lines).replace(
        "def rule(saved_for_backward, cotangents)",
        f"def backward_{op.split('.')[1]}({', '.join(parameters)})",
    )


def _function(source: str, filename: str) -> Callable:
    """Compiles a printed trace; ``inspect.getsource`` finds its text."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    space: dict[str, Any] = {"__name__": __name__}
    code = compile(source, filename, "exec")
    exec(code, space)  # noqa: S102 (our own text)
    return next(
        inspect.unwrap(f)
        for f in space.values()
        if inspect.isfunction(inspect.unwrap(f))
        and inspect.unwrap(f).__code__.co_filename == filename
    )


# ---- users' rules ----------------------------------------------------------------------------------------
def _describe(function: Callable) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name


class _Adapter:
    """What the core calls: conventions and messages around a user's function."""

    def __init__(self, op: str, function: Callable, part: str) -> None:
        self.id, self.function, self.part = op, function, part
        self.schema = schema_of(op)
        self.name = _describe(function)

    def error(self, code: str, what: str) -> RuleError:
        place = _C._rule_place() or self.id
        return RuleError(f"{code}: the {self.part} {self.name} for {place}: {what}")

    def call(self, args: Any, kwargs: dict[str, Any]) -> Any:
        try:
            return self.function(*args, **kwargs)
        except RuleError:
            raise
        except Exception as problem:
            raise self.error("FG-325", f"raised {type(problem).__name__}: {problem}") from problem

    def arguments(self, values: tuple) -> tuple[list, dict[str, Any]]:
        positional, keywords = [], {}
        for value, argument in zip(values, self.schema.arguments, strict=True):
            given = _from_schema(value, argument)
            default = (
                not isinstance(value, torch.Tensor)
                and argument.has_default_value()
                and value == argument.default_value
            )
            if argument.kwarg_only:
                if not default:
                    keywords[argument.name] = given
            else:
                positional.append((given, default))
        while positional and positional[-1][1]:
            positional.pop()
        return [given for given, _ in positional], keywords

    def results(self, result: Any) -> list:
        returns = self.schema.returns
        found = (
            list(result) if len(returns) != 1 and isinstance(result, (tuple, list)) else [result]
        )
        if len(found) != len(returns):
            raise self.error(
                "FG-323", f"gave {len(found)} results; expected {len(returns)}, as {self.schema}"
            )
        for i, value in enumerate(found):
            if isinstance(value, (list, tuple)) and all(isinstance(v, torch.Tensor) for v in value):
                found[i] = list(value)
            elif not isinstance(value, torch.Tensor):
                raise self.error(
                    "FG-324", f"result {i} is {type(value).__name__}; expected a tensor"
                )
        return found


class _AugmentedForwardAdapter(_Adapter):
    def __call__(self, values: tuple) -> tuple[list, tuple]:
        args, kwargs = self.arguments(values)
        out = self.call(args, kwargs)
        if not isinstance(out, tuple) or len(out) != 2 or not isinstance(out[1], (tuple, list)):
            found = f"a tuple of {len(out)}" if isinstance(out, tuple) else type(out).__name__
            raise self.error(
                "FG-323", f"gave {found}; expected a pair (result, tuple of what is saved)"
            )
        return self.results(out[0]), tuple(out[1])


class _BackwardAdapter(_Adapter):
    def __call__(self, saved: tuple, cotangents: tuple) -> list:
        out = self.call((*saved, *cotangents), {})
        gradients = list(out) if isinstance(out, (tuple, list)) else [out]
        for i, g in enumerate(gradients):
            if g is not None and not isinstance(g, torch.Tensor):
                raise self.error(
                    "FG-324", f"gradient {i} is {type(g).__name__}; expected a tensor or None"
                )
        return gradients


class _JointAdapter(_Adapter):
    def __call__(self, values: tuple) -> list:
        args, kwargs = self.arguments(values)
        return self.results(self.call(args, kwargs))


def _from_schema(value: Any, argument: Any) -> Any:
    """Dtypes, layouts and memory formats are numbers in the core."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    kind = str(argument.real_type).removesuffix("?").removeprefix("Optional[").removesuffix("]")
    if kind == "ScalarType":
        return _dtypes()[value]
    if kind == "Layout":
        return _layouts().get(value, value)
    if kind == "MemoryFormat":
        return _memory_formats().get(value, value)
    return value


def _dtypes() -> dict[int, torch.dtype]:
    return _C._dtypes()


def _layouts() -> dict[int, torch.layout]:
    return {0: torch.strided}


def _memory_formats() -> dict[int, torch.memory_format]:
    return {
        0: torch.contiguous_format,
        1: torch.preserve_format,
        2: torch.channels_last,
        3: torch.channels_last_3d,
    }


_lock = threading.RLock()


class RuleTable(MutableMapping):
    """Rules by operator id: those set, and a default for every other operator."""

    def __init__(self, part: str, adapter: type[_Adapter], default: type[_Default]) -> None:
        self._part, self._adapter, self._default = part, adapter, default
        self._given: dict[str, Callable] = {}

    def __getitem__(self, op: Any) -> Callable:
        known = op_id(op)
        return self._given.get(known) or self._default(known, int(self._part == "backward"))

    def __setitem__(self, op: Any, function: Callable) -> None:
        """Raises KeyError (FG-320) for an unknown id, TypeError (FG-321) for what cannot be called, RuleError (FG-322)
        for an operator that can have no rule."""
        known = op_id(op)
        if isinstance(function, _Default) and function.id == known:
            self._reset(known)
            return
        if not callable(function):
            raise TypeError(
                f"FG-321: the {self._part} of {known} is a {type(function).__name__}; expected a function"
            )
        adapter = self._adapter(known, function, self._part)
        with _lock:
            _C._set_rule(known, self._part.replace(" ", "_"), adapter, adapter.name)
            _grad_rules.pop(known, None)
            self._given[known] = function

    def __delitem__(self, op: Any) -> None:
        """Back to the default; nothing happens if the rule is the default one."""
        self._reset(op_id(op))

    def _reset(self, known: str) -> None:
        with _lock:
            if self._given.pop(known, None) is not None:
                _C._set_rule(known, self._part.replace(" ", "_"), None, "")

    def __iter__(self) -> Iterator[str]:
        return iter(_C._rule_ids())

    def __len__(self) -> int:
        return len(_C._rule_ids())

    def __contains__(self, op: object) -> bool:
        try:
            op_id(op)
        except KeyError:
            return False
        return True

    def changed(self) -> dict[str, Callable]:
        """The rules that are not the default ones."""
        return dict(self._given)

    def __repr__(self) -> str:
        return f"<{self._part} rules: {len(self._given)} set, the others are defaults>"


_grad_rules: dict[str, Callable] = {}
augmented_forward_impls = RuleTable(
    "augmented forward", _AugmentedForwardAdapter, DefaultAugmentedForward
)
backward_impls = RuleTable("backward", _BackwardAdapter, DefaultBackward)


def register_augmented_forward(op: Any) -> Callable[[Callable], Callable]:
    """Decorator: the function is the augmented forward of the operator (by id, or the operator itself)."""

    def register(function: Callable) -> Callable:
        augmented_forward_impls[op] = function
        return function

    return register


def register_backward(op: Any) -> Callable[[Callable], Callable]:
    """Decorator: the function is the backward of the operator (by id, or the operator itself)."""

    def register(function: Callable) -> Callable:
        backward_impls[op] = function
        return function

    return register


def register_grad(op: Any, rule: Callable | None) -> None:
    """Sets the rule of an operator in one function: it takes the operator's arguments, computes the result with
    torch operators, asks for its cotangent with ``get_grad(result)``, says with ``put_grad(argument, gradient)``
    where gradients go, and returns the result. None takes the operator back to its default rule.

        def sin(x):
            y = torch.sin(x)
            fg.put_grad(x, fg.get_grad(y) * torch.cos(x))
            return y

        fg.register_grad("aten.sin", sin)

    Raises as ``backward_impls[op] = rule`` does.
    """
    known = op_id(op)
    if rule is not None and not callable(rule):
        raise TypeError(
            f"FG-321: the rule of {known} is a {type(rule).__name__}; expected a function"
        )
    with _lock:
        if rule is None:
            augmented_forward_impls._reset(known)
            backward_impls._reset(known)
            if _grad_rules.pop(known, None) is not None:
                _C._set_rule(known, "joint", None, "")
            return
        adapter = _JointAdapter(known, rule, "rule")
        _C._set_rule(known, "joint", adapter, adapter.name)
        augmented_forward_impls._given.pop(known, None)
        backward_impls._given.pop(known, None)
        _grad_rules[known] = rule


def get_grad(result: torch.Tensor) -> torch.Tensor:
    """In a rule given to ``register_grad``: the cotangent of the result (its shape and dtype; zeros if nobody uses
    the result). Raises RuleError: FG-329 outside a rule, FG-324 for a tensor without gradient."""
    return _C._get_grad(result)


def put_grad(argument: torch.Tensor, gradient: torch.Tensor) -> None:
    """In a rule given to ``register_grad``: adds to the gradient of an argument (its shape and dtype). Raises RuleError:
    FG-329 outside a rule, FG-324 for a tensor that is no argument."""
    _C._put_grad(argument, gradient)
