"""Operators that move elements about, evaluated with NumPy; any element type, and views where they do."""

from __future__ import annotations

import itertools
import math

import numpy as np

from onnxsmith.graph_analysis.symbolic.layout import ENDLESS, slice_of
from onnxsmith.graph_optimizer.evaluation_table import Call, NotHere, operator

_INPUT_SINCE = {"Squeeze": 13, "Unsqueeze": 13, "Slice": 10, "Split": 13, "Pad": 11, "Reshape": 5, "Tile": 6}
"""The opset from which the operator takes as inputs what were attributes before."""


@operator("Identity")
def _identity(call: Call) -> list[np.ndarray]:
    return [call.input(0)]


@operator("Dropout")
def _dropout(call: Call) -> list[np.ndarray]:
    if call.count != 1:
        raise NotHere
    return [call.input(0)]


@operator("Shape")
def _shape(call: Call) -> list[np.ndarray]:
    dims = call.input(0).shape
    return [np.array(dims[call.integer("start", 0) : call.integer("end", len(dims))], np.int64)]


@operator("Size")
def _size(call: Call) -> list[np.ndarray]:
    return [np.array(call.input(0).size, np.int64)]


@operator("Reshape")
def _reshape(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    target = call.numbers(1) if call.opset >= _INPUT_SINCE["Reshape"] else call.integers("shape", ())
    if not call.integer("allowzero", 0):
        target = [data.shape[axis] if dim == 0 else dim for axis, dim in enumerate(target)]
    elif 0 in target and -1 in target:
        raise NotHere
    return [data.reshape(target)]


@operator("Flatten")
def _flatten(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    axis = call.integer("axis", 1)
    axis += data.ndim if axis < 0 else 0
    return [data.reshape(math.prod(data.shape[:axis]), math.prod(data.shape[axis:]))]


def _axes(call: Call) -> list[int] | None:
    if call.opset >= _INPUT_SINCE[call.op_type]:
        return call.numbers(1) if call.has(1) else None
    axes = call.integers("axes", None)
    return None if axes is None else list(axes)


@operator("Squeeze")
def _squeeze(call: Call) -> list[np.ndarray]:
    axes = _axes(call)
    return [np.squeeze(call.input(0), None if axes is None else tuple(axes))]


@operator("Unsqueeze")
def _unsqueeze(call: Call) -> list[np.ndarray]:
    axes = _axes(call)
    if axes is None:
        raise NotHere
    return [np.expand_dims(call.input(0), tuple(axes))]


@operator("Transpose")
def _transpose(call: Call) -> list[np.ndarray]:
    return [np.transpose(call.input(0), call.integers("perm", None))]


@operator("Concat")
def _concat(call: Call) -> list[np.ndarray]:
    parts = [call.input(index) for index in range(call.given)]
    if len({part.dtype for part in parts}) != 1:
        raise NotHere
    return [np.concatenate(parts, call.integer("axis", 1 if call.opset < 4 else None))]


@operator("Split")
def _split(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    axis = call.integer("axis", 0)
    if call.opset >= _INPUT_SINCE["Split"]:
        sizes = call.numbers(1) if call.has(1) else None
    else:
        if call.given > 1:
            raise NotHere
        sizes = call.integers("split", None)
    if sizes is None:
        part = -(-data.shape[axis] // call.count)
        sizes = [part] * (call.count - 1) + [data.shape[axis] - part * (call.count - 1)]
    if len(sizes) != call.count or sum(sizes) != data.shape[axis] or min(sizes) < 0:
        raise NotHere
    return np.split(data, list(itertools.accumulate(sizes[:-1])), axis)


@operator("Slice")
def _slice(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    steps: list[int] | None = None
    axes: list[int] | None
    if call.opset >= _INPUT_SINCE["Slice"]:
        starts, ends = call.numbers(1), call.numbers(2)
        axes = call.numbers(3) if call.has(3) else None
        steps = call.numbers(4) if call.has(4) else None
    else:
        starts, ends = list(call.integers("starts", ())), list(call.integers("ends", ()))
        axes = call.integers("axes", None)
    picks = [slice(None)] * data.ndim
    for axis, start, end, step in zip(
        range(len(starts)) if axes is None else axes, starts, ends, steps or [1] * len(starts), strict=True
    ):
        if step == 0 or (step < 0 and end in ENDLESS):
            raise NotHere
        picks[axis] = slice_of(start, end, step, data.shape[axis])
    return [data[tuple(picks)]]


@operator("Expand")
def _expand(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    return [np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(call.numbers(1))))]


@operator("Tile")
def _tile(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    repeats = call.numbers(1)
    if call.opset < _INPUT_SINCE["Tile"] or len(repeats) != data.ndim:
        raise NotHere
    return [np.tile(data, repeats)]


@operator("ConstantOfShape")
def _constant_of_shape(call: Call) -> list[np.ndarray]:
    value = call.tensor("value")
    fill = np.zeros(1, np.float32) if value is None else value
    return [np.broadcast_to(fill.reshape(()), tuple(call.numbers(0)))]


@operator("Gather")
def _gather(call: Call) -> list[np.ndarray]:
    data, indices = call.input(0), call.input(1)
    axis = call.integer("axis", 0)
    return [np.take(data, _in_range(indices, data.shape[axis]), axis)]


def _in_range(indices: np.ndarray, size: int) -> np.ndarray:
    if indices.size and (indices.min() < -size or indices.max() >= size):
        raise NotHere
    return indices


@operator("GatherElements")
def _gather_elements(call: Call) -> list[np.ndarray]:
    data, indices = call.input(0), call.input(1)
    axis = call.integer("axis", 0)
    axis += data.ndim if axis < 0 else 0
    _in_range(indices, data.shape[axis])
    places = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    places[axis] = indices
    return [data[tuple(places)]]


@operator("GatherND")
def _gather_nd(call: Call) -> list[np.ndarray]:
    data, indices = call.input(0), call.input(1)
    if call.integer("batch_dims", 0):
        raise NotHere
    return [data[_places(indices, data.shape)]]


def _places(indices: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The indices of each axis; the last axis of `indices` holds a place's coordinates."""
    places = tuple(np.moveaxis(indices, -1, 0))
    if not places:
        raise NotHere
    return tuple(_in_range(place, size) for place, size in zip(places, shape, strict=False))


@operator("ScatterND")
def _scatter_nd(call: Call) -> list[np.ndarray]:
    data, indices, updates = call.input(0), call.input(1), call.input(2)
    if call.text("reduction", "none") != "none":
        raise NotHere
    result = data.copy()
    places = _places(indices, data.shape)
    if updates.shape != result[places].shape:
        raise NotHere
    if len(set(zip(*(place.reshape(-1).tolist() for place in places), strict=True))) != places[0].size:
        raise NotHere  # which of two updates of one place stays is not said
    result[places] = updates
    return [result]


@operator("Where")
def _where(call: Call) -> list[np.ndarray]:
    result = np.where(call.input(0), call.input(1), call.input(2))
    if result.dtype.kind == "f" and np.signbit(result[result == 0]).any():
        raise NotHere  # ONNX Runtime turns some of them into 0.0, by the shapes
    return [result]


@operator("Trilu")
def _trilu(call: Call) -> list[np.ndarray]:
    diagonal = call.numbers(1)[0] if call.has(1) else 0
    data = call.input(0)
    rows, columns = data.shape[-2:]
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    keep = distance >= diagonal if call.integer("upper", 1) else distance <= diagonal
    return [np.where(keep, data, np.zeros((), data.dtype))]


@operator("EyeLike")
def _eye_like(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    if call.integer("dtype", None) is not None:
        raise NotHere
    return [np.eye(data.shape[0], data.shape[1], k=call.integer("k", 0), dtype=data.dtype)]


@operator("NonZero")
def _non_zero(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    if data.ndim == 0:
        raise NotHere
    return [np.stack(np.nonzero(data)).astype(np.int64)]


@operator("Pad")
def _pad(call: Call) -> list[np.ndarray]:
    data = call.input(0)
    if call.opset < _INPUT_SINCE["Pad"] or call.text("mode", "constant") != "constant" or call.has(3):
        raise NotHere
    pads = call.numbers(1)
    if len(pads) != 2 * data.ndim or min(pads, default=0) < 0:
        raise NotHere
    value = call.input(2).reshape(()) if call.has(2) else np.zeros((), data.dtype)
    sizes = [before + size + after for before, size, after in zip(pads, data.shape, pads[data.ndim :], strict=False)]
    result = np.full(sizes, value, data.dtype)
    result[tuple(slice(before, before + size) for before, size in zip(pads, data.shape, strict=False))] = data
    return [result]
