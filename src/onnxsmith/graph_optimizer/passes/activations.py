"""Activations written out in elementary operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_analysis.matching import Match, Term
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.subgraph_match import CONTRIB, Domain, find, is_available, is_near, kept_axes


@dataclass(frozen=True)
class RecognizeActivations(RulePass):
    """Puts HardSwish, HardSigmoid, Mish, LeakyRelu, Softmax and LogSoftmax in the place of what computes them.

    Attributes:
        domain: Whether ONNX Runtime's QuickGelu may be used for x · Sigmoid(α · x), SiLU among them.
        swish: Whether that becomes Swish (opset 24); ONNX Runtime 1.32 takes twice as long for it.
    """

    name: ClassVar[str] = "recognize-activations"
    exact: ClassVar[bool] = False
    operators: ClassVar[frozenset[str]] = frozenset({"Mul", "Div", "Clip", "Min", "Max", "Sub", "Log"})

    domain: Domain = "standard"
    swish: bool = False

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Replaces the last operator of an activation."""
        if not is_near(node, *_PARTS):
            return False
        for form in _FORMS.get(node.op_type, ()):
            fit = find(editor, node, form.term, form.op_type, partial(form.fits, editor))
            if fit is None:
                continue
            if not is_available(editor, node, form.op_type, fit.names["x"]):
                return False
            editor.replace_node(node, form.op_type, [fit.names["x"]], form.attributes(fit, editor))
            return True
        return self._swish(node, editor) or _decline_inexact(node, editor)

    def _swish(self, node: ir.Node, editor: Editor) -> bool:
        if node.op_type != "Mul" or not (self.swish or self.domain == "onnxruntime"):
            return False
        fit = find(editor, node, _SWISH, "Swish", lambda fit: _alpha(fit, editor) is not None)
        if fit is None:
            return False
        x, alpha = fit.names["x"], _alpha(fit, editor)
        if self.domain == "onnxruntime" and editor.dtype(x) == ir.DataType.FLOAT:
            editor.replace_node(node, "QuickGelu", [x], {"alpha": alpha}, domain=CONTRIB)
            return True
        if not self.swish or not is_available(editor, node, "Swish", x):
            return False
        editor.replace_node(node, "Swish", [x], {"alpha": alpha} if alpha != 1 else None)
        return True


def _decline_inexact(node: ir.Node, editor: Editor) -> bool:
    if node.op_type != "Log":
        return False
    if find(editor, node, ("Log", ("Softmax", "x")), "LogSoftmax"):
        return editor.decline(node, "where a probability rounds to zero, this gives -inf and LogSoftmax a number")
    if find(editor, node, ("Log", ("Add", ("Exp", "x"), 1)), "Softplus"):
        return editor.decline(node, "where the exponential overflows, this gives inf and Softplus a number")
    return False


@dataclass(frozen=True)
class _Form:
    """A way to write an activation, and its attributes, None where the match is none after all."""

    op_type: str
    term: Term
    attributes: Callable[[Match, Editor], dict[str, float | int] | None] = lambda fit, editor: {}

    def fits(self, editor: Editor, fit: Match) -> bool:
        return self.attributes(fit, editor) is not None


def _hard_sigmoid(fit: Match, editor: Editor) -> dict[str, float | int] | None:
    """α and β of clip(α · x + β, 0, 1)."""
    alpha = _alpha(fit, editor)
    beta = _scalar(fit, editor, "beta")
    return None if alpha is None or beta is None else {"alpha": alpha, "beta": beta}


def _hard_sigmoid_by_sixths(fit: Match, editor: Editor) -> dict[str, float | int] | None:
    return {"alpha": 1 / 6, "beta": 0.5}


def _slope(fit: Match, editor: Editor) -> dict[str, float | int] | None:
    """The slope α of max(x, α · x), which is a LeakyRelu for α between 0 and 1."""
    alpha = _scalar(fit, editor, "alpha")
    return {"alpha": alpha} if alpha is not None and 0 < alpha < 1 else None


def _softmax_axis(fit: Match, editor: Editor) -> dict[str, float | int] | None:
    """The one axis over which the maximum and the sum go; before opset 13 Softmax goes over all that follow, too."""
    axes = [kept_axes(editor, node) for node in fit.nodes if node.op_type.startswith("Reduce")]
    if len(axes[0]) != 1 or any(other != axes[0] for other in axes):
        return None
    axis = axes[0][0]
    return {"axis": axis} if editor.opset >= 13 or axis + 1 == editor.rank(fit.names["x"]) else None


def _alpha(fit: Match, editor: Editor) -> float | None:
    return _scalar(fit, editor, "alpha") if "alpha" in fit.names else 1.0


def _scalar(fit: Match, editor: Editor, name: str) -> float | None:
    """The number that a name stands for, where it is one and does not broadcast x."""
    value = fit.names[name]
    number, rank = editor.scalar(value), editor.rank(value)
    if number is None or (rank and rank > (editor.rank(fit.names["x"]) or 0)):
        return None
    return float(number)


def _clipped(term: Term, low: float, high: float) -> Term:
    bounds: list[Term] = [
        ("Clip", term, low, high),
        ("Min", ("Max", term, low), high),
        ("Max", ("Min", term, high), low),
    ]
    return [*bounds, ("Min", ("Relu", term), high)] if low == 0 else bounds


def _sixth(term: Term) -> list[Term]:
    return [("Div", term, 6), ("Mul", 1 / 6, term)]


_PARTS = ("HardSigmoid", "Clip", "Min", "Max", "Relu", "Tanh", "Sigmoid", "Exp", "Log")

_GATE = _clipped(("Add", 3, "x"), 0, 6)
_HARD_SIGMOID_NODE = ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, "x")
_HARD_SWISH: Term = [
    ("Mul", [_HARD_SIGMOID_NODE, *_sixth(_GATE)], "x"),
    *_sixth(("Mul", _GATE, "x")),
    ("Mul", _GATE, [("Div", "x", 6), ("Mul", 1 / 6, "x")]),
]
_LINE: Term = [("Add", ("Mul", "x", "alpha"), "beta"), ("Add", "x", "beta")]
_SHIFTED = ("Sub", "x", ("ReduceMax", "x"))
_EXPONENTIAL = ("Exp", _SHIFTED)
_SWISH = ("Mul", ("Sigmoid", ["x", ("Mul", "x", "alpha")]), "x")

_ALL = (
    (("Mul", "Div"), _Form("HardSwish", _HARD_SWISH)),
    (("Mul", "Div"), _Form("HardSigmoid", _sixth(_GATE), _hard_sigmoid_by_sixths)),
    (("Clip", "Min", "Max"), _Form("HardSigmoid", _clipped(_LINE, 0, 1), _hard_sigmoid)),
    (("Mul",), _Form("Mish", ("Mul", ("Tanh", ("Softplus", "x")), "x"))),
    (("Max",), _Form("LeakyRelu", [("Max", "x", ("Mul", "x", "alpha")), ("Max", ("Mul", "x", "alpha"), "x")], _slope)),
    (("Div",), _Form("Softmax", ("Div", _EXPONENTIAL, ("ReduceSum", _EXPONENTIAL)), _softmax_axis)),
    (("Sub",), _Form("LogSoftmax", ("Sub", _SHIFTED, ("Log", ("ReduceSum", _EXPONENTIAL))), _softmax_axis)),
)
_FORMS = {root: [form for roots, form in _ALL if root in roots] for root in ("Mul", "Div", "Clip", "Min", "Max", "Sub")}
