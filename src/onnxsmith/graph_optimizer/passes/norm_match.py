"""What the normalisations over the last axes have in common: where they begin and end, and their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.matching import Term
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.subgraph_match import find, is_available, is_near, kept_axes

_HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


@dataclass
class Normalization:
    """A group of operators that normalises.

    Attributes:
        x: What is normalised.
        last: The last node of the group.
        shape: The dimensions that are normalised over.
        epsilon: What is added to the variance.
    """

    x: ir.Value
    last: ir.Node
    shape: tuple[int, ...]
    epsilon: float


def find_normalization(editor: Editor, node: ir.Node, term: Term, op_type: str) -> Normalization | None:
    """The normalisation that `node` ends, and the casts around it that the operator has inside; declines what it must.

    Args:
        editor: The graph.
        node: Its division, or what stands for it.
        term: What computes it from `"x"` and `"epsilon"`.
        op_type: The operator that is to stand for it.
    """
    if not is_near(node, "ReduceMean"):
        return None
    fit = find(editor, node, term, op_type, lambda fit: editor.scalar(fit.names["epsilon"]) is not None)
    if fit is None:
        return None
    x = fit.names["x"]
    axes = [kept_axes(editor, reduction) for reduction in fit.nodes if reduction.op_type == "ReduceMean"]
    rank = editor.rank(x)
    if rank is None or any(other != list(range(rank - len(axes[0]), rank)) for other in axes) or not axes[0]:
        editor.decline(node, f"this is {op_type}, but not over the last axes of a value whose rank is known")
        return None
    epsilon = fit.names["epsilon"]
    if (editor.rank(epsilon) or 0) > rank:
        return None
    shape = (editor.shape(x) or ())[rank - len(axes[0]) :]
    sizes = tuple(dim for dim in shape if isinstance(dim, int) and dim > 0)
    if len(sizes) < len(shape):
        editor.decline(node, f"this is {op_type}, but the size that it normalises over is not a known number above 0")
        return None
    number = editor.scalar(epsilon)
    assert number is not None
    found = Normalization(x, node, sizes, float(number))
    _take_in_casts(editor, found)
    if editor.dtype(found.x) == ir.DataType.DOUBLE:
        editor.decline(node, f"{op_type} computes in float32, this in double")
        return None
    return found if is_available(editor, node, op_type, found.x) else None


def take_parameter(editor: Editor, found: Normalization, op_type: str) -> ir.Value | None:
    """The parameter that the next node multiplies by or adds, which is then the last; None where there is none."""
    value = found.last.outputs[0]
    user = editor.only_user(value)
    if user is None or user.graph is not found.last.graph or not editor.is_standard(user, op_type):
        return None
    parameter = user.inputs[1] if user.inputs[0] is value else user.inputs[0]
    if parameter is None or editor.dtype(parameter) != editor.dtype(found.x):
        return None
    shape = editor.static_shape(parameter)
    if shape is None:
        return None
    if shape != found.shape:
        rank = editor.rank(found.x) or 0
        leading = len(shape) - len(found.shape)
        contents = (
            editor.array(parameter) if _fits(shape, found.shape) and 0 < leading <= rank - len(found.shape) else None
        )
        if contents is None:
            return None
        editor.root = user
        parameter = editor.constant(contents.reshape(found.shape), parameter.name or "scale")
    found.last = user
    return parameter


def ones(editor: Editor, found: Normalization) -> ir.Value:
    """A scale of ones."""
    dtype = editor.dtype(found.x)
    assert dtype is not None
    return editor.constant(np.ones(found.shape, dtype=dtype.numpy()), "scale")


def replace_normalization(editor: Editor, found: Normalization, op_type: str, parameters: Sequence[ir.Value]) -> None:
    """Puts the operator there."""
    attributes = {"axis": -len(found.shape), "epsilon": found.epsilon}
    editor.replace_node(found.last, op_type, [found.x, *parameters], attributes)


def _fits(shape: tuple[int, ...], normalized: tuple[int, ...]) -> bool:
    leading = len(shape) - len(normalized)
    return shape[leading:] == normalized and all(dim == 1 for dim in shape[:leading])


def _take_in_casts(editor: Editor, found: Normalization) -> None:
    """Takes in a Cast from half precision to float32 before, and the one back after it.

    The operator itself computes in float32, as its default `stash_type` says.
    """
    before = editor.producer(found.x, "Cast")
    after = editor.only_user(found.last.outputs[0])
    if before is None or after is None or not editor.is_standard(after, "Cast") or after.graph is not found.last.graph:
        return
    narrow = before.inputs[0]
    dtype = editor.dtype(narrow)
    if narrow is None or dtype not in _HALVES or editor.dtype(found.x) != ir.DataType.FLOAT:
        return
    if editor.dtype(after.outputs[0]) == dtype:
        found.x, found.last = narrow, after
