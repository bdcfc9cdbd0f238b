"""Moving x · scale + shift into the constant weights of the linear operator before it or after it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.opset_forms import given
from onnxsmith.graph_optimizer.passes.zero_signs import ZeroSigns

LINEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")

GEMM_SINCE = 7
"""The opset from which a Gemm broadcasts C as NumPy does."""

GEMM_WITHOUT_C = 11
"""The opset from which a Gemm's C may be left out."""

GEMM_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16})
"""The element types with which a Gemm runs wherever a MatMul does."""

FLOATS = GEMM_TYPES | {ir.DataType.BFLOAT16}

SHARED_BYTES = 1024
"""How large a weight that has other users may be for a copy of it to be made."""


_HELD = 1 << 24
"""Bytes of scaled weights that are held in memory; larger ones are computed again when they are written."""


class NotFolded(Exception):  # noqa: N818 - an answer, not an error
    """Something must stay where it is; the message says why."""


@dataclass(frozen=True)
class Affine:
    """x · scale + shift.

    Attributes:
        scale: A number, or one for each channel, in float64.
        shift: The same.
    """

    scale: np.ndarray
    shift: np.ndarray

    @property
    def scales(self) -> bool:
        """Whether it does more than add."""
        return bool(np.any(self.scale != 1))

    @property
    def shifts(self) -> bool:
        """Whether it does more than multiply."""
        return bool(np.any(self.shift != 0))

    @property
    def is_finite(self) -> bool:
        """Whether all of its numbers are finite."""
        return bool(np.isfinite(self.scale).all() and np.isfinite(self.shift).all())


