"""onnxoptimizer."""

from __future__ import annotations

import importlib
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
    if not source.with_name(f"{source.name}.data").exists():
        write(onnxoptimizer.optimize(onnx.load(source), names, fixed_point=fixed_point), target)
        return
    # Its Python side cannot take a model that does not fit in one message; what is below that can.
    native = importlib.import_module("onnxoptimizer.onnx_opt_cpp2py_export")
    run = native.optimize_fixedpoint_from_path if fixed_point else native.optimize_from_path
    names = names or onnxoptimizer.get_fuse_and_elimination_passes()
    run(str(source), str(target), names, f"{target.name}.data")
