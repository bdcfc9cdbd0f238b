"""Finding a group of operators that one operator can stand for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import onnx
import onnx_ir as ir

from onnxsmith.graph_analysis.matching import Match, Term, match
from onnxsmith.graph_optimizer.editor import Editor, Unknown
from onnxsmith.graph_optimizer.passes.opset_forms import axes_of

Domain = Literal["standard", "onnxruntime"]
"""Whose operators may be used: those of the ONNX standard only, or ONNX Runtime's (com.microsoft) as well."""

CONTRIB = "com.microsoft"

_TOLERANCE = {ir.DataType.FLOAT16: 1e-3, ir.DataType.BFLOAT16: 4e-3}
"""Relative, how far a constant may be from the number it stands for: a rounding. In wider types `_ROUNDING`."""

_ROUNDING = 1e-6

_STEPS = 6
"""So many nodes from the last, itself included, does the operator stand that makes a match worth looking for."""


def is_near(node: ir.Node, *op_types: str) -> bool:
    """Whether a node is, or one a few steps before it is, of certain operators: much cheaper than a match."""
    frontier = {node}
    for _ in range(_STEPS):
        if any(each.op_type in op_types for each in frontier):
            return True
        values = (value for each in frontier for value in each.inputs if value is not None)
        frontier = {producer for value in values if (producer := value.producer()) is not None}
    return False


def find(
    editor: Editor, node: ir.Node, term: Term, what: str, accept: Callable[[Match], bool] = lambda fit: True
) -> Match | None:
    """The first match that ends at a node and that one operator can stand for.

    Each constant has the dtype's nearest number and does not broadcast `x`; all nodes are standard operators, of one
    graph. Where there are such matches but in each a value inside is used elsewhere too, that is declined.

    Args:
        editor: The graph.
        node: The last node.
        term: What to look for (see `matching`), with the operator's input as `"x"`.
        what: What the match computes, for the reason.
        accept: What a term cannot say.
    """
    found = False
    for fit in match(term, node):
        if not _is_exact(editor, fit) or not accept(fit):
            continue
        if fit.is_closed():
            return fit
        found = True
    if found:
        editor.decline(node, f"this is {what}, but a value inside it is an output or used elsewhere as well")
    return None


def is_available(editor: Editor, node: ir.Node, op_type: str, value: ir.Value) -> bool:
    """Whether the model's opset has an operator that takes a value; declines where it has not.

    Raises:
        Unknown: The value's dtype is not known.
    """
    dtype = editor.dtype(value)
    if dtype is None:
        raise Unknown(f"the dtype of '{value.name}' is not known")
    if not editor.has_operator(op_type):
        later = range(editor.opset + 1, onnx.defs.onnx_opset_version() + 1)
        needed = next(opset for opset in later if editor.has_operator(op_type, opset))
        reason = f"{op_type} needs opset {needed}, the model has {editor.opset} (convert with --opset {needed})"
        return editor.decline(node, reason)
    schema = onnx.defs.get_schema(op_type, editor.opset, "")
    if f"tensor({dtype.name.lower()})" not in schema.inputs[0].types:
        return editor.decline(node, f"{op_type} of opset {editor.opset} does not take {dtype.name.lower()}")
    return True


def kept_axes(editor: Editor, node: ir.Node) -> list[int]:
    """The axes over which a reduction goes, counted from the front; empty where it drops them or goes over all.

    Raises:
        Unknown: They are not known.
    """
    return (axes_of(editor, node) or []) if editor.attribute(node, "keepdims", 1) == 1 else []


def square(term: Term) -> list[Term]:
    """The square of a term."""
    return [("Mul", term, term), ("Pow", term, 2)]


def inverse(term: Term) -> list[Term]:
    """One over a term."""
    return [("Reciprocal", term), ("Div", 1, term)]


def _is_exact(editor: Editor, fit: Match) -> bool:
    for node in fit.nodes:
        if not editor.is_standard(node) or (node.op_type in ("Min", "Max") and len(node.inputs) != 2):
            return False
    x = fit.names["x"]
    dtype, rank = editor.dtype(x), editor.rank(x)
    tolerance = _ROUNDING if dtype is None else _TOLERANCE.get(dtype, _ROUNDING)
    for value, wanted in fit.numbers:
        number, own_rank = _number(editor, value), editor.rank(value)
        if number is None or not math.isclose(number, wanted, rel_tol=tolerance):
            return False
        if own_rank is None or own_rank > (rank or 0):
            return False
    return True


def _number(editor: Editor, value: ir.Value) -> float | None:
    array = editor.array(value)
    return float(array.reshape(())) if array is not None and array.size == 1 else None
