"""onnxsim."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from onnxsmith.extras import require
from onnxsmith.graph_optimizer.adapters.outside import OutsidePass


@dataclass(frozen=True)
class Onnxsim(OutsidePass):
    """onnxsim: constant folding by ONNX Runtime, and onnxoptimizer's passes.

    Attributes:
        perform_optimization: Whether it runs onnxoptimizer's passes, as against folding constants only.
        skip_fuse_bn: Leave BatchNormalization out of Conv.
        include_subgraph: Go into subgraphs.
        keep_overridable: Leave initializers that are inputs as they are; without it, it folds them.
    """

    name: ClassVar[str] = "onnxsim"
    tool: ClassVar[str] = f"{__name__}:simplify"

    perform_optimization: bool = True
    skip_fuse_bn: bool = False
    include_subgraph: bool = False
    keep_overridable: bool = True


def simplify(
    source: Path,
    target: Path,
    *,
    perform_optimization: bool,
    skip_fuse_bn: bool,
    include_subgraph: bool,
    keep_overridable: bool,
) -> None:
    """Runs it, in the child."""
    onnxsim = require("onnxsim", purpose="for the pass onnxsim")
    onnxsim.simplify(
        str(source),
        perform_optimization=perform_optimization,
        skip_fuse_bn=skip_fuse_bn,
        include_subgraph=include_subgraph,
        mutable_initializer=keep_overridable,
        output_path=str(target),
    )
