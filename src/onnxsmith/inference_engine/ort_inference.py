"""Inference: any model, its inputs given or sampled, in a supervised child process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onnxsmith.config import Config, InferenceConfig, Level, LimitsConfig
from onnxsmith.errors import OutputError, RuntimeFailure, TensorError
from onnxsmith.inference_engine.classification import ClassScore, top_classes
from onnxsmith.inference_engine.execution_providers import (
    ExecutionProviderSelector,
    Placement,
    ProviderSelection,
    build_placement,
)
from onnxsmith.inference_engine.ort_session import RunAnswer, SessionSettings
from onnxsmith.model import Model, TensorSpec, check_feeds, resolve_dims, sample_inputs, staged_folder
from onnxsmith.model.dims import dim_key
from onnxsmith.process import run_supervised
from onnxsmith.records import Progress, Record, no_progress

logger = logging.getLogger(__name__)

_CHILD = "onnxsmith.inference_engine.ort_session"


class TensorSummary(Record):
    """One value of a run.

    Attributes:
        name: Its name.
        dtype: Its dtype, or what it is made of.
        shape: Its shape; the lengths of a sequence's elements are not shown.
        minimum: The smallest finite number, or None.
        maximum: The largest finite number, or None.
        mean: The mean of the finite numbers, or None.
        not_finite: How many are NaN or infinite.
        sampled: True for an input that was made up.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    not_finite: int = 0
    sampled: bool = False


class InferenceReport(Record):
    """What is known of a run beside its outputs.

    Attributes:
        model: The model's path.
        optimization_level: The session's level.
        providers: The providers that the session had, in order.
        selection: What was chosen and what was left out.
        placement: Where each node ran.
        inputs: The inputs.
        outputs: The outputs.
        top_classes: For each row of a classifier's first output, its most probable classes; empty for other models.
        load_ms: Time to open the session in milliseconds.
        run_ms: Time of the run in milliseconds; a first run, so no measure of speed.
        optimized_model: Where the optimised graph was written, or None.
        profile: Where the profile was written, or None.
        notes: Dimensions that were taken by default, and the like.
    """

    model: str
    optimization_level: Level
    providers: tuple[str, ...]
    selection: ProviderSelection
    placement: Placement
    inputs: tuple[TensorSummary, ...]
    outputs: tuple[TensorSummary, ...]
    top_classes: tuple[tuple[ClassScore, ...], ...]
    load_ms: float
    run_ms: float
    optimized_model: Path | None
    profile: Path | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class InferenceResult:
    """A run.

    Attributes:
        outputs: NumPy arrays by output name; lists for sequences, dicts for maps.
        report: Everything else.
    """

    outputs: dict[str, Any]
    report: InferenceReport


def run_model(
    path: Path,
    feeds: Sequence[Mapping[str, Any]],
    *,
    level: Level = "ORT_ENABLE_ALL",
    limits: LimitsConfig | None = None,
    progress: Progress = no_progress,
) -> list[dict[str, Any]]:
    """Runs a model on the CPU in a child process.

    Args:
        path: The model's file.
        feeds: The inputs of each run.
        level: The session's graph optimisation level.
        limits: Time and memory.
        progress: Told after each run.

    Returns:
        The outputs of each run by name.

    Raises:
        RuntimeFailure: ONNX Runtime refuses the model, or it fails, crashes, or passes a limit.
    """
    answer = run_in_child(path, SessionSettings(level=level), feeds, limits=limits or LimitsConfig(), progress=progress)
    return answer.outputs


def run_models(
    models: Sequence[tuple[Path, Level]], feed: Mapping[str, Any], *, limits: LimitsConfig | None = None
) -> list[dict[str, Any]]:
    """Runs several models once each on the CPU, on the same feed, in one child process.

    Args:
        models: The file of each, and its session's graph optimisation level.
        feed: The inputs, which fit all of them.
        limits: Time and memory.

    Returns:
        The outputs of each by name.

    Raises:
        RuntimeFailure: ONNX Runtime refuses one of them, or one fails, crashes, or passes a limit.
    """
    outputs: list[dict[str, Any]] = run_supervised(
        f"{_CHILD}:run_each",
        [(Path(path).absolute(), SessionSettings(level=level)) for path, level in models],
        dict(feed),
        limits=limits or LimitsConfig(),
        what=f"running {', '.join(str(path) for path, _ in models)}",
    ).value
    return outputs


