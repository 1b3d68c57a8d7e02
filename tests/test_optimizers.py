"""Whole training steps in one compiled function: every optimizer of torch's own database of them, against eager.

A step is ``zero_grad``, forward, backward and ``opt.step()``; the state of the optimizer is made in the first, and
loaded by ``load_state_dict`` midway; the learning rate changes in the second half. Parameters and losses must equal
eager's bit for bit after 20 steps. How many steps are served by a program is in tests/expected/optimizers.txt where
it is less than ``ENOUGH``.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_optimizers import optim_db

import fulgurite as fg
from helpers.expected import Expected

STEPS = 20
ENOUGH = 15
INFOS = {info.optim_cls.__name__: info for info in optim_db}


@pytest.fixture(scope="module")
def expected() -> Iterator[Expected]:
    e = Expected(
        "optimizers",
        f"Optimizers whose steps are not served by programs in {ENOUGH} of {STEPS} steps",
    )
    yield e
    e.save()


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))


def variants(info: Any) -> Iterator[dict[str, Any]]:
    yield {}
    for implementation in ("foreach", "fused"):
        if implementation in info.supported_impls:
            yield {implementation: True}
    if "foreach" in info.supported_impls:
        yield {"foreach": False}


def parameters_of(net: torch.nn.Module, name: str) -> Any:
    if name == "Muon":
        return [p for p in net.parameters() if p.ndim == 2]
    return net.parameters()


def train(
    name: str, options: dict[str, Any], compiled: bool
) -> tuple[list[torch.Tensor], int, list[str]]:
    net = network()
    options = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    opt = INFOS[name].optim_cls(parameters_of(net, name), **options)
    sparse = name == "SparseAdam"

    def closure_of(x: torch.Tensor, y: torch.Tensor) -> Callable[[], torch.Tensor]:
        def closure() -> torch.Tensor:
            opt.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            if sparse:
                for p in net.parameters():
                    p.grad = p.grad.to_sparse()
            return loss

        return closure

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        closure = closure_of(x, y)
        if INFOS[name].step_requires_closure:
            return opt.step(closure).detach()
        loss = closure()
        opt.step()
        return loss.detach()

    f = fg.jit(step) if compiled else step
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 4, generator=generator)
    y = torch.randn(3, 2, generator=generator)
    losses = []
    # A step of LBFGS evaluates its closure many times.
    steps = STEPS // 4 if INFOS[name].step_requires_closure else STEPS
    for i in range(steps):
        if i == steps // 2:
            opt.load_state_dict(copy.deepcopy(opt.state_dict()))
        if i > steps // 2:
            for group in opt.param_groups:
                group["lr"] = group["lr"] * 0.9
        losses.append(f(x * (1 + i / 10), y))
    result = [p.detach() for p in net.parameters()] + losses
    if not compiled:
        return result, 0, []
    reasons = [f"{code} {reason}" for code, reason, _ in fg._C._fallbacks(f) if code != "FG-209"]
    return result, fg.cache_hits(f), reasons


@pytest.mark.no_round_trip
@pytest.mark.parametrize("name", INFOS)
def test_every_optimizer(name: str, expected: Expected) -> None:
    info = INFOS[name]
    complaints = []
    for given in info.optim_inputs_func(device="cpu"):
        for variant in variants(info):
            options = {**given.kwargs, **variant}
            case = f"{name} {given.desc or 'default'} {' '.join(f'{k}={v}' for k, v in variant.items())}".strip()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    eager, _, _ = train(name, options, compiled=False)
                except Exception as e:  # noqa: BLE001 a combination that torch itself refuses
                    with pytest.raises(type(e)):
                        train(name, options, compiled=True)
                    continue
                found, served, reasons = train(name, options, compiled=True)
            for k, (a, b) in enumerate(zip(eager, found, strict=True)):
                if not torch.equal(a, b):
                    complaints.append(f"{case}: result {k} differs by {(a - b).abs().max()}")
                    break
            complaints += expected.check(case, min(served, ENOUGH), ENOUGH, reasons)
    assert not complaints, "\n".join(complaints)


# ---- what goes around an optimizer ---------------------------------------------------------------------------
def loop(
    make: Callable[[], tuple[Callable[..., Any], list[torch.Tensor]]],
    least: int,
    steps: int = STEPS,
) -> None:
    """Trains twice, eagerly and compiled; ``least`` steps are served."""
    runs = []
    for compiled in (False, True):
        torch.manual_seed(0)
        step, watched = make()
        f = fg.jit(step) if compiled else step
        x, y = torch.randn(3, 4), torch.randn(3, 2)
        results = []
        for i in range(steps):
            results.append(f(x * (1 + i / 10), y))
            after = getattr(step, "after", None)
            if after is not None:
                after()
        runs.append([*results, *(t.detach().clone() for t in watched)])
        if compiled:
            assert fg.cache_hits(f) >= least, (f, fg._C._fallbacks(f), fg._C._recompiles(f))
    for a, b in zip(*runs, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "scheduler",
    [
        lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20),
        # Cycled momentum changes a tuple, betas.
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=30),
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)),
    ],
)
def test_a_scheduler_outside(scheduler: Any) -> None:
    def make() -> Any:
        net = network()
        opt = torch.optim.AdamW(net.parameters(), lr=0.01)
        schedule = scheduler(opt)

        def step(x, y):
            opt.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            opt.step()
            return loss.detach()

        step.after = schedule.step
        return step, list(net.parameters())

    loop(make, 16)


def test_clipping_by_the_norm() -> None:
    def make() -> Any:
        net = network()
        opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(x, y):
            opt.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            opt.step()
            return loss.detach()

        return step, list(net.parameters())

    loop(make, 17)


def test_gradient_accumulation() -> None:
    def make() -> Any:
        net = network()
        opt = torch.optim.Adam(net.parameters(), lr=0.01)

        def step(x, y):
            opt.zero_grad()
            total = torch.zeros(())
            for part in (slice(0, 1), slice(1, 3)):
                loss = ((net(x[part]) - y[part]) ** 2).sum()
                loss.backward()
                total = total + loss.detach()
            opt.step()
            return total

        return step, list(net.parameters())

    loop(make, 17)


def test_average_of_weights() -> None:
    def make() -> Any:
        net = network()
        average = [p.detach().clone() for p in net.parameters()]
        opt = torch.optim.Adam(net.parameters(), lr=0.01)

        def step(x, y):
            opt.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            opt.step()
            with torch.no_grad():
                for a, p in zip(average, net.parameters(), strict=True):
                    a.mul_(0.9).add_(p, alpha=0.1)
            return loss.detach()

        return step, [*net.parameters(), *average]

    loop(make, 17)


def test_gradient_scaler() -> None:
    def make() -> Any:
        net = network()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

        def step(x, y):
            opt.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            return loss.detach()

        return step, list(net.parameters())

    loop(make, 15)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_with_a_full_history(search: str | None) -> None:
    """Until its history is full, each step has a program of its own."""

    def make() -> Any:
        net = network()
        opt = torch.optim.LBFGS(
            net.parameters(), lr=0.1, max_iter=1, history_size=2, line_search_fn=search
        )

        def step(x, y):
            def closure():
                opt.zero_grad()
                loss = ((net(x) - y) ** 2).mean()
                loss.backward()
                return loss

            return opt.step(closure).detach()

        return step, list(net.parameters())

    loop(make, 10 if search is None else 3)
