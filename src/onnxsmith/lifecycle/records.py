"""What the lifecycle reports."""

from __future__ import annotations

from pathlib import Path

from onnxsmith.graph_analysis import ModelReport, ShapeReport
from onnxsmith.graph_optimizer import OptimizationReport, OptimizeReport
from onnxsmith.inference_engine.benchmark import BenchmarkResult, Machine
from onnxsmith.inference_engine.classification import ClassScore
from onnxsmith.inference_engine.ort_inference import InferenceReport
from onnxsmith.inference_engine.profiler import ProfileReport
from onnxsmith.model_exporter import PyTorchExport, SklearnExport
from onnxsmith.model_exporter.training import EpochResult
from onnxsmith.records import Record

OWN = "onnxsmith"
"""The label of what our own optimiser made, beside the levels of ONNX Runtime."""


class AccuracyRow(Record):
    """How one model answers the held-out samples.

    Attributes:
        label: The framework, or the file's name.
        accuracy: The share of samples that it gets right, between 0 and 1.
        same: Samples that it answers as the framework does.
        max_probability_error: The largest difference between its probabilities and the framework's.
    """

    label: str
    accuracy: float
    same: int
    max_probability_error: float


class Accuracy(Record):
    """The framework, the exported model, every level and our own optimiser's on the same held-out samples.

    Attributes:
        framework: "PyTorch" or "scikit-learn".
        samples: How many there are.
        rows: The framework first, then the exported model, its levels, and what our own optimiser made of it.
    """

    framework: str
    samples: int
    rows: tuple[AccuracyRow, ...]

    @property
    def all_same(self) -> bool:
        """Whether every model answers every sample as the framework does."""
        return all(row.same == self.samples for row in self.rows)


class ExampleAnswer(Record):
    """One real sample, answered by the framework and by ONNX Runtime.

    Attributes:
        sample: Its index among the held-out samples.
        label: Its true class.
        image: Its pixels, rows of numbers between 0 and 1; None for a sample that is no image.
        framework: The framework's most probable classes.
        onnx: ONNX Runtime's.
    """

    sample: int
    label: int
    image: tuple[tuple[float, ...], ...] | None
    framework: tuple[ClassScore, ...]
    onnx: tuple[ClassScore, ...]


class SubjectReport(Record):
    """One model's way through the lifecycle.

    Attributes:
        label: The model's label: its file's name without the suffix.
        title: What it is, in words.
        folder: Where its optimised models are.
        export: How it was exported, or None for a model that was given.
        training: A row an epoch, for SimpleCNN.
        inspection: What is in it.
        shapes: The shapes that flow through it.
        optimization: The levels.
        optimized: What our own optimiser made of it.
        inference: A run.
        example: A real sample, beside the framework's answer; None where there is none.
        accuracy: The held-out samples; None where there are none.
        benchmark: Latency by batch size of a session at the configured level.
        level_benchmark: Latency of each level's file and of our own optimiser's as it is (optimisation off in the
            session), side by side, at the first batch size.
        profile: Where the time goes.
        charts: The charts by name.
        warnings: What a user should know.
    """

    label: str
    title: str
    folder: Path
    export: PyTorchExport | SklearnExport | None
    training: tuple[EpochResult, ...]
    inspection: ModelReport
    shapes: ShapeReport
    optimization: OptimizationReport
    optimized: OptimizeReport
    inference: InferenceReport
    example: ExampleAnswer | None
    accuracy: Accuracy | None
    benchmark: tuple[BenchmarkResult, ...]
    level_benchmark: tuple[BenchmarkResult, ...]
    profile: ProfileReport
    charts: dict[str, Path]
    warnings: tuple[str, ...]

    @property
    def same_answers(self) -> bool:
        """Whether every optimised model answers as the original does, as far as that can be compared."""
        agreements = [result.agreement.agree for result in self.optimization.levels]
        agree = False not in [*agreements, self.optimized.verification.agree]
        return agree and (self.accuracy is None or self.accuracy.all_same)


class StageTime(Record):
    """How long a stage took.

    Attributes:
        stage: Its name.
        seconds: Its time.
    """

    stage: str
    seconds: float


class LifecycleReport(Record):
    """A run of the lifecycle.

    Attributes:
        started: When it began, local time, ISO 8601.
        seconds: How long it took.
        stages: How long each stage took.
        machine: Where it ran.
        subjects: A report a model.
        report: The HTML report.
        log: The log file.
    """

    started: str
    seconds: float
    stages: tuple[StageTime, ...]
    machine: Machine
    subjects: tuple[SubjectReport, ...]
    report: Path
    log: Path
