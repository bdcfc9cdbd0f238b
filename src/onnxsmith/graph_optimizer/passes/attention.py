"""Scaled dot-product attention written out in elementary operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.matching import Match, Term
from onnxsmith.graph_analysis.symbolic import Dim, is_positive
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import axes_of
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.subgraph_match import find, is_available

_RANK = 4
_PER_AXIS_SOFTMAX = 13
"""The opset since which Softmax goes over one axis, the last by default."""

Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class RecognizeAttention(RulePass):
    """Puts Attention (opset 23) in the place of softmax(q · kᵀ · scale + mask) · v, for heads in an axis of their own.

    Attributes:
        assume_ordinary: Whether to take it that no dimension is 0, no score is NaN and no position has all others
            masked: there, Attention differs from its parts, which in PyTorch's exports turn NaN into zero.
    """

    name: ClassVar[str] = "recognize-attention"
    exact: ClassVar[bool] = False
    operators: ClassVar[frozenset[str]] = frozenset({"MatMul"})

    assume_ordinary: bool = False

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Replaces the last product of an attention."""
        fit = find(editor, node, _TERM, "an attention", lambda fit: _is_attention(editor, fit))
        if fit is None:
            return False
        keys = _Keys.find(editor, fit.names["kt"])
        if keys is None:
            return editor.decline(node, "this is an attention, but its keys are not transposed here")
        query, factor = _unscaled(editor, fit.names["x"])
        value = fit.names["v"]
        scale = factor * keys.scale * _scale(editor, fit)
        if not 0 < scale < float("inf"):
            return editor.decline(node, f"Attention takes a positive scale, not {scale}")
        if (reason := _misfit(editor, query, keys.shape, value)) is not None:
            return editor.decline(node, reason)
        grouped = _group(editor, query, keys, value)
        mask = fit.names.get("mask")
        reason = None if mask is None else _mask_misfit(editor, mask, editor.shape(query) or (), keys.shape)
        if reason is None and not self.assume_ordinary:
            reason = _extraordinary(editor, fit, (*(editor.shape(query) or ()), *keys.shape))
        if reason is not None:
            return editor.decline(node, reason)
        if not is_available(editor, node, "Attention", query):
            return False
        key, value = grouped if grouped is not None else (keys.emit(editor), value)
        editor.replace_node(node, "Attention", [query, key, value, *([mask] if mask else [])], {"scale": scale})
        return True


def _term() -> Term:
    product = ("MatMul", "x", "kt")
    scores: list[Term] = [("Mul", product, "scale"), ("Div", product, "divisor"), product]
    masked: list[Term] = [*scores, ("Add", scores, "mask"), ("Where", "mask", scores, "fill")]
    softmax = ("Softmax", masked)
    return ("MatMul", [softmax, ("Where", ("IsNaN", softmax), 0, softmax)], "v")


_TERM = _term()


def _is_attention(editor: Editor, fit: Match) -> bool:
    softmax = fit.node("Softmax")
    default = -1 if editor.opset >= _PER_AXIS_SOFTMAX else 1
    if editor.rank(fit.names["x"]) != _RANK or editor.attribute(softmax, "axis", default) not in (-1, _RANK - 1):
        return False
    if "fill" in fit.names and editor.scalar(fit.names["fill"]) != -np.inf:
        return False
    return all(editor.scalar(fit.names[name]) is not None for name in ("scale", "divisor") if name in fit.names)


def _scale(editor: Editor, fit: Match) -> float:
    """What the scores are multiplied by."""
    scale = editor.scalar(fit.names["scale"]) if "scale" in fit.names else 1.0
    divisor = editor.scalar(fit.names["divisor"]) if "divisor" in fit.names else 1.0
    return float(scale or 0) / float(divisor or np.inf)


def _unscaled(editor: Editor, value: ir.Value) -> tuple[ir.Value, float]:
    """What is multiplied or divided by a number, and the factor."""
    node = editor.producer(value, "Mul", "Div")
    if node is None:
        return value, 1.0
    for index in (0, 1) if node.op_type == "Mul" else (1,):
        number, source = editor.scalar(node.inputs[index]), node.inputs[1 - index]
        if number and source is not None and (editor.rank(node.inputs[index]) or 0) <= (editor.rank(source) or 0):
            return source, float(number) if node.op_type == "Mul" else 1 / float(number)
    return value, 1.0


@dataclass(frozen=True)
class _Keys:
    """The keys, (batch, heads, positions, size), behind the transposed ones.

    Attributes:
        source: What they are made of.
        perm: How its axes must be ordered.
        scale: What the transposed keys are multiplied by.
        shape: The keys' shape.
    """

    source: ir.Value
    perm: tuple[int, ...]
    scale: float
    shape: Shape

    @classmethod
    def find(cls, editor: Editor, transposed: ir.Value) -> _Keys | None:
        """The keys, where a Transpose swaps their last axes, or one between two Reshapes."""
        inner, scale = _unscaled(editor, transposed)
        node = editor.producer(inner, "Transpose", "Reshape")
        perm = (0, 1, 2, 3)
        if node is None:
            return None
        if node.op_type == "Reshape":
            source = _behind_reshapes(editor, node)
            shape = editor.shape(source)
        else:
            source, swapped = node.inputs[0], tuple(editor.attribute(node, "perm", (3, 2, 1, 0)))
            perm = (*swapped[:2], swapped[3], swapped[2])
            shape = editor.shape(inner)
            shape = None if shape is None else (*shape[:2], shape[3], shape[2])
        if source is None or shape is None:
            return None
        source, factor = _unscaled(editor, source)
        return cls(source, perm, scale * factor, shape)

    def emit(self, editor: Editor) -> ir.Value:
        """The keys, before the root."""
        if self.perm == (0, 1, 2, 3):
            return self.source
        return editor.emit("Transpose", [self.source], {"perm": list(self.perm)})


