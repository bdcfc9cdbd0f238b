"""Sample inputs by dtype and shape, for any model."""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxsmith.errors import TensorError
from onnxsmith.model.dims import ResolvedDims
from onnxsmith.model.model import Model
from onnxsmith.model.specs import TensorSpec, numpy_dtype

_PASS_THROUGH = frozenset(
    {"Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose", "Expand", "Slice"}
)
_TABLES = {
    ("Gather", 1): 0,
    ("GatherBlockQuantized", 1): 0,
    ("EmbedLayerNormalization", 0): 2,
    ("EmbedLayerNormalization", 1): 4,
}
"""For an operator and the input that is an index, the input that is the table."""

_WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog")


def sample_inputs(
    model: Model, dims: ResolvedDims, seed: int = 0, *, only: Collection[str] | None = None
) -> dict[str, Any]:
    """A value for each input.

    An input called a mask is all ones. Floating point is standard normal. An integer that indexes a table (an
    embedding) is below the table's size; 8-bit ones take their whole range; others are 0 or 1, which will do for an
    index, a flag or a count. Strings are words. A sequence has two elements; a map has the keys 0 and 1, or "a" and
    "b".

    Args:
        model: The model.
        dims: A size for each dynamic dimension.
        seed: The same seed gives the same value for the same input, whatever other inputs there are.
        only: The inputs to sample; None is all of them.

    Returns:
        NumPy arrays by input name; lists for sequences, dicts for maps.

    Raises:
        TensorError: An input's type cannot be sampled.
    """
    bounds = _index_bounds(model)
    return {
        spec.name: _sample(
            spec, dims, bounds.get(spec.name), np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
        )
        for spec in model.inputs
        if only is None or spec.name in only
    }


def _sample(spec: TensorSpec, dims: ResolvedDims, bound: int | None, rng: np.random.Generator) -> Any:
    is_map = spec.dtype.startswith("map(")
    if spec.kind == "map":
        return _map(spec, rng)
    if spec.kind in ("tensor", "optional") and not is_map:
        return _array(spec, spec.dtype, dims.shape(spec), bound, rng)
    if spec.kind == "sequence":
        if is_map:
            return [_map(spec, rng) for _ in range(2)]
        return [_array(spec, spec.dtype, dims.shape(spec), bound, rng) for _ in range(2)]
    what = "has no declared type" if spec.kind == "unknown" else f"is of type {spec}"
    raise TensorError(
        f"input '{spec.name}' {what}, and no sample can be made for it.",
        "Give the inputs from Python: onnxsmith.infer(model, feeds={...}).",
    )


def _map(spec: TensorSpec, rng: np.random.Generator) -> dict[Any, Any]:
    key_type, value_type = spec.dtype.removeprefix("map(").removesuffix(")").split(", ", maxsplit=1)
    keys: list[Any] = ["a", "b"] if key_type == "string" else [0, 1]
    return {key: _array(spec, value_type, (), None, rng).item() for key in keys}


def _array(
    spec: TensorSpec, dtype: str, shape: tuple[int, ...], bound: int | None, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    if dtype == "string":
        return np.array(rng.choice(_WORDS, size=shape), dtype=object).reshape(shape)
    try:
        target = numpy_dtype(dtype)
    except TypeError:
        raise TensorError(f"input '{spec.name}' is of dtype {dtype}, and no sample can be made for it.") from None
    if "mask" in spec.name.lower():
        return np.ones(shape, target)
    if dtype == "bool" or np.issubdtype(target, np.integer) or dtype in ("int4", "uint4", "int2", "uint2"):
        if bound is not None:
            return np.asarray(rng.integers(0, max(bound, 1), shape)).astype(target)
        if dtype in ("int8", "uint8"):
            info = np.iinfo(target)
            return np.asarray(rng.integers(info.min, info.max, shape, endpoint=True)).astype(target)
        return np.asarray(rng.integers(0, 2, shape)).astype(target)
    if math.prod(shape) > sys.maxsize // 16:
        raise MemoryError(f"an array with shape {shape}")
    normal = rng.standard_normal(shape)
    if np.issubdtype(target, np.complexfloating):
        return np.asarray(normal + 1j * rng.standard_normal(shape)).astype(target)
    # The one type that has no negative numbers.
    return np.asarray(np.abs(normal) if dtype == "float8_e8m0fnu" else normal).astype(target)


def _index_bounds(model: Model) -> dict[str, int]:
    """For each integer input that indexes a constant table, the size of the smallest such table."""
    bounds = {}
    for value in model.ir.graph.inputs:
        if value.dtype is not None and value.dtype.is_integer():
            sizes = _table_sizes(value)
            if sizes:
                bounds[value.name or ""] = min(sizes)
    return bounds


def _table_sizes(value: ir.Value) -> list[int]:
    sizes = []
    stack, seen = [value], {value}
    while stack:
        current = stack.pop()
        for node, index in current.uses():
            position = _TABLES.get((node.op_type, index))
            if position is not None:
                table, axis = node.inputs[position], node.attributes.get_int("axis", 0)
                if table is not None and table.const_value is not None and axis is not None:
                    size = table.const_value.shape[axis]
                    if isinstance(size, int):
                        sizes.append(size)
            elif node.op_type in _PASS_THROUGH and index == 0 and node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                stack.append(node.outputs[0])
    return sizes
