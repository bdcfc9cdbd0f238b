"""Child processes: native code that may crash, hang or eat memory runs in one, under limits.

A child is a fresh interpreter, so a script needs no `if __name__ == "__main__"` guard. It gets a function by name and
its arguments, and answers over a pipe of its own; whatever native code prints ends in a log. When the parent dies, a
pipe closes, and the child goes too, with whatever it started.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from onnxsmith.child import OUT_OF_MEMORY_SIGNS, Answer
from onnxsmith.config import LimitsConfig
from onnxsmith.errors import (
    ChildCrashError,
    ChildMemoryError,
    ChildTimeoutError,
    InternalError,
    OnnxsmithError,
    RuntimeFailure,
)
from onnxsmith.records import Progress, no_progress

logger = logging.getLogger(__name__)

# The answers leave by a copy of standard output, taken before anything can print to it.
_BOOT = (
    "import os, pickle, sys; answers = os.dup(1); os.dup2(2, 1); sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from onnxsmith.child import main; main(answers)"
)
_LOG_TAIL_LINES = 15
_LOG_BYTES = 1 << 18


@dataclass(frozen=True)
class Supervised:
    """What a child brought back.

    Attributes:
        value: What the function returned.
        log: What native code printed to the child's standard output and error; the end of it where it is long.
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
        RuntimeFailure: It could not be started.
        OnnxsmithError: Whatever the function raised of these.
        InternalError: It raised anything else.
    """
    task = _pickled((function, args, kwargs, limits.memory_mb), what)
    with _started(what) as (process, log_file):
        timed_out = threading.Event()

        def on_timeout() -> None:
            timed_out.set()
            _kill(process)

        timer = threading.Timer(min(limits.timeout_s, threading.TIMEOUT_MAX), on_timeout)
        timer.daemon = True
        timer.start()
        try:
            answer = _converse(process, task, progress, what)
        finally:
            timer.cancel()
        returncode = process.poll()
        log = _end_of(log_file)
    if log:
        logger.debug("%s: the child's output:\n%s", what, log)
    if answer is None:
        if timed_out.is_set():
            raise ChildTimeoutError(
                f"{what} ran past its limit of {limits.timeout_s:g} s and was stopped.",
                "Raise limits.timeout_s (--set limits.timeout_s=...) if the work is really that long.",
            )
        raise _death(returncode, what, log, limits)
    kind, payload, peak = answer
    if kind == "value":
        return Supervised(payload, log, peak)
    if kind == "memory":
        raise _memory_error(what, payload, limits)
    if isinstance(payload, OnnxsmithError):
        raise payload
    raise InternalError(f"{what} failed in its child process:\n{payload}")


def _pickled(task: Any, what: str) -> bytes:
    try:
        return pickle.dumps(sys.path) + pickle.dumps(task)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InternalError(f"{what}: its arguments cannot be sent to a child process: {error}") from error


@contextlib.contextmanager
def _started(what: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A child and the file that its output goes to; both are gone when the block ends."""
    with contextlib.ExitStack() as stack:
        try:
            log_file = stack.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                start_new_session=True,
            )
        except OSError as error:
            raise RuntimeFailure(f"{what}: no child process could be started: {error.strerror}.") from error
        try:
            yield process, log_file
        finally:
            _kill(process)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()


def _converse(process: subprocess.Popen[bytes], task: bytes, progress: Progress, what: str) -> Answer | None:
    """Sends the task and reads messages until the final one; None if the child died before it."""
    assert process.stdin is not None
    # A child that died while it was written to is met again when it is read from.
    with contextlib.suppress(OSError):
        process.stdin.write(task)
        process.stdin.flush()
    while True:
        message = _receive(process, what)
        if message is None or message[0] != "progress":
            return message
        progress(*message[1:])


def _receive(process: subprocess.Popen[bytes], what: str) -> tuple[Any, ...] | None:
    assert process.stdout is not None
    try:
        message: tuple[Any, ...] = pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError):
        # The pipe closes a moment before the exit status is there.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        return None
    except Exception as error:
        raise InternalError(f"{what}: the child's answer cannot be read: {type(error).__name__}: {error}") from error
    return message


def _end_of(log_file: IO[bytes]) -> str:
    size = log_file.seek(0, os.SEEK_END)
    log_file.seek(max(0, size - _LOG_BYTES))
    return log_file.read().decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the child and whatever it started."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _death(returncode: int | None, what: str, log: str, limits: LimitsConfig) -> OnnxsmithError:
    """The error for a child that went without an answer; a return code of None says that it did not go."""
    lines = log.strip().splitlines()[-_LOG_TAIL_LINES:]
    hint = "The last it printed:\n" + "\n".join(lines) if lines else "It printed nothing."
    if limits.memory_mb and any(sign in line for line in lines for sign in OUT_OF_MEMORY_SIGNS):
        return _memory_error(what, lines[-1].strip(), limits)
    if returncode == -getattr(signal, "SIGKILL", 9):
        return ChildMemoryError(f"{what}: the system killed the child process; most likely memory ran out.", hint)
    if returncode is None:
        return ChildCrashError(f"{what}: the child process closed its pipe and went on; it was stopped.", hint)
    if returncode < 0:
        return ChildCrashError(f"{what}: native code crashed in the child process ({_signal_name(-returncode)}).", hint)
    return ChildCrashError(f"{what}: the child process ended without an answer (exit code {returncode}).", hint)


def _memory_error(what: str, reason: str, limits: LimitsConfig) -> ChildMemoryError:
    limit = f"its limit of {limits.memory_mb} MiB" if limits.memory_mb else "the machine has"
    return ChildMemoryError(
        f"{what} needs more memory than {limit}: {reason}", "Raise limits.memory_mb, or use a smaller batch."
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
