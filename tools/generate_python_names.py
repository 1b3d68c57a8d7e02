"""Writes src/ir/python_names.inc: the friendly Python spelling of ATen operators.

    python tools/generate_python_names.py        # after a change of PyTorch's version

A spelling (`torch.add`, `torch.nn.functional.gelu`, the method `.mul_`) is listed only if it is one of
PyTorch's generated bindings and if each signature that it accepts is the signature of one ATen overload:
same arguments, same names, same keyword-only ones. The signatures are those that the binding itself lists
in the message of its TypeError, which is also the order in which it tries them. Operators that are not
listed print as `torch.ops.aten.<name>.<overload>`.
"""

import keyword
import pathlib
import re

import torch

TARGET = pathlib.Path(__file__).parents[1] / "src" / "ir" / "python_names.inc"

# Bindings that do more (or, like `contiguous` and `conj`, at times less) than call the operator: they look at the values (`arange`, `full` choose the dtype),
# at a subclass, or at the interpreter.
NOT_PLAIN = {
    "range",
    "arange",
    "full",
    "tensor",
    "as_tensor",
    "nonzero",
    "numel",
    "from_file",
    "requires_grad_",
    "contiguous",
    "conj",
    "apply_",
    "map_",
    "map2_",
    "to",
    "item",
    "type",
    "set_",
    "sparse_coo_tensor",
    "frombuffer",
    "to_sparse",
}

# What the signature in the message calls the types of a schema.
TYPE_NAMES = {
    "Tensor": "Tensor",
    "Scalar": "Number",
    "int": "int",
    "SymInt": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "ScalarType": "torch.dtype",
    "Layout": "torch.layout",
    "Device": "torch.device",
    "MemoryFormat": "torch.memory_format",
    "Generator": "torch.Generator",
    "Tensor[]": "tuple of Tensors",
    "int[]": "tuple of ints",
    "SymInt[]": "tuple of ints",
    "float[]": "tuple of floats",
    "Scalar[]": "tuple of Scalars",
    "bool[]": "tuple of bools",
}
# Parameters that the bindings add to the schema.
ADDED = {
    ("Tensor", "out"),
    ("tuple of Tensors", "out"),
    ("bool", "requires_grad"),
    ("tuple of names", "names"),
}
# Written by hand in PyTorch with another name for a positional argument.
EXTRA = {"copy_": (".copy_", ["default"])}


def signatures(function, is_method):
    """The (type, name, keyword_only) lists that a binding accepts, in the order in which it tries them.

    A binding with a single signature does not list it: then the number of positional parameters."""
    args = [object()] * 40
    try:
        function(*([torch.ones(2)] + args if is_method else args))
    except TypeError as error:
        text = str(error)
    except Exception:
        return None
    else:
        return None
    if "takes no arguments" in text:
        return 0
    count = re.search(r"takes (?:from \d+ to )?(\d+) positional arguments? but", text)
    if count:
        return int(count.group(1))
    found = re.findall(r"^ \* \((.*)\)$", text, re.M) or re.findall(
        r"but expected \((.*)\)$", text, re.M
    )
    result = []
    for one in found:
        parameters, keyword_only = [], False
        for part in filter(None, one.split(", ")):
            if part == "*":
                keyword_only = True
                continue
            part = part.split(" = ")[0]
            type_name, _, name = part.rpartition(" ")
            if (type_name, name) not in ADDED:
                parameters.append((type_name, name, keyword_only))
        result.append(parameters)
    return result


def schema_parameters(schema):
    result = []
    for argument in schema.arguments:
        type_text = python_type(argument)
        if type_text is None:
            return None
        result.append((type_text, argument.name, argument.kwarg_only))
    return result


def python_type(argument):
    text = str(argument.real_type)
    optional = re.fullmatch(r"Optional\[(.*)\]", text)
    text = optional.group(1) if optional else text
    text = text.replace("number", "Scalar")
    listed = re.fullmatch(r"List\[(.*)\]", text)
    if listed:
        inner = re.sub(r"Optional\[(.*)\]", r"\1", listed.group(1))
        return TYPE_NAMES.get(inner + "[]")
    return TYPE_NAMES.get(text)


