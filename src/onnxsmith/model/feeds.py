"""Inputs that a user gives, held against what the model asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from onnxsmith.errors import TensorError
from onnxsmith.model.specs import TensorSpec, format_shape
from onnxsmith.records import did_you_mean


def check_feeds(inputs: Iterable[TensorSpec], feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the inputs for a run.

    Args:
        inputs: What the model asks for.
        feeds: A value for each, by name.

    Returns:
        The same values; lists and Python scalars for a tensor as arrays of its dtype.

    Raises:
        TensorError: One is missing or unknown, or has the wrong dtype, rank or shape, or a batch of zero.
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
                f"input '{spec.name}' has shape {list(array.shape)}: axis {axis} ({dim or 'dynamic'}) is zero."
            )
        if isinstance(dim, str):
            other, where = names.setdefault(dim, (size, spec.name))
            if other != size:
                raise TensorError(
                    f"dimension '{dim}' is {size} in input '{spec.name}' and {other} in '{where}'; it must be the same."
                )
    return array


def _as_array(spec: TensorSpec, value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray):
        array = value
    else:
        try:
            array = np.array(value, dtype=object if spec.dtype == "string" else spec.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise TensorError(f"input '{spec.name}' cannot be read as {spec.dtype}: {error}.") from None
    if spec.dtype == "string":
        if array.dtype.kind not in "OUS":
            raise TensorError(f"input '{spec.name}' has dtype {array.dtype}; the model wants strings.")
        return array.astype(object)
    if array.dtype.name != spec.dtype:
        raise TensorError(
            f"input '{spec.name}' has dtype {array.dtype}; the model wants {spec.dtype}.",
            f"Convert it: array.astype('{spec.dtype}')",
        )
    return array
