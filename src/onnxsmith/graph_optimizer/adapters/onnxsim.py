"""onnxsim."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx

from onnxsmith.extras import require
from onnxsmith.graph_optimizer.adapters.outside import OutsidePass


@dataclass(frozen=True)
class Onnxsim(OutsidePass):
    """onnxsim: constant folding by ONNX Runtime, and onnxoptimizer's passes.

    It folds initializers that a caller can override, and a model that has any comes back as it was.

    Attributes:
        perform_optimization: Whether it runs onnxoptimizer's passes, as against folding constants only.
        skip_fuse_bn: Leave BatchNormalization out of Conv.
        include_subgraph: Go into subgraphs.
    """

    name: ClassVar[str] = "onnxsim"
    tool: ClassVar[str] = f"{__name__}:simplify"

    perform_optimization: bool = True
    skip_fuse_bn: bool = False
    include_subgraph: bool = False


def simplify(
    source: Path,
    target: Path,
    *,
    perform_optimization: bool,
    skip_fuse_bn: bool,
    include_subgraph: bool,
) -> None:
    """Runs it, in the child."""
    onnxsim = require("onnxsim", purpose="for the pass onnxsim")
    _declare_output_shapes(source)
    onnxsim.simplify(
        str(source),
        perform_optimization=perform_optimization,
        skip_fuse_bn=skip_fuse_bn,
        include_subgraph=include_subgraph,
        output_path=str(target),
    )


def _declare_output_shapes(source: Path) -> None:
    """Writes down the shapes of outputs that have none: it refuses a model without them."""
    message = onnx.load(source, load_external_data=False)
    if all(_has_shape(output.type) for output in message.graph.output):
        return
    inferred = onnx.shape_inference.infer_shapes(message, data_prop=True)
    for output, known in zip(message.graph.output, inferred.graph.output, strict=True):
        output.CopyFrom(known)
    source.write_bytes(message.SerializeToString())


def _has_shape(proto: onnx.TypeProto) -> bool:
    return not proto.HasField("tensor_type") or proto.tensor_type.HasField("shape")
