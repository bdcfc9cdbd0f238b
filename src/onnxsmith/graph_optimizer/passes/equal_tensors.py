"""Which tensors have the same contents, reading no more of them than it takes to tell."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

import numpy as np
import onnx_ir as ir

from onnxsmith.model.carried import is_packed

_ENDS = 1024
"""Bytes that are looked at first, at each end."""


def equal_tensors(tensors: Iterable[ir.TensorProtocol]) -> dict[int, int]:
    """Sorts tensors into classes of the same dtype, shape and bytes.

    Returns:
        The number of its class, by the `id` of a tensor; those that cannot be compared are not in it.
    """
    distinct = {id(tensor): tensor for tensor in tensors if not is_packed(tensor)}
    groups = [list(distinct.values())]
    for key in (_kind, _ends, _digest):
        groups = [finer for group in groups for finer in _split(group, key)]
    return {id(tensor): number for number, group in enumerate(groups) for tensor in group}


def _split(
    group: list[ir.TensorProtocol], key: Callable[[ir.TensorProtocol], Hashable]
) -> list[list[ir.TensorProtocol]]:
    if len(group) == 1:
        return [group]
    parts: dict[Hashable, list[ir.TensorProtocol]] = defaultdict(list)
    for tensor in group:
        parts[key(tensor)].append(tensor)
    return list(parts.values())


def _kind(tensor: ir.TensorProtocol) -> Hashable:
    return tensor.dtype, tuple(tensor.shape.numpy())


def _ends(tensor: ir.TensorProtocol) -> Hashable:
    if tensor.dtype == ir.DataType.STRING:
        return tuple(tensor.numpy().reshape(-1).tolist())
    if tensor.dtype.bitwidth < 8:
        contents = _bytes(tensor)
        return contents[:_ENDS].tobytes(), contents[-_ENDS:].tobytes()
    array = tensor.numpy()
    count = max(1, _ENDS // array.dtype.itemsize)
    return array.flat[:count].tobytes(), array.flat[-count:].tobytes()  # a transposed weight is not laid out for this


def _digest(tensor: ir.TensorProtocol) -> Hashable:
    if tensor.dtype == ir.DataType.STRING or tensor.nbytes <= 2 * _ENDS:
        return None  # all of it has been looked at
    return hashlib.blake2b(_bytes(tensor).data).digest()


def _bytes(tensor: ir.TensorProtocol) -> np.ndarray:
    """The contents, mapped where they lie in a file; packed numbers are not unpacked."""
    if tensor.dtype.bitwidth < 8:
        return np.frombuffer(tensor.tobytes(), np.uint8)
    return np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8)
