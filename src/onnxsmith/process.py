"""Child processes: native code that may crash, hang or eat memory runs in one, under limits.

A child is a fresh interpreter, so a script needs no `if __name__ == "__main__"` guard. It gets a function by name and
its arguments, and answers over a pipe of its own; whatever native code prints ends in a log. When the parent dies, the
child sees its standard input close and goes too.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass
from typing import IO, Any

from onnxsmith.config import LimitsConfig
from onnxsmith.errors import (
    ChildCrashError,
    ChildMemoryError,
    ChildTimeoutError,
    InternalError,
    OnnxsmithError,
)
from onnxsmith.records import Progress, no_progress

logger = logging.getLogger(__name__)

_BOOT = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from onnxsmith.process import child_main; child_main()"
)
_LOG_TAIL_LINES = 15


@dataclass(frozen=True)
class Supervised:
    """What a child brought back.

    Attributes:
        value: What the function returned.
        log: What native code printed to the child's standard output and error.
        peak_memory_mb: The child's peak resident memory in MiB, or None where the system does not say.
    """

    value: Any
    log: str
    peak_memory_mb: float | None


def run_supervised(
    function: str,
    /,
    *args: Any,
    limits: LimitsConfig,
    what: str,
    progress: Progress = no_progress,
    **kwargs: Any,
) -> Supervised:
    """Calls a function in a child process.

    Args:
        function: `package.module:name`. It is called with `progress` as a keyword, and the arguments here, which must
            pickle.
        *args: Positional arguments.
        limits: Time and memory.
        what: What is being done, for the errors: "benchmarking model.onnx".
        progress: Told of the child's steps.
        **kwargs: Keyword arguments.

    Raises:
        ChildTimeoutError: It ran past `limits.timeout_s`.
        ChildMemoryError: It ran past `limits.memory_mb`.
        ChildCrashError: It died.
        OnnxsmithError: Whatever the function raised of these.
        InternalError: It raised anything else.
    """
    with tempfile.TemporaryFile() as log_file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            start_new_session=True,
        )
        timed_out = threading.Event()

        def on_timeout() -> None:
            timed_out.set()
            _kill(process)

        timer = threading.Timer(limits.timeout_s, on_timeout)
        timer.daemon = True
        timer.start()
        try:
            answer = _converse(process, (function, args, kwargs, limits.memory_mb), progress)
        finally:
            timer.cancel()
            _kill(process)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        log_file.seek(0)
        log = log_file.read().decode(errors="replace")
    if log:
        logger.debug("%s: the child's output:\n%s", what, log)
    if timed_out.is_set() and answer is None:
        raise ChildTimeoutError(
            f"{what} ran past its limit of {limits.timeout_s:g} s and was stopped.",
            "Raise limits.timeout_s (--set limits.timeout_s=...) if the work is really that long.",
        )
    if answer is None:
        raise _death(process.returncode, what, log)
    kind, payload, peak = answer
    if kind == "value":
        return Supervised(payload, log, peak)
    if kind == "memory":
        raise ChildMemoryError(
            f"{what} needs more memory than its limit of {limits.memory_mb} MiB: {payload}",
            "Raise limits.memory_mb, or use a smaller batch.",
        )
    if isinstance(payload, OnnxsmithError):
        raise payload
    raise InternalError(f"{what} failed in its child process:\n{payload}")


def _converse(process: subprocess.Popen[bytes], task: Any, progress: Progress) -> tuple[str, Any, float | None] | None:
    """Sends the task and reads messages until the final one; None if the child died before it."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        pickle.dump(sys.path, process.stdin)
        pickle.dump(task, process.stdin)
        process.stdin.flush()
        while True:
            message = pickle.load(process.stdout)
            if message[0] != "progress":
                return tuple(message)
            progress(*message[1:])
    except (EOFError, BrokenPipeError, pickle.UnpicklingError):
        # The pipe closes a moment before the exit status is there.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the child and whatever it started."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _death(returncode: int, what: str, log: str) -> OnnxsmithError:
    tail = "\n".join(log.strip().splitlines()[-_LOG_TAIL_LINES:])
    hint = f"The last it printed:\n{tail}" if tail else "It printed nothing."
    if returncode == -getattr(signal, "SIGKILL", 9):
        return ChildMemoryError(f"{what}: the system killed the child process; most likely memory ran out.", hint)
    how = signal.Signals(-returncode).name if returncode < 0 else f"exit code {returncode}"
    return ChildCrashError(f"{what}: native code crashed in the child process ({how}).", hint)


def child_main() -> None:
    """The child's side: reads a task from standard input, runs it and answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    function, args, kwargs, memory_mb = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    _limit(memory_mb)
    message: tuple[str, Any, float | None]
    try:
        module, name = function.split(":")
        target = getattr(importlib.import_module(module), name)
        value = target(*args, progress=_Reporter(answers), **kwargs)
        message = ("value", value, _peak_memory_mb())
    except OnnxsmithError as error:
        message = ("error", error, None)
    except MemoryError as error:
        message = ("memory", str(error) or "allocation failed", None)
    except Exception as error:  # noqa: BLE001 - the parent raises it again
        out_of_memory = "bad_alloc" in str(error) or "Failed to allocate memory" in str(error)
        message = ("memory", str(error), None) if out_of_memory else ("error", traceback.format_exc(), None)
    pickle.dump(message, answers)
    answers.flush()
    # Destructors of native runtimes must not turn a good answer into a crash.
    os._exit(0)


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
    if not os.read(0, 1):
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
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