def run_in_child(
    path: Path,
    settings: SessionSettings,
    feeds: Sequence[Mapping[str, Any]],
    *,
    limits: LimitsConfig,
    progress: Progress = no_progress,
) -> RunAnswer:
    """Opens a session in a child process and runs it once for each set of feeds."""
    answer: RunAnswer = run_supervised(
        f"{_CHILD}:run_session",
        Path(path).absolute(),
        settings,
        [dict(feed) for feed in feeds],
        limits=limits,
        what=f"running {path}",
        progress=progress,
    ).value
    return answer


def session_settings(config: InferenceConfig, selection: ProviderSelection, **changes: Any) -> SessionSettings:
    """The session's settings of the configuration."""
    return SessionSettings(
        **{
            "level": config.optimization_level,
            "providers": selection.providers,
            "inter_op_threads": config.inter_op_threads,
            "intra_op_threads": config.intra_op_threads,
            **changes,
        }
    )


class OrtInference:
    """Runs one model by the configuration.

    Args:
        model: The model.
        config: `inference`, `limits`, `dims` and `seed` are used.
    """

    def __init__(self, model: Model, config: Config | None = None) -> None:
        self.model = model
        self.config = config or Config()

    def run(
        self,
        feeds: Mapping[str, Any] | None = None,
        *,
        dims: Mapping[str, int] | None = None,
        top_k: int | None = None,
        profile_folder: Path | None = None,
        progress: Progress = no_progress,
    ) -> InferenceResult:
        """Runs the model once.

        Args:
            feeds: Values by input name; what is not given is sampled (`sample_inputs`).
            dims: Sizes for dynamic dimensions of sampled inputs.
            top_k: Show this many classes of the first output; None shows them where an image went in and
                [batch, classes] came out.
            profile_folder: Where the profile goes when `inference.enable_profiling` is on.
            progress: Told of the steps.

        Raises:
            TensorError: An input does not fit.
            RuntimeFailure: ONNX Runtime refuses the model, or it fails.
            OutputError: The optimised model cannot be written.
        """
        inference, model = self.config.inference, self.model
        feeds, sampled, notes = self.complete_feeds(feeds or {}, dims)
        selection = ExecutionProviderSelector.select(inference.providers)
        target = inference.optimized_model_path
        if target is not None:
            model.forbid_overwrite(target)
        profile_folder = profile_folder or self.config.paths.log.parent
        with ExitStack() as stack:
            path = stack.enter_context(model.on_disk())
            staged = None
            if target is not None:
                staged = stack.enter_context(staged_folder(target.absolute().parent)) / target.name
            settings = session_settings(
                inference,
                selection,
                optimized_model_path=staged,
                profile_prefix=_profile_prefix(profile_folder, model) if inference.enable_profiling else None,
            )
            try:
                answer = run_in_child(path, settings, [feeds], limits=self.config.limits, progress=progress)
            except RuntimeFailure as error:
                error.hint = "\n".join(filter(None, (error.hint, *notes))) or None
                raise
        outputs = answer.outputs[0]
        report = InferenceReport(
            model=model.name,
            optimization_level=inference.optimization_level,
            providers=answer.providers,
            selection=selection,
            placement=build_placement(answer.placement, answer.providers),
            inputs=tuple(summarise(name, value, sampled=name in sampled) for name, value in feeds.items()),
            outputs=tuple(summarise(name, value) for name, value in outputs.items()),
            top_classes=self._classes(feeds, outputs, top_k),
            load_ms=answer.load_seconds * 1000,
            run_ms=answer.seconds[0] * 1000,
            optimized_model=target,
            profile=answer.profile,
            notes=notes,
        )
        return InferenceResult(outputs, report)

    def complete_feeds(
        self, given: Mapping[str, Any], dims: Mapping[str, int] | None
    ) -> tuple[dict[str, Any], frozenset[str], tuple[str, ...]]:
        """The feeds for a run: the given ones, and samples for the rest, of sizes that agree with the given ones.

        Raises:
            TensorError: An input does not fit, or a size contradicts one.

        Returns:
            The feeds, the names of those that were sampled, and notes on what was taken by default.
        """
        specs = self.model.inputs
        decided, asked = _sizes_of(given, specs), dims or {}
        resolved = resolve_dims(specs, {**decided, **asked}, self.config.dims)
        for key, size in decided.items():
            if resolved.sizes[key] != size:
                wanted = resolved.sizes[key]
                raise TensorError(
                    f"dimension '{key}' is asked to be {wanted}, and is {size} in the inputs that are given."
                )
        missing = frozenset(spec.name for spec in specs if spec.name not in given)
        samples = sample_inputs(self.model, resolved, self.config.seed, only=missing)
        feeds = check_feeds(specs, {**samples, **given})
        defaults = resolved.describe_defaults()
        return feeds, missing, (defaults,) if defaults is not None and missing else ()

    def _classes(
        self, feeds: Mapping[str, Any], outputs: Mapping[str, Any], top_k: int | None
    ) -> tuple[tuple[ClassScore, ...], ...]:
        first = next(iter(outputs.values()), None)
        if not (isinstance(first, np.ndarray) and first.ndim == 2 and first.shape[1] > 1 and first.dtype.kind in "fV"):
            return ()
        image = any(isinstance(value, np.ndarray) and value.ndim == 4 for value in feeds.values())
        if top_k is None and not image:
            return ()
        return top_classes(first.astype(np.float32), top_k or self.config.inference.top_k)


