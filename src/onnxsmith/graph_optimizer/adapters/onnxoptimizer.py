"""onnxoptimizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx

from onnxsmith.extras import require
from onnxsmith.graph_optimizer.adapters.outside import OutsidePass, write


@dataclass(frozen=True)
class Onnxoptimizer(OutsidePass):
    """onnxoptimizer: its eliminations and fusions, or some of them.

    Attributes:
        passes: Names of its passes with + between them: `eliminate_identity+fuse_bn_into_conv`; nothing is all of them.
        fixed_point: Repeat them until nothing changes.
    """

    name: ClassVar[str] = "onnxoptimizer"
    tool: ClassVar[str] = f"{__name__}:optimize"

    passes: str = ""
    fixed_point: bool = False


def optimize(source: Path, target: Path, *, passes: str, fixed_point: bool) -> None:
    """Runs it, in the child."""
    onnxoptimizer = require("onnxoptimizer", purpose="for the pass onnxoptimizer")
    names = [name.strip() for name in passes.split("+") if name.strip()] or None
    write(onnxoptimizer.optimize(onnx.load(source), names, fixed_point=fixed_point), target)
