"""Pairs of QuantizeLinear and DequantizeLinear; a quantised weight is never unpacked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import given
from onnxsmith.graph_optimizer.passes.rules import RulePass

_EIGHT_BITS = frozenset({ir.DataType.INT8, ir.DataType.UINT8})
_WHOLE_NUMBERS = _EIGHT_BITS | {ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT4, ir.DataType.UINT4}
_MOVES = frozenset(
    {"Identity", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Expand", "Gather", "MaxPool"}
)
"""Operators that hand on elements of their first input as they are."""

_SMALLEST_SCALE = 1e-30
_LARGEST_SCALE = 1e30


@dataclass(frozen=True)
class _Numbers:
    """How numbers are quantised.

    Attributes:
        scale: The scale, float32; None where it is computed.
        zero: The zero point in float64, of the scale's shape or of rank 0.
        dtype: The quantised numbers' type.
        axis: The axis, where there is a scale for each index of it.
        block: The size of blocks, 0 where there are none.
    """

    scale: np.ndarray
    zero: np.ndarray
    dtype: ir.DataType
    axis: int
    block: int

    @property
    def per_tensor(self) -> bool:
        return self.scale.size == 1 and not self.block

    def equals(self, other: _Numbers) -> bool:
        if self.dtype != other.dtype or self.per_tensor != other.per_tensor:
            return False
        if not self.per_tensor and (self.axis, self.block, self.scale.shape) != (
            other.axis,
            other.block,
            other.scale.shape,
        ):
            return False
        return np.array_equal(self.scale.ravel(), other.scale.ravel()) and bool(
            np.all(self.zero.ravel() == other.zero.ravel())
        )


@dataclass(frozen=True)
class SimplifyQdq(RulePass):
    """Removes a DequantizeLinear whose numbers are quantised again alike, and quantises constants beforehand."""

    name: ClassVar[str] = "simplify-qdq"
    operators: ClassVar[frozenset[str]] = frozenset({"QuantizeLinear"})

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Looks at what a QuantizeLinear is given."""
        data = node.inputs[0]
        if data is None:
            return False
        if editor.is_constant(data):
            return _quantize(node, data, editor)
        source = editor.producer(data, "DequantizeLinear")
        if source is not None:
            return _cancel(node, source, editor)
        mover = editor.producer(data, *_MOVES)
        if mover is not None and editor.producer(mover.inputs[0], "DequantizeLinear"):
            return editor.decline(node, f"runtimes recognise a quantised {mover.op_type} by the pairs around it")
        return False


def _cancel(node: ir.Node, source: ir.Node, editor: Editor) -> bool:
    given_numbers, made_numbers = _numbers(editor, source), _numbers(editor, node)
    if given_numbers is None or made_numbers is None:
        return editor.decline(node, "its scale or zero point, or that of the DequantizeLinear before it, is computed")
    if not given_numbers.equals(made_numbers):
        return editor.decline(node, "the DequantizeLinear before it has another scale, zero point or type")
    if reason := _inexact(made_numbers):
        return editor.decline(node, reason)
    value = source.inputs[0]
    assert value is not None
    editor.replace(node.outputs[0], value)
    return True


def _inexact(numbers: _Numbers) -> str | None:
    """Why numbers might not come back as they were."""
    size = np.abs(numbers.scale)
    if not np.all((size >= _SMALLEST_SCALE) & (size <= _LARGEST_SCALE)):  # not so of NaN
        return "its scale is zero, not finite, or too small or large to be divided by exactly"
    return None if numbers.dtype in _WHOLE_NUMBERS else f"{numbers.dtype.name} does not come back as it was"


def _numbers(editor: Editor, node: ir.Node) -> _Numbers | None:
    """How a QuantizeLinear or a DequantizeLinear counts; None where that is computed or not in float32."""
    scale = editor.array(given(node, 1))
    zero_point = given(node, 2)
    quantises = node.op_type == "QuantizeLinear"
    dtype = editor.dtype(node.outputs[0] if quantises else node.inputs[0])
    other_precision: Any = editor.attribute(node, "precision", 0) or (
        not quantises and editor.attribute(node, "output_dtype", 0) not in (0, ir.DataType.FLOAT)
    )
    if scale is None or scale.dtype != np.float32 or dtype is None or other_precision:
        return None
    zero = np.zeros(()) if zero_point is None else editor.array(zero_point)
    if zero is None:
        return None
    axis = editor.attribute(node, "axis", 1)
    rank = editor.rank(node.inputs[0])
    if axis < 0 and rank is not None:
        axis += rank
    return _Numbers(scale, zero.astype(np.float64), dtype, axis, editor.attribute(node, "block_size", 0))


def _quantize(node: ir.Node, data: ir.Value, editor: Editor) -> bool:
    """Quantises a constant, which makes it smaller."""
    numbers = _numbers(editor, node)
    if numbers is None or editor.dtype(data) != ir.DataType.FLOAT:
        return editor.decline(node, "its scale or zero point is computed, or its numbers are not float32")
    if numbers.dtype not in _EIGHT_BITS or numbers.block or _inexact(numbers):
        return editor.decline(node, "only 8-bit numbers without blocks are quantised beforehand")
    if editor.only_user(data) is None:
        return editor.decline(node, "its constant is used elsewhere too, and would be stored twice")
    array = editor.array(data)
    assert array is not None
    if not np.isfinite(array).all():
        return editor.decline(node, "its constant has NaN or infinity, which runtimes quantise in different ways")
    shape = [1] * array.ndim
    if not numbers.per_tensor:
        if numbers.axis >= array.ndim or numbers.scale.shape != (array.shape[numbers.axis],):
            return editor.decline(node, "its scale does not fit its constant")
        shape[numbers.axis] = -1
    limits = np.iinfo(numbers.dtype.numpy())
    zero = numbers.zero.reshape(() if numbers.zero.size == 1 else shape)
    with np.errstate(over="ignore"):  # what is too large is clipped
        steps = np.rint(array / numbers.scale.reshape(() if numbers.per_tensor else shape))
    made = np.clip(steps.astype(np.float64) + zero, limits.min, limits.max)
    editor.replace(node.outputs[0], editor.constant(made.astype(numbers.dtype.numpy()), data.name or "weight"))
    return True
