"""Layer normalisation written out in elementary operators."""

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
class RecognizeLayerNorm(RulePass):
    """Puts LayerNormalization (opset 17) in the place of (x − mean) / √(variance + ε) · γ + β."""

    name: ClassVar[str] = "recognize-layer-norm"
    exact: ClassVar[bool] = False
    operators: ClassVar[frozenset[str]] = frozenset({"Mul", "Div"})

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Replaces a layer normalisation from its division on."""
        found = find_normalization(editor, node, _TERM, "LayerNormalization")
        if found is None:
            return False
        scale = take_parameter(editor, found, "Mul")
        bias = take_parameter(editor, found, "Add")
        editor.root = found.last
        parameters = [scale or ones(editor, found), *([bias] if bias is not None else [])]
        replace_normalization(editor, found, "LayerNormalization", parameters)
        return True


def _term() -> Term:
    centred = ("Sub", "x", ("ReduceMean", "x"))
    variance = ("Add", ("ReduceMean", square(centred)), "epsilon")
    deviation: Term = [("Sqrt", variance), ("Pow", variance, 0.5)]
    return [
        ("Div", centred, deviation),
        ("Mul", [*inverse(deviation), ("Pow", variance, -0.5)], centred),
    ]


_TERM = _term()
