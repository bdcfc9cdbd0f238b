"""The child's side of `onnxsmith.process`. It imports next to nothing: starting a child is what most of them cost."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import IO, Any

from onnxsmith.errors import OnnxsmithError

OUT_OF_MEMORY_SIGNS = ("bad_alloc", "MemoryError", "Failed to allocate memory", "Cannot allocate memory")
Answer = tuple[str, Any, float | None]


def main(answers: int) -> None:
    """The child's side: reads a task from standard input, runs it and answers.

    Args:
        answers: The file descriptor to answer on.
    """
    pipe = os.fdopen(answers, "wb")
    message = _pickled_answer(pipe)
    pipe.write(message)
    pipe.flush()
    # Destructors of native runtimes must not turn a good answer into a crash.
    os._exit(0)


def _pickled_answer(pipe: IO[bytes]) -> bytes:
    message: Answer
    try:
        function, args, kwargs, memory_mb = pickle.load(sys.stdin.buffer)
        _die_with_parent()
        _limit(memory_mb)
        module, name = function.split(":")
        target = getattr(importlib.import_module(module), name)
        value = target(*args, progress=_Reporter(pipe), **kwargs)
        return pickle.dumps(("value", value, _peak_memory_mb()))
    except OnnxsmithError as error:
        message = ("error", error, None)
    except MemoryError as error:
        message = ("memory", str(error) or "an allocation failed", None)
    except Exception as error:  # noqa: BLE001 - the parent raises it again
        out_of_memory = any(sign in str(error) for sign in OUT_OF_MEMORY_SIGNS)
        message = ("memory", str(error), None) if out_of_memory else ("error", traceback.format_exc(), None)
    return pickle.dumps(message)


class _Reporter:
    """Sends progress to the parent, a few times a second at most."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers = answers
        self._last = 0.0

    def __call__(self, label: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last < 0.1 and done < total:
            return
        self._last = now
        pickle.dump(("progress", label, done, total), self._answers)
        self._answers.flush()


def _die_with_parent() -> None:
    """Ends this process and whatever it started when standard input closes, and leaves an empty one in its place."""
    lifeline = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if sys.platform == "linux":
        import fcntl

        # The kernel does it: a thread could not while native code hangs with the interpreter's lock.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    threading.Thread(target=_wait_for_end, args=(lifeline,), daemon=True).start()


def _wait_for_end(lifeline: int) -> None:
    os.read(lifeline, 1)
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _limit(memory_mb: int) -> None:
    try:
        import resource
    except ImportError:  # not a POSIX system: no limit on memory
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_mb:
        # RLIMIT_DATA counts private writable memory, so memory-mapped weights are free.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (memory_mb << 20, memory_mb << 20))


def _peak_memory_mb() -> float | None:
    with contextlib.suppress(OSError):
        # Linux's ru_maxrss counts the parent's memory too, from before the child's own program started.
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        if peaks:
            return int(peaks[0]) / (1 << 10)
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
