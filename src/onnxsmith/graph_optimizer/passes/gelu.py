"""GELU written out in elementary operators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_analysis.matching import Term
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.subgraph_match import CONTRIB, Domain, find, is_available, is_near, square


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
        if not is_near(node, "Erf", "Tanh"):
            return False
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
    sum_ = ("Add", 1, gate)
    product = ("Mul", sum_, "x")
    return [
        ("Mul", 0.5, product),
        ("Div", product, 2),
        ("Mul", sum_, [("Mul", 0.5, "x"), ("Div", "x", 2)]),
        ("Mul", [("Mul", 0.5, sum_), ("Div", sum_, 2), ("Add", 0.5, ("Mul", 0.5, gate))], "x"),
    ]


def _erf() -> Term:
    """erf(x / √2)."""
    return ("Erf", [("Div", "x", math.sqrt(2)), ("Mul", math.sqrt(0.5), "x")])


def _tanh() -> Term:
    """tanh(√(2/π) · (x + 0.044715 · x³))."""
    root, small = math.sqrt(2 / math.pi), 0.044715
    cube: Term = [("Pow", "x", 3), ("Mul", "x", square("x"))]
    cubic: Term = [
        ("Mul", small, cube),
        ("Mul", ("Mul", small, "x"), square("x")),
        ("Mul", "x", ("Mul", small, square("x"))),
    ]
    factor = ("Add", 1, ("Mul", small, square("x")))
    inner: Term = [
        ("Mul", root, ("Add", "x", cubic)),
        ("Mul", root, ("Mul", factor, "x")),
        ("Mul", factor, ("Mul", root, "x")),
        ("Mul", ("Mul", root, factor), "x"),
        ("Mul", ("Add", root, ("Mul", small * root, square("x"))), "x"),
    ]
    return ("Tanh", inner)


_FORMS = ((_products(_erf()), "none", "Gelu"), (_products(_tanh()), "tanh", "FastGelu"))
