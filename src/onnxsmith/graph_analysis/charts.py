"""Every chart of onnxsmith, in one style: PNG at 150 dpi, in colours that colour-blind readers tell apart."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from onnxsmith.extras import require
from onnxsmith.model import staged_folder
from onnxsmith.records import Record

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6D31", "#4D4D4D")
"""After Okabe and Ito's palette; series beyond it start again."""

MOST_CATEGORIES = 20
"""Categories beyond these, the smallest, are drawn as one: "other"."""

_DPI = 150
_LONGEST_LABEL = 34
_GREY = "#9E9E9E"
_INK = "#262626"
_MOST_VALUES = 24
"""Bars above this many have no room for their values."""

_MOST_LABEL_CHARACTERS = 95
"""Labels under the groups fit side by side up to this many characters, each counted as the longest."""

_LEAST_SPAN = 3
"""Fewer groups than this keep the width of a bar as if there were as many."""

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "text.parse_math": False,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "figure.facecolor": "white",
    "grid.color": "#E6E6E6",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}


class LatencyResult(Protocol):
    """What `latency_chart` draws of a benchmark's result."""

    @property
    def model(self) -> str:
        """The model's label."""

    @property
    def batch_size(self) -> int:
        """Samples a run."""

    @property
    def p50_latency_ms(self) -> float:
        """The median latency in ms."""

    @property
    def p95_latency_ms(self) -> float:
        """The 95th percentile in ms."""

    @property
    def p99_latency_ms(self) -> float:
        """The 99th percentile in ms."""

    @property
    def throughput_samples_per_s(self) -> float:
        """Samples a second."""


def bar_chart(counts: Mapping[str, float], path: Path, title: str, xlabel: str) -> Path:
    """Draws horizontal bars, the largest on top.

    Args:
        counts: A value for each category.
        path: The PNG to write.
        title: Over the chart.
        xlabel: What the values are, with their unit.

    Returns:
        The path.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OutputError: The file cannot be written.
    """
    labels, (values,) = _cap(list(counts), [list(counts.values())])
    return _horizontal_bars(labels, values, [_number(value) for value in values], path, title=title, xlabel=xlabel)


def operator_chart(rows: Sequence[tuple[str, float, float]], path: Path) -> Path:
    """Draws the slowest operators, the slowest on top.

    Args:
        rows: For each, its label, its time in µs and its share of the whole, from 0 to 1.
        path: The PNG to write.

    Returns:
        The path.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OutputError: The file cannot be written.
    """
    rows = sorted(rows, key=lambda row: -row[1])[:MOST_CATEGORIES]
    unit, scale = ("ms", 1e-3) if rows and rows[0][1] >= 1000 else ("µs", 1.0)
    times = [time * scale for _, time, _ in rows]
    texts = [f"{_number(time)} {unit}  ({share:.1%})" for time, (_, _, share) in zip(times, rows, strict=True)]
    labels = [label for label, _, _ in rows]
    return _horizontal_bars(labels, times, texts, path, title="Slowest operators", xlabel=f"time per run ({unit})")


def grouped_bar_chart(
    categories: Sequence[str], series: Mapping[str, Sequence[float]], path: Path, title: str, ylabel: str
) -> Path:
    """Draws a group of bars for each category, a bar for each series.

    Args:
        categories: What the groups are.
        series: For each label, a value for each category.
        path: The PNG to write.
        title: Over the chart.
        ylabel: What the values are, with their unit.

    Returns:
        The path.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OutputError: The file cannot be written.
    """
    labels, columns = _cap(list(categories), [list(values) for values in series.values()])
    with _figure(path, title, 9.0, 4.6) as figure:
        axes = figure.subplots()
        if not labels or not series:
            _say_nothing(axes)
            return path
        _grouped_bars(axes, labels, dict(zip(series, columns, strict=True)))
        axes.set_ylabel(ylabel)
        if len(labels) * max(map(len, labels)) > _MOST_LABEL_CHARACTERS:
            axes.tick_params(axis="x", labelrotation=40)
            for text in axes.get_xticklabels():
                text.set(horizontalalignment="right", rotation_mode="anchor")
        _legend(figure, *axes.get_legend_handles_labels())
    return path


