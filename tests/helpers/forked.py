"""Runs work items in forked processes, so that a crash or a hang costs one item and not the test run."""

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


@dataclass(frozen=True)
class Crash:
    """What is reported for an item whose process died or did not end in time."""

    why: str

    def __str__(self) -> str:
        return f"CRASH: {self.why}"


def run_each(
    items: Sequence[Any], work: Callable[[Any], Any], timeout: float = 120.0
) -> Iterator[tuple[Any, Any]]:
    """Yields ``(item, work(item))`` for every item. One process does items until it crashes; the next item
    gets a new one. ``timeout`` is in seconds for one item. Results must be picklable; an exception that
    ``work`` raises is a Crash with its traceback."""
    start = 0
    while start < len(items):
        done = start
        for result in _one_process(items, start, work, timeout):
            yield items[done], result
            done += 1
        start = done


def _one_process(
    items: Sequence[Any], start: int, work: Callable[[Any], Any], timeout: float
) -> Iterator[Any]:
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            for item in items[start:]:
                try:
                    result = work(item)
                except Exception:
                    result = Crash(traceback.format_exc())
                _send(writer, result)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    left = len(items) - start
    try:
        while left:
            result = _receive(reader, timeout)
            if isinstance(result, _Ended):
                if result is _HUNG:
                    os.kill(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                pid = 0
                if result is _HUNG:
                    yield Crash(f"no result within {timeout:.0f} s")
                elif os.WIFSIGNALED(status):
                    yield Crash(f"killed by {signal.Signals(os.WTERMSIG(status)).name}")
                else:
                    yield Crash(f"the process left with status {os.WEXITSTATUS(status)}")
                return
            left -= 1
            yield result
    finally:
        os.close(reader)
        if pid:
            if left:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class _Ended:
    pass


_GONE, _HUNG = _Ended(), _Ended()


def _send(fd: int, value: Any) -> None:
    data = pickle.dumps(value)
    data = struct.pack("<Q", len(data)) + data
    while data:
        data = data[os.write(fd, data) :]


def _read(fd: int, n: int, deadline: float) -> bytes | _Ended:
    data = b""
    while len(data) < n:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return _HUNG
        part = os.read(fd, n - len(data))
        if not part:
            return _GONE
        data += part
    return data


def _receive(fd: int, timeout: float) -> Any:
    deadline = time.monotonic() + timeout
    head = _read(fd, 8, deadline)
    if isinstance(head, _Ended):
        return head
    body = _read(fd, struct.unpack("<Q", head)[0], deadline)
    return body if isinstance(body, _Ended) else pickle.loads(body)
