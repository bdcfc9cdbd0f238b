"""The stages, one after the other: export, analyse, optimise, infer, benchmark, profile, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from onnxsmith.config import Config
from onnxsmith.config_loading import override
from onnxsmith.extras import require
from onnxsmith.graph_analysis import GraphInspector, ModelReport, NodeCounter, ShapeAnalyzer, ShapeReport, charts
from onnxsmith.graph_optimizer import OptimizationPipeline, Optimizer, OptimizeReport
from onnxsmith.graph_optimizer.pipelines import plan
from onnxsmith.inference_engine.benchmark import Benchmark, BenchmarkReport, describe_machine
from onnxsmith.inference_engine.ort_inference import OrtInference
from onnxsmith.inference_engine.profiler import Profiler, ProfileReport
from onnxsmith.lifecycle.accuracy import compare_accuracy, example_answer
from onnxsmith.lifecycle.html_report import write_report
from onnxsmith.lifecycle.records import OWN, LifecycleReport, StageTime, SubjectReport
from onnxsmith.lifecycle.subjects import OWN_FILE, Subject, make_subjects
from onnxsmith.model import Model, analyse_native
from onnxsmith.records import Progress, no_progress

logger = logging.getLogger(__name__)


@dataclass
class _Clock:
    """How long each stage took, in the order in which they first began."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def run_lifecycle(config: Config, *, progress: Progress = no_progress) -> LifecycleReport:
    """Runs the lifecycle on the model that `config.model` names, or on the exported examples.

    Args:
        config: Everything.
        progress: Told of the steps.

    Returns:
        The report; the same is written as HTML to `paths.outputs/report.html`, and the models and charts to
        `paths.models`.

    Raises:
        MissingExtraError: Something that it needs is not installed; said before anything runs.
        PassError: A pass, a pipeline or a target is unknown; likewise.
        OnnxsmithError: Whatever a stage raises.
    """
    _require_extras(config)
    plan(config.optimization)
    started, clock = datetime.now().astimezone(), _Clock()
    start = time.perf_counter()
    with clock.stage("export"):
        subjects = make_subjects(config, progress)
    reports = tuple(_run_subject(subject, config, clock, progress) for subject in subjects)
    path = config.paths.outputs / "report.html"
    report = LifecycleReport(
        started=started.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - start,
        stages=tuple(StageTime(stage=name, seconds=seconds) for name, seconds in clock.seconds.items()),
        machine=describe_machine(),
        subjects=reports,
        report=path,
        log=config.paths.log,
    )
    write_report(report, config, path)
    logger.info("The report is %s.", path)
    return report


def _require_extras(config: Config) -> None:
    require("matplotlib", purpose="to draw the run's charts")
    require("jinja2", purpose="to write the run's report")
    if config.model is None:
        require("torch", purpose="to export the PyTorch example")
        require("sklearn", purpose="for the digits and the scikit-learn example")
        require("skl2onnx", purpose="to export the scikit-learn example")