def _sizes_of(feeds: Mapping[str, Any], specs: Sequence[TensorSpec]) -> dict[str, int]:
    """The sizes of the dynamic dimensions that the given feeds already decide."""
    sizes: dict[str, int] = {}
    for spec in specs:
        shape = _shape_of(feeds[spec.name]) if spec.name in feeds and spec.kind == "tensor" else None
        if shape is not None and spec.shape is not None and len(shape) == len(spec.shape):
            for axis, dim in spec.dynamic_dims:
                if shape[axis] > 0:
                    sizes.setdefault(dim_key(spec, axis, dim), shape[axis])
    return sizes


def _shape_of(value: Any) -> tuple[int, ...] | None:
    try:
        return tuple(np.shape(value))
    except ValueError:  # a ragged list, which the check of the feeds refuses
        return None


def _profile_prefix(folder: Path, model: Model) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made for the profile: {error.strerror}.") from None
    return (folder / f"profile_{model.path.stem if model.path is not None else 'model'}").absolute()


def summarise(name: str, value: Any, *, sampled: bool = False) -> TensorSummary:
    """The summary of an input or output."""
    if isinstance(value, list):
        inner = f"{type(value[0]).__name__}" if value else "nothing"
        return TensorSummary(name=name, dtype=f"sequence of {inner}", shape=(len(value),), sampled=sampled)
    if not isinstance(value, np.ndarray):
        return TensorSummary(name=name, dtype=type(value).__name__, shape=(), sampled=sampled)
    dtype = "string" if value.dtype.kind in "OUS" else value.dtype.name
    statistics: dict[str, Any] = {}
    if value.size and dtype != "string" and value.dtype.kind != "c":
        numbers = value.astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        statistics["not_finite"] = int(numbers.size - finite.size)
        if finite.size:
            statistics |= {"minimum": float(finite.min()), "maximum": float(finite.max()), "mean": float(finite.mean())}
    return TensorSummary(name=name, dtype=dtype, shape=value.shape, sampled=sampled, **statistics)