@dataclass(frozen=True)
class Linear:
    """An operator with constant weights that is linear in its first input.

    Attributes:
        node: The operator.
        weight: Its weights.
        shape: The weights' shape.
        bias: What is added, None where nothing is.
        adder: The node that has the bias as an input: the operator, or the Add that follows a MatMul; None for a MatMul
            that nothing follows.
        groups: How many groups of channels it has.
        channels: How many channels its output has.
        axis: The axis of its output's channels.
        rank: Its output's rank.
    """

    node: ir.Node
    weight: ir.Value
    shape: tuple[int, ...]
    bias: ir.Value | None
    adder: ir.Node | None
    groups: int
    channels: int
    axis: int
    rank: int

    @property
    def output(self) -> ir.Value:
        """Its output, the bias added."""
        return (self.adder or self.node).outputs[0]

    @property
    def inputs(self) -> int:
        """How many channels its first input has."""
        match self.node.op_type:
            case "Conv":
                return self.shape[1] * self.groups
            case "Gemm":
                return self.shape[1 if self.is_transposed else 0]
            case "MatMul":
                return self.shape[-2]
        return self.shape[0]

    @property
    def is_transposed(self) -> bool:
        """Whether a Gemm's weights are."""
        return bool(self.node.attributes.get_int("transB", 0))

    def by_output(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape in which to see the weights, and that of a vector of output channels, to multiply the two."""
        shape = self.shape
        match self.node.op_type:
            case "Conv":
                return shape, (shape[0], *[1] * (len(shape) - 1))
            case "ConvTranspose":
                return self._grouped((shape[0] // self.groups, shape[1])), (self.groups, 1, shape[1], *self._ones())
            case "Gemm" if self.is_transposed:
                return shape, (shape[0], 1)
        return shape, (shape[-1],)

    def by_input(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The same for a vector of input channels."""
        shape = self.shape
        match self.node.op_type:
            case "Conv":
                return self._grouped((shape[0] // self.groups, shape[1])), (self.groups, 1, shape[1], *self._ones())
            case "Gemm" if self.is_transposed:
                return shape, (1, shape[1])
            case "ConvTranspose":
                return shape, (shape[0], *[1] * (len(shape) - 1))
        return shape, (shape[-2], 1)

    def _grouped(self, channels: tuple[int, int]) -> tuple[int, ...]:
        return (self.groups, *channels, *self.shape[2:])

    def _ones(self) -> list[int]:
        return [1] * (len(self.shape) - 2)


def linear_of(editor: Editor, node: ir.Node | None) -> Linear | None:
    """A node as a linear operator; None where it is none, or has no constant weights."""
    if node is None or not editor.is_standard(node, *LINEAR):
        return None
    weight = given(node, 1)
    tensor = editor.tensor(weight)
    if tensor is None or weight is None or tensor.dtype not in FLOATS:
        return None
    shape = tuple(int(size) for size in tensor.shape.numpy())
    if node.op_type == "MatMul":
        rank = editor.rank(node.outputs[0])
        if len(shape) < 2 or rank is None:
            return None
        return Linear(node, weight, shape, None, None, 1, shape[-1], rank - 1, rank)
    groups, channels = 1, 0
    if node.op_type == "Gemm":
        if editor.opset < GEMM_SINCE:
            return None
        channels = shape[0 if editor.attribute(node, "transB", 0) else 1]
    else:
        groups = editor.attribute(node, "group", 1)
        channels = shape[0] if node.op_type == "Conv" else shape[1] * groups
    return Linear(node, weight, shape, given(node, 2), node, groups, channels, 1, len(shape))


def linear_before(editor: Editor, value: ir.Value) -> Linear | None:
    """The linear operator that makes a value, the constant Add after a MatMul included."""
    node = value.producer()
    if node is None or node.op_type != "Add":
        return linear_of(editor, node)
    if not editor.is_standard(node):
        return None
    for product, bias in (node.inputs, reversed(node.inputs)):
        if product is None or bias is None or editor.producer(product, "MatMul") is None:
            continue
        if editor.only_user(product) is not node or not editor.is_constant(bias):
            continue
        found = linear_of(editor, product.producer())
        if found is None or (array := editor.array(bias)) is None:
            return None
        if channel_vector(array, found.rank, found.axis, found.channels) is None:
            return None
        return Linear(found.node, found.weight, found.shape, bias, node, 1, found.channels, found.axis, found.rank)
    return None


def linear_after(editor: Editor, node: ir.Node) -> Linear | None:
    """The linear operator of the same graph that alone uses a node's output, as its first input."""
    output = node.outputs[0]
    user = editor.only_user(output)
    if user is None or user.inputs[0] is not output or user.graph is not node.graph:
        return None
    return linear_of(editor, user)


def channel_vector(array: np.ndarray, rank: int, axis: int, channels: int) -> np.ndarray | None:
    """A constant as a number or a vector along one axis of a tensor, in float64; None where it is neither.

    None too where the two would broadcast to another shape than the tensor's.
    """
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(size != 1 for index, size in enumerate(shape) if index != axis) or shape[axis] not in (1, channels):
        return None
    vector = array.astype(np.float64).reshape(-1)
    return vector.reshape(()) if shape[axis] == 1 else vector


def fold_after(editor: Editor, linear: Linear, affine: Affine, node: ir.Node, shared_bytes: int) -> None:
    """Moves what a node does to the output of a linear operator into that operator.

    Args:
        editor: The editor.
        linear: The operator, whose output is the node's input.
        affine: What the node does.
        node: The node, which goes.
        shared_bytes: How large a weight with other users may be for a copy of it to be made.

    Raises:
        NotFolded: It must stay.
    """
    if editor.only_user(linear.output) is not node:
        raise NotFolded(f"the output of the {linear.node.op_type} before it is used elsewhere too")
    if linear.node.graph is not node.graph:
        raise NotFolded(f"the {linear.node.op_type} before it is in another graph")
    if not affine.is_finite:
        raise NotFolded("its constants make a factor or a summand that is not finite")
    _keep_zeros(editor, affine, node.outputs[0])
    weights = None
    if affine.scales:
        weights = _scaled_weights(editor, linear, affine.scale, linear.by_output(), shared_bytes)
    added = np.broadcast_to(affine.shift, (linear.channels,))
    dtype = editor.dtype(linear.weight)
    assert dtype is not None
    if linear.bias is not None:
        bias = editor.array(linear.bias)
        if bias is None:
            raise NotFolded(f"the bias of the {linear.node.op_type} before it is not constant")
        beta = editor.attribute(linear.node, "beta", 1.0) if linear.node.op_type == "Gemm" else 1.0
        with np.errstate(all="ignore"):  # what is not finite is found when it is rounded
            before = bias.astype(np.float64) * beta
            added = before * affine.scale + affine.shift
        if added.size > max(before.size, linear.channels):
            raise NotFolded(f"the bias of the {linear.node.op_type} before it would grow")
    elif linear.adder is None and affine.shifts and not _gemm_fits(editor, linear, dtype):
        raise NotFolded("a MatMul of this rank, type or opset has no bias to put its summand in")
    summand = None
    if linear.bias is not None or affine.shifts:
        summand = _rounded(added, dtype)
    editor.root = linear.node
    if weights is not None:
        _put(editor, linear.node, 1, editor.constant(weights, linear.weight.name or "weight"))
    output = linear.output
    if summand is not None:
        output = _set_bias(editor, linear, summand)
    editor.replace(node.outputs[0], output)


def fold_before(editor: Editor, linear: Linear, affine: Affine, value: ir.Value, shared_bytes: int) -> None:
    """Moves what a node does to a value into the linear operator that alone uses the node's output.

    Args:
        editor: The editor.
        linear: The only user of the node's output, as its first input.
        affine: What the node does.
        value: The node's input.
        shared_bytes: How large a weight with other users may be for a copy of it to be made.

    Raises:
        NotFolded: It must stay.
    """
    if editor.attribute(linear.node, "transA", 0):
        raise NotFolded("the Gemm after it transposes its input")
    if not affine.is_finite:
        raise NotFolded("its constants make a factor or a summand that is not finite")
    _keep_zeros(editor, affine, linear.output)
    dtype = editor.dtype(linear.weight)
    assert dtype is not None
    summand = None
    if affine.shifts:
        summand = _rounded(_shift_of_output(editor, linear, affine.shift), dtype)
        if linear.adder is None and not _gemm_fits(editor, linear, dtype):
            raise NotFolded("a MatMul of this rank, type or opset has no bias to put its summand in")
    weights = None
    if affine.scales:
        weights = _scaled_weights(editor, linear, affine.scale, linear.by_input(), shared_bytes)
    editor.root = linear.node
    if weights is not None:
        _put(editor, linear.node, 1, editor.constant(weights, linear.weight.name or "weight"))
    editor.set_input(linear.node, 0, value)
    if summand is not None:
        output = _set_bias(editor, linear, summand)
        editor.replace(linear.output, output)


def _keep_zeros(editor: Editor, affine: Affine, value: ir.Value) -> None:
    """Refuses a factor of 0 where something can tell -0.0 from 0.0: a sum of products of zeros has a sign of its own.

    Raises:
        NotFolded: Something can.
    """
    if np.any((affine.scale == 0) & (affine.shift == 0)) and ZeroSigns(editor, at_outputs=False).matter(value):
        raise NotFolded(
            "its factor is 0, and something is divided by what follows: the signs of its zeros would change"
        )


def _shift_of_output(editor: Editor, linear: Linear, shift: np.ndarray) -> np.ndarray:
    """The bias after a vector was added to each of the input's positions, in float64."""
    node = linear.node
    if node.op_type == "ConvTranspose":
        raise NotFolded("the edges of a ConvTranspose's output see only a part of what it adds")
    if node.op_type == "Conv" and (
        any(editor.attribute(node, "pads", ()))
        or editor.attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    ):
        raise NotFolded("the Conv after it pads with zeros, to which nothing would be added")
    weights = editor.array(linear.weight)
    assert weights is not None
    made: np.ndarray
    vector = np.broadcast_to(shift, (linear.inputs,))
    if node.op_type == "Conv":
        shape, _ = linear.by_input()
        kernels = weights.astype(np.float64, copy=False).reshape(shape)
        with np.errstate(all="ignore"):
            taps = kernels.sum(axis=tuple(range(3, kernels.ndim)))
            made = (taps @ vector.reshape(linear.groups, -1, 1)).reshape(-1)
    else:
        if len(linear.shape) != 2:
            raise NotFolded("the weights of the MatMul after it are not of rank 2")
        matrix = weights.astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            made = np.matmul(matrix, vector) if linear.is_transposed else np.matmul(vector, matrix)
            made = made * editor.attribute(node, "alpha", 1.0)
    if linear.bias is None:
        return made
    bias = editor.array(linear.bias)
    if bias is None:
        raise NotFolded(f"the bias of the {node.op_type} after it is not constant")
    beta = editor.attribute(node, "beta", 1.0) if node.op_type == "Gemm" else 1.0
    with np.errstate(all="ignore"):
        total: np.ndarray = bias.astype(np.float64) * beta + made
    if total.size > max(bias.size, made.size):
        raise NotFolded(f"the bias of the {node.op_type} after it would grow")
    return total


def _gemm_fits(editor: Editor, linear: Linear, dtype: ir.DataType) -> bool:
    return (
        len(linear.shape) == 2 == editor.rank(linear.node.inputs[0])
        and dtype in GEMM_TYPES
        and editor.opset >= GEMM_SINCE
    )


def _set_bias(editor: Editor, linear: Linear, bias: np.ndarray) -> ir.Value:
    """Gives a linear operator a bias. Returns the output that has it."""
    node, adder = linear.node, linear.adder
    name = (linear.bias.name if linear.bias is not None else None) or "bias"
    if adder is None:
        return editor.emit("Gemm", [node.inputs[0], node.inputs[1], editor.constant(bias, name)])
    value = editor.constant(bias, name)
    if adder is not node:
        _put(editor, adder, 0 if adder.inputs[0] is linear.bias else 1, value)
        return adder.outputs[0]
    node.resize_inputs(3)
    _put(editor, node, 2, value)
    if node.op_type == "Gemm":
        editor.set_attribute(node, "beta", 1.0)
    return node.outputs[0]


def _put(editor: Editor, node: ir.Node, index: int, value: ir.Value) -> None:
    """Gives a node another constant; the old one's memory is free at once where nothing else uses it."""
    old = node.inputs[index]
    editor.set_input(node, index, value)
    if old is None or not old.is_initializer() or old.uses() or old.is_graph_input() or old.is_graph_output():
        return
    graph = old.graph
    assert graph is not None
    assert old.name is not None
    del graph.initializers[old.name]


def _scaled_weights(
    editor: Editor,
    linear: Linear,
    scale: np.ndarray,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    shared_bytes: int,
) -> np.ndarray | ir.TensorProtocol:
    """The weights times a factor, in the shapes in which to see the two; large ones are computed when they are read."""
    tensor = editor.tensor(linear.weight)
    assert tensor is not None
    shared = len(linear.weight.uses()) > 1 or linear.weight.is_graph_output()
    if shared and tensor.nbytes > shared_bytes:
        raise NotFolded(f"the weights of the {linear.node.op_type}, {tensor.nbytes} bytes, are used elsewhere too")
    factor = scale if scale.ndim == 0 else scale.reshape(shapes[1])

    def scaled() -> np.ndarray:
        return np.reshape(_product(tensor.numpy().reshape(shapes[0]), factor), linear.shape)

    made = scaled()
    if not _is_faithful(made):
        raise NotFolded(f"the weights would leave the range of {tensor.dtype.name.lower()}")
    if made.nbytes <= _HELD:
        return made
    return ir.LazyTensor(
        lambda: ir.Tensor(scaled()), dtype=tensor.dtype, shape=ir.Shape(linear.shape), name=linear.weight.name
    )


def _product(array: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """An array times a factor, computed in float64 and rounded once."""
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f" and array.dtype.itemsize >= 4:  # NumPy converts these piece by piece
            made = np.empty(array.shape, array.dtype)
            np.multiply(array, factor, out=made, dtype=np.float64, casting="same_kind")
        else:
            made = (array.astype(np.float64) * factor).astype(array.dtype)
    return made


def _is_faithful(array: np.ndarray) -> bool:
    """Whether all numbers are finite, and the largest is not so small that it lost digits."""
    if not array.size:
        return True
    largest = max(float(array.max()), -float(array.min()))
    return math.isfinite(largest) and (largest == 0 or largest >= _TINY[array.dtype.name])


_TINY = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
"""The smallest number with all its digits."""


def _rounded(array: np.ndarray, dtype: ir.DataType) -> np.ndarray:
    """A bias in float64, rounded to a type.

    Raises:
        NotFolded: A number leaves its range.
    """
    with np.errstate(all="ignore"):
        made = np.asarray(array, dtype.numpy())
    if not np.isfinite(made.astype(np.float64)).all():
        raise NotFolded(f"the bias would leave the range of {dtype.name.lower()}")
    return made
