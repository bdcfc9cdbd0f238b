"""Runs one command and prints its cost as JSON: a small process, because a peak of memory is inherited by a child.

Usage: launcher.py LIMIT_S SAMPLE_S COMMAND …; with SAMPLE_S of 0 memory is not sampled, and nothing disturbs the clock.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def family(pid):
    """A process and all below it."""
    found, waiting = [], [pid]
    while waiting:
        current = waiting.pop()
        found.append(current)
        try:
            for task in Path(f"/proc/{current}/task").iterdir():
                waiting.extend(map(int, (task / "children").read_text().split()))
        except OSError:
            continue
    return found


def anonymous_kb(pid):
    """Memory of a process that no file stands behind."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


def main():
    limit, sample, command = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    start = time.perf_counter()
    pid = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)],
        setsid=True,
    )
    own, ended = 0, 0
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, limit)
    while sample and not ended:
        own = max(own, *map(anonymous_kb, family(pid)))
        time.sleep(sample)
        ended, status, usage = os.wait4(pid, os.WNOHANG)
    if not ended:
        _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - start
    signal.setitimer(signal.ITIMER_REAL, 0)
    result = {"seconds": seconds, "peak_mb": usage.ru_maxrss / 1024, "code": os.waitstatus_to_exitcode(status)}
    print(json.dumps(result | {"own_mb": own / 1024, "timed_out": seconds >= limit}))


if __name__ == "__main__":
    main()
