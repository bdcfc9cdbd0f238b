"""How far an exported model's outputs are from the original's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxsmith.records import Record

_TOLERANCES = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-3, "float64": 1e-5, "complex64": 1e-3}
"""The largest relative error that counts as agreement, by dtype; other dtypes must be equal."""


class Difference(Record):
    """The distance between two sets of outputs.

    Attributes:
        max_abs_error: The largest absolute error; infinite where shapes, infinities or NaNs differ.
        max_rel_error: The largest absolute error of an output over its largest magnitude, worst output.
        agree: True where each output is within the tolerance of its dtype.
    """

    max_abs_error: float
    max_rel_error: float
    agree: bool


def difference(actual: Sequence[np.ndarray[Any, Any]], expected: Sequence[np.ndarray[Any, Any]]) -> Difference:
    """Compares outputs pair by pair.

    An error is taken relative to the output's largest magnitude: an element near zero carries the rounding of its
    larger neighbours, and says nothing on its own.
    """
    if len(actual) != len(expected):
        return Difference(max_abs_error=math.inf, max_rel_error=math.inf, agree=False)
    worst_abs, worst_rel, agree = 0.0, 0.0, True
    for ours, theirs in zip(actual, expected, strict=True):
        abs_error, rel_error = _errors(ours, theirs)
        worst_abs, worst_rel = max(worst_abs, abs_error), max(worst_rel, rel_error)
        agree = agree and rel_error <= _TOLERANCES.get(theirs.dtype.name, 0.0)
    return Difference(max_abs_error=worst_abs, max_rel_error=worst_rel, agree=agree)


def _errors(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The largest absolute error, and that over the largest finite magnitude of `expected`."""
    if actual.shape != expected.shape:
        return math.inf, math.inf
    if expected.size == 0:
        return 0.0, 0.0
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    ours, theirs = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return math.inf, math.inf
    errors = np.abs(ours[finite] - theirs[finite])
    worst = float(errors.max(initial=0.0))
    if math.isnan(worst):
        return math.inf, math.inf
    peak = float(np.abs(theirs[finite]).max(initial=0.0))
    return worst, worst / peak if peak else (math.inf if worst else 0.0)
