"""The statements of random programs, as functions of what is there (``d.env``): views, operators, writes in place."""

from __future__ import annotations

import torch

from helpers.programs import DTYPE_NAMES, Draw, Statement


def view(d: Draw) -> Statement | None:
    """A view of a tensor, or something that may be one."""
    r = d.r
    n = d.pick(lambda t: t.dim() > 0 and t.numel() > 0)
    if n is None:
        return None
    t = d.env[n]
    k = t.dim()
    dim = r.randrange(-k, k)
    size = t.shape[dim]
    out = d.fresh()
    options = [
        f"{n}.narrow({dim}, {r.randrange(size)}, 1)",
        f"{n}.select({dim}, {r.randrange(size)})",
        f"{n}.transpose({r.randrange(k)}, {dim})",
        f"{n}.swapaxes({r.randrange(k)}, {dim})",
        f"{n}.unsqueeze({r.choice((0, -1))})",
        f"{n}.squeeze()",
        f"{n}.squeeze({dim})",
        f"{n}.reshape(-1)",
        f"{n}.reshape({list(reversed(t.shape))})",
        f"{n}.view(-1)",
        f"{n}.flatten()",
        f"{n}.ravel()",
        f"{n}.unflatten({dim}, ({size}, 1))",
        f"{n}.expand(2, {', '.join(['-1'] * k)})",
        f"{n}.broadcast_to({[2, *t.shape]})",
        f"{n}.unfold({dim}, {r.randrange(1, size + 1)}, {r.choice((1, 2))})",
        f"{n}.as_strided([2, 2], [1, 1], {t.storage_offset()})"
        if r.random() < 0.5
        else f"{n}.as_strided([2], [{r.choice((1, 2))}])",
        f"{n}[{r.choice(('0', '-1', '1:', ':-1', '::2', '...', 'None'))}]",
        f"{n}.view({n}.shape)",
        f"{n}.view_as({n})",
        f"{n}.detach()",
        f"{n}.permute({', '.join(str(i) for i in r.sample(range(k), k))})",
        f"{n}.movedim(0, -1)",
        f"{n}.contiguous()",
        f"{n}.to({n}.dtype)",
    ]
    if k == 2:
        options += [
            f"{n}.t()",
            f"{n}.T",
            f"{n}.diagonal()",
            f"{n}.diagonal({r.choice((-1, 1))})",
            f"{n}.mT",
            f"{n}.H",
        ]
    if t.dtype == torch.complex64:
        options += [f"torch.view_as_real({n})", f"{n}.real", f"{n}.imag", f"{n}.conj()"] * 2
    if t.dtype == torch.float32 and size == 2 and dim in (-1, k - 1):
        options += [f"torch.view_as_complex({n}.contiguous())"]
    if t.dtype in (torch.float64, torch.int64) and r.random() < 0.3:
        options = [f"{n}.view({'torch.int64' if t.is_floating_point() else 'torch.float64'})"]
    if r.random() < 0.2:
        a, b = d.fresh(), d.fresh()
        return Statement(r.choice((
            f"{a}, {b} = {n}.chunk(2, {dim})", f"{a}, {b}, *_ = {n}.unbind({dim})",
            f"{a}, {b} = {n}.split([1, {size - 1}], {dim})", f"{a}, {b} = {n}.tensor_split(2, {dim})",
            f"{a}, {b} = torch.unsafe_chunk({n}, 2, {dim})",
        )), (a, b))  # fmt: skip
    return Statement(f"{out} = {r.choice(options)}", (out,))


def detached(d: Draw) -> Statement | None:
    n = d.pick()
    if n is None:
        return None
    out = d.fresh()
    return Statement(f"{out} = {n}.{d.r.choice(('data', 'detach()'))}", (out,))