def same(found, wanted):
    """The binding's signature is the schema's, but for the name `input` of the first argument."""

    def fold(parameters):
        folded = []
        for type_name, name, keyword_only in parameters:
            folded.append((type_name, "self" if name == "input" else name, keyword_only))
        return [p for p in folded if not p[2]], {p for p in folded if p[2]}

    return fold(found) == fold(wanted)


def bindings(name):
    """The candidates for the spelling of aten::<name>, the preferred one first."""
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place:
        method = torch._C.TensorBase.__dict__.get(name)
        if method is not None and getattr(torch.Tensor, name) is method:
            yield "." + name, method, True
    if hasattr(torch._C.TensorBase, name) and not hasattr(torch, name):
        method = torch._C.TensorBase.__dict__.get(name)
        if method is not None and getattr(torch.Tensor, name) is method:
            yield "." + name, method, True
    places = [
        ("torch.", torch, torch._C._VariableFunctions, "", name),
        ("torch.nn.functional.", torch.nn.functional, torch._C._nn, "", name),
    ]
    for family in ("linalg", "fft", "special"):
        if name.startswith(family + "_"):
            builtins = getattr(torch._C, "_" + family)
            places.append(
                (
                    f"torch.{family}.",
                    getattr(torch, family),
                    builtins,
                    family + "_",
                    name[len(family) + 1 :],
                )
            )
    for prefix, module, builtins, extra, short in places:
        function = getattr(module, short, None)
        if function is not None and type(function).__name__ == "builtin_function_or_method":
            builtin = getattr(builtins, extra + short, None)
            # Names of _VariableFunctions are looked up on a class, so identity is by name and owner.
            if builtin is not None and builtin == function:
                yield prefix + short, function, False


def main():
    overloads = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            overloads.setdefault(schema.name[6:], []).append(schema)
    lines = []
    for name in sorted(overloads):
        if name in EXTRA:
            lines.append(f'{{"{name}", "{EXTRA[name][0]}", "{" ".join(EXTRA[name][1])}"}},')
            continue
        gives = [str(r.type) for s in overloads[name] for r in s.returns]
        writes = [
            a
            for s in overloads[name]
            for a in s.arguments
            if a.alias_info is not None and a.alias_info.is_write
        ]
        makes = any("Tensor" in r for r in gives) or (not gives and writes)  # _foreach_add_
        if name in NOT_PLAIN or not makes or keyword.iskeyword(name):
            continue
        for spelling, function, is_method in bindings(name):
            found = signatures(function, is_method)
            if found is None or found == []:
                continue
            candidates = {
                s.overload_name or "default": parameters
                for s in overloads[name]
                if not any(a.is_out for a in s.arguments)
                and "hacked_twin" not in s.overload_name
                and (parameters := schema_parameters(s)) is not None
            }
            if isinstance(found, int):
                positional = found + is_method
                # TorchScript adds overloads without tensors (`tanh.int`); of `mul.Tensor` and `mul.Scalar`
                # only the first has a binding.
                order = [
                    key
                    for key, parameters in candidates.items()
                    if sum(not p[2] for p in parameters) == positional
                ]
                if len(order) > 1:
                    order = [
                        key
                        for key in order
                        if any(p[0] in ("Tensor", "tuple of Tensors") for p in candidates[key])
                    ]
                if sorted(order) == ["Scalar", "Tensor"]:
                    order = ["Tensor"]
                order = order if len(order) == 1 else [None]
            else:
                found = [[("Tensor", "self", False)] * is_method + one for one in found]
                matches = [
                    [key for key, parameters in candidates.items() if same(one, parameters)]
                    for one in found
                ]
                order = [m[0] if len(m) == 1 else None for m in matches]
            if None not in order and len(set(order)) == len(order):
                lines.append(f'{{"{name}", "{spelling}", "{" ".join(order)}"}},')
                break
            print("not plain:", name, spelling, order)
    TARGET.write_text(
        "// Made by tools/generate_python_names.py with PyTorch "
        + torch.__version__.split("+")[0]
        + ". Do not edit.\n"
        "// ATen name, Python spelling (a leading dot: a method), overloads in the order in which Python tries them.\n"
        + "\n".join(lines)
        + "\n"
    )
    print(len(lines), "spellings")


if __name__ == "__main__":
    main()
