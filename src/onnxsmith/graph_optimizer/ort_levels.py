"""The child's side of the optimisation levels: ONNX Runtime writes the graph that it optimised.

Nothing here imports onnx-ir, so that a child starts fast.
"""

from __future__ import annotations

import time
from pathlib import Path

import onnxruntime as ort

from onnxsmith.inference_engine.ort_session import SessionSettings, translate_ort_error
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
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, settings.level)
    options.inter_op_num_threads = settings.inter_op_threads
    options.intra_op_num_threads = settings.intra_op_threads
    options.optimized_model_filepath = str(target)
    if external:
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", f"{target.name}.data"
        )
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_min_size_in_bytes", str(_EXTERNAL_THRESHOLD)
        )
    start = time.perf_counter()
    try:
        ort.InferenceSession(str(source), options, providers=list(settings.providers))
    except MemoryError:
        raise
    except Exception as error:
        raise translate_ort_error(error, f"{name}: ONNX Runtime cannot optimise it at {settings.level}") from error
    return time.perf_counter() - start
