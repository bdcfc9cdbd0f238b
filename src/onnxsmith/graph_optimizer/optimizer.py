"""The graph optimiser: passes over a model, checked, saved, and reported."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnxsmith.config import Config
from onnxsmith.graph_analysis.node_counter import NodeCounter
from onnxsmith.graph_optimizer.editor import PROVENANCE
from onnxsmith.graph_optimizer.examiner import Candidate, Examiner
from onnxsmith.graph_optimizer.optimize_report import OptimizeReport, total_passes
from onnxsmith.graph_optimizer.pass_pipeline import PipelineResult, Rollback
from onnxsmith.graph_optimizer.pipelines import passes_of
from onnxsmith.model import Checking, Model, staged_folder, start_check
from onnxsmith.records import Progress, no_progress

logger = logging.getLogger(__name__)


class Optimizer:
    """Optimises a model's graph.

    Args:
        config: `optimization`, `inference`, `limits`, `dims` and `seed` are used.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()

    def run(
        self,
        model: Model,
        path: str | Path,
        *,
        feeds: Mapping[str, Any] | None = None,
        dump: Path | None = None,
        checking: Checking | None = None,
        progress: Progress = no_progress,
    ) -> OptimizeReport:
        """Optimises a model and saves it.

        The result has the same interface; it is checked, and its outputs are compared with those of the model in ONNX
        Runtime without optimisation. A pass that breaks something is taken out and named, and the others go on. A model
        that cannot be made better is saved as it is.

        Args:
            model: The model; it stays as it is.
            path: Where the optimised model goes; never the model itself.
            feeds: Inputs for the comparison by name; what is not given is sampled.
            dump: A folder for the model after each pass.
            checking: The check of the model, where it was started before.
            progress: Told of the passes.

        Raises:
            InvalidModelError: The model is invalid.
            PassError: A pass or a pipeline is unknown.
            TensorError: A dimension is unknown, or one of `feeds` does not fit.
            OutputError: The output is the model, or cannot be written.
        """
        return _Run(self.config, model, Path(path), feeds=feeds or {}, dump=dump, progress=progress).run(checking)


class _Run:
    def __init__(
        self,
        config: Config,
        model: Model,
        path: Path,
        *,
        feeds: Mapping[str, Any],
        dump: Path | None,
        progress: Progress,
    ) -> None:
        self.options = config.optimization
        self.config = config
        self.model = model
        self.path = path
        self.progress = progress
        self.examiner = Examiner(config, model, feeds, verify=self.options.verify, dump=dump, progress=progress)

    def run(self, checking: Checking | None) -> OptimizeReport:
        start = time.perf_counter()
        self.model.forbid_overwrite(self.path)
        # ONNX's checker is native code, and has its own process; neither the passes nor the file need wait for it.
        checking = checking or start_check(self.model, self.config.limits)
        try:
            candidate, rolled_back = self._optimise()
        except Exception:
            checking.result()
            raise
        result = candidate.result
        unchanged = None
        if candidate.fault is not None:
            unchanged = candidate.fault
            result = replace(result, model=self.model, steps=())
        elif not result.steps:
            gone = result.rolled_back or rolled_back
            unchanged = f"no pass found anything to do{', but for those that are rolled back' if gone else ''}"
        after, size, note = self._save(result, checking)
        unchanged = note or unchanged
        names = [step.name for step in passes_of(self.examiner.stages)]
        counts_before, counts_after = NodeCounter(self.model).counts(), NodeCounter(after).counts()
        return OptimizeReport(
            model=self.model.name,
            output=self.path,
            pipeline=self.examiner.name,
            opset_before=self.model.opset,
            opset_after=after.opset,
            nodes_before=_without_constants(counts_before),
            nodes_after=_without_constants(counts_after),
            op_counts_before=counts_before,
            op_counts_after=counts_after,
            size_before=self.model.size_bytes,
            size_after=size,
            passes=total_passes(names, result.steps, result.seconds),
            steps=result.steps,
            rolled_back=(*result.rolled_back, *rolled_back),
            notes=result.notes,
            interface_refined=candidate.refined,
            verification=candidate.verification,
            unchanged=unchanged,
            seconds=time.perf_counter() - start,
        )

    def _optimise(self) -> tuple[Candidate, tuple[Rollback, ...]]:
        """Runs the passes until the checks find nothing wrong, each time without the one that was to blame."""
        skip = frozenset(self.options.skip)
        gone: list[Rollback] = []
        while True:
            candidate = self.examiner.examine(self.examiner.run(skip))
            if candidate.fault is None or not candidate.result.steps:
                return candidate, tuple(gone)
            logger.info("looking for the pass to blame: %s", candidate.fault)
            blamed = self.examiner.blame(candidate.result, skip)
            logger.warning("%s is rolled back: %s", blamed.name, blamed.reason)
            gone.append(blamed)
            skip |= {blamed.name}

    def _save(self, result: PipelineResult, checking: Checking) -> tuple[Model, int, str | None]:
        """Saves the result; where the file is over its limit, without notes and shapes, and then as it was.

        Returns:
            What was saved, its bytes, and why it is the model as it was.
        """
        with staged_folder(self.path.absolute().parent) as staging:
            staged = staging / self.path.name
            saved, note = self._save_within_limit(result, staged)
            checking.result()
            return saved, _size_of(staged), note

    def _save_within_limit(self, result: PipelineResult, staged: Path) -> tuple[Model, str | None]:
        limit = int(self.model.size_bytes * max(1.0, self.options.max_size_ratio))
        model = result.model
        if not result.steps:
            return self._save_as_it_is(staged), None
        _forget_initializers(model)
        if not self.options.provenance:
            _strip(model)
        if _size_of(model.save(staged)) <= limit:
            return model, None
        _strip(model)
        _forget_shapes(model, self.model)
        if (size := _size_of(model.save(staged))) <= limit:
            return model, None
        return self._save_as_it_is(staged), f"the optimised file has {size:,} bytes, and {limit:,} are allowed"

    def _save_as_it_is(self, staged: Path) -> Model:
        """Saves the model byte for byte, where it is one file."""
        if self.model.path is None or self.model.external_files:
            self.model.save(staged)
        else:
            shutil.copyfile(self.model.path, staged)
        return self.model


def _forget_initializers(model: Model) -> None:
    """Takes the declared types off initializers, whose tensors say the same; they would be written again."""
    for _, graph in model.graphs():
        for value in graph.initializers.values():
            if not value.is_graph_input():
                value.type = value.shape = None


def _strip(model: Model) -> None:
    for node in model.nodes():
        node.metadata_props.pop(PROVENANCE, None)


def _forget_shapes(model: Model, original: Model) -> None:
    """Takes out the shapes of what is computed, and the dtypes too where the original did not declare them."""
    declared = {value.name for node in original.nodes() for value in node.outputs if value.type is not None}
    for node in model.nodes():
        for value in node.outputs:
            if not value.is_graph_output():
                value.shape = None
                value.type = value.type if value.name in declared else None


def _without_constants(counts: Mapping[str, int]) -> int:
    return sum(counts.values()) - counts.get("Constant", 0)


def _size_of(path: Path) -> int:
    """Bytes of a model's file and of its external data."""
    return sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}.data")) if file.exists())
