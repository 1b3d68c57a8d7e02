"""Trains the same model twice, eagerly and compiled, step by step side by side."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import fulgurite
from fulgurite.demo.memory import peak_bytes
from fulgurite.demo.model import GPT, Config
from fulgurite.demo.text import Text, windows

# Two runs of the same kernels agree bit for bit. Kernels that add in another order differ in the last bits
# of a float32, and training amplifies that from step to step: what is allowed grows with the step.
FIRST_STEP_TOLERANCE = 2e-6
TOLERANCE_PER_STEP = 2e-5


def tolerance(step: int) -> float:
    """The relative difference of losses that float32 noise explains at this step."""
    return FIRST_STEP_TOLERANCE + TOLERANCE_PER_STEP * step


@dataclass(frozen=True)
class Plan:
    steps: int = 300
    batch: int = 16
    learning_rate: float = 4e-3
    warmup: int = 20
    seconds: float = 100.0  # training stops after the step that passes this
    seed: int = 1337


class Learner:
    """A model, its optimizer and its own random number stream."""

    def __init__(self, name: str, model: nn.Module, plan: Plan, state: Tensor) -> None:
        self.name = name
        self.model = model
        self.plan = plan
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=plan.learning_rate, betas=(0.9, 0.99)
        )
        self.random_state = state.clone()
        self.losses: list[float] = []
        self.program_ms: list[float] = []  # forward and backward
        self.step_ms: list[float] = []  # with the optimizer

    def step(self, characters: Tensor, targets: Tensor) -> None:
        done = len(self.losses)
        warm = min(1.0, (done + 1) / self.plan.warmup)
        cosine = 0.5 * (1 + math.cos(math.pi * done / self.plan.steps))
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.learning_rate * warm * (0.1 + 0.9 * cosine)
        torch.set_rng_state(self.random_state)
        begin = time.perf_counter()
        loss = self.model(characters, targets)
        loss.backward()
        middle = time.perf_counter()
        self.optimizer.step()
        self.optimizer.zero_grad()
        end = time.perf_counter()
        self.random_state = torch.get_rng_state()
        self.losses.append(loss.item())
        self.program_ms.append((middle - begin) * 1e3)
        self.step_ms.append((end - begin) * 1e3)

    def held_out_loss(self, text: Text, context: int) -> float:
        """The mean loss on text that was not trained on, without dropout or gradient."""
        generator = torch.Generator().manual_seed(0)
        self.model.eval()
        try:
            with torch.no_grad():
                losses = [
                    self.model(*windows(text.held_out, self.plan.batch, context, generator)).item()
                    for _ in range(8)
                ]
        finally:
            self.model.train()
        return sum(losses) / len(losses)

    def peak_bytes(self, characters: Tensor, targets: Tensor) -> int:
        """Peak memory of forward and backward beyond what lives between steps. Gradients are dropped."""

        def run() -> None:
            self.model(characters, targets).backward()

        peak = peak_bytes(run)
        self.optimizer.zero_grad()
        return peak


@dataclass
class Outcome:
    """What a training run showed."""

    config: Config
    plan: Plan
    text: Text
    eager: Learner
    compiled: Learner
    seconds: float = 0.0
    disagreements: list[int] = field(default_factory=list)  # steps
    hits: int = 0  # of the training steps
    misses: int = 0
    held_out: tuple[float, float] = (0.0, 0.0)
    peaks: tuple[int, int] | None = None
    sample: str = ""

    @property
    def steps(self) -> int:
        return len(self.eager.losses)

    @property
    def model(self) -> Any:
        return self.compiled.model

    def equal_steps(self) -> int:
        """At how many steps the losses were equal to the last bit."""
        return sum(a == b for a, b in zip(self.eager.losses, self.compiled.losses, strict=True))

    def largest_difference(self) -> float:
        return max(
            (
                abs(a - b) / abs(a)
                for a, b in zip(self.eager.losses, self.compiled.losses, strict=True)
            ),
            default=0.0,
        )

    def same_random_stream(self) -> bool:
        return torch.equal(self.eager.random_state, self.compiled.random_state)


def choose_threads(config: Config, plan: Plan) -> int:
    """Sets and returns the number of threads: one, where more do not help, as on a busy machine."""
    available = torch.get_num_threads()
    model = GPT(config)
    batch = torch.zeros(plan.batch, config.context, dtype=torch.int64)

    def seconds(threads: int) -> float:
        torch.set_num_threads(threads)
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            model(batch, batch).backward()
            times.append(time.perf_counter() - begin)
        return min(times)

    seconds(available)  # the first steps fill caches
    best = min((available, 1), key=seconds)
    torch.set_num_threads(best)
    return best


def prepare(config: Config, plan: Plan, text: Text) -> Outcome:
    torch.manual_seed(plan.seed)
    original = GPT(config)
    state = torch.get_rng_state()
    eager = Learner("eager", original, plan, state)
    compiled = Learner("compiled", fulgurite.jit(copy.deepcopy(original)), plan, state)
    return Outcome(config, plan, text, eager, compiled)


def train(outcome: Outcome) -> Iterator[int]:
    """Yields after each step. The two learners see the same batch and the same dropout masks; who goes first
    alternates, so that neither is always the one that finds the caches warm."""
    plan = outcome.plan
    batches = torch.Generator().manual_seed(plan.seed)
    begin = time.perf_counter()
    for step in range(plan.steps):
        batch = outcome.text.batch(plan.batch, outcome.config.context, batches)
        order = [outcome.eager, outcome.compiled]
        for learner in order if step % 2 == 0 else reversed(order):
            learner.step(*batch)
        a, b = outcome.eager.losses[-1], outcome.compiled.losses[-1]
        if not abs(a - b) <= tolerance(step) * abs(a):
            outcome.disagreements.append(step)
        outcome.seconds = time.perf_counter() - begin
        yield step
        if outcome.seconds > plan.seconds:
            break
    outcome.hits = fulgurite.cache_hits(outcome.model)
    outcome.misses = fulgurite.cache_misses(outcome.model)


def finish(outcome: Outcome, characters: int) -> None:
    """What is measured after training: memory, the held-out loss and a sample."""
    generator = torch.Generator().manual_seed(outcome.plan.seed)
    batch = outcome.text.batch(outcome.plan.batch, outcome.config.context, generator)
    outcome.peaks = (outcome.eager.peak_bytes(*batch), outcome.compiled.peak_bytes(*batch))
    context = outcome.config.context
    outcome.held_out = (
        outcome.eager.held_out_loss(outcome.text, context),
        outcome.compiled.held_out_loss(outcome.text, context),
    )
    outcome.sample = sample(outcome.model, outcome.text, context, characters, generator)


def sample(
    model: nn.Module, text: Text, context: int, characters: int, generator: torch.Generator
) -> str:
    """Lets the model write on from a piece of held-out text. The window has one size: one program serves it."""
    ids = text.held_out[:context].clone()
    model.eval()
    with torch.no_grad():
        for _ in range(characters):
            logits = model(ids[-context:].unsqueeze(0))[0, -1]
            following = torch.multinomial(torch.softmax(logits / 0.8, 0), 1, generator=generator)
            ids = torch.cat([ids, following])
    model.train()
    return text.decode(ids[context:])
