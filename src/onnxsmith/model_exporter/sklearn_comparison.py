"""An exported estimator's answers beside scikit-learn's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxsmith.extras import require
from onnxsmith.records import Record

_TOLERANCE = 1e-4
"""Of probabilities; of other numbers relative to the largest: the model computes in float32."""

_SCORES = ("predict_proba", "decision_function", "transform", "score_samples")


class SklearnComparison(Record):
    """The answers on one sample.

    Attributes:
        rows: Rows of the sample.
        rows_agree: Rows in which everything compared agrees: labels equal, numbers within the tolerance.
        labels_equal: Rows whose label is scikit-learn's, or None where it gives no labels.
        max_probability_error: The largest absolute error of a probability, or None where there are none.
        max_value_error: The largest absolute error of other numbers (a regressor's prediction, a transformer's result,
            scores, distances), or None where there are none.
        compared_with: The methods of the estimator that the outputs were held against, in the order of the outputs.
        accuracy: Share of the rows that the exported model labels rightly, or None where the truth is not known.
        sklearn_accuracy: The same of scikit-learn.
        agree: True where every row agrees.
    """

    rows: int
    rows_agree: int
    labels_equal: int | None
    max_probability_error: float | None
    max_value_error: float | None
    compared_with: tuple[str, ...]
    accuracy: float | None
    sklearn_accuracy: float | None
    agree: bool

    def __str__(self) -> str:
        parts = [f"{self.rows_agree} of {self.rows} rows agree"]
        if self.labels_equal is not None:
            parts.append(f"{self.labels_equal} labels equal")
        if self.max_probability_error is not None:
            parts.append(f"largest error of a probability {self.max_probability_error:.3g}")
        if self.max_value_error is not None:
            parts.append(f"largest error of a value {self.max_value_error:.3g}")
        if self.accuracy is not None:
            parts.append(f"accuracy {self.accuracy:.4f} (scikit-learn: {self.sklearn_accuracy:.4f})")
        return ", ".join(parts)


def compare_predictions(
    estimator: Any, sample: Any, outputs: Mapping[str, Any], labels: Any = None
) -> tuple[SklearnComparison, tuple[str, ...]]:
    """Holds the outputs of an exported estimator against the estimator's methods.

    The first output is the prediction (or a transformer's result), the second the probabilities or scores.

    Args:
        estimator: The fitted estimator.
        sample: The rows for scikit-learn.
        outputs: The exported model's outputs by name, in its order.
        labels: The true labels, or None.

    Returns:
        The comparison, and what is amiss, in words.

    Raises:
        Exception: Whatever the estimator raised.
    """
    first, *others = outputs.values()
    method = "predict" if hasattr(estimator, "predict") else "transform"
    expected = _dense(getattr(estimator, method)(sample))
    rows = len(expected)
    predicted = _dense(first).reshape(expected.shape)
    labelled = method == "predict" and (_is_classifier(estimator) or predicted.dtype.kind not in "f")
    good = np.ones(rows, dtype=bool)
    labels_equal = probability_error = value_error = None
    if labelled:
        right = _equal(predicted, expected)
        good &= right
        labels_equal = int(right.sum())
    else:
        value_error = _largest(predicted, expected)
        good &= _close(predicted, expected, relative=True)
    compared_with, warnings = [method], []
    for name, output in zip([*outputs][1:], others, strict=True):
        scores = _scores(estimator, sample, output, rows)
        if scores is None:
            warnings.append(f"the output '{name}' has no counterpart in scikit-learn, and was not compared")
            continue
        score_method, actual, wanted = scores
        compared_with.append(score_method)
        error = _largest(actual, wanted)
        if score_method == "predict_proba":
            probability_error = error
        else:
            value_error = max(error, value_error or 0.0)
        good &= _close(actual, wanted, relative=score_method != "predict_proba")
    agreeing = int(good.sum())
    if agreeing < rows:
        warnings.append(
            f"{rows - agreeing} of {rows} rows differ from scikit-learn's answers: it computes in float64 and the "
            "model in float32, which can flip a tree's threshold or a close decision"
        )
    truth = None if labels is None or not labelled else np.asarray(labels).reshape(expected.shape)
    return SklearnComparison(
        rows=rows,
        rows_agree=agreeing,
        labels_equal=labels_equal,
        max_probability_error=probability_error,
        max_value_error=value_error,
        compared_with=tuple(compared_with),
        accuracy=None if truth is None else float(_equal(predicted, truth).mean()),
        sklearn_accuracy=None if truth is None else float(_equal(expected, truth).mean()),
        agree=agreeing == rows,
    ), tuple(warnings)


def _is_classifier(estimator: Any) -> bool:
    return bool(require("sklearn.base", purpose="to export from scikit-learn").is_classifier(estimator))


def _scores(
    estimator: Any, sample: Any, output: Any, rows: int
) -> tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """The method whose result has the output's size, the output, and that result, both with the rows first."""
    classes = getattr(estimator, "classes_", None)
    if isinstance(output, list) and output and isinstance(output[0], dict):
        output = np.array([[row[key] for key in (row if classes is None else classes.tolist())] for row in output])
    elif isinstance(output, list):
        output = np.stack(output)
    for method in _SCORES:
        if not hasattr(estimator, method):
            continue
        result = getattr(estimator, method)(sample)
        expected = np.stack(result) if isinstance(result, list) else _dense(result)
        if expected.size == output.size:
            if expected.ndim == 3:  # several outputs, each [rows, classes]
                return method, np.moveaxis(output.reshape(expected.shape), 1, 0), np.moveaxis(expected, 1, 0)
            return method, output.reshape(rows, -1), expected.reshape(rows, -1)
    return None


def _dense(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(value.toarray() if hasattr(value, "toarray") else value)


def _equal(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which rows are equal in each column; labels that are numbers may be of another numeric dtype."""
    same = actual == expected if actual.dtype.kind in "biuf" else actual.astype(str) == expected.astype(str)
    return np.asarray(same.reshape(len(expected), -1).all(axis=1))


def _largest(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    errors = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    return float(np.nan_to_num(errors, nan=np.inf).max(initial=0.0))


def _close(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], *, relative: bool) -> np.ndarray[Any, Any]:
    """Which rows are within the tolerance in each column."""
    expected = expected.astype(np.float64)
    scale = float(np.abs(expected).max(initial=0.0)) if relative else 1.0
    near = np.abs(actual.astype(np.float64) - expected) <= _TOLERANCE * scale
    return np.asarray(near.reshape(len(expected), -1).all(axis=1))
