"""The child's side: an ONNX Runtime session, opened and run inside a supervised process.

Nothing here imports onnx-ir, so that a child starts fast.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime as ort

from onnxsmith.child import OUT_OF_MEMORY_SIGNS
from onnxsmith.errors import OutputError, RuntimeFailure
from onnxsmith.records import Progress, no_progress

_ELEMENT_TYPES = {"bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20}
_BY_ORT_NAME = {f"tensor({name.replace('_', '')})": name for name in _ELEMENT_TYPES}
"""Element types that NumPy lacks, with their numbers in ONNX, and as ONNX Runtime writes them."""

Rows = list[tuple[str, str, str, str]]


@dataclass(frozen=True)
class SessionSettings:
    """What a session is opened with.

    Attributes:
        level: The graph optimisation level's name.
        providers: Full provider names in order.
        inter_op_threads: Threads between operators; 0: the runtime decides.
        intra_op_threads: Threads inside an operator; 0: the runtime decides.
        optimized_model_path: Where the session writes its optimised graph, or None.
        profile_prefix: Where the session writes its profile, or None.
        config_entries: Further entries of ONNX Runtime's session configuration.
    """

    level: str = "ORT_ENABLE_ALL"
    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    inter_op_threads: int = 0
    intra_op_threads: int = 0
    optimized_model_path: Path | None = None
    profile_prefix: Path | None = None
    config_entries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunAnswer:
    """What a child brings back of a run.

    Attributes:
        outputs: A dict by output name for each set of feeds.
        placement: (node, op_type, domain, provider) for each node of the optimised graph.
        providers: The providers that the session really has.
        seconds: The time of each run.
        load_seconds: The time to open the session.
        profile: The profile's file, or None.
    """

    outputs: list[dict[str, Any]]
    placement: Rows
    providers: tuple[str, ...]
    seconds: list[float]
    load_seconds: float
    profile: Path | None


def open_session(path: Path, settings: SessionSettings, what: str | None = None) -> ort.InferenceSession:
    """Opens a session.

    Args:
        path: The model's file.
        settings: What the session is opened with.
        what: How an error begins; None says that the model cannot be loaded.

    Raises:
        RuntimeFailure: ONNX Runtime refuses the model.
    """
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, settings.level)
    options.inter_op_num_threads = settings.inter_op_threads
    options.intra_op_num_threads = settings.intra_op_threads
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in settings.config_entries.items():
        options.add_session_config_entry(key, value)
    if settings.optimized_model_path is not None:
        options.optimized_model_filepath = str(settings.optimized_model_path)
    if settings.profile_prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(settings.profile_prefix)
    try:
        return ort.InferenceSession(str(path), options, providers=list(settings.providers))
    except MemoryError:
        raise
    except Exception as error:
        raise translate_ort_error(error, what or f"{path}: ONNX Runtime cannot load it") from error


def run_session(
    path: Path, settings: SessionSettings, feeds: list[dict[str, Any]], *, progress: Progress = no_progress
) -> RunAnswer:
    """Opens a session and runs it once for each set of feeds.

    Raises:
        RuntimeFailure: ONNX Runtime refuses the model or a run fails.
    """
    start = time.perf_counter()
    session = open_session(path, settings)
    load_seconds = time.perf_counter() - start
    outputs, seconds = [], []
    for index, feed in enumerate(feeds):
        start = time.perf_counter()
        outputs.append(run_once(session, feed, path))
        seconds.append(time.perf_counter() - start)
        progress("running", index + 1, len(feeds))
    profile = Path(session.end_profiling()) if settings.profile_prefix is not None else None
    return RunAnswer(outputs, placement_rows(session), tuple(session.get_providers()), seconds, load_seconds, profile)


def run_each(
    jobs: list[tuple[Path, SessionSettings]], feed: dict[str, Any], *, progress: Progress = no_progress
) -> list[dict[str, Any]]:
    """Runs several models once each on the same feed.

    Raises:
        RuntimeFailure: ONNX Runtime refuses one of them or a run fails.
    """
    outputs = []
    for index, (path, settings) in enumerate(jobs):
        outputs.append(run_once(open_session(path, settings), feed, path))
        progress("running", index + 1, len(jobs))
    return outputs


def run_once(session: ort.InferenceSession, feed: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Runs a session, element types that NumPy lacks included.

    Raises:
        RuntimeFailure: The run fails.
    """
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(_as_numpy, make_runner(session, feed, path)()), strict=True))


def make_runner(session: ort.InferenceSession, feed: Mapping[str, Any], path: Path) -> Callable[[], list[Any]]:
    """A function that runs the session once on the feed and returns its outputs as ONNX Runtime gives them.

    Outputs of an element type that NumPy lacks stay OrtValues, and so do all the others beside them.
    """
    names = [output.name for output in session.get_outputs()]
    if any(output.type in _BY_ORT_NAME for output in session.get_outputs()):
        run = session.run_with_ort_values
        prepared = {name: _as_ort_value(value) for name, value in feed.items()}
    else:
        run = session.run
        prepared = {name: _as_ort_value(value) if _is_exotic(value) else value for name, value in feed.items()}

    def run_feed() -> list[Any]:
        try:
            return list(run(names, prepared))
        except MemoryError:
            raise
        except Exception as error:
            raise translate_ort_error(error, f"{path}: ONNX Runtime failed while it ran") from error

    return run_feed


def _is_exotic(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name in _ELEMENT_TYPES


def _as_ort_value(value: Any) -> Any:
    if _is_exotic(value):
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(value, _ELEMENT_TYPES[value.dtype.name])
    return ort.OrtValue.ortvalue_from_numpy(value) if isinstance(value, np.ndarray) else value


def _as_numpy(value: Any) -> Any:
    if not isinstance(value, ort.OrtValue):
        return value
    name = _BY_ORT_NAME.get(value.data_type())
    if name is None:
        return value.numpy()
    dtype, shape = np.dtype(getattr(ml_dtypes, name)), tuple(value.shape())
    data = ctypes.string_at(value.data_ptr(), math.prod(shape) * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(shape)


def placement_rows(session: ort.InferenceSession) -> Rows:
    """(node, op_type, domain, provider) for each node, as the session reports it."""
    return [
        (node.name, node.op_type, node.domain, subgraph.ep_name)
        for subgraph in session.get_provider_graph_assignment_info()
        for node in subgraph.get_nodes()
    ]


def translate_ort_error(error: Exception, what: str) -> Exception:
    """ONNX Runtime's exception as ours; one that means the memory ran out as MemoryError."""
    text = str(error).replace("[ONNXRuntimeError] : ", "")
    if any(sign in text for sign in OUT_OF_MEMORY_SIGNS):
        return MemoryError(text)
    reason = text.split(" : ", 2)[-1].strip()
    reason = "\n".join(reason.splitlines()[:4])
    if "No space left on device" in text or "Read-only file system" in text:
        return OutputError(f"{what}: {reason}")
    hint = None
    if "is not a registered function/op" in text or "No opset import for domain" in text:
        hint = "The model uses an operator that this build of ONNX Runtime does not have (a custom one, perhaps)."
    elif "Non-zero status code returned while running" in text or "Got invalid dimensions" in text:
        hint = "If a dimension is dynamic, ask for a size that fits (--dim NAME=SIZE), or give real inputs (--input)."
    return RuntimeFailure(f"{what}: {reason}", hint)
