"""Concat and Split: nested ones are one, what was cut and put together again was never cut."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import splits_of
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.slice_ranges import Part, part_of

_SMALLEST_BLOCK = 16
"""The elements behind one of the axis from which on a Gather copies as fast as slices and a Concat."""

_LARGEST_AXIS = 1 << 16


@dataclass(frozen=True)
class SimplifyConcats(RulePass):
    """Flattens nested Concats, cancels Concat with Split and slices, and drops inputs that are empty."""

    name: ClassVar[str] = "simplify-concats"
    operators: ClassVar[frozenset[str]] = frozenset(("Concat", "Split"))

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Looks at a Concat and at its inputs, or at a Split of a Concat."""
        rank = editor.rank(node.inputs[0])
        if not rank:
            return False
        axis = editor.attribute(node, "axis", 0) % rank
        if node.op_type == "Split":
            return _undo_concat(node, axis, editor)
        return _flatten(node, axis, editor) or _drop_empty(node, axis, editor) or _rejoin(node, axis, editor)


def _flatten(node: ir.Node, axis: int, editor: Editor) -> bool:
    """Takes in what only feeds this Concat; the outermost one takes in all, however deep."""
    user = editor.only_user(node.outputs[0])
    if user is not None and _is_part(node.outputs[0], user, axis, editor):
        return False
    inputs: list[ir.Value | None] = []
    waiting = [(value, node) for value in reversed(node.inputs)]
    while waiting:
        value, outer = waiting.pop()
        if value is not None and _is_part(value, outer, axis, editor):
            inner = value.producer()
            assert inner is not None
            waiting.extend((given, inner) for given in reversed(inner.inputs))
        else:
            inputs.append(value)
    if len(inputs) == len(node.inputs):
        return False
    editor.replace_node(node, "Concat", inputs, {"axis": axis})
    return True


def _is_part(value: ir.Value, outer: ir.Node, axis: int, editor: Editor) -> bool:
    """Whether a Concat's result goes into another Concat along the same axis, and nowhere else."""
    inner, rank = editor.producer(value, "Concat"), editor.rank(value)
    return (
        inner is not None
        and bool(rank)
        and inner.graph is outer.graph
        and editor.is_standard(outer, "Concat")
        and editor.attribute(inner, "axis", 0) % rank == axis == editor.attribute(outer, "axis", 0) % rank
        and not value.is_graph_output()
        and all(use.node is outer for use in value.uses())
    )


def _drop_empty(node: ir.Node, axis: int, editor: Editor) -> bool:
    kept = []
    for value in node.inputs:
        shape = editor.shape(value)
        if shape is None or shape[axis] != 0:
            kept.append(value)
    if len(kept) == len(node.inputs) or not kept:
        return False
    editor.replace_node(node, "Concat", kept, {"axis": axis})
    return True


def _rejoin(node: ir.Node, axis: int, editor: Editor) -> bool:
    """Parts of one value: in order and all of them they are the value, else one Gather picks them."""
    parts: list[Part] = []
    for value in node.inputs:
        part = part_of(editor, value)
        if part is None or part.axis != axis or (parts and part.data is not parts[0].data):
            return False
        parts.append(part)
    data, shape = parts[0].data, editor.shape(parts[0].data)
    size = None if shape is None else shape[axis]
    if len(parts) < 2 or shape is None or not isinstance(size, int) or size > _LARGEST_AXIS:
        return False
    elements = [element for part in parts for element in part.picked]
    if elements == list(range(size)):
        editor.replace(node.outputs[0], data)
        return True
    if not elements or not all(_only_for(value, node) for value in node.inputs):
        return False
    block = [dim for dim in shape[axis + 1 :] if isinstance(dim, int)]
    if len(block) < len(shape) - axis - 1 or math.prod(block) < _SMALLEST_BLOCK:
        return editor.decline(node, "one Gather would pick these parts, but in blocks too small to be as fast")
    indices = editor.constant(np.array(elements, dtype=np.int64), "indices")
    editor.replace_node(node, "Gather", [data, indices], {"axis": axis})
    return True


def _only_for(value: ir.Value | None, node: ir.Node) -> bool:
    """Whether what makes a value makes it, and all else that it makes, for one node."""
    producer = value.producer() if value is not None else None
    return producer is not None and all(
        not output.is_graph_output() and all(use.node is node for use in output.uses()) for output in producer.outputs
    )


def _undo_concat(node: ir.Node, axis: int, editor: Editor) -> bool:
    concat = editor.producer(node.inputs[0], "Concat")
    sizes = splits_of(editor, node)
    rank = editor.rank(node.inputs[0])
    if concat is None or sizes is None or not rank or editor.attribute(concat, "axis", 0) % rank != axis:
        return False
    given = [shape[axis] if (shape := editor.shape(value)) is not None else None for value in concat.inputs]
    if given != sizes:
        return False
    for output, value in zip(list(node.outputs), list(concat.inputs), strict=True):
        assert value is not None
        editor.replace(output, value)
    return True
