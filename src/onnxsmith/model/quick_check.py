"""What ONNX's checker says of a model: the function that a child process is started for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onnxsmith.model import bare_onnx


def check(source: Path | bytes, *, progress: Callable[[str, int, int], None]) -> str | None:
    """Runs in the child. Returns the checker's complaint."""
    bare_onnx.install()
    from onnxsmith.model.native_check import complaint, read

    return complaint(read(source))
