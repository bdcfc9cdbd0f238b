"""Operators that pick elements or sum them up: Gather, TopK, the reductions and their like."""

from __future__ import annotations

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.call import Call, Info, PartialShape, Unknown, from_front, rule
from onnxsmith.graph_analysis.symbolic.dims import Dim, Expr, is_nonnegative
from onnxsmith.graph_analysis.symbolic.layout import sizes

_INT64 = ir.DataType.INT64
_AXES_INPUT = {"ReduceSum": 13}
"""From which opset a reduction's axes are an input; the others since 18."""


@rule("Gather")
def _gather(call: Call) -> list[PartialShape]:
    data, indices = call.shape(0), call.shape(1)
    axis = call.axis(len(data), 0)
    return [[*data[:axis], *indices, *data[axis + 1 :]]]


@rule("GatherElements")
def _gather_elements(call: Call) -> list[PartialShape]:
    return [call.shape(1)]


@rule("GatherND")
def _gather_nd(call: Call) -> list[PartialShape]:
    data, indices = call.shape(0), call.shape(1)
    depth = indices[-1]
    if not isinstance(depth, int):
        raise Unknown
    start = call.integer("batch_dims", 0) + depth
    if start > len(data):
        raise Unknown
    return [[*indices[:-1], *data[start:]]]


@rule("Compress")
def _compress(call: Call) -> list[PartialShape]:
    axis = call.integer("axis")
    if axis is None:
        return [[None]]
    result: list[Dim | None] = list(call.shape(0))
    result[from_front(axis, len(result))] = None
    return [result]


@rule("NonZero", dtypes=_INT64)
def _non_zero(call: Call) -> list[PartialShape]:
    return [[len(call.shape(0)) or None, None]]  # runtimes differ on a scalar


@rule("TopK", dtypes=(0, _INT64))
def _top_k(call: Call) -> list[PartialShape]:
    result: list[Dim | None] = list(call.shape(0))
    axis = call.axis(len(result), -1)
    if call.opset >= 10:
        (result[axis],) = sizes(call.input(1).contents or (None,))
    else:
        result[axis] = call.integer("k")
    return [result, result]


@rule("OneHot", dtypes=2)
def _one_hot(call: Call) -> list[PartialShape]:
    result: list[Dim | None] = list(call.shape(0))
    depth = call.input(1).contents
    size = depth[0] if depth else None
    if isinstance(size, Expr) and not is_nonnegative(size):
        size = None
    axis = from_front(call.integer("axis", -1), len(result) + 1)
    result.insert(axis, int(size) if isinstance(size, float) else size)
    return [result]


@rule("ArgMax", "ArgMin", dtypes=_INT64)
def _arg_extreme(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    axis = call.axis(len(given), 0)
    kept = [1] if call.integer("keepdims", 1) else []
    return [[*given[:axis], *kept, *given[axis + 1 :]]]


@rule("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin")
@rule("ReduceProd", "ReduceSum", "ReduceSumSquare")
def _reduce(call: Call) -> list[PartialShape]:
    given = call.shape(0)
    axes = reduced_axes(call, call.input(0))
    keeps = call.integer("keepdims", 1)
    if axes is None:
        if keeps:
            return [[None] * len(given)]
        raise Unknown
    if keeps:
        return [[1 if axis in axes else dim for axis, dim in enumerate(given)]]
    return [[dim for axis, dim in enumerate(given) if axis not in axes]]


def reduced_axes(call: Call, given: Info) -> list[int] | None:
    """The axes that a reduction takes away; None where they are not known."""
    if given.shape is None:
        raise Unknown
    rank = len(given.shape)
    since = _AXES_INPUT.get(call.node.op_type, 18)
    if call.opset >= since and call.has(1) and call.input(1).contents is None and call.input(1).shape != (0,):
        return None
    axes = call.axes(rank, 1, since)
    if not axes:
        return [] if call.integer("noop_with_empty_axes", 0) else list(range(rank))
    return axes


@rule("Unique", dtypes=(0, _INT64, _INT64, _INT64))
def _unique(call: Call) -> list[PartialShape]:
    axis = call.integer("axis")
    result: list[Dim | None] = [None]
    if axis is not None:
        result = list(call.shape(0))
        result[from_front(axis, len(result))] = None
    return [result, [None], [None], [None]]


@rule("Det")
def _det(call: Call) -> list[PartialShape]:
    return [call.shape(0)[:-2]]


@rule("StringSplit", dtypes=(ir.DataType.STRING, _INT64))
def _string_split(call: Call) -> list[PartialShape]:
    return [[*call.shape(0), None], call.shape(0)]


@rule("SequenceLength", dtypes=_INT64)
def _sequence_length(call: Call) -> list[PartialShape]:
    return [()]


@rule("NonMaxSuppression", dtypes=_INT64)
def _non_max_suppression(call: Call) -> list[PartialShape]:
    return [[None, 3]]