def training_chart(history: Sequence[Record | Mapping[str, float]], path: Path) -> Path:
    """Draws training: loss on the left, accuracy on the right, by epoch.

    Args:
        history: A row for each epoch, with `epoch` and what was measured; a field whose name ends in `loss` or in
            `accuracy` is drawn ("loss", "test_accuracy").
        path: The PNG to write.

    Returns:
        The path.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OutputError: The file cannot be written.
    """
    rows = [dict(row) for row in history]
    with _figure(path, "Training", 9.0, 3.8) as figure:
        panels = figure.subplots(1, 2)
        for axes, measure in zip(panels, ("loss", "accuracy"), strict=True):
            keys = [key for key in (rows[0] if rows else ()) if key.endswith(measure)]
            if not keys:
                _say_nothing(axes)
                continue
            series = {_series_name(key, measure): [row[key] for row in rows] for key in keys}
            _lines(axes, [row["epoch"] for row in rows], series, "epoch", measure)
            if len(series) > 1:
                axes.legend(loc="best")
    return path


def latency_chart(results: Sequence[LatencyResult], path: Path) -> Path:
    """Draws a benchmark by model and batch size: latency on the left, throughput on the right.

    Args:
        results: The benchmark's results.
        path: The PNG to write.

    Returns:
        The path.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OutputError: The file cannot be written.
    """
    batches = sorted({result.batch_size for result in results})
    by_model: dict[str, dict[int, LatencyResult]] = {}
    for result in results:
        by_model.setdefault(result.model, {})[result.batch_size] = result
    with _figure(path, "Latency and throughput", 10.0, 4.6) as figure:
        latency, throughput = figure.subplots(1, 2)
        if not results:
            _say_nothing(latency)
            _say_nothing(throughput)
            return path
        labels = [str(batch) for batch in batches]
        few = len(batches) * len(by_model) <= _MOST_VALUES // 2
        columns = [
            _columns(by_model, batches, field)
            for field in ("p50_latency_ms", "p95_latency_ms", "p99_latency_ms", "throughput_samples_per_s")
        ]
        positions = _grouped_bars(latency, labels, columns[0], values=False)
        tail_handles = _tails(latency, positions, *columns[:3], values=few)
        _grouped_bars(throughput, labels, columns[3], values=few)
        latency.set(
            title="Latency per run, bars: p50",
            xlabel="batch size",
            ylabel="latency (ms)",
        )
        throughput.set(title="Throughput", xlabel="batch size", ylabel="throughput (samples/s)")
        handles, names = latency.get_legend_handles_labels()
        _legend(figure, handles + tail_handles, [*names, "p95", "p99"])
    return path


def _columns(
    by_model: Mapping[str, Mapping[int, LatencyResult]], batches: Sequence[int], field: str
) -> dict[str, list[float]]:
    return {
        model: [getattr(found[batch], field) if batch in found else float("nan") for batch in batches]
        for model, found in by_model.items()
    }


def _tails(
    axes: Any,
    positions: Mapping[str, Sequence[float]],
    p50: Mapping[str, Sequence[float]],
    p95: Mapping[str, Sequence[float]],
    p99: Mapping[str, Sequence[float]],
    *,
    values: bool,
) -> list[Any]:
    """Marks p95 and p99 over each bar and writes p50 over both; returns a handle of each for the legend."""
    handles: list[Any] = []
    for model, places in positions.items():
        axes.vlines(places, p50[model], p99[model], color=_INK, linewidth=0.8)
        handles = [
            axes.plot(places, tail[model], marker, color=_INK, markersize=size, linestyle="none")[0]
            for tail, marker, size in ((p95, "o", 3.5), (p99, "_", 8))
        ]
        for place, value, top in zip(places, p50[model], p99[model], strict=True):
            if values and not math.isnan(value):
                axes.annotate(
                    f"p50 {_number(value)}", (place, top), (0, 4), textcoords="offset points", ha="center", fontsize=8
                )
    return handles


@contextmanager
def _figure(path: Path, title: str, width: float, height: float) -> Iterator[Any]:
    """A figure of `width` × `height` inches, saved when the block ends well."""
    matplotlib = require("matplotlib", purpose="to draw charts")
    figure_module = require("matplotlib.figure", purpose="to draw charts")
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes, which is no reason to fail.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = figure_module.Figure(figsize=(width, height), layout="constrained")
        figure.suptitle(title, x=0.01, horizontalalignment="left", fontsize=12, fontweight="bold")
        yield figure
        with staged_folder(path.absolute().parent) as staging:
            figure.savefig(staging / path.name, format="png", dpi=_DPI)