def _run_subject(subject: Subject, config: Config, clock: _Clock, progress: Progress) -> SubjectReport:
    model, label = subject.model, subject.label

    def tell(step: str, done: int, total: int) -> None:
        progress(f"{label}: {step}", done, total)

    logger.info("%s: %s", label, subject.title)
    with clock.stage("analyse"):
        tell("analysing", 0, 1)
        inspection, shapes = _analyse(model, config, tell)
    with clock.stage("optimise"):
        optimization = OptimizationPipeline(config).run(model, subject.folder, progress=tell)
        optimized = Optimizer(config).run(model, subject.folder / OWN_FILE, progress=tell)
        _log_optimized(label, optimized)
    with clock.stage("infer"):
        tell("inferring", 0, 1)
        files = {str(result.level): result.path for result in optimization.levels} | {OWN: optimized.output}
        accuracy = example = None
        feeds = {}
        if subject.held_out is not None:
            fitting = {name: path for name, path in files.items() if Model.load(path).inputs == model.inputs}
            accuracy, exported = compare_accuracy(model, fitting, subject.held_out, config)
            example = example_answer(subject.held_out, exported, config.inference.top_k)
            feeds = {model.inputs[0].name: subject.held_out.samples[:1]}
            for row in accuracy.rows:
                logger.info(
                    "%s: accuracy of %s on %d held-out samples: %.4f, %d answered as %s does",
                    label, row.label, accuracy.samples, row.accuracy, row.same, accuracy.framework,
                )  # fmt: skip
        inference = OrtInference(model, config).run(feeds, progress=tell).report
    with clock.stage("benchmark"):
        benchmark = Benchmark(config).run({label: model}, progress=tell)
        level_benchmark = _benchmark_files(files, config, tell)
    with clock.stage("profile"):
        profile = Profiler(model, config).run(trace=subject.folder / f"{label}_profile.json", progress=tell)
        _log_profile(label, profile)
    with clock.stage("report"):
        tell("drawing", 0, 1)
        drawn = _draw(subject, files, benchmark, level_benchmark, profile)
    warnings = [
        *(subject.export.warnings if subject.export is not None else ()),
        *inspection.warnings,
        *(f"{result.level}: {warning}" for result in optimization.levels for warning in result.warnings),
        *(f"{level}: {reason}" for level, reason in optimization.failures.items()),
        *(f"{OWN}: {gone.name} is rolled back: {gone.reason}" for gone in optimized.rolled_back),
        *(f"{left.provider} is left out: {left.reason}" for left in inference.selection.left_out),
        *inference.notes,
        *benchmark.notes,
    ]
    return SubjectReport(
        label=label,
        title=subject.title,
        folder=subject.folder,
        export=subject.export,
        training=subject.training,
        inspection=inspection,
        shapes=shapes,
        optimization=optimization,
        optimized=optimized,
        inference=inference,
        example=example,
        accuracy=accuracy,
        benchmark=benchmark.results,
        level_benchmark=level_benchmark.results,
        profile=profile,
        charts=drawn,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _analyse(model: Model, config: Config, progress: Progress) -> tuple[ModelReport, ShapeReport]:
    analysis = analyse_native(model, config.limits)
    inspection = GraphInspector(model, limits=config.limits, analysis=analysis).inspect(progress)
    shapes = ShapeAnalyzer(model, limits=config.limits, analysis=analysis).analyze()
    logger.info(
        "%s: opset %s, %d nodes, %s parameters", model.name, inspection.opsets, inspection.node_count,
        f"{inspection.totals.parameters:,}",
    )  # fmt: skip
    for line in shapes.lines:
        logger.debug("%s", line)
    for warning in inspection.warnings:
        logger.warning("%s: %s", model.name, warning)
    return inspection, shapes


def _log_optimized(label: str, report: OptimizeReport) -> None:
    logger.info(
        "%s: our own passes (%s): %d nodes, were %d; %.2f s",
        label, report.pipeline, report.nodes_after, report.nodes_before, report.seconds,
    )  # fmt: skip
    for total in report.passes:
        if total.changes:
            logger.info(
                "%s: %s: %d changes, %+d nodes, %+d bytes, %.3f s",
                label, total.name, total.changes, -total.nodes_removed, -total.bytes_removed, total.seconds,
            )  # fmt: skip
    verification = report.verification
    if verification.agree is None:
        logger.info("%s: its outputs are not compared: %s", label, verification.reason)
    else:
        kinds = ", ".join(check.kind for check in verification.checks)
        logger.info("%s: its outputs %s on %s inputs", label, "agree" if verification.agree else "differ", kinds)


def _benchmark_files(files: dict[str, Path], config: Config, progress: Progress) -> BenchmarkReport:
    """Each optimised file as it is: the session itself optimises nothing."""
    changes = {
        "inference.optimization_level": "ORT_DISABLE_ALL",
        "benchmark.batch_sizes": [config.benchmark.batch_sizes[0]],
    }
    models = {name: Model.load(path) for name, path in files.items()}
    return Benchmark(override(config, changes)).run(models, progress=progress)


def _log_profile(label: str, profile: ProfileReport) -> None:
    for row in profile.slowest_nodes:
        logger.info(
            "%s: slow node %s (%s): %.1f µs a run, %.1f %%", label, row.name, row.op_type, row.mean_us, row.share * 100
        )


def _draw(
    subject: Subject,
    files: dict[str, Path],
    benchmark: BenchmarkReport,
    level_benchmark: BenchmarkReport,
    profile: ProfileReport,
) -> dict[str, Path]:
    """Draws the charts beside the models, each named for the model and what it shows."""
    folder, label = subject.folder, subject.label
    optimized = {name: Model.load(path) for name, path in files.items()}
    paths = {name: folder / f"{label}_{name}.png" for name in ("operators", "levels", "latency", "slowest")}
    NodeCounter(subject.model).plot_distribution(paths["operators"])
    NodeCounter(subject.model).compare_counts({"original": subject.model, **optimized}, paths["levels"])
    charts.latency_chart(benchmark.results, paths["latency"])
    charts.operator_chart([(row.name, row.mean_us, row.share) for row in profile.slowest_nodes], paths["slowest"])
    if level_benchmark.results:
        paths["level_latency"] = folder / f"{label}_level_latency.png"
        charts.bar_chart(
            {result.model: result.p50_latency_ms for result in level_benchmark.results},
            paths["level_latency"],
            f"Latency of each optimised file, batch {level_benchmark.results[0].batch_size}",
            "p50 latency, ms",
        )
    if subject.training:
        paths["training"] = folder / f"{label}_training.png"
        rows = [row.model_dump() for row in subject.training]
        charts.training_chart(rows, paths["training"])
    return paths
