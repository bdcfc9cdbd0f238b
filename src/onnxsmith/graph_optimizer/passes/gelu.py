"""GELU written out in elementary operators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_analysis.matching import Term
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.subgraph_match import CONTRIB, Domain, find, is_available, square


@dataclass(frozen=True)
class RecognizeGelu(RulePass):
    """Puts Gelu (opset 20) in the place of x · Φ(x), by Erf or by its approximation with Tanh.

    Attributes:
        domain: Whether ONNX Runtime's Gelu and FastGelu may be used where the model's opset is older.
    """

    name: ClassVar[str] = "recognize-gelu"
    exact: ClassVar[bool] = False
    operators: ClassVar[frozenset[str]] = frozenset({"Mul", "Div"})

    domain: Domain = "standard"

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Replaces the last product of a GELU."""
        for term, approximate, contrib in _FORMS:
            fit = find(editor, node, term, "a GELU")
            if fit is None:
                continue
            x = fit.names["x"]
            if (
                not editor.has_operator("Gelu")
                and self.domain == "onnxruntime"
                and editor.dtype(x) == ir.DataType.FLOAT
            ):
                editor.replace_node(node, contrib, [x], domain=CONTRIB)
                return True
            if not is_available(editor, node, "Gelu", x):
                return False
            editor.replace_node(node, "Gelu", [x], {"approximate": approximate} if approximate != "none" else None)
            return True
        return False


def _products(gate: Term) -> Term:
    """0.5 · x · (1 + gate), however it is bracketed."""
    sum_ = ("Add", gate, 1)
    product = ("Mul", "x", sum_)
    return [
        ("Mul", product, 0.5),
        ("Div", product, 2),
        ("Mul", [("Mul", "x", 0.5), ("Div", "x", 2)], sum_),
        ("Mul", "x", [("Mul", sum_, 0.5), ("Div", sum_, 2), ("Add", ("Mul", gate, 0.5), 0.5)]),
    ]


def _erf() -> Term:
    """erf(x / √2)."""
    return ("Erf", [("Div", "x", math.sqrt(2)), ("Mul", "x", math.sqrt(0.5))])


def _tanh() -> Term:
    """tanh(√(2/π) · (x + 0.044715 · x³))."""
    root, small = math.sqrt(2 / math.pi), 0.044715
    cube: Term = [("Pow", "x", 3), ("Mul", "x", square("x"))]
    cubic: Term = [
        ("Mul", cube, small),
        ("Mul", ("Mul", "x", small), square("x")),
        ("Mul", "x", ("Mul", square("x"), small)),
    ]
    factor = ("Add", ("Mul", square("x"), small), 1)
    inner: Term = [
        ("Mul", ("Add", "x", cubic), root),
        ("Mul", ("Mul", "x", factor), root),
        ("Mul", ("Mul", "x", root), factor),
        ("Mul", "x", ("Mul", factor, root)),
        ("Mul", "x", ("Add", ("Mul", square("x"), small * root), root)),
    ]
    return ("Tanh", inner)


_FORMS = ((_products(_erf()), "none", "Gelu"), (_products(_tanh()), "tanh", "FastGelu"))