def _horizontal_bars(
    labels: Sequence[str], values: Sequence[float], texts: Sequence[str], path: Path, *, title: str, xlabel: str
) -> Path:
    with _figure(path, title, 8.0, max(1.9, 1.1 + 0.27 * len(labels))) as figure:
        axes = figure.subplots()
        if not labels:
            _say_nothing(axes)
            return path
        positions = range(len(labels))
        colors = [_GREY if _is_other(label) else PALETTE[0] for label in labels]
        bars = axes.barh(positions, values, color=colors, height=0.72)
        axes.bar_label(bars, texts, padding=4, fontsize=9)
        axes.set_yticks(positions, [_shorten(label) for label in labels])
        axes.set(xlabel=xlabel, ylim=(len(labels) - 0.4, -0.6))
        room = 1.06 + 0.014 * max(map(len, texts))
        axes.set_xlim(0, (max(values) or 1) * room)
        axes.spines["left"].set_visible(False)
        _value_axis(axes, axes.xaxis, values)
    return path


def _grouped_bars(
    axes: Any, labels: Sequence[str], series: Mapping[str, Sequence[float]], *, values: bool | None = None
) -> dict[str, list[float]]:
    """Draws the bars, their values over them where there is room; returns the x positions of each series."""
    if values is None:
        values = len(labels) * len(series) <= _MOST_VALUES
    width = 0.8 / len(series)
    positions = {}
    for index, (name, heights) in enumerate(series.items()):
        offset = (index - (len(series) - 1) / 2) * width
        places = [place + offset for place in range(len(labels))]
        positions[name] = places
        bars = axes.bar(places, heights, width * 0.92, color=PALETTE[index % len(PALETTE)], label=_shorten(name))
        if values:
            texts = ["" if math.isnan(height) else _number(height) for height in heights]
            axes.bar_label(bars, texts, padding=2, fontsize=8)
    axes.set_xticks(range(len(labels)), [_shorten(label, 28) for label in labels])
    side = max(0.55, (_LEAST_SPAN - len(labels) + 1) / 2)
    axes.set_xlim(-side, len(labels) - 1 + side)
    axes.margins(y=0.1)
    _value_axis(axes, axes.yaxis, [height for heights in series.values() for height in heights])
    return positions


def _lines(axes: Any, x: Sequence[float], series: Mapping[str, Sequence[float]], xlabel: str, ylabel: str) -> None:
    for index, (name, values) in enumerate(series.items()):
        axes.plot(x, values, marker="o", color=PALETTE[index % len(PALETTE)], label=_shorten(name))
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if len(x) == 1:
        axes.set_xticks(list(x))
    else:
        axes.xaxis.get_major_locator().set_params(integer=_whole(x))
    _value_axis(axes, axes.yaxis, [value for values in series.values() for value in values])


def _value_axis(axes: Any, axis: Any, values: Sequence[float]) -> None:
    """A grid, thousands in groups, and no half nodes."""
    axes.grid(axis=axis.axis_name)
    axis.set_major_formatter("{x:,g}")
    axis.get_major_locator().set_params(integer=_whole(values))


def _whole(values: Sequence[float]) -> bool:
    return all(float(value).is_integer() for value in values)


def _legend(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """A legend under the chart, where there is more than one name."""
    if len(names) > 1:
        columns = max(1, min(len(names), int(figure.get_figwidth() * 12 / (max(map(len, names)) + 6))))
        figure.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=9, columnspacing=1.4)


def _say_nothing(axes: Any) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, "nothing to show", color=_GREY, ha="center", va="center", transform=axes.transAxes)


def _cap(labels: list[str], columns: list[list[float]]) -> tuple[list[str], list[list[float]]]:
    """The categories in falling order of their largest value, those beyond the cap added up as "other"."""
    order = sorted(range(len(labels)), key=lambda index: -max((column[index] for column in columns), default=0))
    kept, rest = order[:MOST_CATEGORIES], order[MOST_CATEGORIES:]
    if len(rest) == 1:
        kept, rest = order, []
    result = [[column[index] for index in kept] for column in columns]
    names = [labels[index] for index in kept]
    if rest:
        names.append(f"other ({len(rest)})")
        for shortened, column in zip(result, columns, strict=True):
            shortened.append(sum(column[index] for index in rest))
    return names, result


def _is_other(label: str) -> bool:
    return label.startswith("other (")


def _shorten(text: str, longest: int = _LONGEST_LABEL) -> str:
    """The start and the end of a long name, which tell more than its middle."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[-(longest - 1 - head) :]}"


def _number(value: float) -> str:
    """Three significant digits, and thousands in groups."""
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _series_name(key: str, measure: str) -> str:
    return key.removesuffix(measure).strip("_").replace("_", " ") or measure
