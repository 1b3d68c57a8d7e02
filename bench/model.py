"""The demo's model: a training step, its first call, its memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import torch

from bench.calls import Case
from fulgurite.demo.model import GPT, Config

VOCABULARY = 96


def make(batch: int) -> tuple[GPT, tuple]:
    torch.manual_seed(0)
    config = Config(VOCABULARY)
    model = GPT(config)
    data = torch.randint(VOCABULARY, (2, batch, config.context))
    return model, (data[0], data[1])


STEPS = [
    Case("GPT step, batch 1", lambda: make(1), grad=True, backward=True, threads=1),
    Case("GPT step, batch 16", lambda: make(16), grad=True, backward=True, threads=1),
]


def in_subprocess(what: str, *arguments: str) -> dict[str, Any]:
    """Runs a function of this file in a fresh process; it prints JSON."""
    command = [sys.executable, "-m", "bench.model", what, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[1:])} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def first_call(batch: str) -> dict[str, Any]:
    """The first compiled forward and backward of a process, beside eager ones (ms)."""
    import fulgurite

    model, data = make(int(batch))
    eager = []
    for _ in range(12):
        begin = time.perf_counter()
        model(*data).backward()
        eager.append((time.perf_counter() - begin) * 1e3)
        model.zero_grad()
    jitted = fulgurite.jit(model)
    begin = time.perf_counter()
    loss = jitted(*data)
    forward = time.perf_counter()
    loss.backward()
    end = time.perf_counter()
    (program,) = fulgurite.programs(jitted)
    passes = dict.fromkeys((name for name, _, _ in program.passes()), 0.0)
    for name, _, milliseconds in program.passes():
        passes[name] += milliseconds
    return {
        "eager_first": eager[0],
        "eager": min(eager[1:]),
        "first_forward": (forward - begin) * 1e3,
        "first": (end - begin) * 1e3,
        "recorded run": program.record_ms,
        "passes": passes,
        "plan and the rest": program.compile_ms - sum(passes.values()),
        "guards": len(program.guards),
    }


def memory(batch: str) -> dict[str, Any]:
    """Peak bytes of tensors in a step beyond what lives between steps."""
    import fulgurite
    from fulgurite.demo.memory import peak_bytes

    model, data = make(int(batch))
    found = {}
    for name, f in (("eager", model), ("fulgurite", fulgurite.jit(model))):
        for _ in range(3):
            f(*data).backward()
            model.zero_grad()
        found[name] = peak_bytes(lambda f=f: f(*data).backward())
        model.zero_grad()
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({"first_call": first_call, "memory": memory}[sys.argv[1]](*sys.argv[2:])))
