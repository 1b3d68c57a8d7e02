"""One sweep over a database of PyTorch's own tests, for all of them: each entry in a process that may crash, counted,
held against a list of expected exceptions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from helpers import forked
from helpers.expected import Expected


@dataclasses.dataclass
class Outcome:
    """What one entry did in one mode."""

    samples: int = 0
    served: int = 0  # samples of which all later calls were served by a compiled program
    reasons: list[str] = dataclasses.field(default_factory=list)  # why others were not
    wrong: list[str] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.served} of {self.samples} served" + "".join(
            f"\n  {r}" for r in [*self.reasons, *self.wrong]
        )


@dataclasses.dataclass(frozen=True)
class Sweep:
    """``title`` and ``noun`` (plural) are for the summary; ``without`` says what an entry has that ran no sample."""

    title: str
    noun: str
    expected: Expected
    without: str
    timeout: float = 120.0

    def run(
        self,
        entries: Sequence[tuple[str, Any]],
        check: Callable[[Any], Outcome],
        count: Callable[..., None],
    ) -> list[str]:
        """Checks each (name, entry); returns the complaints."""
        complaints: list[str] = []
        for (name, _), outcome in forked.run_each(entries, lambda e: check(e[1]), self.timeout):
            complaints += self._judge(name, outcome, count)
        return complaints

    def _judge(self, name: str, outcome: Any, count: Callable[..., None]) -> list[str]:
        def add(what: str, n: int = 1) -> None:
            count(self.title, what, n)

        add(self.noun)
        if isinstance(outcome, forked.Crash):
            add(f"{self.noun} that crash")
            return [f"{name}: {outcome}"]
        complaints = []
        add("samples", outcome.samples)
        add("samples served by a compiled program", outcome.served)
        if outcome.wrong:
            complaints.append(f"{name}: " + "\n    ".join(outcome.wrong[:4]))
            add(f"{self.noun} that differ from eager")
        if outcome.samples == 0:
            add(f"{self.noun} without {self.without}")
            return complaints
        add(f"{self.noun} served in all samples", int(outcome.served == outcome.samples))
        add(f"{self.noun} served in some samples", int(0 < outcome.served < outcome.samples))
        add(f"{self.noun} not compiled", int(outcome.served == 0))
        return complaints + self.expected.check(
            name, outcome.served, outcome.samples, outcome.reasons
        )


def reasons_of(jitted: Any) -> list[str]:
    """Why calls were not served, each once; without the notes that eager is used for a while (FG-209)."""
    import fulgurite as fg

    reasons = [f"{f.code}: {f.reason}" for f in fg.fallbacks(jitted) if f.code != "FG-209"]
    reasons += [f"recorded again: {r}" for r in fg.recompiles(jitted)]
    return list(dict.fromkeys(reasons)) or ["no reason given"]