def pure(d: Draw) -> Statement | None:
    """An operator that writes none of its arguments, but for the running statistics of a batch norm."""
    r = d.r
    n = d.pick()
    if n is None:
        return None
    t = d.env[n]
    out = d.fresh()
    floating = t.dtype.is_floating_point
    if floating and r.random() < 0.06 and (pair := _pair(d, n)) is not None:
        return pair
    options = [
        f"{n} * {d.number(t)}",
        f"{n} + {d.number(t)}",
        f"{n}.clone()",
        f"{n}.contiguous()",
        f"{n}.to({r.choice(list(DTYPE_NAMES.values()))})",
    ]
    if floating:
        options += [f"{n}.sin()", f"{n}.sigmoid()", f"{n}.relu()", f"{n}.exp().clamp(max=3.0)", f"torch.tanh({n})", f"{n} ** 2", f"{n}.abs()", f"-{n}",
                    f"torch.nn.functional.gelu({n})", f"torch.nn.functional.dropout({n}, 0.5)", f"{n}.mean()", f"torch.where({n} > 0, {n}, {n} * 0.5)",
                    f"torch.add({n}, 1.0, out=torch.empty(0, dtype={n}.dtype))", f"{n} * {n}.sum().item()"]  # fmt: skip
        if t.dim():
            options += [
                f"{n}.softmax(-1)",
                f"{n}.sum(0)",
                f"{n}.sum(-1, keepdim=True)",
                f"{n}.cumsum(0)",
                f"{n}.amax(0)",
                f"torch.cat([{n}, {n}], 0)",
                f"torch.stack([{n}, {n}])",
                f"{n}.flip(0)",
                f"{n}.roll(1, 0)",
                f"{n}.index_select(0, torch.tensor([0, 0]))",
                f"{n}[{n} > 0]",
            ]
        if t.dim() == 2:
            options += [
                f"{n} @ {n}.t()",
                f"torch.nn.functional.layer_norm({n}, {n}.shape[-1:])",
                f"{n}.tril()",
            ]
        if t.requires_grad:
            leaf = d.pick(lambda o: o.requires_grad and o.is_floating_point())
            options += [
                f"torch.autograd.grad({n}.sum(), {leaf}, retain_graph=True, allow_unused=True, materialize_grads=True)[0]"
            ] * 2
        mean, variance = d.env.get("mean"), d.env.get("variance")
        if mean is not None and variance is not None and t.dim() > 1:
            options += [
                f"torch.nn.functional.batch_norm({n}, mean, variance, training=True)",
                f"torch.nn.functional.instance_norm({n}, mean, variance)",
                f"torch.nn.functional.batch_norm({n}, mean, variance)",
            ] * 5
    if t.dtype == torch.complex64:
        options += [f"{n}.abs()", f"{n} * {n}.conj()", f"{n}.angle()"]
    if not t.dtype.is_complex:
        options += [f"{n} > 0"]
    other = d.pick(lambda o: _broadcasts(o, t))
    if other is not None:
        options += [
            f"{n} + {other}",
            f"{n} * {other}",
            f"torch.where({n} == {other}, {n}, {other})",
        ] * 2
    m = d.pick(lambda o: o.dtype == torch.bool and o.shape == t.shape)
    if m is not None:
        options += [
            f"torch.where({m}, {n}, {d.number(t)})",
            f"{n}.masked_fill({m}, {d.number(t)})",
        ]
    return Statement(f"{out} = {r.choice(options)}", (out,))


def _pair(d: Draw, n: str) -> Statement | None:
    """An operator with two results."""
    if d.env[n].dim() == 0:
        return None
    a, b = d.fresh(), d.fresh()
    text = d.r.choice((f"{n}.sort(0)", f"{n}.max(0)", f"{n}.topk(1, 0)", f"torch.var_mean({n}, 0)"))
    return Statement(f"{a}, {b} = {text}", (a, b))


def inplace(d: Draw) -> Statement | None:
    """A write into a tensor, or a change of what it is."""
    r = d.r
    n = d.pick(lambda t: not _overlaps_itself(t))
    if n is None:
        return None
    t = d.env[n]
    options = _identity_changes(n, t) if r.random() < 0.12 else _writes(d, n, t)
    if n == "W":  # a global: assignments would make it local
        options = [o for o in options if not o.startswith("W ")]
    text = r.choice(options)
    if r.random() < 0.15 and not _assigns(text):
        out = d.fresh()
        return Statement(f"{out} = {text}", (out,))
    return Statement(text)


def _identity_changes(n: str, t: torch.Tensor) -> list[str]:
    options = [f"{n}.unsqueeze_(0)", f"{n}.squeeze_()", f"{n}.detach_()"]
    if t.dim() == 2:
        options += [f"{n}.t_()", f"{n}.transpose_(0, 1)"]
    if (
        t.dim() and t.shape[0] > 1 and t.is_contiguous()
    ):  # otherwise it grows, and nobody fills that
        rows = f"max({n}.shape[0] - 1, 0)"  # with other data it may have fewer
        options += [f"{n}.resize_([{', '.join([rows, *map(str, t.shape[1:])])}])"]
    if t.is_floating_point():
        options += [f"{n}.requires_grad_()", f"{n}.requires_grad_(False)"]
    return options


