"""Elementwise nodes, reductions and other arithmetic whose result is one of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import axes_of, bounds_of, given

Rule: TypeAlias = Callable[[ir.Node, Editor], ir.Value | None]
"""Gives the value that a node's first output always equals, or None."""

ZERO_SIGNS = "zero signs"
"""Where the editor keeps a `ZeroSigns`."""

_NUMPY_BROADCAST = 7
_LARGEST = 1 << 16
"""The elements of a constant that is read to see whether all are the same."""

_IDEMPOTENT = ("Abs", "Ceil", "Floor", "Relu", "Round")


def keeps_shape(node: ir.Node, editor: Editor, value: ir.Value) -> bool:
    """Whether the node's first output is proven to have the shape of a value, run-time sizes included."""
    shape = editor.shape(value)
    return shape is not None and shape == editor.shape(node.outputs[0])


def filled_with(editor: Editor, value: ir.Value | None) -> int | float | bool | None:
    """The number that every element of a constant is."""
    tensor = editor.tensor(value)
    if tensor is None or not 0 < tensor.size <= _LARGEST or tensor.dtype.bitwidth < 8:
        return None
    if tensor.dtype == ir.DataType.STRING:
        return None
    array = editor.array(value)
    if array is None:
        return None
    first = array.reshape(-1)[:1]
    return first[0].item() if bool((array == first).all()) and not _signs_differ(array) else None


