"""Inputs that a user gives, held against what the model asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from onnxsmith.errors import TensorError
from onnxsmith.model.specs import TensorSpec, format_shape, numpy_dtype
from onnxsmith.records import did_you_mean


def check_feeds(inputs: Iterable[TensorSpec], feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the inputs for a run.

    Args:
        inputs: What the model asks for.
        feeds: A value for each, by name.

    Returns:
        The same values; lists and Python scalars for a tensor as arrays of its dtype.

    Raises:
        TensorError: One is missing or unknown, or has the wrong type, dtype, rank or shape, or a batch of zero.
    """
    specs = {spec.name: spec for spec in inputs}
    for name in feeds:
        if name not in specs:
            raise TensorError(
                f"the model has no input '{name}'.{did_you_mean(name, specs)}", f"Its inputs are: {_list(specs)}."
            )
    missing = [name for name in specs if name not in feeds]
    if missing:
        raise TensorError(f"no value for the input '{missing[0]}'.", f"The inputs are: {_list(specs)}.")
    names: dict[str, tuple[int, str]] = {}
    return {name: _check(spec, feeds[name], names) for name, spec in specs.items()}


def _list(specs: Mapping[str, TensorSpec]) -> str:
    return ", ".join(f"{name}: {spec}" for name, spec in specs.items())


def _check(spec: TensorSpec, value: Any, names: dict[str, tuple[int, str]]) -> Any:
    is_map = spec.dtype.startswith("map(")
    if spec.kind == "map":
        return _as_map(spec, value)
    if spec.kind == "sequence":
        if not isinstance(value, (list, tuple)):
            raise TensorError(f"input '{spec.name}' is a {type(value).__name__}; the model wants a list: {spec}.")
        return [_as_map(spec, item) if is_map else _as_array(spec, item) for item in value]
    if spec.kind == "optional" and not is_map and value is not None and not isinstance(value, (list, tuple)):
        return _as_array(spec, value)
    if spec.kind != "tensor":
        return value
    array = _as_array(spec, value)
    if spec.shape is None:
        return array
    if array.ndim != len(spec.shape):
        raise TensorError(
            f"input '{spec.name}' has rank {array.ndim}, shape {list(array.shape)}; "
            f"the model wants rank {len(spec.shape)}: {format_shape(spec.shape)}."
        )
    for axis, (size, dim) in enumerate(zip(array.shape, spec.shape, strict=True)):
        if isinstance(dim, int) and size != dim:
            raise TensorError(
                f"input '{spec.name}' has shape {list(array.shape)}; "
                f"the model wants {format_shape(spec.shape)}: axis {axis} is {size} and must be {dim}."
            )
        if not isinstance(dim, int) and size == 0:
            raise TensorError(
                f"input '{spec.name}' has shape {list(array.shape)}: axis {axis} ({dim or 'dynamic'}) is zero.",
                "Give at least one.",
            )
        if isinstance(dim, str):
            other, where = names.setdefault(dim, (size, spec.name))
            if other != size:
                raise TensorError(
                    f"dimension '{dim}' is {size} in input '{spec.name}' and {other} in '{where}'; it must be the same."
                )
    return array


def _as_map(spec: TensorSpec, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise TensorError(f"input '{spec.name}' is a {type(value).__name__}; the model wants a dict: {spec}.")
    return value


def _as_array(spec: TensorSpec, value: Any) -> np.ndarray[Any, Any]:
    try:
        wanted = numpy_dtype(spec.dtype)
        # An array's dtype is the caller's choice, and must be right; that of a list is not.
        array = np.asarray(value) if hasattr(value, "__array__") else _converted(value, wanted)
    except (TypeError, ValueError, OverflowError) as error:
        raise TensorError(f"input '{spec.name}' cannot be read as {spec.dtype}: {error}.") from None
    if spec.dtype == "string":
        if array.dtype.kind not in "OUS" or not all(isinstance(item, (str, bytes)) for item in array.flat):
            raise TensorError(f"input '{spec.name}' has dtype {array.dtype}; the model wants strings.")
        return array.astype(object)
    if array.dtype.type is np.void and array.dtype.names is None and array.dtype.itemsize == wanted.itemsize:
        # A .npy file forgets the name of a type that NumPy lacks.
        array = array.view(wanted)
    if array.dtype.name != spec.dtype:
        raise TensorError(
            f"input '{spec.name}' has dtype {array.dtype}; the model wants {spec.dtype}.",
            f"Convert it: array.astype('{spec.dtype}')",
        )
    return array.astype(wanted, copy=False)


def _converted(value: Any, wanted: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A list or number as an array, where nothing but precision is lost."""
    plain = np.array(value, dtype=object)
    if wanted.kind == "O":
        return plain
    fits = all(isinstance(item, (int, float, complex, np.number, np.bool_)) for item in plain.flat)
    array = np.array(value, dtype=wanted) if fits else plain
    if not fits or (wanted.kind in "biu" and not np.array_equal(array.astype(object), plain)):
        raise TypeError(f"{value!r:.80} does not fit")
    return array
