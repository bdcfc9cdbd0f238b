"""Initial states of recurrent nodes that are zeros, as those that are left out are."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.noop_arithmetic import filled_with
from onnxsmith.graph_optimizer.passes.opset_forms import given

STATES = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
"""The inputs that are initial states."""

_MOVING = ("Expand", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze")


def leave_out_zero_states(node: ir.Node, editor: Editor) -> bool:
    """Takes initial states off a recurrent node where they are zeros of any shape."""
    changed = False
    for index in STATES[node.op_type]:
        if _is_zero(given(node, index), editor):
            editor.set_input(node, index, None)
            changed = True
    return changed


def _is_zero(value: ir.Value | None, editor: Editor) -> bool:
    while (producer := editor.producer(value, *_MOVING)) is not None:
        value = producer.inputs[0]
    fill = editor.producer(value, "ConstantOfShape")
    if fill is None:
        number = filled_with(editor, value)
    else:
        filling = editor.attribute(fill, "value")
        number = 0.0 if filling is None else filling.numpy().reshape(-1)[0].item()
    return number is not None and number == 0 and not np.signbit(number)