def _signs_differ(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and len(set(np.signbit(array).reshape(-1).tolist())) > 1


def _broadcasts_away(node: ir.Node, editor: Editor, kept: ir.Value, other: ir.Value) -> bool:
    """Whether `other` leaves the shape of `kept` as it is."""
    if editor.opset < _NUMPY_BROADCAST:
        return kept is node.inputs[0]
    return editor.static_shape(other) == () or keeps_shape(node, editor, kept)


def _operands(node: ir.Node, *, commutes: bool) -> list[tuple[ir.Value, ir.Value]]:
    """The pairs of what could be kept and the constant beside it."""
    if len(node.inputs) != 2 or node.inputs[0] is None or node.inputs[1] is None:
        return []
    left, right = node.inputs[0], node.inputs[1]
    return [(left, right), (right, left)] if commutes else [(left, right)]


def _with_neutral(neutral: int | bool, *, commutes: bool = True) -> Rule:
    def rule(node: ir.Node, editor: Editor) -> ir.Value | None:
        for kept, other in _operands(node, commutes=commutes):
            if filled_with(editor, other) == neutral:
                if _broadcasts_away(node, editor, kept, other):
                    return kept
                editor.decline(
                    node, "the constant is neutral, but it may broadcast the other operand to a larger shape"
                )
        return None

    return rule


def _sum(node: ir.Node, editor: Editor) -> ir.Value | None:
    """Add and Sub: of floats, only a zero of the right sign leaves -0.0 as it is."""
    subtracts = node.op_type == "Sub"
    for kept, other in _operands(node, commutes=not subtracts):
        zero = filled_with(editor, other)
        if zero != 0 or zero is None:
            continue
        if not _broadcasts_away(node, editor, kept, other):
            editor.decline(node, "the zero may broadcast the other operand to a larger shape")
        elif (
            isinstance(zero, int)
            or bool(np.signbit(zero)) != subtracts
            or not editor.kept[ZERO_SIGNS].matter(node.outputs[0])
        ):
            return kept
        else:
            editor.decline(node, "adding zero turns -0.0 into 0.0, and the model may tell them apart")
    return None


def _is_float(editor: Editor, value: ir.Value) -> bool:
    dtype = editor.dtype(value)
    return dtype is None or dtype.is_floating_point()


def _same_operands(node: ir.Node) -> ir.Value | None:
    left, right = given(node, 0), given(node, 1)
    return left if left is right else None


def _logic(neutral: int | bool) -> Rule:
    with_neutral = _with_neutral(neutral)

    def rule(node: ir.Node, editor: Editor) -> ir.Value | None:
        return _same_operands(node) or with_neutral(node, editor)

    return rule


def _bitwise_and(node: ir.Node, editor: Editor) -> ir.Value | None:
    same = _same_operands(node)
    dtype = editor.dtype(node.outputs[0])
    if same is not None or dtype is None:
        return same
    return _with_neutral(-1 if dtype.is_signed() else 2**dtype.bitwidth - 1)(node, editor)


def _of_one(node: ir.Node, editor: Editor) -> ir.Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _twice(node: ir.Node, editor: Editor) -> ir.Value | None:
    inner = editor.producer(node.inputs[0], node.op_type)
    return inner.inputs[0] if inner is not None else None


def _again(node: ir.Node, editor: Editor) -> ir.Value | None:
    return node.inputs[0] if editor.producer(node.inputs[0], node.op_type) is not None else None


def _relu(node: ir.Node, editor: Editor) -> ir.Value | None:
    if editor.producer(node.inputs[0], "Relu") is not None:
        return node.inputs[0]
    clip = editor.producer(node.inputs[0], "Clip")
    return node.inputs[0] if clip is not None and clips_to_nonnegative(clip, editor) else None


def clips_to_nonnegative(clip: ir.Node, editor: Editor) -> bool:
    """Whether a Clip's bounds are known, in order, and let nothing below 0.0 through, -0.0 for -1.0 neither."""
    low, high = (editor.scalar(bound) if isinstance(bound, ir.Value) else bound for bound in bounds_of(editor, clip))
    missing = bounds_of(editor, clip)[1] is None
    return low is not None and low >= 0 and not np.signbit(low) and (missing or (high is not None and high >= low))


def _clip(node: ir.Node, editor: Editor) -> ir.Value | None:
    dtype = editor.dtype(node.inputs[0])
    bounds = bounds_of(editor, node)
    if dtype is None:
        return None
    if not dtype.is_integer() or dtype.bitwidth < 8:
        if bounds == (None, None):
            editor.decline(node, "a Clip without bounds makes infinities finite")
        return None
    limits = np.iinfo(dtype.numpy())
    for bound, limit in zip(bounds, (limits.min, limits.max), strict=True):
        number = editor.scalar(bound) if isinstance(bound, ir.Value) else bound
        if bound is not None and number != limit:
            return None
    return node.inputs[0]


def _leaky_relu(node: ir.Node, editor: Editor) -> ir.Value | None:
    return node.inputs[0] if editor.attribute(node, "alpha", 0.01) == 1.0 else None


def _reduction(node: ir.Node, editor: Editor) -> ir.Value | None:
    axes, data = axes_of(editor, node), node.inputs[0]
    if data is None or (not axes and editor.attribute(node, "noop_with_empty_axes", 0)):
        return data
    # A kept dimension that is no smaller than before was 1.
    return data if editor.attribute(node, "keepdims", 1) and keeps_shape(node, editor, data) else None


def _where(node: ir.Node, editor: Editor) -> ir.Value | None:
    _, yes, no = node.inputs
    chosen = filled_with(editor, node.inputs[0])
    kept = yes if chosen is True or yes is no else no if chosen is False else None
    if kept is None:
        return None
    if not keeps_shape(node, editor, kept):
        editor.decline(node, "the choice is constant, but what is chosen may be broadcast to a larger shape")
    elif _is_float(editor, kept) and editor.kept[ZERO_SIGNS].matter(node.outputs[0]):
        editor.decline(node, "ONNX Runtime turns some -0.0 into 0.0 here, and the model may tell them apart")
    else:
        return kept
    return None


ARITHMETIC: dict[str, Rule] = {
    "Add": _sum,
    "Sub": _sum,
    "Mul": _with_neutral(1),
    "Div": _with_neutral(1, commutes=False),
    "Pow": _with_neutral(1, commutes=False),
    "And": _logic(True),
    "Or": _logic(False),
    "Xor": _with_neutral(False),
    "BitwiseAnd": _bitwise_and,
    "BitwiseOr": _logic(0),
    "BitwiseXor": _with_neutral(0),
    "BitShift": _with_neutral(0, commutes=False),
    **dict.fromkeys(("Max", "Min", "Sum", "Mean"), _of_one),
    **dict.fromkeys(("Not", "Neg", "BitwiseNot"), _twice),
    **dict.fromkeys(_IDEMPOTENT, _again),
    "Relu": _relu,
    "Clip": _clip,
    "LeakyRelu": _leaky_relu,
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), _reduction),
    "Where": _where,
}
