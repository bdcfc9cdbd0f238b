"""Products of one tensor of rank 3 or more with several matrices, as in attention, on its rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import reshape_form
from onnxsmith.graph_optimizer.passes.weights_math import GEMM_TYPES

_MOST_USERS = 64
"""The users of a value among which its products are looked for."""


class _Member(NamedTuple):
    """A MatMul, the Add of a bias to it, and the Reshape of the sum."""

    product: ir.Node
    bias: ir.Value
    reshape: ir.Node
    target: tuple[int, ...]


def share_rows(editor: Editor, node: ir.Node) -> bool:
    """Makes Gemms of products that are reshaped anyway, where several of them share the Reshape of their input.

    ONNX Runtime makes a Gemm between two Reshapes of each such MatMul and Add by itself, where the sizes are known;
    here the Reshape before is one for all, and the one after is that which was there.
    """
    data = node.inputs[0]
    shape = editor.static_shape(data)
    if data is None or shape is None or len(shape) < 3 or 0 in shape or len(data.uses()) > _MOST_USERS:
        return False
    found = [_member(editor, user, data) for user, index in data.uses() if index == 0]
    members = [member for member in found if member is not None and member.product.graph is node.graph]
    if len(members) < 2 or all(member.product is not node for member in members):
        return False
    columns = shape[-1]
    rows = math.prod(shape[:-1])
    root = editor.root
    for member in members:
        editor.root = member.product
        to_rows = reshape_form(editor, data, (rows, columns))
        assert to_rows is not None
        flat = editor.emit("Reshape", *to_rows)
        product = editor.emit("Gemm", [flat, member.product.inputs[1], member.bias])
        editor.root = member.reshape
        form = reshape_form(editor, product, member.target)
        assert form is not None
        editor.replace_node(member.reshape, "Reshape", *form)
    editor.root = root
    return True


def _member(editor: Editor, product: ir.Node, data: ir.Value) -> _Member | None:
    """What a user of a value is, if it is a product that can be one of these."""
    if not editor.is_standard(product, "MatMul") or editor.dtype(data) not in GEMM_TYPES:
        return None
    matrix = editor.static_shape(product.inputs[1])
    add = editor.only_user(product.outputs[0])
    if matrix is None or len(matrix) != 2 or 0 in matrix or add is None or not editor.is_standard(add, "Add"):
        return None
    bias = add.inputs[1 if add.inputs[0] is product.outputs[0] else 0]
    reshape = editor.only_user(add.outputs[0])
    if bias is None or not editor.is_constant(bias) or editor.static_shape(bias) not in ((), (1,), matrix[1:]):
        return None
    if reshape is None or not editor.is_standard(reshape, "Reshape") or reshape.inputs[0] is not add.outputs[0]:
        return None
    target = editor.static_shape(reshape.outputs[0])
    if target is None or not product.graph is add.graph is reshape.graph:
        return None
    return _Member(product, bias, reshape, target)
