"""ONNX Runtime's four optimisation levels, each saved as a model, compared and checked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxsmith.config import Config, Level
from onnxsmith.errors import ModelError, RuntimeFailure, TensorError
from onnxsmith.graph_analysis.node_counter import NodeCounter
from onnxsmith.graph_optimizer.agreement import Agreement, compare_outputs
from onnxsmith.graph_optimizer.constant_folder import ConstantFolder
from onnxsmith.graph_optimizer.fusion_analyzer import FusionAnalyzer
from onnxsmith.graph_optimizer.interface import compare_interfaces
from onnxsmith.graph_optimizer.operators import random_operators
from onnxsmith.graph_optimizer.optimization_report import ORIGINAL, LevelResult, OptimizationReport, log_report
from onnxsmith.graph_optimizer.ort_warnings import file_warnings, plain_warnings
from onnxsmith.inference_engine.execution_providers import ExecutionProviderSelector
from onnxsmith.inference_engine.ort_inference import OrtInference, run_in_child, session_settings
from onnxsmith.inference_engine.ort_session import SessionSettings
from onnxsmith.model import Model, analyse_native, staged_folder
from onnxsmith.process import run_supervised
from onnxsmith.records import Progress, no_progress

logger = logging.getLogger(__name__)

_EMBED_LIMIT = 1 << 30
"""A model above this many bytes is written with external data, since one file cannot have more than 2 GB."""


@dataclass(frozen=True)
class _Original:
    """The model that the levels are made from, and its outputs.

    Attributes:
        model: The model.
        file: Its file, a temporary one where it has none.
        external: Whether the levels are written with external data.
        feeds: Inputs for a run; empty where none could be made.
        outputs: What the model makes of them at ORT_DISABLE_ALL, or None.
        reason: Why there are no outputs to compare with, or None.
        notes: What was taken by default.
    """

    model: Model
    file: Path
    external: bool
    feeds: Mapping[str, Any]
    outputs: Mapping[str, Any] | None
    reason: str | None
    notes: tuple[str, ...]


class OptimizationPipeline:
    """Saves a model at ONNX Runtime's optimisation levels.

    Args:
        config: `optimization`, `inference`, `limits`, `dims` and `seed` are used.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()

    def run(
        self,
        model: Model,
        folder: str | Path,
        *,
        feeds: Mapping[str, Any] | None = None,
        dims: Mapping[str, int] | None = None,
        progress: Progress = no_progress,
    ) -> OptimizationReport:
        """Saves the model at each level of the configuration, and compares and logs what the levels did.

        The files are `optimized_ORT_DISABLE_ALL.onnx` and so on. Each level is checked: its outputs are held against
        those of the model itself, unoptimised, on the same inputs. A level that fails is reported and the rest goes on.

        Args:
            model: The model.
            folder: Where the files go.
            feeds: Inputs for the check by name; what is not given is sampled.
            dims: Sizes of dynamic dimensions for the check; the saved model stays dynamic.
            progress: Told of the steps.

        Raises:
            InvalidModelError: The model is invalid.
            RuntimeFailure: Every level failed: ONNX Runtime refuses the model (it lacks a custom operator, say).
            TensorError: One of `feeds` or `dims` does not fit.
            OutputError: A file would overwrite the model itself, or cannot be written.
        """
        folder = Path(folder)
        targets = {level: folder / f"optimized_{level}.onnx" for level in self.config.optimization.levels}
        for target in targets.values():
            model.forbid_overwrite(target)
        total = len(targets) + 2
        progress("checking the model", 0, total)
        analyse_native(model, self.config.limits)
        fusion, folding = FusionAnalyzer(model), ConstantFolder(model)
        results: list[LevelResult] = []
        failures: dict[str, RuntimeFailure] = {}
        with model.on_disk() as file:
            progress("running the original", 1, total)
            original = self._prepare(model, file, feeds, dims)
            for number, (level, target) in enumerate(targets.items()):
                progress(level, number + 2, total)
                try:
                    results.append(self._save(original, target, level))
                except RuntimeFailure as error:
                    failures[level] = error
        if not results:
            raise next(iter(failures.values()))
        for failure in failures.values():
            logger.warning("%s", failure)
        progress("done", total, total)
        models = {ORIGINAL: model} | {str(result.level): Model.load(result.path) for result in results}
        report = OptimizationReport(
            model=model.name,
            reference=ORIGINAL,
            levels=tuple(results),
            failures={level: error.message for level, error in failures.items()},
            fusion_before=fusion.find_patterns(),
            folding_before=folding.analyse(),
            fusion=fusion.compare_fusion(models),
            folding=folding.compare(models),
            counts=NodeCounter().compare_counts(models),
            notes=original.notes,
        )
        log_report(report)
        return report

    def optimize(
        self,
        model: Model,
        path: str | Path,
        level: Level = "ORT_ENABLE_ALL",
        *,
        feeds: Mapping[str, Any] | None = None,
        dims: Mapping[str, int] | None = None,
        progress: Progress = no_progress,
    ) -> LevelResult:
        """Saves the model at one level, and checks its outputs.

        Args:
            model: The model.
            path: The file to write.
            level: The level.
            feeds: Inputs for the check by name; what is not given is sampled.
            dims: Sizes of dynamic dimensions for the check; the saved model stays dynamic.
            progress: Told of the steps.

        Raises:
            RuntimeFailure: ONNX Runtime refuses the model.
            TensorError: One of `feeds` or `dims` does not fit.
            OutputError: The file is the model itself, or cannot be written.
        """
        path = Path(path)
        model.forbid_overwrite(path)
        with model.on_disk() as file:
            progress("running the original", 0, 2)
            original = self._prepare(model, file, feeds, dims)
            progress(level, 1, 2)
            result = self._save(original, path, level)
        progress("done", 2, 2)
        logger.info("%s at %s: %d nodes, were %d", path, level, result.nodes_after, result.nodes_before)
        return result

    def _settings(self, level: Level, optimized_model_path: Path | None = None) -> SessionSettings:
        selection = ExecutionProviderSelector.select(self.config.inference.providers)
        return session_settings(
            self.config.inference, selection, level=level, optimized_model_path=optimized_model_path
        )

    def _prepare(
        self, model: Model, file: Path, given: Mapping[str, Any] | None, dims: Mapping[str, int] | None
    ) -> _Original:
        """Runs the model twice, unoptimised: what differs between two runs cannot be compared."""
        weights = file.with_name(f"{file.name}.data")
        size = file.stat().st_size + (weights.stat().st_size if weights.exists() else 0)
        external = bool(model.external_files) or size > _EMBED_LIMIT
        try:
            feeds, _, notes = OrtInference(model, self.config).complete_feeds(given or {}, dims)
        except TensorError as error:
            if given or dims:
                raise
            return _Original(model, file, external, {}, None, f"no inputs could be made: {error.message}", ())
        reason: str | None = None
        outputs: Mapping[str, Any] | None = None
        try:
            first, second = self._run(file, [feeds, feeds])
        except RuntimeFailure as error:
            hint = f" {error.hint}" if error.hint is not None else ""
            reason = f"the original does not run on these inputs: {error.message}{hint}"
        else:
            if compare_outputs(first, second).agree:
                outputs = first
            else:
                random = ", ".join(random_operators(model))
                reason = "two runs of the original differ" + (f": it has random operators ({random})" if random else "")
        return _Original(model, file, external, feeds, outputs, reason, notes)

    def _run(self, file: Path, feeds: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return run_in_child(file, self._settings("ORT_DISABLE_ALL"), feeds, limits=self.config.limits).outputs

    def _save(self, original: _Original, target: Path, level: Level) -> LevelResult:
        """Lets ONNX Runtime write one level to a staging folder, and looks at what it wrote before it moves on."""
        with staged_folder(target.absolute().parent) as staging:
            staged = staging / target.name
            answer = run_supervised(
                "onnxsmith.graph_optimizer.ort_levels:save_optimized",
                original.file,
                self._settings(level, staged),
                original.model.name,
                external=original.external,
                limits=self.config.limits,
                what=f"optimising {original.model.name} at {level}",
            )
            weights = staging / f"{target.name}.data"
            if weights.exists() and weights.stat().st_size == 0:
                weights.unlink()  # every initializer was small
            try:
                written = Model.load(staged)
            except ModelError as error:
                raise RuntimeFailure(
                    f"{original.model.name}: ONNX Runtime wrote a file at {level} that cannot be read: {error.message}"
                ) from error
            loads, agreement = self._check(original, staged)
            op_counts = NodeCounter(written).counts()
            differences, refined = compare_interfaces(original.model, written)
            return LevelResult(
                level=level,
                path=target,
                nodes_before=sum(1 for _ in original.model.nodes()),
                nodes_after=sum(op_counts.values()),
                op_counts=op_counts,
                size_bytes=written.size_bytes,
                seconds=answer.value,
                sha256=written.digest(),
                interface_unchanged=not differences,
                interface_differences=differences,
                interface_refined=refined,
                agreement=agreement,
                loads_again=loads,
                warnings=(*file_warnings(written), *plain_warnings(answer.log)),
            )

    def _check(self, original: _Original, staged: Path) -> tuple[bool, Agreement]:
        """Whether ONNX Runtime loads what it wrote, and whether that still computes the same."""
        compared = original.outputs is not None
        try:
            runs = self._run(staged, [original.feeds] if compared else [])
        except RuntimeFailure as error:
            failure = error.message.replace(str(staged), staged.name)
            if compared and self._loads(staged):
                return True, Agreement(agree=False, reason=f"it fails where the original runs: {failure}")
            return False, Agreement(agree=None, reason=f"ONNX Runtime cannot load what it wrote: {failure}")
        if original.outputs is None:
            return True, Agreement(agree=None, reason=original.reason)
        return True, compare_outputs(original.outputs, runs[0])

    def _loads(self, staged: Path) -> bool:
        try:
            self._run(staged, [])
        except RuntimeFailure:
            return False
        return True
