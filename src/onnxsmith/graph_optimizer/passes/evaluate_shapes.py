"""Arithmetic on dynamic sizes, done with symbols: one value for one meaning, made in as few nodes as it takes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.nesting import subgraphs
from onnxsmith.graph_analysis.symbolic import Dim, Expr
from onnxsmith.graph_analysis.symbolic.call import CONTENTS
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import GraphPass

_SHAPE_RANGE = 15
"""The opset from which Shape takes a start and an end."""

_MOST_COUNTED = 8
"""How many nodes are counted when it is seen how many a rewrite removes."""

_WHOLE = frozenset({ir.DataType.INT64, ir.DataType.INT32})

_Key = tuple[ir.DataType | None, int, tuple[Dim, ...]]


@dataclass(frozen=True)
class EvaluateShapes(GraphPass):
    """Replaces computed sizes by equal ones that are there already or take fewer nodes: `(h * w) / w` by `h`."""

    name: ClassVar[str] = "evaluate-shapes"

    def edit(self, editor: Editor) -> None:
        """Goes over the nodes in the order in which they run, into bodies where they stand."""
        walk = [(iter(list(editor.model.graph)), _Scope(editor))]
        while walk:
            nodes, scope = walk[-1]
            node = next(nodes, None)
            if node is None:
                walk.pop()
            elif node.graph is not None:
                editor.root = node
                scope.visit(node)
                if node.graph is not None:
                    walk.extend((iter(list(body)), scope.inner()) for body in subgraphs(node))
        editor.root = None


class _Scope:
    """What the nodes of a graph may use."""

    def __init__(
        self,
        editor: Editor,
        values: ChainMap[_Key, ir.Value] | None = None,
        sizes: ChainMap[Expr, tuple[ir.Value, int]] | None = None,
    ) -> None:
        self._editor = editor
        self._values = ChainMap() if values is None else values
        self._sizes = ChainMap() if sizes is None else sizes
        if sizes is None:
            for value in editor.model.graph.inputs:
                self._measure(value)

    def inner(self) -> _Scope:
        """That of a body."""
        return _Scope(self._editor, self._values.new_child(), self._sizes.new_child())

    def visit(self, node: ir.Node) -> None:
        """Looks at a node and remembers what it makes."""
        editor = self._editor
        if node.op_type not in CONTENTS or len(node.outputs) != 1 or not editor.is_standard(node):
            return
        value = node.outputs[0]
        sizes = _contents(editor, value)
        if sizes is None:
            return
        if node.op_type == "Concat":
            self._merge_constants(node)
        if node.op_type == "Shape" and node.inputs[0] is not None:
            self._measure(node.inputs[0])
        if value.is_graph_output():
            return
        key = (editor.dtype(value), editor.rank(value) or 0, sizes)
        same = self._values.get(key)
        if same is not None and _is_there(same):
            editor.replace(value, same)
            editor.count()
            return
        made = self._shorter(node, sizes)
        if made is not None:
            editor.facts.assume(made, value)
            editor.replace(value, made)
            editor.count()
        self._values[key] = value if made is None else made

    def _measure(self, value: ir.Value) -> None:
        """Remembers where sizes can be read."""
        for axis, dim in enumerate(self._editor.shape(value) or ()):
            if isinstance(dim, Expr):
                found = self._sizes.get(dim)
                if found is None or not _is_there(found[0]):
                    self._sizes[dim] = (value, axis)

    def _shorter(self, node: ir.Node, sizes: Sequence[Dim]) -> ir.Value | None:
        """The same value made from the shape of one that is there, if that takes fewer nodes."""
        editor = self._editor
        value = node.outputs[0]
        place = self._place(sizes)
        if node.op_type == "Shape" or place is None or editor.dtype(value) != ir.DataType.INT64:
            return None
        source, axis = place
        is_vector = editor.rank(value) == 1
        whole = self._values.get((ir.DataType.INT64, 1, tuple(editor.shape(source) or ())))
        if whole is not None and not _is_there(whole):
            whole = None
        if is_vector and editor.opset >= _SHAPE_RANGE:
            if _removed_with(node) <= 1:
                return None
            rank = editor.rank(source)
            ranged = {"start": axis, "end": axis + len(sizes)} if len(sizes) != rank else {}
            return editor.emit("Shape", [source], ranged)
        if _removed_with(node) <= (1 if whole is not None else 2):
            return None
        if whole is None:
            whole = editor.emit("Shape", [source])
            self._values[ir.DataType.INT64, 1, tuple(editor.shape(source) or ())] = whole
        picks = np.arange(axis, axis + len(sizes), dtype=np.int64)
        indices = editor.constant(picks if is_vector else picks.reshape(()), "indices")
        return editor.emit("Gather", [whole, indices], {"axis": 0})

    def _place(self, sizes: Sequence[Dim]) -> tuple[ir.Value, int] | None:
        """A value that is there, and the axis from which its shape has these sizes."""
        for index, size in enumerate(sizes):
            if isinstance(size, Expr):
                found = self._sizes.get(size)
                if found is None or not _is_there(found[0]):
                    return None
                source, axis = found[0], found[1] - index
                shape = self._editor.shape(source) or ()
                fits = axis >= 0 and tuple(shape[axis : axis + len(sizes)]) == tuple(sizes)
                return (source, axis) if fits else None
        return None

    def _merge_constants(self, node: ir.Node) -> None:
        """Makes one constant of neighbours in a Concat of sizes that are known."""
        editor = self._editor
        pieces = [(value, _numbers(editor, value)) for value in node.inputs if value is not None]
        groups = [(known, list(group)) for known, group in groupby(pieces, lambda piece: piece[1] is not None)]
        if not any(known and len(group) > 1 for known, group in groups) or len(groups) == 1:
            return
        dtype = editor.dtype(node.outputs[0])
        inputs: list[ir.Value | None] = []
        for known, group in groups:
            if known and len(group) > 1:
                numbers = [number for _, piece in group for number in piece or ()]
                assert dtype is not None
                inputs.append(editor.constant(np.array(numbers, dtype.numpy()), "sizes"))
            else:
                inputs.extend(value for value, _ in group)
        used = [value.producer() for value, _ in pieces]
        for index, value in enumerate(inputs):
            node.replace_input_with(index, value)
        node.resize_inputs(len(inputs))
        editor.mark(node)
        editor.count()
        for maker in used:
            if maker is not None:
                editor.remove_unused(maker)


def _contents(editor: Editor, value: ir.Value) -> tuple[Dim, ...] | None:
    """The contents of a vector or scalar of whole numbers that depends on dynamic sizes, all of it known in symbols."""
    found = editor.facts.data(value)
    if found is None or editor.dtype(value) not in _WHOLE:
        return None
    sizes = found if isinstance(found, tuple) else (found,)
    return sizes if any(isinstance(size, Expr) for size in sizes) else None


def _numbers(editor: Editor, value: ir.Value) -> tuple[int, ...] | None:
    found = editor.facts.data(value)
    if not isinstance(found, tuple) or not all(isinstance(number, int) for number in found):
        return None
    return tuple(number for number in found if isinstance(number, int))


def _is_there(value: ir.Value) -> bool:
    """Whether a value is still in the graph."""
    maker = value.producer()
    return maker is None or maker.graph is not None


def _removed_with(node: ir.Node) -> int:
    """How many nodes go if nothing uses this one any more, up to a few."""
    gone = {node}
    waiting = [node]
    while waiting and len(gone) < _MOST_COUNTED:
        for maker in _makers(waiting.pop()):
            if maker not in gone and all(
                not output.is_graph_output() and all(use.node in gone for use in output.uses())
                for output in maker.outputs
            ):
                gone.add(maker)
                waiting.append(maker)
    return sum(node.op_type != "Constant" for node in gone)


def _makers(node: ir.Node) -> Iterator[ir.Node]:
    for value in node.inputs:
        if value is not None and (maker := value.producer()) is not None:
            yield maker
