"""Nodes that carry graphs: what their bodies' inputs are, and what comes out of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic.call import NOTHING, Call, Info, Shape, Unknown, from_front
from onnxsmith.graph_analysis.symbolic.dims import Dim, fresh_symbol

_SCAN_WITHOUT_BATCH = 9
"""The opset from which Scan has no batch axis."""


def body_outputs(graph: ir.Graph, known: Mapping[ir.Value, Info]) -> list[Info]:
    """What is known of the outputs of a body."""
    return [known.get(value, NOTHING) for value in graph.outputs]


def body_input(owner: ir.Node, value: ir.Value, inputs: Sequence[Info | None]) -> Info:
    """What is known of an input of a body, in whichever iteration."""
    graph = value.graph
    if graph is None or owner.domain not in ("", "ai.onnx"):
        return NOTHING
    index = next(index for index, given in enumerate(graph.inputs) if given is value)
    if owner.op_type == "Loop":
        if index <= 1:
            dtype = ir.DataType.INT64 if index == 0 else ir.DataType.BOOL
            # the runtime makes these of rank 1 where the body says so
            return Info(dtype, (1,) if value.shape is not None and value.shape.rank() == 1 else ())
        carried = inputs[index] or NOTHING
        return Info(carried.dtype, other=carried.other)
    if owner.op_type == "Scan":
        given = inputs[index] or NOTHING
        scanned = owner.attributes["num_scan_inputs"].as_int()
        states = len(inputs) - scanned
        if index < states or given.shape is None:
            return Info(given.dtype)
        axes = owner.attributes.get("scan_input_axes")
        axis = from_front(axes.as_ints()[index - states] if axes is not None else 0, len(given.shape))
        return Info(given.dtype, given.shape[:axis] + given.shape[axis + 1 :])
    return NOTHING


def node_outputs(call: Call, bodies: Sequence[Sequence[Info]]) -> list[Info]:
    """What is known of the outputs of a node with bodies."""
    found: list[Info]
    if call.node.op_type == "If":
        found = _if(call, bodies)
    elif call.node.op_type == "Loop":
        found = _loop(call, bodies[0])
    elif call.node.op_type == "Scan" and call.opset >= _SCAN_WITHOUT_BATCH:
        found = _scan(call, bodies[0])
    else:
        raise Unknown
    return found


def merged(one: Info, other: Info) -> Info:
    """What is known of a value that is one or the other."""
    return Info(
        one.dtype if one.dtype == other.dtype else None,
        _merged_shape(one.shape, other.shape),
        other=one.other if one.other == other.other else None,
    )


def _merged_shape(one: Shape | None, other: Shape | None) -> Shape | None:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(left if left == right else fresh_symbol() for left, right in zip(one, other, strict=True))


def _if(call: Call, bodies: Sequence[Sequence[Info]]) -> list[Info]:
    condition = call.input(0).contents
    if condition and isinstance(condition[0], int):
        names = [name for name in call.node.attributes if name in ("then_branch", "else_branch")]
        return list(bodies[names.index("then_branch" if condition[0] else "else_branch")])
    return [merged(one, other) for one, other in zip(*bodies, strict=True)]


def _loop(call: Call, body: Sequence[Info]) -> list[Info]:
    carried = len(call.inputs) - 2
    found = [
        merged(call.inputs[2 + index] or NOTHING, info) if index < carried else _stacked(info, 0, None)
        for index, info in enumerate(body[1:])
    ]
    for index in range(carried):
        initial = call.inputs[2 + index] or NOTHING
        found[index] = Info(initial.dtype, found[index].shape, other=initial.other)
    return found


def _scan(call: Call, body: Sequence[Info]) -> list[Info]:
    scanned = call.integer("num_scan_inputs")
    states = len(call.inputs) - scanned
    given = call.shape_or_none(states)
    axes = call.integers("scan_input_axes")
    length = None if given is None else given[from_front(axes[0] if axes else 0, len(given))]
    output_axes = call.integers("scan_output_axes") or [0] * len(body)
    found = [merged(call.inputs[index] or NOTHING, body[index]) for index in range(states)]
    for axis, info in zip(output_axes, body[states:], strict=False):
        found.append(_stacked(info, axis, length))
    return found


def _stacked(info: Info, axis: int, length: Dim | None) -> Info:
    """The tensor that all iterations' results make along a new axis. A size that may vary inside is not told."""
    if info.shape is None:
        return Info(info.dtype)
    inner: list[Dim] = [dim if isinstance(dim, int) else fresh_symbol() for dim in info.shape]
    inner.insert(from_front(axis, len(inner) + 1), fresh_symbol() if length is None else length)
    return Info(info.dtype, tuple(inner))