def _writes(d: Draw, n: str, t: torch.Tensor) -> list[str]:
    r = d.r
    x = d.number(t)
    floating = t.dtype.is_floating_point
    options = [f"{n}.fill_({x})", f"{n}.zero_()"]
    if t.dtype != torch.bool:
        options += [
            f"{n}.mul_({x})",
            f"{n}.add_({x})",
            f"{n} *= {x}",
            f"{n} += {x}",
            f"{n}.sub_({x})",
            f"{n}.neg_()",
        ]
        if not t.dtype.is_complex:
            low = "-0.5" if floating else "-1"
            options += [f"{n}.clamp_(min={low})", f"{n}.abs_()"]
    else:
        options += [f"{n}.logical_not_()", f"{n} |= {x}"]
    if floating:
        options += [f"{n}.sin_()", f"{n}.sigmoid_()", f"{n}.relu_()", f"{n}.tanh_()", f"{n}.pow_(2)", f"{n}.div_(2)", f"torch.nn.functional.relu({n}, inplace=True)",
                    f"torch.exp({n}.clamp(max=1.0), out={n})", f"torch.mul({n}, 2.0, out={n})", f"torch._foreach_mul_([{n}], 2.0)",
                    f"torch.nn.functional.dropout({n}, 0.5, inplace=True)", f"{n}.uniform_()", f"{n}.normal_()", f"{n}.bernoulli_(0.5)",
                    f"torch.nn.functional.hardtanh({n}, inplace=True)", f"{n}.addcmul_({n}, {n})", f"{n}.lerp_({n}.sin(), 0.5)", f"{n}.gt_(0)"]  # fmt: skip
        if t.dim():
            options += [
                f"{n}.cumsum_(0)",
                f"torch.sum({n}, 0, out=torch.empty(()))",
                f"{n}.index_fill_(0, torch.tensor([0]), 1.5)",
                f"{n}.copy_({n}.flip(0))",
                f"{n}.masked_scatter_({n} > 0, {n}.exp())",
                f"{n}.index_put_((torch.tensor([0, 0]),), {n}[0] * 2, accumulate=True)",
            ]
        if t.dim() == 2:
            options += [f"{n}.tril_()", f"{n}.fill_diagonal_({x})"]
    if t.dim() and t.shape[0] > 1 and t.dtype != torch.bool:
        options += [f"{n}.index_add_(0, torch.tensor([0, 1]), {n}[:2] * 2)", f"{n}.index_copy_(0, torch.tensor([1, 0]), {n}[:2] * 2)",
                    f"{n}[0] = {n}[1]", f"{n}[1:] = {n}[:-1].clone()", f"{n}[:-1] += 1", f"{n}.scatter_(0, torch.zeros([1] * {t.dim()}, dtype=torch.int64), {x})"] * 2  # fmt: skip
    if t.dim():
        options += _writes_at_index(d, n, t, x)
    other = d.like(t)
    if other is not None:
        # What a copy between overlapping tensors gives depends on the loops of eager.
        shared = d.env[other].untyped_storage()._cdata == t.untyped_storage()._cdata
        options += [f"{n}.copy_({other}{'.clone()' if shared else ''})"] * 3
        if t.dtype != torch.bool:
            options += [
                f"{n}.add_({other})",
                f"{n}.mul_({other})",
                f"{n} += {other}",
                f"torch.add({n}, {other}, out={n})",
                f"torch._foreach_{r.choice(('add', 'mul'))}_([{n}, {other}], 2)"
                if n != other
                else f"torch._foreach_add_([{n}], [{n}])",
                f"{n}.set_({other})" if r.random() < 0.2 else f"{n}.sub_({other})",
            ] * 2
    if t.dtype == torch.complex64:
        options += [
            f"{n}.real.mul_(2)",
            f"{n}.imag[...] = 1.0",
            f"torch.view_as_real({n}).add_(1)",
        ] * 2
    return options


def _writes_at_index(d: Draw, n: str, t: torch.Tensor, x: str) -> list[str]:
    index = _index(d, t)
    mask = f"{n} > 0" if not t.dtype.is_complex else f"{n}.real > 0"
    index = mask if index is None else index
    options = [f"{n}[{index}] = {x}"] * 4
    if t.dtype != torch.bool:
        options += [f"{n}[{index}] += {x}", f"{n}[{index}] *= {x}"] * 2
    options += [f"{n}.masked_fill_({mask}, {x})"]
    other = d.pick(lambda o: o.dtype == t.dtype)
    if other is not None and d.env[other].untyped_storage()._cdata != t.untyped_storage()._cdata:
        options += [
            f"{n}[{index}] = {other}[{_index(d, d.env[other]) or '0'}]",
            f"{n}.data.copy_({other})",
        ] * 2
    return options


def _index(d: Draw, t: torch.Tensor) -> str | None:
    """What stands in brackets; None for a mask."""
    r, k = d.r, t.dim()
    if k == 0:
        return "..."
    n = t.shape[0]
    first = r.choice(("0", "-1", "1:", ":-1", "::2", ":", "...", "None", f"{n // 2}:"))
    kind = r.random()
    if kind < 0.15:
        return f"torch.tensor({[r.randrange(n) for _ in range(2)] if n else []}, dtype=torch.int64)"
    if kind < 0.25 and t.dtype in (torch.float32, torch.float64, torch.int64):
        return None
    if k >= 2 and r.random() < 0.5:
        second = r.choice(("0", "-1", "1:", ":2", "::2", ":"))
        return f"{first if first not in ('...', 'None') else ':'}, {second}"
    if k >= 2 and r.random() < 0.2:
        return f"..., {r.choice(('0', ':1', '1:'))}"
    return first


def _assigns(text: str) -> bool:
    """Is it a statement, and no expression?"""
    try:
        compile(text, "", "eval")
    except SyntaxError:
        return True
    return False


def _overlaps_itself(t: torch.Tensor) -> bool:
    """Several elements in one place, other than by expand: what eager writes there depends on its loops."""
    places = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(t.shape, t.stride(), strict=True):
        if stride:
            places = places.unsqueeze(-1) + torch.arange(size) * stride
    return places.unique().numel() < places.numel()


def _broadcasts(o: torch.Tensor, t: torch.Tensor) -> bool:
    try:
        return len(torch.broadcast_shapes(o.shape, t.shape)) <= 3
    except RuntimeError:
        return False
