"""From logits to classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxsmith.records import Record


class ClassScore(Record):
    """One class of a classifier's answer.

    Attributes:
        index: Its index among the logits.
        probability: Between 0 and 1.
    """

    index: int
    probability: float


def softmax(logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """exp(x) / Σ exp(x) over the last axis, shifted by the maximum so that it cannot overflow; computed in float64."""
    shifted = np.asarray(logits, np.float64) - np.max(logits, axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def probabilities(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The scores as they are where each row is a distribution already, else their softmax."""
    values = np.asarray(scores, np.float64)
    if np.all(values >= 0) and np.allclose(values.sum(axis=-1), 1.0, atol=1e-3):
        return values
    return softmax(values)


def top_classes(scores: np.ndarray[Any, Any], k: int = 5) -> tuple[tuple[ClassScore, ...], ...]:
    """The k most probable classes of each row.

    Args:
        scores: Logits or probabilities, shape [batch, classes].
        k: How many; at most as many as there are classes.
    """
    table = probabilities(scores)
    order = np.argsort(-table, axis=-1, kind="stable")[:, :k]
    return tuple(
        tuple(ClassScore(index=int(index), probability=float(row[index])) for index in best)
        for row, best in zip(table, order, strict=True)
    )
