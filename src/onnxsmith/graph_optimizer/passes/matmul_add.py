"""MatMul and Add, and what Gemm can do besides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic import Dim
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import given
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.shared_rows import share_rows
from onnxsmith.graph_optimizer.passes.weights_math import GEMM_SINCE, GEMM_TYPES, GEMM_WITHOUT_C

_READ_BYTES = 1 << 20
"""How large a C may be for it to be read, to see whether it is all zeros."""


@dataclass(frozen=True)
class FuseMatmulAdd(RulePass):
    """Makes a Gemm of a MatMul and what is around it: an Add after it, a Transpose or a shared Reshape before it."""

    name: ClassVar[str] = "fuse-matmul-add"
    exact: ClassVar[bool] = False
    operators: ClassVar[frozenset[str]] = frozenset({"Add", "Gemm", "MatMul"})

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Makes one of these changes."""
        if editor.opset < GEMM_SINCE:
            return False
        match node.op_type:
            case "Add":
                return _fuse_add(editor, node)
            case "Gemm":
                return _take_transposes(editor, node) or _drop_c(editor, node)
        return (editor.opset >= GEMM_WITHOUT_C and _take_transposes(editor, node)) or share_rows(editor, node)


def _fuse_add(editor: Editor, node: ir.Node) -> bool:
    for index, value in enumerate(node.inputs):
        product = editor.producer(value, "MatMul", "Gemm")
        bias = node.inputs[1 - index]
        if product is None or bias is None or value is bias:
            continue
        if product.op_type == "Gemm" and given(product, 2) is not None and editor.attribute(product, "beta", 1.0):
            continue
        reason = _why_not_gemm(editor, product, node, bias)
        if reason is not None:
            return editor.decline(node, reason)
        inputs = [product.inputs[0], product.inputs[1], bias]
        kept = {name: editor.attribute(product, name) for name in ("alpha", "transA", "transB")}
        editor.replace_node(node, "Gemm", inputs, kept)
        return True
    return False


def _why_not_gemm(editor: Editor, product: ir.Node, node: ir.Node, bias: ir.Value) -> str | None:
    """Why a product and an Add are not one Gemm; None where they are."""
    kind = product.op_type
    if editor.only_user(product.outputs[0]) is not node or product.graph is not node.graph:
        return f"the output of the {kind} before it is used elsewhere too"
    shapes = [editor.shape(value) for value in product.inputs[:2]]
    if any(shape is None for shape in shapes):
        return f"the rank of an input of the {kind} before it is not known"
    if any(len(shape) != 2 for shape in shapes if shape is not None):
        return f"the {kind} before it is not of rank 2, as Gemm is"
    if editor.dtype(bias) not in GEMM_TYPES or editor.dtype(product.inputs[0]) not in GEMM_TYPES:
        return "its element type is none that Gemm has everywhere"
    result, shape = editor.shape(product.outputs[0]), editor.shape(bias)
    if result is None or shape is None or not _broadcasts_to(shape, result):
        return f"its other operand is not known to broadcast to the output of the {kind} before it"
    return None


def _broadcasts_to(shape: tuple[Dim, ...], result: tuple[Dim, ...]) -> bool:
    """Whether a shape surely broadcasts to another one without changing it."""
    return len(shape) <= len(result) and all(
        size in (1, target) for size, target in zip(reversed(shape), reversed(result), strict=False)
    )


def _take_transposes(editor: Editor, node: ir.Node) -> bool:
    """Takes the Transposes of a product's operands into the product."""
    taken: dict[str, int] = {}
    operands: list[ir.Value | None] = list(node.inputs)
    for index, name in enumerate(("transA", "transB")):
        transpose = editor.producer(node.inputs[index], "Transpose")
        if transpose is None:
            continue
        value = transpose.inputs[0]
        if editor.rank(value) != 2 or list(editor.attribute(transpose, "perm", (1, 0))) != [1, 0]:
            continue
        if not editor.is_constant(value) and editor.only_user(transpose.outputs[0]) is not node:
            return editor.decline(node, "the Transpose of its operand is used elsewhere too")
        if editor.dtype(value) not in GEMM_TYPES:
            return editor.decline(node, "its element type is none that Gemm has everywhere")
        operands[index] = value
        taken[name] = 1 - (editor.attribute(node, name, 0) if node.op_type == "Gemm" else 0)
    if not taken:
        return False
    if any(editor.rank(value) != 2 for value in operands[:2]):
        return editor.decline(node, "its operands are not both known to be of rank 2, as in Gemm")
    if node.op_type == "MatMul":
        editor.replace_node(node, "Gemm", operands, taken)
        return True
    for name, given_now in taken.items():
        editor.set_attribute(node, name, given_now)
    for index, operand in enumerate(operands):
        if operand is not node.inputs[index]:
            editor.set_input(node, index, operand)
    return True


def _drop_c(editor: Editor, node: ir.Node) -> bool:
    """Leaves out a C of zeros."""
    c = given(node, 2)
    tensor = editor.tensor(c)
    if editor.opset < GEMM_WITHOUT_C or tensor is None or tensor.nbytes > _READ_BYTES:
        return False
    array = editor.array(c)
    if array is None or np.any(array.astype(np.float64, copy=False)):
        return False
    editor.set_input(node, 2, None)
    node.resize_inputs(2)
    return True
