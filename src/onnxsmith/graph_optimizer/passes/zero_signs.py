"""Whether anything in a model can tell -0.0 from 0.0 in a value."""

from __future__ import annotations

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor

_HIDES = frozenset(
    (
        *("Abs", "ArgMax", "ArgMin", "Cos", "Cosh", "Equal", "Exp", "Greater", "GreaterOrEqual", "IsInf", "IsNaN"),
        *("Less", "LessOrEqual", "LogSoftmax", "QuantizeLinear", "ReduceL1", "ReduceL2", "ReduceLogSumExp"),
        *("ReduceSumSquare", "Shape", "Sigmoid", "Size", "Softmax"),
    )
)
"""Operators whose results are the same for both zeros."""

_CARRIES = frozenset(
    (
        *("Add", "Asin", "Atan", "AveragePool", "BatchNormalization", "Cast", "CastLike", "Ceil", "Celu", "Clip"),
        *("Concat", "Conv", "ConvTranspose", "DepthToSpace", "Dropout", "Einsum", "Elu", "Erf", "Expand", "Flatten"),
        *("Floor", "Gather", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization"),
        *("HardSigmoid", "HardSwish", "Identity", "InstanceNormalization", "LayerNormalization", "LeakyRelu", "Log"),
        *("MatMul", "Max", "MaxPool", "Mean", "Min", "Mish", "Mul", "Neg", "Pad", "ReduceMax", "ReduceMean"),
        *("ReduceMin", "ReduceSum", "Relu", "Reshape", "Resize", "RMSNormalization", "Round", "Selu", "Sin", "Sinh"),
        *("Slice", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tan"),
        *("Tanh", "Tile", "Transpose", "Unsqueeze", "Where"),
    )
)
"""Operators in whose results nothing but the sign of a zero depends on the sign of a zero."""


class ZeroSigns:
    """Follows values to where the sign of a zero in them would make more than the sign of a zero.

    Args:
        editor: The graph.
        at_outputs: Whether the sign of a zero in an output of the model counts.
    """

    def __init__(self, editor: Editor, *, at_outputs: bool) -> None:
        self._editor = editor
        self._at_outputs = at_outputs
        self._seen: dict[ir.Value, bool] = {}

    def matter(self, value: ir.Value) -> bool:
        """Whether the sign of a zero in a value is seen anywhere; True where that is not known."""
        waiting = [value]
        while waiting:
            current = waiting[-1]
            if current not in self._seen:
                verdict, missing = self._look(current)
                if missing and not verdict:
                    waiting.extend(missing)
                    continue
                self._seen[current] = verdict
            waiting.pop()
        return self._seen[value]

    def _look(self, value: ir.Value) -> tuple[bool, list[ir.Value]]:
        if value.is_graph_output() and (self._at_outputs or value.graph is not self._editor.model.graph):
            return True, []
        missing = []
        for use in value.uses():
            node = use.node
            if self._editor.is_standard(node, *_HIDES):
                continue
            if not self._carries(node, use.idx):
                return True, []
            for output in node.outputs:
                if output not in self._seen:
                    missing.append(output)
                elif self._seen[output]:
                    return True, []
        return False, missing

    def _carries(self, node: ir.Node, index: int) -> bool:
        if self._editor.is_standard(node, "Div"):
            return index == 0
        if self._editor.is_standard(node, "Pow"):
            power = self._editor.scalar(node.inputs[1])
            return index == 0 and power is not None and power > 0
        return self._editor.is_standard(node, *_CARRIES)
