"""Nodes that move, copy or rename data, and leave all of it where it was."""

from __future__ import annotations

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.noop_arithmetic import Rule, filled_with, keeps_shape
from onnxsmith.graph_optimizer.passes.opset_forms import LAST, given, known_ints, pads_of, slices_of

_INT32_LAST = 2**31 - 1
_DROPOUT_INPUTS = 12
_DROPOUT_ALWAYS_INFERS = 7
_LARGEST_INDICES = 1 << 16


def _always(node: ir.Node, editor: Editor) -> ir.Value | None:
    return node.inputs[0]


def _same_shape(node: ir.Node, editor: Editor) -> ir.Value | None:
    data = node.inputs[0]
    return data if data is not None and keeps_shape(node, editor, data) else None


def _cast(node: ir.Node, editor: Editor) -> ir.Value | None:
    dtype = editor.dtype(node.inputs[0])
    to = editor.dtype(node.inputs[1]) if node.op_type == "CastLike" else editor.attribute(node, "to")
    return node.inputs[0] if dtype is not None and dtype == to else None


def _dropout(node: ir.Node, editor: Editor) -> ir.Value | None:
    if editor.opset >= _DROPOUT_INPUTS:
        training = given(node, 2)
        infers = training is None or editor.scalar(training) is False
    else:
        infers = editor.opset >= _DROPOUT_ALWAYS_INFERS or bool(editor.attribute(node, "is_test", 0))
    if not infers:
        editor.decline(node, "it drops at random: training mode is on, or is not known to be off")
        return None
    if any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
        editor.decline(node, "its mask is used")
        return None
    return node.inputs[0]


def _pad(node: ir.Node, editor: Editor) -> ir.Value | None:
    return node.inputs[0] if pads_of(editor, node).is_empty else None


def _slice(node: ir.Node, editor: Editor) -> ir.Value | None:
    data = node.inputs[0]
    steps = known_ints(editor, given(node, 4)) if given(node, 4) is not None else []
    if steps is not None and all(step > 0 for step in steps) and _same_shape(node, editor) is not None:
        return data
    if given(node, 1) is not None and not editor.is_constant(given(node, 1)):
        return None
    whole = all(
        part.start == 0 and part.step == 1 and part.end in (LAST, LAST - 1, _INT32_LAST, _INT32_LAST - 1)
        for part in slices_of(editor, node)
    )
    return data if whole else None


def _transpose(node: ir.Node, editor: Editor) -> ir.Value | None:
    perm = editor.attribute(node, "perm")
    if perm is None:
        rank = editor.rank(node.inputs[0])
        return node.inputs[0] if rank is not None and rank <= 1 else None
    return node.inputs[0] if list(perm) == list(range(len(perm))) else None


def _resize(node: ir.Node, editor: Editor) -> ir.Value | None:
    attribute = editor.attribute
    if (
        attribute(node, "coordinate_transformation_mode") == "tf_crop_and_resize"
        or attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch"
        or attribute(node, "antialias", 0)
    ):
        return None
    sizes = given(node, 3)
    if sizes is not None:
        return _same_shape(node, editor)
    scales = given(node, 1 if editor.opset < 11 or node.op_type == "Upsample" else 2)
    by_attribute = attribute(node, "scales")
    ones = filled_with(editor, scales) == 1 if by_attribute is None else all(scale == 1 for scale in by_attribute)
    return node.inputs[0] if ones else None


def _gather(node: ir.Node, editor: Editor) -> ir.Value | None:
    data, indices = node.inputs[0], node.inputs[1]
    shape, axis = editor.shape(data), editor.attribute(node, "axis", 0)
    tensor = editor.tensor(indices)
    if shape is None or not shape or tensor is None or len(tensor.shape) != 1:
        return None
    size = shape[axis]
    if size != tensor.size or tensor.size > _LARGEST_INDICES:
        return None
    found = editor.ints(indices)
    in_order = found is not None and [index % size for index in found] == list(range(size)) if size else True
    return data if in_order else None


def _scatter(node: ir.Node, editor: Editor) -> ir.Value | None:
    updates = editor.shape(node.inputs[2])
    return node.inputs[0] if updates is not None and 0 in updates else None


def _split(node: ir.Node, editor: Editor) -> ir.Value | None:
    return node.inputs[0] if len(node.outputs) == 1 else None


def _concat(node: ir.Node, editor: Editor) -> ir.Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _blocks(node: ir.Node, editor: Editor) -> ir.Value | None:
    return node.inputs[0] if editor.attribute(node, "blocksize") == 1 else None


LAYOUT: dict[str, Rule] = {
    "Identity": _always,
    "Dropout": _dropout,
    "Cast": _cast,
    "CastLike": _cast,
    **dict.fromkeys(("Expand", "Tile", "Reshape", "Squeeze", "Flatten"), _same_shape),
    "Pad": _pad,
    "Slice": _slice,
    "Transpose": _transpose,
    "Resize": _resize,
    "Upsample": _resize,
    "Gather": _gather,
    "Scatter": _scatter,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "Split": _split,
    "Concat": _concat,
    "DepthToSpace": _blocks,
    "SpaceToDepth": _blocks,
}
