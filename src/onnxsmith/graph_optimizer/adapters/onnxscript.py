"""onnxscript's optimiser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from onnxsmith.graph_optimizer.adapters.outside import OutsidePass
from onnxsmith.model import Model


@dataclass(frozen=True)
class Onnxscript(OutsidePass):
    """onnxscript: its optimiser, which folds constants and inlines functions, and its rewriter's rules.

    Attributes:
        rewrite: Apply the rewriter's rules too.
        inline: Inline functions.
        num_iterations: How often it repeats at most.
    """

    name: ClassVar[str] = "onnxscript"
    tool: ClassVar[str] = f"{__name__}:optimize"

    rewrite: bool = True
    inline: bool = True
    num_iterations: int = 2


def optimize(source: Path, target: Path, *, rewrite: bool, inline: bool, num_iterations: int) -> None:
    """Runs it, in the child."""
    from onnxscript import optimizer, rewriter

    model = Model.load(source)
    optimizer.optimize_ir(model.ir, num_iterations=num_iterations, inline=inline)
    if rewrite:
        model = Model(rewriter.rewrite(model.ir))
    model.save(target)
