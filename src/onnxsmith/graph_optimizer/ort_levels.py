"""The child's side of the optimisation levels: ONNX Runtime writes the graph that it optimised.

Nothing here imports onnx-ir, so that a child starts fast.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

from onnxsmith.errors import OutputError, RuntimeFailure
from onnxsmith.inference_engine.ort_session import SessionSettings, open_session
from onnxsmith.records import Progress, no_progress

_EXTERNAL_THRESHOLD = 1024
"""Initializers above this many bytes go to the external file, where there is one."""


def save_optimized(
    source: Path, settings: SessionSettings, name: str, *, external: bool, progress: Progress = no_progress
) -> float:
    """Opens a session on a model and lets it write its optimised graph.

    Args:
        source: The model's file.
        settings: The session's; `optimized_model_path` is the file to write.
        name: The model's name, for the errors.
        external: Whether the weights go to `<file>.data` beside it. Without that, ONNX Runtime leaves references to the
            source's external data, which hold only in the source's folder.
        progress: Not told of anything; a session cannot say how far it is.

    Returns:
        Seconds to open the session, writing included.

    Raises:
        RuntimeFailure: ONNX Runtime refuses the model.
        OutputError: The file cannot be written.
    """
    target = settings.optimized_model_path
    assert target is not None
    entries = {
        "session.optimized_model_external_initializers_file_name": f"{target.name}.data",
        "session.optimized_model_external_initializers_min_size_in_bytes": str(_EXTERNAL_THRESHOLD),
    }
    start = time.perf_counter()
    try:
        open_session(
            source,
            replace(settings, config_entries=entries if external else {}),
            what=f"{name}: ONNX Runtime cannot optimise it at {settings.level}",
        )
    except RuntimeFailure as error:
        # ONNX Runtime says only that it could not write.
        if shutil.disk_usage(target.parent).free < source.stat().st_size:
            raise OutputError(f"{target.parent.parent}: cannot be written: the disk is full.") from error
        raise
    return time.perf_counter() - start
