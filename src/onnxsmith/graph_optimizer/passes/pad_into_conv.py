"""Pad into the convolutions and poolings that use it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic import is_positive
from onnxsmith.graph_optimizer.editor import Editor, Unknown
from onnxsmith.graph_optimizer.passes.opset_forms import Padding, given, pads_of
from onnxsmith.graph_optimizer.passes.rules import RulePass

_INTEGER = ("ConvInteger", "QLinearConv")
_POOLS = ("AveragePool", "MaxPool")
_WINDOWS = ("Conv", *_INTEGER, *_POOLS)
_COUNT_INCLUDES_PADS = 7
"""The opset from which an AveragePool can count what it pads."""


@dataclass(frozen=True)
class FoldPad(RulePass):
    """Folds Pad of spatial axes into the Conv, the ConvInteger, the QLinearConv or the pooling after it.

    A Pad that several nodes use is folded if each of them can take it.
    """

    name: ClassVar[str] = "fold-pad"
    exact: ClassVar[bool] = False
    operators: ClassVar[frozenset[str]] = frozenset({"Pad"})

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Folds one Pad."""
        output = node.outputs[0]
        users = list(output.uses())
        windows = [use.node for use in users if use.idx == 0 and editor.is_standard(use.node, *_WINDOWS)]
        if not windows:
            return False
        if output.is_graph_output() or len(windows) < len(users):
            return editor.decline(node, f"its output is used by more than the {windows[0].op_type}")
        padding = pads_of(editor, node)
        if padding.mode != "constant":
            return editor.decline(node, f"it fills in no constant (mode {padding.mode})")
        if min(*padding.begins, *padding.ends) < 0:
            return editor.decline(node, "it crops")
        if any(padding.begins[:2]) or any(padding.ends[:2]):
            return editor.decline(node, "it pads the batch or the channels too")
        for window in windows:
            reason = _why_not(editor, node, window, padding)
            if reason is not None:
                return editor.decline(node, reason)
        for window in windows:
            pads = _merged(editor, window, padding)
            if window.op_type == "AveragePool":
                editor.set_attribute(window, "count_include_pad", 1)
            window.attributes.pop("auto_pad", None)
            editor.set_attribute(window, "pads", pads)
            editor.set_input(window, 0, node.inputs[0])
        return True


def _why_not(editor: Editor, pad: ir.Node, window: ir.Node, padding: Padding) -> str | None:
    """Why a window cannot pad by itself; None where it can."""
    kind = window.op_type
    if editor.attribute(window, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return f"the {kind} after it has auto_pad, which depends on the padded size"
    filled = 0.0 if padding.value is None else padding.value
    value = editor.scalar(filled) if isinstance(filled, ir.Value) else filled
    if value is None:
        return "what it fills in is not constant"
    if kind in _INTEGER:
        point = given(window, 2)
        if value != (0 if point is None else editor.scalar(point)):
            return f"the {kind} after it pads with its zero point, it with {value}"
        return None
    if kind == "Conv":
        return None if value == 0 else f"the Conv after it pads with 0, it with {value}"
    sizes = editor.shape(pad.inputs[0])
    if sizes is None or not all(is_positive(size) for size in sizes[2:]):
        return f"its input may be empty, which a {kind} does not take"
    if editor.attribute(window, "ceil_mode", 0):
        return f"the {kind} after it rounds up its output's size, in which its own pads count differently"
    if any(step != 1 for step in editor.attribute(window, "dilations", ())):
        return f"the {kind} after it is dilated"
    if kind == "MaxPool":
        if len(window.outputs) > 1:
            return "the MaxPool after it gives indices, which count the padded positions"
        if value != -math.inf:
            return f"the MaxPool after it ignores what it pads, which is not the same as {value}"
    else:
        if value != 0:
            return f"the AveragePool after it pads with 0, it with {value}"
        if editor.opset < _COUNT_INCLUDES_PADS:
            return f"at opset {editor.opset} an AveragePool does not count what it pads"
        if any(editor.attribute(window, "pads", ())) and not editor.attribute(window, "count_include_pad", 0):
            return "the AveragePool after it does not count what it pads"
    kernel: Sequence[int] = editor.attribute(window, "kernel_shape", ())
    if any(pad >= size for pad, size in zip(_merged(editor, window, padding), [*kernel, *kernel], strict=True)):
        return f"the {kind} after it would pad as much as its window is wide"
    return None


def _merged(editor: Editor, window: ir.Node, padding: Padding) -> list[int]:
    """The pads of a window and those of the Pad before it."""
    added = [*padding.begins[2:], *padding.ends[2:]]
    own = editor.attribute(window, "pads")
    if own is None or editor.attribute(window, "auto_pad", "NOTSET") == "VALID":
        own = [0] * len(added)
    if len(own) != len(added):
        raise Unknown(f"the pads of the {window.op_type} after it do not fit its input")
    return [first + second for first, second in zip(own, added, strict=True)]
