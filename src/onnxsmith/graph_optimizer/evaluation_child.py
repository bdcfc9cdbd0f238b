"""The child's side of evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onnxsmith.inference_engine.ort_session import SessionSettings, open_session, run_once
from onnxsmith.records import Progress


def run(path: Path, *, progress: Progress) -> list[tuple[str | None, tuple[int, ...]]]:
    """Runs a model that has no inputs, and writes each output to a file beside it, called by its number.

    Returns:
        The dtype's name and the shape of each output; None for the dtype of what is no tensor of numbers.

    Raises:
        RuntimeFailure: ONNX Runtime refuses the model, or the run fails.
    """
    session = open_session(path, SessionSettings(level="ORT_DISABLE_ALL"), "ONNX Runtime refuses it")
    answer: list[tuple[str | None, tuple[int, ...]]] = []
    for number, value in enumerate(run_once(session, {}, Path("its part of the graph")).values()):
        if not isinstance(value, np.ndarray) or value.dtype == object:
            answer.append((None, ()))
            continue
        path.with_name(str(number)).write_bytes(np.ascontiguousarray(value).tobytes())
        answer.append((value.dtype.name, value.shape))
    return answer
