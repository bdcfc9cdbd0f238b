"""The public API: the functions that the command line, the lifecycle and users' scripts all go through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import onnx
import onnx_ir as ir

from onnxsmith.config import LEVELS, Config, Level
from onnxsmith.config_loading import override
from onnxsmith.errors import PassError
from onnxsmith.model import Checking, Model
from onnxsmith.records import Progress, no_progress

if TYPE_CHECKING:
    import torch

    from onnxsmith.graph_analysis import ModelReport, ShapeReport
    from onnxsmith.graph_optimizer import LevelResult, OptimizationReport, OptimizeReport
    from onnxsmith.graph_optimizer.bisection import BisectReport
    from onnxsmith.inference_engine.benchmark import BenchmarkReport
    from onnxsmith.inference_engine.ort_inference import InferenceResult
    from onnxsmith.inference_engine.profiler import ProfileReport
    from onnxsmith.lifecycle import LifecycleReport
    from onnxsmith.model_exporter import PyTorchExport, SklearnExport

ModelLike = Model | str | Path | onnx.ModelProto | ir.Model
"""What every function takes for a model: a file, a `Model`, or one of the libraries' own."""


def load(model: ModelLike) -> Model:
    """Loads a model; external weights stay memory-mapped. A `Model` comes back as it is.

    Args:
        model: A file, a protobuf model or an onnx-ir model.

    Raises:
        ModelFileError: The file is missing, empty, cut off, or not ONNX.
        ExternalDataError: External data is missing, too short, or outside the model's folder.
        InvalidModelError: The graph cannot be read.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, ir.Model):
        return Model(model)
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return Model.from_proto(copy)
    return Model.load(model)


def load_labelled(models: ModelLike | Sequence[ModelLike] | Mapping[str, ModelLike]) -> dict[str, Model]:
    """Loads one or more models, labelled by the names of their files; by their paths where names repeat."""
    if isinstance(models, Mapping):
        return {label: load(model) for label, model in models.items()}
    many = models if isinstance(models, Sequence) and not isinstance(models, str) else [models]
    loaded = [load(model) for model in many]
    stems = [model.path.stem if model.path is not None else model.name for model in loaded]
    labels = [stem if stems.count(stem) == 1 else model.name for stem, model in zip(stems, loaded, strict=True)]
    return dict(zip(labels, loaded, strict=True))


def inspect(
    model: ModelLike, *, chart: Path | None = None, config: Config | None = None, progress: Progress = no_progress
) -> ModelReport:
    """Validates a model and describes it; its weights are not read but for the digest.

    Args:
        model: The model.
        chart: Where to draw the operator counts (.png); None draws none.
        config: `limits` is used.
        progress: Told of the steps.

    Raises:
        InvalidModelError: The model is invalid; and whatever `load` raises.
    """
    from onnxsmith.graph_analysis import GraphInspector, NodeCounter

    loaded = load(model)
    if chart is not None:
        loaded.forbid_overwrite(Path(chart))
    report = GraphInspector(loaded, limits=(config or Config()).limits).inspect(progress)
    if chart is not None:
        NodeCounter(loaded).plot_distribution(chart)
    return report


def analyze_shapes(model: ModelLike, *, config: Config | None = None) -> ShapeReport:
    """The shapes that flow through a model, before and after shape inference.

    Raises:
        InvalidModelError: The model is invalid; and whatever `load` raises.
    """
    from onnxsmith.graph_analysis import ShapeAnalyzer

    return ShapeAnalyzer(load(model), limits=(config or Config()).limits).analyze()


@overload
def optimize(
    model: ModelLike,
    output: str | Path,
    *,
    level: None = None,
    feeds: Mapping[str, Any] | None = None,
    dims: Mapping[str, int | str] | None = None,
    dump: str | Path | None = None,
    config: Config | None = None,
    checking: Checking | None = None,
    progress: Progress = no_progress,
    **options: Any,
) -> OptimizeReport: ...


@overload
def optimize(
    model: ModelLike,
    output: str | Path,
    *,
    level: Level,
    feeds: Mapping[str, Any] | None = None,
    dims: Mapping[str, int | str] | None = None,
    config: Config | None = None,
    progress: Progress = no_progress,
) -> LevelResult: ...


def optimize(
    model: ModelLike,
    output: str | Path,
    *,
    level: Level | None = None,
    feeds: Mapping[str, Any] | None = None,
    dims: Mapping[str, int | str] | None = None,
    dump: str | Path | None = None,
    config: Config | None = None,
    checking: Checking | None = None,
    progress: Progress = no_progress,
    **options: Any,
) -> OptimizeReport | LevelResult:
    """Optimises a model's graph and saves it, its outputs compared with the original's.

    Args:
        model: The model.
        output: Where the optimised model goes; never the input itself.
        level: Let ONNX Runtime's own optimiser do it at this level, and nothing else.
        feeds: Inputs for the comparison by name; what is not given is sampled.
        dims: Fixes (`{"batch": 1}`) or renames (`{"batch": "n"}`) dynamic dimensions. With `level`, the sizes that are
            compared at; the saved model stays dynamic.
        dump: A folder for the model after each pass that changed it.
        config: `optimization`, `inference`, `limits`, `dims` and `seed` are used.
        checking: The check of the model (`onnxsmith.model.Checking`), where it was started before.
        progress: Told of the passes.
        **options: Any key of `optimization`: `target="ort-cpu"`, `passes=["fold-constants"]`, `verify=False`.

    Raises:
        InvalidModelError: The model is invalid.
        PassError: A pass, a pipeline, a target or a level is unknown, or options for our passes are given with a level.
        TensorError: A dimension is unknown, or one of `feeds` does not fit.
        RuntimeFailure: With `level`: ONNX Runtime refuses the model.
        OutputError: The output is the input, or cannot be written.
    """
    if level is not None:
        from onnxsmith.graph_optimizer import OptimizationPipeline

        if options or dump is not None:
            raise PassError(f"with level={level!r} ONNX Runtime optimises, and runs none of our passes.")
        if level not in LEVELS:
            raise PassError(f"there is no level {level!r}.", f"There are: {', '.join(LEVELS)}.")
        pipeline = OptimizationPipeline(config)
        sizes = {key: int(size) for key, size in (dims or {}).items()}
        return pipeline.optimize(load(model), output, level, feeds=feeds, dims=sizes, progress=progress)
    from onnxsmith.graph_optimizer import Optimizer

    config = override(config or Config(), _prefixed("optimization", {**options, "dims": dims}))
    return Optimizer(config).run(
        load(model), output, feeds=feeds, dump=_path(dump), checking=checking, progress=progress
    )


def bisect(
    model: ModelLike,
    output: str | Path | None = None,
    *,
    feeds: Mapping[str, Any] | None = None,
    dims: Mapping[str, int | str] | None = None,
    config: Config | None = None,
    progress: Progress = no_progress,
    **options: Any,
) -> BisectReport:
    """Finds the pass of the optimiser that breaks a model, and the smallest part of the model that shows it.

    Args:
        model: The model.
        output: Where that part goes, as a model; None does not keep it.
        feeds: Inputs to run on by name; what is not given is sampled.
        dims: Fixes or renames dynamic dimensions first.
        config: `optimization`, `inference`, `limits`, `dims` and `seed` are used.
        progress: Told of the steps.
        **options: Any key of `optimization`: `passes=["fold-constants"]`.

    Raises:
        InvalidModelError: The model is invalid.
        PassError: A pass, a pipeline or a target is unknown.
        OutputError: The part cannot be written.
    """
    from onnxsmith.graph_optimizer.bisection import bisect as find

    config = override(config or Config(), _prefixed("optimization", {**options, "dims": dims}))
    return find(load(model), config, feeds=feeds, output=_path(output), progress=progress)


def optimize_levels(
    model: ModelLike,
    folder: str | Path,
    *,
    feeds: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    config: Config | None = None,
    progress: Progress = no_progress,
) -> OptimizationReport:
    """Saves a model at each of ONNX Runtime's levels as `optimized_ORT_*.onnx`, and compares them.

    Args:
        model: The model.
        folder: Where they go.
        feeds: Inputs for the comparison by name; what is not given is sampled.
        dims: Sizes of dynamic dimensions for the comparison.
        config: `optimization`, `inference`, `limits`, `dims` and `seed` are used.
        progress: Told of the steps.

    Raises:
        RuntimeFailure: ONNX Runtime refuses the model.
        OutputError: The folder cannot be written.
    """
    from onnxsmith.graph_optimizer import OptimizationPipeline

    return OptimizationPipeline(config).run(load(model), folder, feeds=feeds, dims=dims, progress=progress)


def infer(
    model: ModelLike,
    feeds: Mapping[str, Any] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    top_k: int | None = None,
    providers: Sequence[str] | None = None,
    level: Level | None = None,
    config: Config | None = None,
    progress: Progress = no_progress,
) -> InferenceResult:
    """Runs a model once in a child process.

    Args:
        model: The model.
        feeds: Arrays by input name; what is not given is sampled by dtype and shape.
        dims: Sizes of dynamic dimensions of sampled inputs.
        top_k: Show this many classes; None shows them for image classifiers.
        providers: Execution providers in order, `["CUDA", "CPU"]`; None takes the configuration's.
        level: The graph optimisation level; None takes the configuration's.
        config: `inference`, `limits`, `dims` and `seed` are used.
        progress: Told of the steps.

    Raises:
        TensorError: An input does not fit.
        RuntimeFailure: ONNX Runtime refuses the model, or it fails, crashes or passes a limit.
    """
    from onnxsmith.inference_engine.ort_inference import OrtInference

    config = override(config or Config(), _inference(providers, level))
    return OrtInference(load(model), config).run(feeds, dims=dims, top_k=top_k, progress=progress)


def benchmark(
    models: ModelLike | Sequence[ModelLike] | Mapping[str, ModelLike],
    *,
    batch_sizes: Sequence[int] | None = None,
    runs: int | None = None,
    warmup_runs: int | None = None,
    dims: Mapping[str, int] | None = None,
    feeds: Mapping[str, Any] | None = None,
    providers: Sequence[str] | None = None,
    level: Level | None = None,
    chart: Path | None = None,
    config: Config | None = None,
    progress: Progress = no_progress,
) -> BenchmarkReport:
    """Measures latency and throughput; several models side by side, their runs taking turns.

    Args:
        models: One model, several, or several by label.
        batch_sizes: Batch sizes, where a model's batch is dynamic; None takes the configuration's.
        runs: Timed runs; None takes the configuration's.
        warmup_runs: Runs before the clock counts; None takes the configuration's.
        dims: Sizes of other dynamic dimensions.
        feeds: Values for inputs that must not be sampled.
        providers: Execution providers in order; None takes the configuration's.
        level: The graph optimisation level; None takes the configuration's.
        chart: Where to draw latency and throughput (.png); None draws none.
        config: `benchmark`, `inference`, `limits`, `dims` and `seed` are used.
        progress: Told of the runs.

    Raises:
        TensorError: An input does not fit.
        RuntimeFailure: No model could be measured.
    """
    from onnxsmith.inference_engine.benchmark import Benchmark

    changes = {"benchmark.batch_sizes": batch_sizes, "benchmark.runs": runs, "benchmark.warmup_runs": warmup_runs}
    config = override(config or Config(), {**changes, **_inference(providers, level)})
    loaded = load_labelled(models)
    if chart is not None:
        for model in loaded.values():
            model.forbid_overwrite(Path(chart))
    report = Benchmark(config).run(loaded, dims=dims, feeds=feeds, progress=progress)
    if chart is not None:
        from onnxsmith.graph_analysis.charts import latency_chart

        latency_chart(report.results, chart)
    return report


def profile(
    model: ModelLike,
    feeds: Mapping[str, Any] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    trace: Path | None = None,
    runs: int | None = None,
    providers: Sequence[str] | None = None,
    level: Level | None = None,
    config: Config | None = None,
    progress: Progress = no_progress,
) -> ProfileReport:
    """Profiles a model with ONNX Runtime's profiler: the time of each node and operator type.

    Args:
        model: The model.
        feeds: Arrays by input name; what is not given is sampled.
        dims: Sizes of dynamic dimensions of sampled inputs.
        trace: Where to keep the trace; None does not keep it.
        runs: Profiled runs; None takes `benchmark.runs`.
        providers: Execution providers in order; None takes the configuration's.
        level: The graph optimisation level; None takes the configuration's.
        config: `inference`, `benchmark`, `limits`, `dims` and `seed` are used.
        progress: Told of the runs.

    Raises:
        TensorError: An input does not fit.
        RuntimeFailure: The model does not run.
    """
    from onnxsmith.inference_engine.profiler import Profiler

    config = override(config or Config(), _inference(providers, level))
    return Profiler(load(model), config).run(feeds, dims=dims, runs=runs, trace=trace, progress=progress)


def export_pytorch(
    module: torch.nn.Module | str | None,
    output: str | Path,
    example_inputs: Any = None,
    *,
    config: Config | None = None,
    progress: Progress = no_progress,
    **options: Any,
) -> PyTorchExport:
    """Exports a PyTorch module, and compares the exported model's outputs with PyTorch's.

    Args:
        module: The module, or `package.module:factory`; None takes the configuration's, which by default is SimpleCNN,
            trained on digits.
        output: Where the model goes.
        example_inputs: A tensor, or a tuple of tensors; None makes them by `input_shapes` and `input_dtypes`.
        config: `export`, `limits` and `seed` are used.
        progress: Told of the steps.
        **options: Any key of `export.pytorch`: `opset=18`, `dynamic="none"`, `exporter="dynamo"`.

    Raises:
        ExportError: The module cannot be made, run or exported.
        MissingExtraError: PyTorch is not installed.
    """
    from onnxsmith.model_exporter import export_pytorch_module

    config = override(config or Config(), _prefixed("export.pytorch", options))
    return export_pytorch_module(module, Path(output), example_inputs, config=config, progress=progress)


def export_sklearn(
    estimator: Any,
    output: str | Path,
    *,
    sample: Any = None,
    trust_pickle: bool = False,
    config: Config | None = None,
    progress: Progress = no_progress,
    **options: Any,
) -> SklearnExport:
    """Exports a fitted scikit-learn estimator, and compares its answers with scikit-learn's own.

    Args:
        estimator: The estimator, `package.module:factory`, or a pickle's path; None takes the configuration's, which by
            default is the example pipeline.
        output: Where the model goes.
        sample: Rows to compare on; None makes them up.
        trust_pickle: Allow a pickle, which runs code when it is loaded.
        config: `export`, `limits` and `seed` are used.
        progress: Told of the steps.
        **options: Any key of `export.sklearn`: `zipmap=True`.

    Raises:
        ExportError: The estimator is not fitted, or skl2onnx cannot convert it.
        MissingExtraError: scikit-learn or skl2onnx is not installed.
    """
    from onnxsmith.model_exporter import export_sklearn_estimator

    config = override(config or Config(), _prefixed("export.sklearn", options))
    return export_sklearn_estimator(
        estimator, Path(output), sample=sample, trust_pickle=trust_pickle, config=config, progress=progress
    )


def run(config: Config | None = None, *, progress: Progress = no_progress) -> LifecycleReport:
    """Runs the whole lifecycle: export, analyse, optimise, infer, benchmark, profile, report.

    Args:
        config: The configuration; `config.model` names a model to run it on, else the examples are exported.
        progress: Told of the steps.

    Raises:
        OnnxsmithError: Whatever a stage raises.
    """
    from onnxsmith.lifecycle import run_lifecycle

    return run_lifecycle(config or Config(), progress=progress)


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _inference(providers: Sequence[str] | None, level: Level | None) -> dict[str, Any]:
    return {"inference.providers": providers, "inference.optimization_level": level}


def _prefixed(section: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{section}.{name}": value for name, value in options.items()}
