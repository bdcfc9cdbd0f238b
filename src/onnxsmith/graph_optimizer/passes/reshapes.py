"""Chains of views become one, and computed shapes constant ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import (
    REDUCTIONS,
    axes_form,
    axes_of,
    emit_with_axes,
    given,
    reshape_form,
)
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.undone_views import undo_view
from onnxsmith.graph_optimizer.passes.views import VIEWS, emit_view, reshape_target

_REDUCING = REDUCTIONS | {"ArgMax", "ArgMin"}

_BROADCASTING = frozenset(
    (
        *("Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual", "Less"),
        *("LessOrEqual", "Max", "Min", "Mul", "Or", "Pow", "Sub", "Where", "Xor"),
    )
)


@dataclass(frozen=True)
class SimplifyReshapes(RulePass):
    """Merges Reshape, Flatten, Squeeze and Unsqueeze, and gives Reshape and Expand constant shapes."""

    name: ClassVar[str] = "simplify-reshapes"
    operators: ClassVar[frozenset[str]] = VIEWS | {"Expand"}

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Merges a view with what is before it, or makes its shape constant."""
        if node.op_type == "Expand":
            return _drop_expand(node, editor) or _constant_expand(node, editor)
        return (
            _merge_views(node, editor)
            or _merge_reduction(node, editor)
            or _constant_reshape(node, editor)
            or undo_view(node, editor)
        )


def _merge_views(node: ir.Node, editor: Editor) -> bool:
    first = editor.producer(node.inputs[0], *VIEWS)
    if first is None or first.inputs[0] is None:
        return False
    data, output = first.inputs[0], node.outputs[0]
    after = editor.shape(output)
    if after is not None and after == editor.shape(data):
        editor.replace(output, data)
        return True
    if node.op_type == first.op_type and node.op_type in ("Squeeze", "Unsqueeze"):
        axes = _merged_axes(first, node, editor)
        if axes is not None:
            editor.replace(output, emit_with_axes(editor, node.op_type, data, axes))
            return True
    made = None if after is None else emit_view(editor, data, after)
    if made is not None:
        editor.replace(output, made)
        return True
    if node.op_type == "Reshape" and _counts_elements_only(node, editor):
        editor.set_input(node, 0, data)
        return True
    return False


def _counts_elements_only(node: ir.Node, editor: Editor) -> bool:
    """Whether a Reshape's target copies no size of its input."""
    value = given(node, 1)
    target = editor.attribute(node, "shape") if value is None else editor.ints(value)
    return target is not None and (0 not in target or bool(editor.attribute(node, "allowzero", 0)))


def _merged_axes(first: ir.Node, second: ir.Node, editor: Editor) -> list[int] | None:
    inner, outer = axes_of(editor, first), axes_of(editor, second)
    if inner is None or outer is None:
        return None
    if first.op_type == "Squeeze":
        before, after = inner, outer
    else:
        before, after = outer, inner
    numbers = iter(range(len(before) + max(after, default=-1) + 1))
    kept = [axis for axis in numbers if axis not in before]
    return sorted([*before, *(kept[axis] for axis in after)])


def _merge_reduction(node: ir.Node, editor: Editor) -> bool:
    """A view that only drops, or only puts back, the axes of the reduction before it."""
    reduction = editor.producer(node.inputs[0], *_REDUCING)
    if reduction is None or editor.only_user(reduction.outputs[0]) is not node:
        return False
    data = reduction.inputs[0]
    before, after = editor.shape(data), editor.shape(node.outputs[0])
    if data is None or before is None or after is None:
        return False
    by_axis = reduction.op_type in ("ArgMax", "ArgMin")
    axes = [editor.attribute(reduction, "axis", 0) % len(before)] if by_axis else axes_of(editor, reduction)
    if axes is None:
        axes = [] if editor.attribute(reduction, "noop_with_empty_axes", 0) else list(range(len(before)))
    if not axes:
        return False
    keeps = editor.attribute(reduction, "keepdims", 1)
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(before))
    dropped = tuple(dim for axis, dim in enumerate(before) if axis not in axes)
    if after != (dropped if keeps else kept):
        return False
    named = {key: value for key, value in reduction.attributes.items() if key not in ("keepdims", "axes")}
    attributes = {**named, "keepdims": 0 if keeps else 1}
    inputs: list[ir.Value | None] = [data]
    if not by_axis:
        inputs, attributes = axes_form(editor, reduction.op_type, data, axes, attributes)
    editor.replace(node.outputs[0], editor.emit(reduction.op_type, inputs, attributes))
    return True


def _constant_reshape(node: ir.Node, editor: Editor) -> bool:
    target_value = given(node, 1)
    if node.op_type != "Reshape" or target_value is None or editor.is_constant(target_value):
        return False
    data, after = node.inputs[0], editor.shape(node.outputs[0])
    before = editor.shape(data)
    if data is None or before is None or after is None:
        return False
    target = reshape_target(before, after)
    if target is None:
        return editor.decline(
            node, "its shape is computed, and two or more of its sizes, or an empty one, follow from nothing"
        )
    form = reshape_form(editor, data, target)
    if form is None:
        return False
    editor.replace_node(node, "Reshape", *form)
    return True


def _constant_expand(node: ir.Node, editor: Editor) -> bool:
    target_value = given(node, 1)
    if target_value is None or editor.is_constant(target_value):
        return False
    before, after = editor.shape(node.inputs[0]), editor.shape(node.outputs[0])
    if before is None or after is None:
        return False
    padded = (*(None for _ in range(len(after) - len(before))), *before)
    target = [1 if new == old else new for new, old in zip(after, padded, strict=True)]
    if not all(isinstance(dim, int) for dim in target):
        return editor.decline(node, "its shape is computed, and a size in it is not its input's")
    editor.set_input(node, 1, editor.constant(np.array(target, dtype=np.int64), "shape"))
    return True


def _drop_expand(node: ir.Node, editor: Editor) -> bool:
    """Gives what broadcasts an expanded value anyway the value itself."""
    data, output = node.inputs[0], node.outputs[0]
    small = editor.shape(data)
    if data is None or small is None:
        return False
    changed = False
    for user, index in list(output.uses()):
        if editor.is_standard(user, *_BROADCASTING) and _broadcasts_alike(user, index, small, editor):
            editor.set_input(user, index, data)
            changed = True
    return changed


def _broadcasts_alike(user: ir.Node, index: int, small: tuple[object, ...], editor: Editor) -> bool:
    """Whether the other inputs alone, or the smaller one with them, reach the result's shape."""
    after = editor.shape(user.outputs[0])
    shapes = [editor.shape(value) for place, value in enumerate(user.inputs) if place != index]
    if after is None or any(shape is None for shape in shapes):
        return False
    reaching = [small, *(shape for shape in shapes if shape is not None)]
    return all(
        any(len(shape) >= place and shape[-place] == after[-place] for shape in reaching)
        for place in range(1, len(after) + 1)
    )
