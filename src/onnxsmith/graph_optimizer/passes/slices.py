"""Slices after slices, slices of a Concat, and slices that together are a Split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import (
    AxisSlice,
    axes_of,
    emit_split,
    slice_form,
    slices_of,
)
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.slice_ranges import as_slice, part_of, picked

_MOST_SIBLINGS = 64
"""How many users or inputs of one node are looked at, which each of them does."""


@dataclass(frozen=True)
class SimplifySlices(RulePass):
    """Merges slices, also with Concat, into a Split, or a Gather with its Unsqueeze."""

    name: ClassVar[str] = "simplify-slices"
    operators: ClassVar[frozenset[str]] = frozenset(("Slice", "Unsqueeze"))

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Looks at a Slice, what is before it and beside it."""
        if node.op_type == "Unsqueeze":
            return _gather_one(node, editor)
        parts = slices_of(editor, node)
        return (
            _merge(node, parts, editor)
            or _pass_concat(node, parts, editor)
            or _as_split(node, editor)
            or _constant_bounds(node, parts, editor)
        )


def _gather_one(node: ir.Node, editor: Editor) -> bool:
    gather = editor.producer(node.inputs[0], "Gather")
    if gather is None or editor.only_user(gather.outputs[0]) is not node:
        return False
    data, index = gather.inputs[0], editor.array(gather.inputs[1])
    rank = editor.rank(data)
    if index is None or index.ndim or not rank or axes_of(editor, node) != [editor.attribute(gather, "axis", 0) % rank]:
        return False
    indices = editor.constant(index.reshape(1), "index")
    editor.replace_node(node, "Gather", [data, indices], {"axis": editor.attribute(gather, "axis", 0)})
    return True


def _merge(node: ir.Node, parts: list[AxisSlice], editor: Editor) -> bool:
    first = editor.producer(node.inputs[0], "Slice")
    if first is None or first.inputs[0] is None or first.outputs[0].is_graph_output():
        return False
    uses = first.outputs[0].uses()
    if len(uses) > _MOST_SIBLINGS or not all(editor.is_standard(use.node, "Slice") and use.idx == 0 for use in uses):
        return False
    shape = editor.shape(first.inputs[0])
    merged = {part.axis: part for part in slices_of(editor, first)}
    for part in parts:
        before = merged.get(part.axis)
        if before is None:
            merged[part.axis] = part
            continue
        size = shape[part.axis] if shape is not None and part.axis < len(shape) else None
        if not isinstance(size, int):
            return editor.decline(node, "the slice before it cuts the same axis, whose size is not known")
        elements = picked(before, size)
        assert elements is not None
        elements = elements[slice(part.start, part.end, part.step)]
        if before.step < 0 or part.step < 0:
            return editor.decline(node, "the slice before it cuts the same axis, and one of the two goes backwards")
        merged[part.axis] = as_slice(part.axis, elements)
    form = slice_form(editor, first.inputs[0], list(merged.values()))
    if form is None:
        return False
    editor.replace_node(node, "Slice", *form)
    return True


def _pass_concat(node: ir.Node, parts: list[AxisSlice], editor: Editor) -> bool:
    """A slice that lies in one input of a Concat is a slice of that input, or all of it."""
    concat = editor.producer(node.inputs[0], "Concat")
    rank = editor.rank(node.inputs[0])
    if concat is None or not rank or len(concat.inputs) > _MOST_SIBLINGS or len(parts) != 1 or parts[0].step != 1:
        return False
    axis = parts[0].axis
    shape = editor.shape(node.inputs[0])
    if shape is None or editor.attribute(concat, "axis", 0) % rank != axis:
        return False
    elements = picked(parts[0], shape[axis])
    if not elements:
        return False
    start = 0
    for value in concat.inputs:
        size = inner[axis] if (inner := editor.shape(value)) is not None else None
        if value is None or not isinstance(size, int):
            return False
        if start <= elements.start and elements.stop <= start + size:
            if len(elements) == size:
                editor.replace(node.outputs[0], value)
                return True
            form = slice_form(editor, value, [AxisSlice(axis, elements.start - start, elements.stop - start)])
            assert form is not None
            editor.replace_node(node, "Slice", *form)
            return True
        if elements.start < start + size:
            return False
        start += size
    return False


def _as_split(node: ir.Node, editor: Editor) -> bool:
    """Slices that share out an axis among them."""
    mine = part_of(editor, node.outputs[0])
    if mine is None or mine.picked.step != 1 or len(mine.data.uses()) > _MOST_SIBLINGS:
        return False
    shared: dict[tuple[int, int], ir.Node] = {}
    for use in mine.data.uses():
        if use.idx or use.node.graph is not node.graph or not editor.is_standard(use.node, "Slice"):
            continue
        part = part_of(editor, use.node.outputs[0])
        if part is None or part.axis != mine.axis or part.picked.step != 1:
            continue
        if not part.picked or (part.picked.start, part.picked.stop) in shared:
            return False
        shared[part.picked.start, part.picked.stop] = use.node
    shape = editor.shape(mine.data)
    ranges = sorted(shared)
    ends = [0, *(end for _, end in ranges)]
    if shape is None or len(ranges) < 2 or [start for start, _ in ranges] != ends[:-1] or ends[-1] != shape[mine.axis]:
        return False
    nodes = [shared[each] for each in ranges]
    if any(_only_sliced(each.outputs[0], editor) for each in nodes):
        return False  # its slices are merged with theirs
    root, editor.root = editor.root, _first(nodes)
    made = emit_split(editor, mine.data, mine.axis, [end - start for start, end in ranges])
    for each, value in zip(nodes, made, strict=True):
        editor.replace(each.outputs[0], value)
    editor.root = root
    return True


def _only_sliced(value: ir.Value, editor: Editor) -> bool:
    uses = value.uses()
    return bool(uses) and all(use.idx == 0 and editor.is_standard(use.node, "Slice") for use in uses)


def _first(nodes: list[ir.Node]) -> ir.Node:
    """The one that comes first in its graph."""
    graph = nodes[0].graph
    assert graph is not None
    wanted = set(nodes)
    return next(node for node in graph if node in wanted)


def _constant_bounds(node: ir.Node, parts: list[AxisSlice], editor: Editor) -> bool:
    computed = [value for value in node.inputs[1:] if value is not None and not editor.is_constant(value)]
    form = slice_form(editor, node.inputs[0], parts) if computed and node.inputs[0] is not None else None
    if form is None:
        return False
    editor.replace_node(node, "Slice", *form)
    return True
