"""What the tests of `onnxsmith.process` run in child processes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from onnxsmith.errors import ExternalDataError


def add(a, b, *, progress):
    return a + b


def echo(value, *, progress):
    return value


def facts(*, progress):
    return {"pid": os.getpid(), "cwd": str(Path.cwd()), "stdin": sys.stdin.read()}


def steps(count, pause, *, progress):
    for step in range(count):
        progress("stepping", step + 1, count)
        time.sleep(pause)
    return count


def chatter(*, progress):
    print("from Python")
    os.write(1, b"from native code\n")
    os.write(2, b"to standard error\n")
    subprocess.run(["echo", "from a grandchild"], check=True)
    return "quiet"


def flood(megabytes, *, progress):
    for _ in range(megabytes):
        os.write(1, b"x" * (1 << 20))
    os.write(1, b"the end")


def ours(*, progress):
    raise ExternalDataError("weights.bin is too short.", "Fetch it again.")


def foreign(*, progress):
    raise ZeroDivisionError("a foreign fault")


def segfault(*, progress):
    os.write(2, b"about to fall\n")
    ctypes.string_at(0)


def kill_self(number, *, progress):
    os.kill(os.getpid(), number)
    time.sleep(10)


def leave(code, *, progress):
    os._exit(code)


def system_exit(*, progress):
    sys.exit(3)


def allocate(mebibytes, *, progress):
    block = bytearray(mebibytes << 20)
    return len(block)


def native_out_of_memory(*, progress):
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n")
    os.abort()


def unpicklable(*, progress):
    return threading.Lock()


class OnlyHere:
    """Pickles, and cannot be made again."""

    def __reduce__(self):
        return (_refuse, ())


def _refuse():
    raise ValueError("not to be made again")


def unreadable(*, progress):
    return OnlyHere()


def hang(pids, *, progress):
    """Hangs, with a child of its own, the interpreter's lock free."""
    _write_pids(pids)
    time.sleep(60)


def hang_with_lock(pids, *, progress):
    """The same, while native code holds the interpreter's lock."""
    _write_pids(pids)
    ctypes.PyDLL(None).sleep(60)


def _write_pids(pids):
    grandchild = subprocess.Popen(["sleep", "60"])
    path = Path(pids)
    path.with_suffix(".part").write_text(f"{os.getpid()} {grandchild.pid}")
    path.with_suffix(".part").rename(path)


def kill_by_signal_of_no_name(*, progress):
    os.kill(os.getpid(), signal.SIGRTMIN + 3)
