"""Nodes by operator: of one model, and of several beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import onnx_ir as ir

from onnxsmith.config import PathsConfig
from onnxsmith.errors import ModelError
from onnxsmith.graph_analysis.charts import bar_chart, grouped_bar_chart
from onnxsmith.graph_analysis.matching import default_domain
from onnxsmith.model import Model
from onnxsmith.records import Record


class OperatorRow(Record):
    """An operator in several models.

    Attributes:
        op_type: The operator, as `operator_name` calls it.
        counts: Its nodes in each model, by label.
    """

    op_type: str
    counts: dict[str, int]


class Reduction(Record):
    """What a model has less than the first.

    Attributes:
        nodes: The nodes fewer; negative where there are more.
        percent: The same in percent of the first model's nodes; 0 where that has none.
    """

    nodes: int
    percent: float


class CountComparison(Record):
    """The nodes of several models beside each other.

    Attributes:
        labels: The models, the first being what the others are held against.
        rows: A row for each operator, the most frequent in the first model on top.
        totals: All nodes of each model, by label.
        reductions: Of each model against the first, by label.
    """

    labels: tuple[str, ...]
    rows: tuple[OperatorRow, ...]
    totals: dict[str, int]
    reductions: dict[str, Reduction]


class NodeCounter:
    """Counts nodes by operator, those of subgraphs included, those in the bodies of functions not.

    Args:
        model: The model that `counts` and `plot_distribution` are about.
    """

    def __init__(self, model: Model | None = None) -> None:
        self._model = model

    def counts(self) -> dict[str, int]:
        """The nodes of each operator, the most frequent first, ties by name.

        Raises:
            ModelError: The counter was made without a model.
        """
        return _counts(self._required())

    def plot_distribution(self, path: str | Path | None = None) -> Path:
        """Draws the counts as a horizontal bar chart.

        Args:
            path: The PNG to write; None is `outputs/models/<model>_operators.png`.

        Returns:
            The path.

        Raises:
            ModelError: The counter was made without a model.
            MissingExtraError: matplotlib is not installed.
            OutputError: The file cannot be written.
        """
        model, counts = self._required(), self.counts()
        name = model.path.name if model.path is not None else model.name
        if path is None:
            path = PathsConfig().models / f"{Path(name).stem}_operators.png"
        return bar_chart(counts, Path(path), f"Operators of {name}: {sum(counts.values()):,} nodes", "nodes")

    def compare_counts(self, models: Mapping[str, Model], path: str | Path | None = None) -> CountComparison:
        """Counts several models, an optimiser's levels say, and holds each against the first.

        Args:
            models: The models by label.
            path: The PNG to draw a grouped bar chart to, or None for none.

        Raises:
            MissingExtraError: A chart is wanted, and matplotlib is not installed.
            OutputError: The chart cannot be written.
        """
        counts = {label: _counts(model) for label, model in models.items()}
        labels = tuple(counts)
        totals = {label: sum(found.values()) for label, found in counts.items()}
        rows = [
            OperatorRow(op_type=op_type, counts={label: counts[label].get(op_type, 0) for label in labels})
            for op_type in {op_type for found in counts.values() for op_type in found}
        ]
        rows.sort(key=lambda row: ([-count for count in row.counts.values()], row.op_type))
        if path is not None:
            series = {label: [row.counts[label] for row in rows] for label in labels}
            grouped_bar_chart([row.op_type for row in rows], series, Path(path), "Nodes by operator", "nodes")
        return CountComparison(
            labels=labels,
            rows=tuple(rows),
            totals=totals,
            reductions={label: _reduction(totals[labels[0]], total) for label, total in totals.items()},
        )

    def _required(self) -> Model:
        if self._model is None:
            raise ModelError("this NodeCounter has no model to count.", "Make it with one: NodeCounter(model).")
        return self._model


def operator_name(node: ir.Node) -> str:
    """The operator of a node: "Conv", with its domain where that is not ONNX's default one: "com.microsoft::Gelu"."""
    return node.op_type if default_domain(node) else f"{node.domain}::{node.op_type}"


def _counts(model: Model) -> dict[str, int]:
    found = Counter(operator_name(node) for node in model.nodes())
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _reduction(before: int, after: int) -> Reduction:
    return Reduction(nodes=before - after, percent=100 * (before - after) / before if before else 0.0)
