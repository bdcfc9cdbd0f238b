"""Whether two runs of a model agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxsmith.records import Record

_TOLERANCES = {"float16": 1e-2, "bfloat16": 5e-2, "float64": 1e-6}
_TOLERANCE = 1e-3
"""For float32, and for what stands beside it; each is relative to the largest magnitude in the output."""

_NOISE = 4.0
"""How many times the distance that rounding moves an output by is no disagreement."""


class Agreement(Record):
    """Two runs on the same inputs, held against each other.

    Attributes:
        agree: Whether every output agrees; None where they cannot be compared.
        max_abs_error: The largest difference between two finite numbers of any output, in the output's own unit; None
            where there is no number to compare.
        worst_output: The output with the largest difference relative to its tolerance, or None.
        reason: Why they disagree or cannot be compared, or None.
    """

    agree: bool | None
    max_abs_error: float | None = None
    worst_output: str | None = None
    reason: str | None = None


class InputCheck(Record):
    """The outputs on one kind of input.

    Attributes:
        kind: What the inputs are: `given`, `normal`, `uniform`, `zeros`, `large`, `nan`, `other sizes`,
            `overridden` (initializers that a caller can override, with other contents), `overridden counts`.
        agreement: The original's outputs against the optimised model's.
    """

    kind: str
    agreement: Agreement


class Verification(Record):
    """The outputs on all kinds of input.

    Attributes:
        agree: Whether all agree; None where nothing could be compared.
        checks: Each kind.
        reason: Why not, or why they could not be compared; None where all agree.
    """

    agree: bool | None
    checks: tuple[InputCheck, ...] = ()
    reason: str | None = None


def compare_outputs(
    expected: Mapping[str, Any],
    got: Mapping[str, Any],
    *,
    strictness: float = 1.0,
    noise: Mapping[str, float] | None = None,
) -> Agreement:
    """Compares the outputs of two runs.

    A floating-point output agrees where its largest difference is within a tolerance times the largest finite magnitude
    of the expected output: 1e-3 for float32, 1e-6 for float64, 1e-2 for float16, 5e-2 for bfloat16. NaN and infinities
    must stand at the same places. Integers, booleans and strings must be equal.

    Args:
        expected: The outputs of the reference by name: arrays, lists of them, dicts of them.
        got: The outputs of the other run.
        strictness: What the tolerances are multiplied by.
        noise: By output, how far rounding alone moves its numbers: four times that is tolerated too.
    """
    if list(expected) != list(got):
        return Agreement(agree=False, reason=f"the outputs are {', '.join(got)} and not {', '.join(expected)}")
    worst_ratio, largest, worst, reason = -1.0, None, None, None
    for name, value in expected.items():
        ratio, error, why = _compare(value, got[name])
        if error is not None:
            largest = max(error, largest or 0.0)
        ratio /= strictness
        if error is not None and ratio < math.inf and error <= _NOISE * (noise or {}).get(name, 0.0):
            ratio = min(ratio, 1.0)
        if ratio > worst_ratio:
            worst_ratio, worst = ratio, name
            reason = f"output '{name}': {why}" if why is not None else None
    agree = worst_ratio <= 1.0
    return Agreement(agree=agree, max_abs_error=largest, worst_output=worst, reason=None if agree else reason)


def _compare(expected: Any, got: Any) -> tuple[float, float | None, str | None]:
    """How far apart two values are in tolerances, the largest difference, and what is wrong."""
    if isinstance(expected, Mapping) or isinstance(got, Mapping):
        if not (isinstance(expected, Mapping) and isinstance(got, Mapping)) or list(expected) != list(got):
            return math.inf, None, "the keys differ"
        return _worst([_compare(value, got[key]) for key, value in expected.items()])
    if isinstance(expected, list) or isinstance(got, list):
        if not (isinstance(expected, list) and isinstance(got, list)) or len(expected) != len(got):
            return math.inf, None, "the lengths of the sequences differ"
        return _worst([_compare(*pair) for pair in zip(expected, got, strict=True)])
    if expected is None or got is None:
        return (0.0, None, None) if expected is got else (math.inf, None, "only one of them is there")
    return _compare_arrays(np.asarray(expected), np.asarray(got))


def _worst(results: list[tuple[float, float | None, str | None]]) -> tuple[float, float | None, str | None]:
    if not results:
        return 0.0, None, None
    errors = [error for _, error, _ in results if error is not None]
    ratio, _, why = max(results, key=lambda result: result[0])
    return ratio, max(errors, default=None), why


def _compare_arrays(
    expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any]
) -> tuple[float, float | None, str | None]:
    if expected.dtype != got.dtype or expected.shape != got.shape:
        return (
            math.inf,
            None,
            f"{got.dtype}{list(got.shape)} instead of {expected.dtype}{list(expected.shape)}",
        )
    if expected.dtype.kind in "OUSb":
        different = int((expected != got).sum())
        return (math.inf, None, f"{different} of {expected.size} elements differ") if different else (0.0, None, None)
    if expected.dtype.kind in "iu":
        if np.array_equal(expected, got):
            return 0.0, 0.0, None
        error = float(np.abs(expected.astype(object) - got.astype(object)).max())  # Python's integers do not wrap
        return math.inf, error, f"integers differ by up to {error:g}"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    left, right = expected.astype(wide), got.astype(wide)
    finite = np.isfinite(left)
    special_agree = np.array_equal(finite, np.isfinite(right)) and np.array_equal(
        left[~finite], right[~finite], equal_nan=True
    )
    if not special_agree:
        return math.inf, None, "NaN or infinities stand at other places"
    error = float(np.abs(left[finite] - right[finite]).max(initial=0.0))
    scale = float(np.abs(left[finite]).max(initial=0.0))
    tolerance = _TOLERANCES.get(expected.dtype.name, _TOLERANCE) * scale
    if error == 0.0:
        return 0.0, 0.0, None
    ratio = error / tolerance if tolerance else math.inf
    return ratio, error, f"the largest difference is {error:.3g}, the tolerance {tolerance:.3g}"
