"""BatchNormalization into the weights before it, or after it."""

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
    fold_after,
    fold_before,
    linear_after,
    linear_before,
)

_IN_INFERENCE_FORM = 7
"""The opset from which the number of outputs says whether it trains."""

_EPSILON = float(np.float32(1e-5))
"""The default, which is in float32 as every attribute."""


@dataclass(frozen=True)
class FoldBatchNorm(RulePass):
    """Folds BatchNormalization into the Conv, ConvTranspose, Gemm or MatMul before it, or after it where that is exact.

    With s = γ / √(σ² + ε), W becomes W · s and the bias b becomes b · s + β − μ · s, computed in float64.

    Attributes:
        shared_bytes: How large a weight that other nodes use too may be for a copy of it to be made.
    """

    name: ClassVar[str] = "fold-batch-norm"
    exact: ClassVar[bool] = False
    operators: ClassVar[frozenset[str]] = frozenset({"BatchNormalization"})

    shared_bytes: int = SHARED_BYTES

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Folds one BatchNormalization."""
        value = node.inputs[0]
        if value is None:
            return False
        before = linear_before(editor, value)
        after = linear_after(editor, node)
        if before is None and after is None:
            return False
        affine = _affine(editor, node)
        if isinstance(affine, str):
            return editor.decline(node, affine)
        reasons = []
        if before is not None:
            try:
                _check(before, before.axis, before.channels, affine)
                fold_after(editor, before, affine, node, self.shared_bytes)
            except NotFolded as reason:
                reasons.append(str(reason))
            else:
                return True
        if after is not None:
            try:
                _check(after, 1 if after.node.op_type != "MatMul" else after.rank - 1, after.inputs, affine)
                fold_before(editor, after, affine, value, self.shared_bytes)
            except NotFolded as reason:
                reasons.append(str(reason))
            else:
                return True
        return editor.decline(node, "; ".join(reasons))


def _check(linear: Linear, axis: int, channels: int, affine: Affine) -> None:
    if axis != 1:
        raise NotFolded(f"the channels of the {linear.node.op_type} next to it are not on axis 1")
    if affine.scale.size != channels:
        raise NotFolded(f"its parameters are not one for each channel of the {linear.node.op_type} next to it")


def _affine(editor: Editor, node: ir.Node) -> Affine | str:
    """What a BatchNormalization does in inference; or why it cannot be told."""
    if editor.opset < _IN_INFERENCE_FORM:
        return f"at opset {editor.opset} it has another form"
    if editor.attribute(node, "training_mode", 0) or len(node.outputs) > 1:
        return "it is in training mode: its statistics come from its input"
    if not editor.attribute(node, "spatial", 1):
        return "it normalises each position by itself (spatial=0)"
    arrays = [editor.array(value) for value in node.inputs[1:5]]
    if len(arrays) != 4 or any(array is None or array.ndim != 1 for array in arrays):
        return "its parameters are not constant"
    gamma, beta, mean, variance = (array.astype(np.float64) for array in arrays if array is not None)
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + editor.attribute(node, "epsilon", _EPSILON))
        return Affine(scale, beta - mean * scale)
