"""The named pipelines: which passes, in which order, for whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from onnxsmith.config import OptimizationConfig
from onnxsmith.errors import PassError
from onnxsmith.graph_optimizer.pass_pipeline import Stage
from onnxsmith.graph_optimizer.passes.base import Pass
from onnxsmith.graph_optimizer.passes.table import load_pass, make_pass, parse_pass
from onnxsmith.records import did_you_mean

DEFAULT = "default"

_ALGEBRA = (
    "fold-constants",
    "evaluate-shapes",
    "fold-control-flow",
    "decide-branches",
    "eliminate-noops",
    "simplify-casts",
    "simplify-reshapes",
    "simplify-transposes",
    "simplify-slices",
    "simplify-concats",
    "fuse-pads",
    "simplify-qdq",
    "eliminate-duplicates",
    "eliminate-dead-code",
)
WEIGHTS = ("fold-pad", "fold-batch-norm", "fold-affine", "fuse-matmul-add")
RECOGNITION = (
    "recognize-layer-norm",
    "recognize-rms-norm",
    "recognize-gelu",
    "recognize-activations",
    "recognize-rotary",
    "recognize-attention",
)
Options = Mapping[str, Mapping[str, Any]]
_CLEANING = ("fold-constants", "eliminate-noops", "simplify-reshapes", "eliminate-duplicates", "eliminate-dead-code")


@dataclass(frozen=True)
class NamedPipeline:
    """A pipeline by name.

    Attributes:
        name: Its name.
        summary: What it is for, in a sentence.
        make: Makes its stages.
    """

    name: str
    summary: str
    make: Callable[[], tuple[Stage, ...]]


def _stages(options: Options = MappingProxyType({})) -> tuple[Stage, ...]:
    """The usual stages.

    Args:
        options: Options by the pass's name.
    """

    def made(*names: str) -> tuple[Pass, ...]:
        return tuple(make_pass(name, options.get(name)) for name in names)

    return (
        Stage(made("inline-functions")),
        Stage(made(*_ALGEBRA), repeat=True),
        Stage(made(*RECOGNITION, *WEIGHTS, *_CLEANING), repeat=True),
        Stage(made("annotate-shapes")),
    )


def _exact() -> tuple[Stage, ...]:
    stages = _stages({"eliminate-noops": {"zero_signs": True}})
    kept = (Stage(tuple(step for step in stage.passes if step.exact), stage.repeat) for stage in stages)
    return tuple(stage for stage in kept if stage.passes)


def _upgraded(opset: int) -> tuple[Stage, ...]:
    """The usual stages on a newer opset, which has more operators to recognise."""
    inline, algebra, *rest = _stages({"recognize-attention": {"assume_ordinary": True}})
    return (inline, algebra, Stage((make_pass("convert-opset", {"opset": opset}),)), algebra, *rest)


def _for_onnxruntime() -> tuple[Stage, ...]:
    own = [name for name in RECOGNITION if "domain" in load_pass(name).__dataclass_fields__]
    return _stages({name: {"domain": "onnxruntime"} for name in own})


PIPELINES: dict[str, NamedPipeline] = {
    pipeline.name: pipeline
    for pipeline in (
        NamedPipeline(DEFAULT, "standard operators at the model's own opset, for any runtime", _stages),
        NamedPipeline(
            "aggressive",
            "moves the model to opset 23, which has GELU, RMSNorm, attention and rotary embeddings as operators",
            lambda: _upgraded(23),
        ),
        NamedPipeline("exact", "only passes that keep every bit of every output", _exact),
        NamedPipeline("ort-cpu", "for ONNX Runtime on a CPU: its own operators too", _for_onnxruntime),
        NamedPipeline("openvino-cpu", "for OpenVINO, which recognises most patterns itself", _stages),
        NamedPipeline("tensorrt", "for TensorRT, which fuses by itself: as for any runtime", _stages),
        NamedPipeline("tensorrt-rtx", "for TensorRT-RTX: as for TensorRT", _stages),
        NamedPipeline("qnn-htp", "for Qualcomm HTP: as for any runtime", _stages),
        NamedPipeline("tvm", "for TVM: as for any runtime", _stages),
    )
}


def stages_of(name: str) -> tuple[Stage, ...]:
    """The stages of a named pipeline.

    Raises:
        PassError: There is none of that name.
    """
    pipeline = PIPELINES.get(name)
    if pipeline is None:
        raise PassError(
            f"there is no pipeline '{name}'.{did_you_mean(name, PIPELINES)}", f"There are: {', '.join(PIPELINES)}."
        )
    return pipeline.make()


def target_pipeline(target: str) -> str:
    """The name of the pipeline for a target: `qnn-htp:v75` is for `qnn-htp`.

    Raises:
        PassError: There is no such target.
    """
    name = target.partition(":")[0]
    targets = [known for known in PIPELINES if known not in (DEFAULT, "aggressive", "exact")]
    if name not in targets:
        raise PassError(
            f"there is no target '{target}'.{did_you_mean(name, targets)}", f"There are: {', '.join(targets)}."
        )
    return name


def listed_stages(texts: Sequence[str]) -> tuple[Stage, ...]:
    """Stages for passes that a caller lists: each once, in that order.

    Args:
        texts: `name` or `name{option=value}`.

    Raises:
        PassError: One is unknown, or one of its options.
    """
    return (Stage(tuple(map(parse_pass, texts))),)


def plan(options: OptimizationConfig) -> tuple[str, tuple[Stage, ...]]:
    """The pipeline's name and its stages, by the configuration.

    Raises:
        PassError: A pass, a pipeline or a target is unknown.
    """
    for name in options.skip:
        load_pass(name)
    if options.passes and options.target:
        raise PassError("passes are listed and a target is named.", "Give one of them: a target has its own passes.")
    if options.passes:
        name, stages = "custom", listed_stages(options.passes)
    else:
        name = target_pipeline(options.target) if options.target else options.pipeline
        stages = stages_of(name)
    first = []
    if options.dims:
        first.append(make_pass("specialize-shapes", {"dims": options.dims}))
    if options.opset is not None:
        first.append(make_pass("convert-opset", {"opset": options.opset}))
    for step in first:
        if step.name in options.skip:
            raise PassError(f"{step.name} is skipped, and needed for what is asked: {step.options()}.")
    return name, ((Stage(tuple(first)), *stages) if first else stages)


def passes_of(stages: Sequence[Stage]) -> Iterator[Pass]:
    """The passes of some stages."""
    for stage in stages:
        yield from stage.passes
