"""What exporters print, log and warn of while they work: kept from the user's terminal, and the useful part kept."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, cast

logger = logging.getLogger(__name__)

_NOISY = ("torch", "onnxscript", "onnx_ir", "skl2onnx")
_OF_NO_USE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
_NOISE = ("# The axis name", "The tensor attributes self._flat_weights")
_REASON_LENGTH = 300


@dataclass
class Chatter:
    """What was heard.

    Attributes:
        warnings: The warnings that concern the model, each once; deprecations are about the library and left out.
    """

    warnings: list[str] = field(default_factory=list)


@contextlib.contextmanager
def quiet() -> Iterator[Chatter]:
    """Sends what this thread prints and the libraries log to our log at DEBUG, and gathers Python's warnings.

    Standard output is the command line's result, so what native code prints there is caught as well.
    """
    heard = Chatter()
    with warnings.catch_warnings(record=True) as caught, _loggers_to_debug(), _output_to_debug():
        warnings.simplefilter("always")
        try:
            yield heard
        finally:
            for warning in caught:
                logger.debug("%s: %s", warning.category.__name__, warning.message)
            heard.warnings.extend(dict.fromkeys(_describe(warning) for warning in caught if _is_useful(warning)))


def reason(error: BaseException) -> str:
    """The first useful line of an error: its root cause, without colours."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return line if len(line) <= _REASON_LENGTH else f"{line[:_REASON_LENGTH]}…"


def _is_useful(warning: warnings.WarningMessage) -> bool:
    """False for what is about a library rather than the model: its deprecations, and traced code of its own."""
    if issubclass(warning.category, _OF_NO_USE) or str(warning.message).startswith(_NOISE):
        return False
    if warning.category.__name__ != "TracerWarning":
        return True
    return Path(str(sys.modules["torch"].__file__)).parent not in Path(warning.filename).parents


def _describe(warning: warnings.WarningMessage) -> str:
    """The warning's first line; of a tracer's warning its first sentence, the rest being always the same, and where."""
    text = str(warning.message).strip().split("\n", maxsplit=1)[0]
    if warning.category.__name__ != "TracerWarning":
        return text
    sentence = re.split(r"(?<=[.!])\s", text, maxsplit=1)[0]
    return f"{sentence} ({Path(warning.filename).name}:{warning.lineno})"


class _OwnThread:
    """A standard stream that keeps what one thread writes; a progress bar in another thread goes on."""

    def __init__(self, stream: TextIO, sink: TextIO) -> None:
        self._stream = stream
        self._sink = sink
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        return (self._sink if threading.get_ident() == self._thread else self._stream).write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _output_to_debug() -> Iterator[None]:
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as sink:
        try:
            with (
                contextlib.redirect_stdout(cast("TextIO", _OwnThread(sys.stdout, sink))),
                contextlib.redirect_stderr(cast("TextIO", _OwnThread(sys.stderr, sink))),
                _descriptor_to(sink),
            ):
                yield
        finally:
            sink.seek(0)
            if text := sink.read().strip():
                logger.debug("printed:\n%s", text)


@contextlib.contextmanager
def _descriptor_to(sink: TextIO) -> Iterator[None]:
    """Points file descriptor 1, which native code prints to, at a file."""
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    try:
        saved = os.dup(1)
    except OSError:  # no standard output to keep clean
        yield
        return
    try:
        os.dup2(sink.fileno(), 1)
        yield
    finally:
        sink.flush()
        os.dup2(saved, 1)
        os.close(saved)


class _ToDebug(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        logger.debug("%s: %s", record.name, record.getMessage())


@contextlib.contextmanager
def _loggers_to_debug() -> Iterator[None]:
    """Takes off the handlers that write to the terminal, and puts one of ours at each library's root logger."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in _NOISY]
    loggers = [logging.getLogger(name) for name in {*names, *_NOISY}]
    saved = [(library, library.handlers, library.propagate) for library in loggers]
    handler = _ToDebug()
    try:
        for library in loggers:
            root = library.name in _NOISY
            library.handlers = [handler] if root else []
            library.propagate = not root
        yield
    finally:
        for library, handlers, propagate in saved:
            library.handlers, library.propagate = handlers, propagate
