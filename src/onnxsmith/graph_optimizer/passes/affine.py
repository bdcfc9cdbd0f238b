"""Mul, Div, Add and Sub by constants into the weights before them, or after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.weights_math import (
    SHARED_BYTES,
    Affine,
    Linear,
    NotFolded,
    channel_vector,
    fold_after,
    fold_before,
    linear_after,
    linear_before,
)

_NO_VECTOR = "its constant is neither a number nor one for each channel"
_ZERO, _ONE = np.array(0.0), np.array(1.0)


@dataclass(frozen=True)
class FoldAffine(RulePass):
    """Folds Mul, Div, Add and Sub by constants into the Conv, ConvTranspose, Gemm or MatMul before or after them.

    A constant is a number, or one for each channel. It goes into the operator before; only a factor may go into the one
    after.

    Attributes:
        shared_bytes: How large a weight that other nodes use too may be for a copy of it to be made.
    """

    name: ClassVar[str] = "fold-affine"
    exact: ClassVar[bool] = False
    operators: ClassVar[frozenset[str]] = frozenset({"Mul", "Div", "Add", "Sub"})

    shared_bytes: int = SHARED_BYTES

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Folds one of them."""
        left, right = node.inputs
        if left is None or right is None or editor.is_constant(left) == editor.is_constant(right):
            return False
        swapped = editor.is_constant(left)
        value, constant = (right, left) if swapped else (left, right)
        if node.op_type == "Div" and swapped:
            return False
        before = linear_before(editor, value)
        after = None if node.op_type in ("Add", "Sub") else linear_after(editor, node)
        if before is not None and before.adder is None and node.op_type == "Add":
            before = None  # MatMul and Add are what they should be
        if before is None and after is None:
            return False
        array = editor.array(constant)
        assert array is not None
        reasons = []
        if before is not None:
            try:
                vector = _output_vector(array, before)
                fold_after(editor, before, _affine(node, vector, swapped), node, self.shared_bytes)
            except NotFolded as reason:
                reasons.append(str(reason))
            else:
                return True
        if after is not None:
            try:
                vector = _input_vector(editor, value, array, after)
                fold_before(editor, after, _affine(node, vector, swapped), value, self.shared_bytes)
            except NotFolded as reason:
                reasons.append(str(reason))
            else:
                return True
        return editor.decline(node, "; ".join(reasons))


def _affine(node: ir.Node, vector: np.ndarray, swapped: bool) -> Affine:
    """What a node with a constant does to its other input."""
    match node.op_type:
        case "Mul":
            return Affine(vector, _ZERO)
        case "Div":
            with np.errstate(all="ignore"):
                return Affine(1 / vector, _ZERO)
        case "Add":
            return Affine(_ONE, vector)
    return Affine(-_ONE, vector) if swapped else Affine(_ONE, -vector)


def _output_vector(array: np.ndarray, linear: Linear) -> np.ndarray:
    """What a linear operator's output is combined with: a number, or one for each channel."""
    vector = channel_vector(array, linear.rank, linear.axis, linear.channels)
    if vector is None:
        raise NotFolded(_NO_VECTOR)
    return vector


def _input_vector(editor: Editor, value: ir.Value, array: np.ndarray, linear: Linear) -> np.ndarray:
    """A factor of a linear operator's input: a number, or for a convolution one for each channel."""
    if _ends_gelu(editor, value):
        raise NotFolded("it may be the end of a GELU, which runtimes recognise")
    shape = editor.shape(value)
    if array.ndim == 0:
        return array.astype(np.float64)
    if shape is None or array.ndim > len(shape):
        raise NotFolded("its constant may change the shape")
    if array.size == 1:
        return array.astype(np.float64).reshape(())
    if linear.node.op_type not in ("Conv", "ConvTranspose"):
        # It is most often the weight of a normalisation, which runtimes recognise.
        raise NotFolded(f"its constant is no single number, and what follows is a {linear.node.op_type}")
    vector = channel_vector(array, len(shape), 1, linear.inputs)
    if vector is None or shape[1] != linear.inputs:
        raise NotFolded(_NO_VECTOR)
    return vector


def _ends_gelu(editor: Editor, value: ir.Value) -> bool:
    """Whether a value is x · (1 + erf(…)) or x · (1 + tanh(…))."""
    product = editor.producer(value, "Mul")
    if product is None:
        return False
    sums = [editor.producer(factor, "Add") for factor in product.inputs]
    return any(editor.producer(part, "Erf", "Tanh") is not None for sum_ in sums if sum_ for part in sum_.inputs)
