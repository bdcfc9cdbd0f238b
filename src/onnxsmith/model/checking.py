"""ONNX's checker over a model, in a child process, while something else goes on."""

from __future__ import annotations

import threading
from pathlib import Path

from onnxsmith.config import LimitsConfig
from onnxsmith.errors import InvalidModelError
from onnxsmith.process import run_supervised


class Checking:
    """A check that is under way. It loads nothing here, so that it can start before all else does.

    Args:
        source: The model's file, or the model serialised.
        name: What the model is called in errors.
        limits: Limits on the child process.
    """

    def __init__(self, source: Path | bytes, name: str, limits: LimitsConfig) -> None:
        self._name = name
        self._complaint: str | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._check, args=(source, limits), daemon=True)
        self._thread.start()

    def result(self) -> None:
        """Waits for it.

        Raises:
            InvalidModelError: The checker refuses the model; the message has the checker's reason.
            ChildCrashError: ONNX's checker died of it.
            ChildTimeoutError: It took too long.
            ChildMemoryError: It took too much memory.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        if self._complaint is not None:
            raise InvalidModelError(f"{self._name}: not a valid model: {self._complaint}")

    def _check(self, source: Path | bytes, limits: LimitsConfig) -> None:
        what = f"checking {self._name}"
        try:
            self._complaint = run_supervised(
                "onnxsmith.model.quick_check:check", source, limits=limits, what=what
            ).value
        except BaseException as error:  # noqa: BLE001 - it is raised where it is asked for
            self._error = error


def start_early(path: Path, limits: LimitsConfig) -> Checking | None:
    """Starts the check of a file that has not been loaded yet; None where that will be refused anyway.

    What loads it afterwards takes longer than the check.
    """
    try:
        worth_it = path.is_file() and 0 < path.stat().st_size < 1 << 31
    except OSError:
        return None
    return Checking(path.absolute(), str(path), limits) if worth_it else None
