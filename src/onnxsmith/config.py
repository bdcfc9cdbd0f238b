"""The configuration: `config.yaml` as frozen models.

A value comes from the first of these that has it: a flag, an environment variable (`ONNXSMITH_BENCHMARK__RUNS=50`, two
underscores between levels), the file, the default. `config_loading.load_config` puts them together.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

Level = Literal["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"]
"""ONNX Runtime's graph optimisation levels, as `onnxruntime.GraphOptimizationLevel` names them."""

LEVELS: tuple[Level, ...] = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")

Dynamic = Literal["batch", "batch_and_image", "none"]
Exporter = Literal["torchscript", "dynamo"]

OPSET_RECOMMENDED = 17


def _split(value: object) -> object:
    """Lets a list be written as `a,b` in a flag or an environment variable."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, int) else value


def _not_a_flag(value: object) -> object:
    """Keeps `yes` and `true` from counting as 1."""
    if isinstance(value, bool):
        raise ValueError("a number is needed")  # noqa: TRY004 - pydantic collects ValueErrors
    return value


def _split_passes(value: object) -> object:
    """Like `_split`, but the commas between a pass's options stay: `a{x=1,y=2},b`."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in re.split(r",(?![^{]*\})", value) if part.strip()]


Count = Annotated[int, BeforeValidator(_not_a_flag), Field(ge=1)]
Deviation = Annotated[float, Field(gt=0)]
PassNames = Annotated[tuple[str, ...], BeforeValidator(_split_passes)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
BatchSizes = Annotated[tuple[Count, ...], BeforeValidator(_split), Field(min_length=1)]


class Section(BaseModel):
    """A part of the configuration: frozen, and closed to unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False, protected_namespaces=()
    )

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_no_flags(cls, value: object, info: ValidationInfo) -> object:
        field = cls.model_fields[str(info.field_name)]
        return _not_a_flag(value) if field.annotation in (int, float) else value


class PathsConfig(Section):
    """Where results go."""

    outputs: Path = Field(Path("outputs"), description="The report and everything under it.")
    models: Path = Field(Path("outputs/models"), description="Models and charts.")
    log: Path = Field(Path("logs/onnx_optimizations.log"), description="The log file.")


class TrainingConfig(Section):
    """How the example network is trained on scikit-learn's digits."""

    epochs: int = Field(12, ge=1, description="Passes over the training split.")
    batch_size: int = Field(64, ge=2, description="Images a step.")
    learning_rate: float = Field(0.003, gt=0, description="Of the Adam optimiser.")
    test_fraction: float = Field(0.2, gt=0, lt=1, description="The held-out share of the digits.")


class PyTorchConfig(Section):
    """The PyTorch export."""

    module: str | None = Field(
        None, description="`package.module:factory` of a torch.nn.Module; null is SimpleCNN, trained on digits."
    )
    state_dict: Path | None = Field(None, description="Weights for `module`, loaded weights-only.")
    input_shapes: tuple[tuple[Count, ...], ...] = Field(
        (), description="A shape for each input of `module`, batch first; empty is SimpleCNN's (1, 1, 8, 8)."
    )
    input_dtypes: Names = Field((), description="A dtype for each input; empty is float32.")
    input_names: Names = Field(("input",), description="A name for each input.")
    output_names: Names = Field(("output",), description="A name for each output.")
    opset: int = Field(OPSET_RECOMMENDED, ge=7, description="17 is recommended; below 11 and above 20 warn.")
    exporter: Exporter = Field(
        "torchscript", description="`torchscript` traces; `dynamo` is torch.export, whose opset is 18 or newer."
    )
    dynamic: Dynamic = Field("batch", description="Which dimensions stay dynamic.")
    constant_folding: bool = Field(True, description="Fold constants; off leaves a more transparent graph.")
    verify_batch_sizes: BatchSizes = Field((1, 2, 8), description="Batches at which the outputs are compared.")


class SklearnConfig(Section):
    """The scikit-learn export."""

    estimator: str | None = Field(
        None,
        description="`package.module:factory` of a fitted estimator; null is StandardScaler + LogisticRegression.",
    )
    opset: int = Field(OPSET_RECOMMENDED, ge=7, description="The opset of the exported model.")
    samples: int = Field(1000, ge=10, description="Rows of make_classification for the example pipeline.")
    features: int = Field(20, ge=2, description="Columns of make_classification for the example pipeline.")
    zipmap: bool = Field(False, description="Probabilities as a sequence of maps instead of a tensor.")


class ExportConfig(Section):
    """Both exporters."""

    training: TrainingConfig = TrainingConfig()
    pytorch: PyTorchConfig = PyTorchConfig()
    sklearn: SklearnConfig = SklearnConfig()


class OptimizationConfig(Section):
    """The graph optimiser, and ONNX Runtime's own levels."""

    pipeline: str = Field("default", description="The named pipeline; `onnxsmith passes` lists them.")
    target: str | None = Field(None, description="Take the pipeline of this target: ort-cpu, tensorrt, qnn-htp:v75 …")
    passes: PassNames = Field((), description="Run these passes instead, in this order: name or name{option=value}.")
    skip: Names = Field((), description="Passes that do not run, by name.")
    opset: int | None = Field(None, ge=1, description="Convert the model to this opset; null: it stays at its own.")
    dims: dict[str, int | str] = Field({}, description="Fix (batch: 1) or rename (batch: n) dynamic dimensions.")
    verify: bool = Field(True, description="Compare the outputs with the original's on several kinds of input.")
    check: Literal["end", "each"] = Field(
        "end", description="When the outputs are compared: at the end, or after each pass."
    )
    max_size_ratio: float = Field(1.02, gt=0, description="The optimised file is at most this many times the original.")
    provenance: bool = Field(True, description="Each node that a pass made says so in its metadata.")
    levels: Annotated[tuple[Level, ...], BeforeValidator(_split), Field(min_length=1)] = Field(
        LEVELS, description="ONNX Runtime's levels that OptimizationPipeline saves."
    )


class InferenceConfig(Section):
    """The ONNX Runtime session."""

    providers: Annotated[Names, Field(min_length=1)] = Field(
        ("CPU",), description="Execution providers in order of preference; CPU is always added last."
    )
    optimization_level: Level = Field("ORT_ENABLE_ALL", description="The session's graph optimisation level.")
    optimized_model_path: Path | None = Field(None, description="Where the session saves its optimised graph.")
    enable_profiling: bool = Field(False, description="Write ONNX Runtime's profile of each session beside the log.")
    inter_op_threads: int = Field(0, ge=0, description="Threads between operators; 0: the runtime decides.")
    intra_op_threads: int = Field(0, ge=0, description="Threads inside an operator; 0: the runtime decides.")
    top_k: int = Field(5, ge=1, description="Classes shown for a classifier.")
    image_mean: tuple[float, float, float] = Field(
        (0.485, 0.456, 0.406), description="Subtracted from each channel of an image, scaled to 0…1; ImageNet's."
    )
    image_std: tuple[Deviation, Deviation, Deviation] = Field(
        (0.229, 0.224, 0.225), description="Each channel is divided by it after that; ImageNet's."
    )


class BenchmarkConfig(Section):
    """How latency is measured."""

    batch_sizes: BatchSizes = Field((1, 8, 32), description="Batch sizes, where the model's batch is dynamic.")
    warmup_runs: int = Field(10, ge=0, description="Runs before the clock counts.")
    runs: int = Field(100, ge=1, description="Timed runs.")


class LimitsConfig(Section):
    """Limits on each child process that handles a foreign model."""

    timeout_s: float = Field(1800.0, gt=0, description="Seconds until it is stopped.")
    memory_mb: int = Field(0, ge=0, description="MiB of private memory; 0: no limit but the machine's.")


class LoggingConfig(Section):
    """The log."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="What goes to the console.")


class Config(Section):
    """Everything that can be configured; the single source of truth."""

    model: Path | None = Field(
        None, description="An ONNX file to run the lifecycle on; null exports the examples and runs it on these."
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Of training, of sample inputs and of every split.")
    dims: dict[str, Count] = Field(
        default_factory=dict, description="Sizes for dynamic dimensions, by name: `batch: 4`."
    )
    paths: PathsConfig = PathsConfig()
    export: ExportConfig = ExportConfig()
    optimization: OptimizationConfig = OptimizationConfig()
    inference: InferenceConfig = InferenceConfig()
    benchmark: BenchmarkConfig = BenchmarkConfig()
    limits: LimitsConfig = LimitsConfig()
    logging: LoggingConfig = LoggingConfig()

    @model_validator(mode="after")
    def _matching_lengths(self) -> Config:
        pytorch = self.export.pytorch
        if pytorch.module is not None and not pytorch.input_shapes:
            raise ValueError("export.pytorch.input_shapes is needed with export.pytorch.module: a shape for each input")
        if pytorch.input_dtypes and len(pytorch.input_dtypes) != len(pytorch.input_shapes):
            raise ValueError(
                f"export.pytorch.input_dtypes has {len(pytorch.input_dtypes)} entries "
                f"and input_shapes {len(pytorch.input_shapes)}: give one for each input"
            )
        return self
