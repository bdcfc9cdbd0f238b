"""Transposes that follow each other are one, and those that undo each other go, whatever views lie between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic import Dim, product
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.views import VIEWS, emit_view, reshape_target

_UNARY = frozenset(
    (
        *("Abs", "Cast", "Ceil", "Celu", "Clip", "Cos", "DequantizeLinear", "Elu", "Erf", "Exp", "Floor", "Gelu"),
        *("HardSigmoid", "HardSwish", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "QuantizeLinear"),
        *("Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tan"),
        *("Tanh", "ThresholdedRelu"),
    )
)
_BINARY = frozenset(("Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"))
_MOST_ACROSS = 64
"""The elementwise nodes between two Transposes: to look further would take the square of the nodes of a long chain."""


@dataclass(frozen=True)
class SimplifyTransposes(RulePass):
    """Merges and cancels Transposes, also across views and elementwise nodes."""

    name: ClassVar[str] = "simplify-transposes"
    operators: ClassVar[frozenset[str]] = VIEWS | {"Transpose"}

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Looks at a Transpose, or at a view, and at what is before it."""
        if node.op_type != "Transpose":
            return _view_of_view(node, editor)
        perm = perm_of(node, editor)
        if perm is None:
            return False
        return (
            _merge(node, perm, editor) or _merge_across_view(node, perm, editor) or _cancel_across(node, perm, editor)
        )


def perm_of(node: ir.Node | None, editor: Editor) -> list[int] | None:
    """A Transpose's permutation; None where it is not known, or the node is none."""
    if node is None:
        return None
    perm = editor.attribute(node, "perm")
    if perm is not None:
        return list(perm)
    rank = editor.rank(node.inputs[0])
    return None if rank is None else list(reversed(range(rank)))


def _merge(node: ir.Node, perm: list[int], editor: Editor) -> bool:
    first = editor.producer(node.inputs[0], "Transpose")
    inner = perm_of(first, editor)
    if first is None or inner is None or first.inputs[0] is None or len(inner) != len(perm):
        return False
    both = [inner[axis] for axis in perm]
    if both == sorted(both):
        editor.replace(node.outputs[0], first.inputs[0])
    else:
        editor.replace_node(node, "Transpose", [first.inputs[0]], {"perm": both})
    return True


def keeps_order(perm: Sequence[int], shape: Sequence[Dim]) -> bool:
    """Whether a Transpose only moves dimensions of size 1, so that all elements stay where they are."""
    moved = [axis for axis in perm if shape[axis] != 1]
    return moved == sorted(moved)


def _view_of_view(node: ir.Node, editor: Editor) -> bool:
    """A view of a Transpose that is itself a view."""
    transpose = editor.producer(node.inputs[0], "Transpose")
    perm = perm_of(transpose, editor)
    if transpose is None or perm is None or transpose.inputs[0] is None:
        return False
    before, after = editor.shape(transpose.inputs[0]), editor.shape(node.outputs[0])
    if before is None or after is None or len(before) != len(perm) or not keeps_order(perm, before):
        return False
    made = emit_view(editor, transpose.inputs[0], after)
    if made is None:
        return False
    editor.replace(node.outputs[0], made)
    return True


def _merge_across_view(node: ir.Node, perm: list[int], editor: Editor) -> bool:
    """Transpose, view, Transpose, which together leave all elements where they were, or need one Transpose only."""
    view = editor.producer(node.inputs[0], *VIEWS)
    first = editor.producer(view.inputs[0], "Transpose") if view is not None else None
    inner = perm_of(first, editor)
    if view is None:
        return False
    data = view.inputs[0] if first is None else first.inputs[0]
    before, middle = editor.shape(data), editor.shape(view.inputs[0])
    viewed, after = editor.shape(view.outputs[0]), editor.shape(node.outputs[0])
    if data is None or before is None or middle is None or viewed is None or after is None or len(viewed) != len(perm):
        return False
    if first is None:
        inner = list(range(len(before)))
    if inner is None or len(inner) != len(before):
        return False
    groups = _groups(middle, viewed)
    if groups is None:
        return False
    # Each dimension of `middle` and of `viewed` is a run of atoms, which are numbered in the order of `middle`.
    of_middle: list[list[int]] = []
    of_viewed: list[list[int]] = []
    count = 0
    for left, right in groups:
        wide = left if len(left) >= len(right) else right
        atoms = [[count + index] for index in range(len(wide))]
        joined = [[number for atom in atoms for number in atom]]
        of_middle.extend(atoms if wide is left else joined)
        of_viewed.extend(atoms if len(right) == len(wide) else joined)
        count += len(wide)
    sizes = {}
    for run, dim in (*zip(of_middle, middle, strict=True), *zip(of_viewed, viewed, strict=True)):
        if len(run) == 1:
            sizes[run[0]] = dim
    order_before = [number for axis in _inverse(inner) for number in of_middle[axis]]
    order_after = [number for axis in perm for number in of_viewed[axis]]
    real = [number for number in order_before if sizes.get(number) != 1]
    if real != [number for number in order_after if sizes.get(number) != 1]:
        alone = first is not None and editor.only_user(first.outputs[0]) is view
        alone = alone and editor.only_user(view.outputs[0]) is node and all(len(run) == 1 for run in of_middle)
        return alone and _transpose_once(node, data, [order_before.index(number) for number in order_after], editor)
    made = emit_view(editor, data, after)
    if made is None:
        return False
    editor.replace(node.outputs[0], made)
    return True


