"""Rotary position embeddings written out in elementary operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.matching import Match, Term
from onnxsmith.graph_analysis.symbolic import Dim
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import AxisSlice, axes_of, emit_with_axes, slice_form, slices_of
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.subgraph_match import CONTRIB, Domain, find, is_available

_RANK = 4
_MOST_STEPS = 8
_ELEMENTWISE = ("Cos", "Sin", "Cast", "Identity", "Neg")


@dataclass(frozen=True)
class RecognizeRotary(RulePass):
    """Puts RotaryEmbedding (opset 23) in the place of x · cos + rotate_half(x) · sin.

    The operator takes half of the cosines and sines, so the two halves must be provably the same.

    Attributes:
        domain: Whether ONNX Runtime's RotaryEmbedding may be used, which takes cosines without a batch.
    """

    name: ClassVar[str] = "recognize-rotary"
    exact: ClassVar[bool] = False
    operators: ClassVar[frozenset[str]] = frozenset({"Add"})

    domain: Domain = "standard"

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Replaces the sum at the end of a rotary embedding."""
        fit = find(editor, node, _TERM, "a rotary embedding", lambda fit: _rotates_halves(editor, fit))
        if fit is None:
            return False
        x = fit.names["x"]
        cos, sin = (_find_cache(editor, fit.names[name]) for name in ("cos", "sin"))
        if cos is None or sin is None:
            return editor.decline(node, "the two halves of the cosines or sines are not known to be the same")
        whole = editor.shape(x) or ()
        shapes = [_cache_shape(editor, cache) for cache in (cos, sin)]
        if any(shape[1:] != whole[2:] for shape in shapes):
            return editor.decline(node, "the cosines or sines are not known to have a row for each position")
        if (
            self.domain == "onnxruntime"
            and all(shape[0] == 1 for shape in shapes)
            and editor.dtype(x) == ir.DataType.FLOAT
        ):
            position = editor.constant(np.zeros(1, np.int64), "position")
            halves = [_halve(editor, cache, x, rank=2) for cache in (cos, sin)]
            editor.replace_node(node, "RotaryEmbedding", [x, position, *halves], domain=CONTRIB)
            return True
        if not is_available(editor, node, "RotaryEmbedding", x):
            return False
        if any(shape[0] != whole[0] for shape in shapes):
            return editor.decline(node, "RotaryEmbedding takes cosines for each item of the batch; these may broadcast")
        halves = [_halve(editor, cache, x, rank=3) for cache in (cos, sin)]
        editor.replace_node(node, "RotaryEmbedding", [x, *halves])
        return True


_TERM: Term = ("Add", ("Mul", "x", "cos"), ("Mul", ("Concat", ("Neg", "second"), "first"), "sin"))


def _rotates_halves(editor: Editor, fit: Match) -> bool:
    """Whether the Concat swaps the two halves of the last axis of x."""
    x, concat = fit.names["x"], fit.node("Concat")
    shape = editor.shape(x)
    if shape is None or len(shape) != _RANK or len(concat.inputs) != 2:
        return False
    size = shape[-1]
    if not isinstance(size, int) or size % 2 or editor.attribute(concat, "axis") not in (-1, _RANK - 1):
        return False
    half = size // 2
    first, second = fit.names["first"], fit.names["second"]
    return _part(editor, first, x, size) == (0, half) and _part(editor, second, x, size) == (half, size)


def _part(editor: Editor, part: ir.Value, x: ir.Value, size: int) -> tuple[int, int] | None:
    """From where to where a value is a part of the last axis of x."""
    node = editor.producer(part, "Slice", "Split")
    if node is None or node.inputs[0] is not x:
        return None
    if node.op_type == "Split":
        if editor.attribute(node, "axis", 0) not in (-1, _RANK - 1) or len(node.outputs) != 2:
            return None
        if (editor.shape(part) or ())[-1:] != (size // 2,):
            return None
        return (0, size // 2) if part is node.outputs[0] else (size // 2, size)
    parts = slices_of(editor, node)
    if len(parts) != 1 or parts[0].axis != _RANK - 1 or parts[0].step != 1:
        return None
    start, stop, _ = slice(parts[0].start, parts[0].end).indices(size)
    return start, stop


def _find_cache(editor: Editor, value: ir.Value) -> ir.Value | None:
    """What holds the cosines as (batch, sequence, size), or (batch, 1, sequence, size) if constant, in equal halves."""
    array = editor.array(value)
    if array is not None:
        half = array.shape[-1] // 2 if array.ndim else 0
        fits = array.ndim == _RANK and array.shape[1] == 1 and array.shape[-1] == 2 * half
        return value if fits and np.array_equal(array[..., :half], array[..., half:]) else None
    node = editor.producer(value, "Unsqueeze")
    if node is None or node.inputs[0] is None or axes_of(editor, node) != [1] or editor.rank(value) != _RANK:
        return None
    return node.inputs[0] if _has_equal_halves(editor, node.inputs[0]) else None


def _has_equal_halves(editor: Editor, value: ir.Value | None) -> bool:
    """Whether the halves of the last axis are the same: a Concat of one value twice, then element by element."""
    for _ in range(_MOST_STEPS):
        node = editor.producer(value)
        if node is None or value is None:
            return False
        if node.op_type == "Concat":
            last = (editor.rank(value) or 0) - 1
            same = len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
            return same and last >= 0 and editor.attribute(node, "axis") in (-1, last)
        if node.op_type in ("Mul", "Div"):
            constants = [given for given in node.inputs if editor.scalar(given) is not None]
            others = [given for given in node.inputs if editor.scalar(given) is None]
            if len(constants) != 1 or len(others) != 1:
                return False
            value = others[0]
        elif node.op_type in _ELEMENTWISE:
            value = node.inputs[0]
        else:
            return False
    return False


def _cache_shape(editor: Editor, cache: ir.Value) -> tuple[Dim, ...]:
    """(batch, sequence, size)."""
    shape = editor.shape(cache) or ()
    return (shape[0], *shape[-2:])


def _halve(editor: Editor, cache: ir.Value, x: ir.Value, rank: int) -> ir.Value:
    """The first half of the cosines, as (batch, sequence, size / 2), or without the batch."""
    size = (editor.shape(x) or ())[-1]
    assert isinstance(size, int)
    half = size // 2
    array = editor.array(cache)
    if array is not None:
        part = array[:, 0, :, :half]
        return editor.constant(part if rank == part.ndim else part[0], cache.name or "cache")
    form = slice_form(editor, cache, [AxisSlice(2, 0, half)])
    assert form is not None
    sliced = editor.emit("Slice", *form)
    return sliced if rank == 3 else emit_with_axes(editor, "Squeeze", sliced, [0])
