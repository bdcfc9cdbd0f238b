"""RMS normalisation written out in elementary operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_analysis.matching import Term
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.norm_match import (
    find_normalization,
    ones,
    replace_normalization,
    take_parameter,
)
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.subgraph_match import inverse, square


@dataclass(frozen=True)
class RecognizeRmsNorm(RulePass):
    """Puts RMSNormalization (opset 23) in the place of x / √(mean(x²) + ε) · γ."""

    name: ClassVar[str] = "recognize-rms-norm"
    exact: ClassVar[bool] = False
    operators: ClassVar[frozenset[str]] = frozenset({"Mul", "Div"})

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Replaces an RMS normalisation from its division on."""
        found = find_normalization(editor, node, _TERM, "RMSNormalization")
        if found is None:
            return False
        scale = take_parameter(editor, found, "Mul")
        editor.root = found.last
        replace_normalization(editor, found, "RMSNormalization", [scale or ones(editor, found)])
        return True


def _term() -> Term:
    mean = ("Add", ("ReduceMean", square("x")), "epsilon")
    root: Term = [("Sqrt", mean), ("Pow", mean, 0.5)]
    return [("Div", "x", root), ("Mul", [*inverse(root), ("Pow", mean, -0.5)], "x")]


_TERM = _term()