def _transpose_once(node: ir.Node, data: ir.Value, perm: list[int], editor: Editor) -> bool:
    """One Transpose and then the view, in the place of Transpose, view and Transpose."""
    before, after = editor.shape(data), editor.shape(node.outputs[0])
    assert before is not None and after is not None
    if reshape_target([before[axis] for axis in perm], after) is None:
        return False
    made = emit_view(editor, editor.emit("Transpose", [data], {"perm": perm}), after)
    if made is None:
        return False
    editor.replace(node.outputs[0], made)
    return True


def _inverse(perm: Sequence[int]) -> list[int]:
    return sorted(range(len(perm)), key=lambda axis: perm[axis])


def _groups(left: Sequence[Dim], right: Sequence[Dim]) -> list[tuple[list[Dim], list[Dim]]] | None:
    """Cuts two shapes of as many elements into the shortest runs that have as many elements each.

    None where a run has several dimensions on both sides, so that what becomes of them is not known.
    """
    groups: list[tuple[list[Dim], list[Dim]]] = []
    here, there = 0, 0
    while here < len(left) or there < len(right):
        found = _shortest(left, right, here, there)
        if found is None:
            return None
        groups.append((list(left[here : found[0]]), list(right[there : found[1]])))
        here, there = found
    return groups


def _shortest(left: Sequence[Dim], right: Sequence[Dim], here: int, there: int) -> tuple[int, int] | None:
    if here == len(left) or there == len(right):
        # What is left on one side can only be ones; they join no run.
        return None
    for end in range(there + 1, len(right) + 1):
        if left[here] == product(right[there:end]):
            return here + 1, end
    for end in range(here + 2, len(left) + 1):
        if product(left[here:end]) == right[there]:
            return end, there + 1
    return None


def _cancel_across(node: ir.Node, perm: list[int], editor: Editor) -> bool:
    """Transpose, elementwise nodes that nobody else uses, Transpose back: without the two Transposes."""
    chain: list[ir.Node] = []
    value = node.inputs[0]
    user = node
    while True:
        if len(chain) > _MOST_ACROSS:
            return False
        if value is None or editor.only_user(value) is not user:
            return False
        before = editor.producer(value, "Transpose", *_UNARY, *_BINARY)
        if before is None:
            return False
        if before.op_type == "Transpose":
            break
        index = _carrying_input(before, editor)
        if index is None:
            return False
        chain.append(before)
        user, value = before, before.inputs[index]
    inner = perm_of(before, editor)
    if inner is None or not chain or [inner[axis] for axis in perm] != list(range(len(perm))):
        return False
    source = before.inputs[0]
    last = chain[0]
    start = chain[-1]
    index = _carrying_input(start, editor)
    assert index is not None and source is not None
    editor.set_input(start, index, source)
    for each in reversed(chain):
        editor.facts.forget_values(each.outputs)
    for each in chain:
        for output in each.outputs:
            output.shape = None
    editor.replace(node.outputs[0], last.outputs[0])
    return True


def _carrying_input(node: ir.Node, editor: Editor) -> int | None:
    """The one input whose layout the result has, where all others are of one element and rank 0 or 1."""
    found = [index for index, value in enumerate(node.inputs) if value is not None and not _is_scalar(value, editor)]
    if len(found) != 1 or (node.op_type in _UNARY and found != [0]):
        return None
    rank = editor.rank(node.inputs[found[0]])
    return found[0] if rank else None


def _is_scalar(value: ir.Value, editor: Editor) -> bool:
    return editor.static_shape(value) in ((), (1,))
