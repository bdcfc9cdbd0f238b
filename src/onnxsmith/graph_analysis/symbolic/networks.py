"""Products, normalisation, recurrent layers, attention."""

from __future__ import annotations

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.call import Call, PartialShape, Shape, Unknown, rule
from onnxsmith.graph_analysis.symbolic.dims import Dim, add, exact_div
from onnxsmith.graph_analysis.symbolic.elementwise import broadcast

_INT32 = ir.DataType.INT32
_FLOAT = ir.DataType.FLOAT


def multiplied(left: Shape, right: Shape) -> PartialShape:
    """The shape of a product as NumPy's matmul makes it."""
    if not left or not right:
        raise Unknown
    batch = broadcast(left[:-2], right[:-2])
    rows = [left[-2]] if len(left) > 1 else []
    columns = [right[-1]] if len(right) > 1 else []
    return [*batch, *rows, *columns]


@rule("MatMul")
def _matmul(call: Call) -> list[PartialShape]:
    return [multiplied(call.shape(0), call.shape(1))]


@rule("MatMulInteger", dtypes=_INT32)
def _matmul_integer(call: Call) -> list[PartialShape]:
    return [multiplied(call.shape(0), call.shape(1))]


@rule("QLinearMatMul", dtypes=7)
def _qlinear_matmul(call: Call) -> list[PartialShape]:
    return [multiplied(call.shape(0), call.shape(3))]


@rule("Gemm")
def _gemm(call: Call) -> list[PartialShape]:
    left, right = call.shape(0), call.shape(1)
    if len(left) != 2 or len(right) != 2:
        raise Unknown
    return [[left[1 if call.integer("transA", 0) else 0], right[0 if call.integer("transB", 0) else 1]]]


@rule("BatchNormalization", dtypes=(0, 3, 4))
def _batch_normalization(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    channels = given[1:2] if len(given) > 1 else (1,)
    return [given, channels, channels, channels, channels]


@rule("LayerNormalization", dtypes=(0, lambda call: ir.DataType(call.integer("stash_type", 1))))
def _layer_normalization(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    axis = call.axis(len(given), -1)
    statistics = [*given[:axis], *[1] * (len(given) - axis)]
    return [given, statistics, statistics]


def _recurrent(call: Call, gates: int) -> list[PartialShape | None]:
    data = call.shape(0)
    if len(data) != 3:
        raise Unknown
    hidden: Dim | None = call.integer("hidden_size")
    if hidden is None and call.shape_or_none(1) is not None:
        hidden = exact_div(call.shape(1)[1], gates)
    directions = 2 if call.text("direction", "forward") == "bidirectional" else 1
    if call.integer("layout", 0):
        batch, length = data[:2]
        return [[batch, length, directions, hidden], [batch, directions, hidden], [batch, directions, hidden]]
    length, batch = data[:2]
    return [[length, directions, batch, hidden], [directions, batch, hidden], [directions, batch, hidden]]


@rule("LSTM")
def _lstm(call: Call) -> list[PartialShape | None]:
    return _recurrent(call, 4)


@rule("GRU")
def _gru(call: Call) -> list[PartialShape | None]:
    return _recurrent(call, 3)[:2]


@rule("RNN")
def _rnn(call: Call) -> list[PartialShape | None]:
    return _recurrent(call, 1)[:2]


@rule("Einsum")
def _einsum(call: Call) -> list[PartialShape]:
    equation = call.text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(call.inputs):
        raise Unknown
    sizes: dict[str, Dim | None] = {}
    ellipsis: list[Dim | None] = []
    for index, term in enumerate(terms):
        shape = call.shape(index)
        before, dots, after = term.partition("...")
        hidden = len(shape) - len(before) - len(after)
        if hidden < 0 or (hidden and not dots):
            raise Unknown
        if dots:
            ellipsis = broadcast(ellipsis, shape[len(before) : len(before) + hidden])
        known = [*shape[: len(before)], *shape[len(shape) - len(after) :]]
        for letter, dim in zip(before + after, known, strict=True):
            sizes[letter] = dim if letter not in sizes else broadcast([sizes[letter]], [dim])[0]
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = ("..." if "..." in left else "") + "".join(
            letter for letter in sorted(set(letters)) if letters.count(letter) == 1
        )
    before, dots, after = right.partition("...")
    inner = ellipsis if dots else []
    return [[*(sizes[letter] for letter in before), *inner, *(sizes[letter] for letter in after)]]


@rule("Attention", dtypes=(0, 1, 2, 0))
def _attention(call: Call) -> list[PartialShape | None]:
    query, key, value = call.shape(0), call.shape(1), call.shape(2)
    if len(query) == 4:
        batch, heads, length, _ = query
        _, key_heads, key_length, head = key
        value_head: Dim | None = value[3]
        key_head: Dim | None = head
        output: PartialShape = [batch, heads, length, value_head]
    else:
        heads, key_heads = call.integer("q_num_heads"), call.integer("kv_num_heads")
        batch, length, _ = query
        key_length = key[1]
        value_head, key_head = exact_div(value[2], key_heads), exact_div(key[2], key_heads)
        output = [batch, length, None if value_head is None else value_head * heads]
    total: Dim | None = key_length
    if call.has(4):
        past = call.shape_or_none(4)
        total = None if past is None else add(past[2], key_length)
    present: PartialShape = [batch, key_heads, total, key_head]
    present_value: PartialShape = [batch, key_heads, total, value_head]
    return [output, present, present_value, [batch, heads, length, total]]


@rule("NegativeLogLikelihoodLoss")
def _nll_loss(call: Call) -> list[PartialShape]:
    return [call.shape(1) if call.text("reduction", "mean") == "none" else ()]


@rule("SoftmaxCrossEntropyLoss")
def _softmax_loss(call: Call) -> list[PartialShape]:
    return [call.shape(1) if call.text("reduction", "mean") == "none" else (), call.shape(0)]
