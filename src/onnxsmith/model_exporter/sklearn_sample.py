"""What goes into an estimator: the types of its inputs, and rows to compare on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxsmith.errors import ExportError
from onnxsmith.extras import require

_INPUT = "input"
_MADE_UP_ROWS = 256


@dataclass(frozen=True)
class SklearnSample:
    """Inputs as both sides take them.

    Attributes:
        types: skl2onnx's name and type of each input.
        feeds: The rows for ONNX Runtime, or None where there are none.
        seen: The same rows for scikit-learn: what was given, numbers rounded to float32 as the model gets them.
    """

    types: tuple[tuple[str, Any], ...]
    feeds: dict[str, np.ndarray[Any, Any]] | None
    seen: Any


def make_sample(
    estimator: Any, sample: Any, initial_types: Sequence[tuple[str, Any]] | None, seed: int
) -> SklearnSample:
    """Finds the types of the inputs, and makes the rows.

    Args:
        estimator: The fitted estimator.
        sample: An array, a list, a data frame (an input for each column) or None.
        initial_types: The types where they are given.
        seed: Of made-up rows.

    Raises:
        ExportError: The types cannot be told, or the sample does not fit them.
    """
    types = require("skl2onnx.common.data_types", purpose="to export from scikit-learn")
    if hasattr(sample, "columns"):
        named = tuple(initial_types) if initial_types else _column_types(sample, types)
        return SklearnSample(named, _column_feeds(sample, named, types), sample)
    features = getattr(estimator, "n_features_in_", None)
    array = None if sample is None else _as_array(sample, features)
    if initial_types:
        named = tuple(initial_types)
    elif array is not None and array.dtype.kind in "OUS":
        named = ((_INPUT, types.StringTensorType([None, *array.shape[1:]])),)
        _require_strings(array)
    elif array is not None or features is not None:
        named = ((_INPUT, types.FloatTensorType([None, features if array is None else array.shape[1]])),)
    else:
        raise ExportError(
            f"{type(estimator).__name__} does not say how many features it takes.",
            "Give a sample of its input, or initial_types.",
        )
    if array is None:
        if len(named) > 1 or not isinstance(named[0][1], types.FloatTensorType | types.DoubleTensorType):
            return SklearnSample(named, None, None)
        array = np.random.default_rng(seed).standard_normal((_MADE_UP_ROWS, int(named[0][1].shape[1])))
    feeds = _array_feeds(array, named, types)
    if array.dtype.kind == "f" and len(named) == 1:
        array = feeds[named[0][0]].astype(array.dtype)
    return SklearnSample(named, feeds, array)


def _as_array(sample: Any, features: int | None) -> np.ndarray[Any, Any]:
    array = np.asarray(sample)
    if array.ndim not in (1, 2) or array.shape[0] == 0:
        raise ExportError(
            f"the sample has the shape {list(array.shape)}; it must be rows by features, one row at least."
        )
    if array.ndim == 1 and array.dtype.kind not in "OUS":
        raise ExportError("the sample is one row of numbers; give rows by features: sample.reshape(1, -1).")
    if features is not None and array.ndim == 2 and array.shape[1] != features:
        raise ExportError(f"the sample has {array.shape[1]} features, and the estimator takes {features}.")
    return array


def _require_strings(array: np.ndarray[Any, Any]) -> None:
    other = next((value for value in array.flat if not isinstance(value, str | np.str_)), None)
    if other is not None:
        raise ExportError(
            f"the sample mixes strings with other values ({other!r}), so its columns have no common type.",
            "Give a data frame, or the type of each column in initial_types.",
        )


def _column_types(frame: Any, types: Any) -> tuple[tuple[str, Any], ...]:
    by_kind = {"f": types.FloatTensorType, "i": types.Int64TensorType, "u": types.Int64TensorType,
               "b": types.BooleanTensorType, "O": types.StringTensorType, "U": types.StringTensorType}  # fmt: skip
    named = []
    for column in frame.columns:
        kind = np.asarray(frame[column]).dtype.kind
        if kind not in by_kind:
            raise ExportError(
                f"the sample's column '{column}' has the dtype {frame[column].dtype}, which has no type here."
            )
        named.append((str(column), by_kind[kind]([None, 1])))
    return tuple(named)


def _column_feeds(frame: Any, named: Sequence[tuple[str, Any]], types: Any) -> dict[str, np.ndarray[Any, Any]]:
    missing = [name for name, _ in named if name not in list(frame.columns)]
    if missing:
        raise ExportError(f"the sample has no column '{missing[0]}'; it has: {', '.join(map(str, frame.columns))}.")
    return {name: _cast(np.asarray(frame[name]).reshape(-1, 1), kind, types, name) for name, kind in named}


def _array_feeds(
    array: np.ndarray[Any, Any], named: Sequence[tuple[str, Any]], types: Any
) -> dict[str, np.ndarray[Any, Any]]:
    if len(named) == 1:
        return {named[0][0]: _cast(array, named[0][1], types, named[0][0])}
    widths = [int(kind.shape[1]) for _, kind in named]
    if array.ndim != 2 or array.shape[1] != sum(widths):
        raise ExportError(
            f"the sample has the shape {list(array.shape)}, and initial_types have {sum(widths)} columns in all."
        )
    parts = np.split(array, np.cumsum(widths)[:-1], axis=1)
    return {name: _cast(part, kind, types, name) for (name, kind), part in zip(named, parts, strict=True)}


def _cast(array: np.ndarray[Any, Any], kind: Any, types: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        if isinstance(kind, types.StringTensorType):
            return array.astype(str).astype(object)
        return array.astype(types.guess_numpy_type(kind))
    except (TypeError, ValueError) as error:
        raise ExportError(f"the sample's values for '{name}' do not fit {type(kind).__name__}: {error}.") from None
