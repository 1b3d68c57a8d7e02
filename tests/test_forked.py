"""The processes that sweeps and random programs run in: each item has a result, whatever happens to its process."""

import os
import signal
import time

from helpers import forked


def _work(i: int) -> object:
    if i == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if i == 5:
        time.sleep(60)
    if i == 6:
        raise ValueError("of item 6")
    if i == 8:
        os._exit(7)
    return b"x" * 3_000_000 if i == 9 else i * i


def test_every_item_has_a_result_in_order():
    got = list(forked.run_each(range(12), _work, timeout=2.0))
    assert [i for i, _ in got] == list(range(12))
    results = [r for _, r in got]
    assert results[:3] == [0, 1, 4] and results[10:] == [100, 121]
    assert len(results[9]) == 3_000_000
    assert str(results[3]) == "CRASH: killed by SIGKILL"
    assert str(results[5]) == "CRASH: no result within 2 s"
    assert "of item 6" in str(results[6])
    assert str(results[8]) == "CRASH: the process left with status 7"


def test_no_process_is_left_when_nobody_wants_more_results():
    each = forked.run_each(range(1000), lambda _: os.getpid())
    _, pid = next(each)
    each.close()
    assert pid != os.getpid() and not os.path.exists(f"/proc/{pid}")