def _behind_reshapes(editor: Editor, reshape: ir.Node) -> ir.Value | None:
    """The keys, where (batch · heads, positions, size) is transposed between two Reshapes.

    No dimension is 0 (in a Reshape that stands for the input's): this is seen to for all that becomes Attention.
    """
    transpose = editor.producer(reshape.inputs[0], "Transpose")
    flat = editor.producer(transpose.inputs[0], "Reshape") if transpose is not None else None
    if transpose is None or flat is None or tuple(editor.attribute(transpose, "perm", ())) != (0, 2, 1):
        return None
    shape, flattened, back = editor.shape(flat.inputs[0]), _asked_shape(editor, flat), _asked_shape(editor, reshape)
    if shape is None or len(shape) != _RANK or flattened is None or back is None:
        return None
    swapped = (*shape[:2], shape[3], shape[2])
    fits = len(back) == _RANK and all(dim in (-1, wanted) for dim, wanted in zip(back, swapped, strict=True))
    return flat.inputs[0] if fits and flattened[1:] == shape[2:] else None


def _asked_shape(editor: Editor, reshape: ir.Node) -> Shape | None:
    """The shape that a Reshape is given, which may have a -1 in it."""
    asked = editor.facts.data(reshape.inputs[1]) if reshape.inputs[1] is not None else None
    return asked if isinstance(asked, tuple) else editor.shape(reshape.outputs[0])


def _misfit(editor: Editor, query: ir.Value, keys: Shape, value: ir.Value) -> str | None:
    shapes = editor.shape(query), keys, editor.shape(value)
    for shape in shapes:
        if shape is None or len(shape) != _RANK:
            return "Attention takes queries, keys and values of rank 4"
        if shape[:2] != keys[:2]:
            return "Attention takes queries, keys and values of one batch and as many heads, which these may not be"
    return None


def _group(editor: Editor, query: ir.Value, keys: _Keys, value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
    """The keys and values of grouped-query attention before they are repeated for each head."""
    if keys.perm != (0, 1, 2, 3):
        return None
    key = _before_repeat(editor, keys.source)
    before = _before_repeat(editor, value)
    if key is None or before is None or (editor.shape(key) or ())[1] != (editor.shape(before) or ())[1]:
        return None
    return key, before


def _before_repeat(editor: Editor, value: ir.Value) -> ir.Value | None:
    """What is repeated for each head of its group: by Unsqueeze (at axis 2), Expand and Reshape."""
    reshape = editor.producer(value, "Reshape")
    expand = _producer_behind_identity(editor, reshape.inputs[0], "Expand") if reshape is not None else None
    unsqueeze = editor.producer(expand.inputs[0], "Unsqueeze") if expand is not None else None
    if expand is None or unsqueeze is None or axes_of(editor, unsqueeze) != [2]:
        return None
    source = unsqueeze.inputs[0]
    before, between, after = editor.shape(source), editor.shape(expand.outputs[0]), editor.shape(value)
    if source is None or before is None or between is None or after is None or len(before) != _RANK:
        return None
    groups, repeats, heads = before[1], between[2], after[1]
    if not isinstance(groups, int) or not isinstance(repeats, int) or heads != groups * repeats:
        return None
    same = between == (*before[:2], repeats, *before[2:]) and after == (before[0], heads, *before[2:])
    return source if same else None


def _producer_behind_identity(editor: Editor, value: ir.Value | None, op_type: str) -> ir.Node | None:
    node = editor.producer(value, "Identity", op_type)
    while node is not None and node.op_type == "Identity":
        node = editor.producer(node.inputs[0], "Identity", op_type)
    return node


def _mask_misfit(editor: Editor, mask: ir.Value, query: Shape, keys: Shape) -> str | None:
    shape = editor.shape(mask)
    if shape is None or not 2 <= len(shape) <= _RANK:
        return "Attention takes a mask of rank 2 to 4"
    if shape[-2:] != (query[2], keys[2]):
        return "ONNX Runtime's Attention takes a mask that has each query and each key, this one may broadcast"
    pairs = zip(shape[:-2], query[4 - len(shape) : 2], strict=True)
    if any(dim not in (1, whole) for dim, whole in pairs):
        return "the mask's batch or heads may be others than the queries'"
    return None


def _extraordinary(editor: Editor, fit: Match, dims: Shape) -> str | None:
    """Why an empty input, NaN in the scores, or masking a row as a whole would show."""
    known = "(the option assume_ordinary takes it that there is none)"
    if not all(is_positive(dim) for dim in dims):
        return f"ONNX Runtime's Attention refuses empty inputs, and a dimension may be 0 {known}"
    if any(node.op_type == "IsNaN" for node in fit.nodes):
        return f"a row with NaN becomes zero here and NaN in Attention {known}"
    mask = fit.names.get("mask")
    if mask is None or ("fill" not in fit.names and _is_finite(editor, mask)):
        return None
    return f"a row that is masked as a whole becomes NaN here and zero in Attention {known}"


def _is_finite(editor: Editor, mask: ir.Value) -> bool:
    """Whether a mask has no infinity: a constant, or chosen from two."""
    array = editor.array(mask)
    if array is not None:
        return bool(np.isfinite(array).all())
    node = editor.producer(mask, "Where")
    return node is not None and all(
        array is not None and bool(np.isfinite(array).all()) for array in map(editor.array, node.inputs[1:])
    )
