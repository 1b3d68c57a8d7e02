"""Runs work items in forked processes, so that a crash or a hang costs one item and not the test run; on several
cores at once."""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

WORKERS = int(os.environ.get("FULGURITE_TEST_WORKERS", min(2, len(os.sched_getaffinity(0)))))


@dataclass(frozen=True)
class Crash:
    """What is reported for an item whose process died or did not end in time."""

    why: str

    def __str__(self) -> str:
        return f"CRASH: {self.why}"


def run_each(
    items: Sequence[Any], work: Callable[[Any], Any], timeout: float = 120.0
) -> Iterator[tuple[Any, Any]]:
    """Yields ``(item, work(item))`` for every item, in order. Each of WORKERS processes does items until it crashes; a
    new one takes its place. ``timeout`` is in seconds for one item. Results must be picklable; an exception that
    ``work`` raises is a Crash with its traceback."""
    waiting = iter(range(len(items)))
    workers: list[_Worker] = []
    results: dict[int, Any] = {}
    done = 0
    try:
        for index in waiting:
            workers.append(_Worker(items, work, workers))
            workers[-1].begin(index)
            if len(workers) == max(1, WORKERS):
                break
        while done < len(items):
            while done in results:
                yield items[done], results.pop(done)
                done += 1
            busy = [w for w in workers if w.item is not None]
            if not busy:
                continue
            left = min(w.since for w in busy) + timeout - time.monotonic()
            ready, _, _ = select.select([w.results for w in busy], [], [], max(0.0, left))
            for w in busy:
                item = w.item
                assert item is not None
                if w.results in ready:
                    results[item] = w.result()
                elif time.monotonic() > w.since + timeout:
                    results[item] = w.end(f"no result within {timeout:.0f} s")
                else:
                    continue
                following = next(waiting, None)
                if following is None:
                    continue
                if w.pid == 0:
                    workers.remove(w)
                    w = _Worker(items, work, workers)
                    workers.append(w)
                w.begin(following)
    finally:
        for w in workers:
            w.end("")


class _Worker:
    """A forked process that does the items whose numbers it is sent."""

    def __init__(
        self, items: Sequence[Any], work: Callable[[Any], Any], others: list[_Worker]
    ) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self.item: int | None = None  # what it is doing
        self.since = 0.0
        requests, self.requests = os.pipe()
        self.results, results = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for fd in (self.requests, self.results, *(f for w in others for f in w.descriptors())):
                os.close(fd)
            _serve(items, work, requests, results)
        os.close(requests)
        os.close(results)

    def descriptors(self) -> tuple[int, ...]:
        return (self.requests, self.results) if self.pid else ()

    def begin(self, item: int) -> None:
        self.item, self.since = item, time.monotonic()
        os.write(self.requests, struct.pack("<q", item))

    def result(self) -> Any:
        """Of the item that it was doing; a Crash if the process is gone."""
        head = _read(self.results, 8)
        body = head and _read(self.results, struct.unpack("<Q", head)[0])
        if not body:
            return self.end(None)
        self.item = None
        return pickle.loads(body)

    def end(self, why: str | None) -> Crash | None:
        """Ends the process; None: it has ended by itself, and how is the reason."""
        if self.pid == 0:
            return None
        if why is not None:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        for fd in self.descriptors():
            os.close(fd)
        self.pid, self.item = 0, None
        if why is None and os.WIFSIGNALED(status):
            why = f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
        return Crash(why or f"the process left with status {os.WEXITSTATUS(status)}")


def _serve(items: Sequence[Any], work: Callable[[Any], Any], requests: int, results: int) -> None:
    """What the child does; does not return."""
    try:
        while request := _read(requests, 8):
            try:
                result = work(items[struct.unpack("<q", request)[0]])
            except Exception:
                result = Crash(traceback.format_exc())
            data = pickle.dumps(result)
            data = struct.pack("<Q", len(data)) + data
            while data:
                data = data[os.write(results, data) :]
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _read(fd: int, n: int) -> bytes:
    """The next n bytes; fewer if the other end is closed."""
    data = b""
    while len(data) < n:
        part = os.read(fd, n - len(data))
        if not part:
            return b""
        data += part
    return data
