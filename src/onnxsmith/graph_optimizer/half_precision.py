"""Which outputs of a model half precision has a part in."""

from __future__ import annotations

import onnx_ir as ir

from onnxsmith.graph_analysis.nesting import with_nested
from onnxsmith.graph_analysis.symbolic import Facts
from onnxsmith.graph_optimizer.extraction import used_values
from onnxsmith.model import Model

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_MOVING = frozenset(
    (
        *(
            "Concat",
            "Constant",
            "Expand",
            "Flatten",
            "Gather",
            "Identity",
            "Pad",
            "Reshape",
            "Slice",
            "Split",
            "Squeeze",
        ),
        *("Tile", "Transpose", "Unsqueeze"),
    )
)
"""Operators that round nothing."""


def half_outputs(model: Model) -> dict[str, ir.DataType]:
    """The outputs on whose way something is rounded to half precision, and the coarsest type of these.

    Weights that are stored in half precision and computed with in single precision round nothing.
    """
    facts = Facts(model.ir)
    reached: dict[ir.Value, ir.DataType] = {}
    for node in model.ir.graph:
        types = {reached[value] for value in used_values(node) if value in reached}
        types |= {dtype for inner in with_nested(node) if (dtype := _rounds_to(inner, facts)) is not None}
        if types and node.op_type not in ("Shape", "Size"):
            coarsest = max(types, key=_HALVES.index)
            reached |= dict.fromkeys(node.outputs, coarsest)
    return {value.name: reached[value] for value in model.ir.graph.outputs if value.name and value in reached}


def _rounds_to(node: ir.Node, facts: Facts) -> ir.DataType | None:
    """The half precision type that a node rounds its results to, or None."""
    if node.op_type in _MOVING:
        return None
    if node.op_type == "Cast" and node.inputs[0] is not None and facts.is_constant(node.inputs[0]):
        return None  # it is the same number whenever it is rounded
    return next((dtype for output in node.outputs if (dtype := facts.dtype(output)) in _HALVES), None)
