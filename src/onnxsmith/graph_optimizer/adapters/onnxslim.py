"""onnxslim."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from onnxsmith.extras import require
from onnxsmith.graph_optimizer.adapters.outside import OutsidePass, write

Bytes = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Onnxslim(OutsidePass):
    """onnxslim: constant folding, fusions, and the merging of equal nodes and weights.

    Attributes:
        constant_folding: Fold constants.
        graph_fusion: Fuse nodes.
        size_threshold: The most bytes of a constant that folding makes; 0 is no limit.
        shape_inference: Let it infer shapes with ONNX.
    """

    name: ClassVar[str] = "onnxslim"
    tool: ClassVar[str] = f"{__name__}:slim"

    constant_folding: bool = True
    graph_fusion: bool = True
    size_threshold: Bytes = 0
    shape_inference: bool = True


def slim(
    source: Path,
    target: Path,
    *,
    constant_folding: bool,
    graph_fusion: bool,
    size_threshold: int,
    shape_inference: bool,
) -> None:
    """Runs it, in the child."""
    onnxslim = require("onnxslim", purpose="for the pass onnxslim")
    skipped = {"constant_folding": not constant_folding, "graph_fusion": not graph_fusion}
    message = onnxslim.slim(
        str(source),
        skip_optimizations=[name for name, skip in skipped.items() if skip],
        size_threshold=size_threshold or None,
        no_shape_infer=not shape_inference,
    )
    write(message, target)
