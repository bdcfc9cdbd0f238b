from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import pytest

from onnxsmith.errors import OutputError
from onnxsmith.graph_analysis.charts import (
    bar_chart,
    grouped_bar_chart,
    latency_chart,
    operator_chart,
    training_chart,
)
from onnxsmith.records import Record


@dataclass(frozen=True)
class Result:
    model: str
    batch_size: int
    p50_latency_ms: float
    p95_latency_ms: float
    p99_latency_ms: float
    throughput_samples_per_s: float


class Epoch(Record):
    epoch: int
    loss: float
    train_accuracy: float
    test_accuracy: float


def tick_labels(axis) -> list[str]:
    return [text.get_text() for text in axis.get_ticklabels()]


def test_a_chart_is_a_png_at_150_dpi(tmp_path):
    path = bar_chart({"Conv": 2, "Relu": 1}, tmp_path / "new" / "chart.png", "Operators", "nodes")
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, _ = struct.unpack(">II", data[16:24])
    assert width == 8 * 150
    assert [file.name for file in path.parent.iterdir()] == ["chart.png"]


def test_a_chart_leaves_pyplot_alone(tmp_path):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    bar_chart({"Conv": 2}, tmp_path / "chart.png", "Operators", "nodes")
    assert dict(mpl.rcParams) == before


def test_bars_have_their_values_and_the_largest_is_on_top(tmp_path, drawn):
    bar_chart({"Relu": 1, "Conv": 1234}, tmp_path / "chart.png", "Operators", "nodes")
    axes = drawn[0].axes[0]
    assert tick_labels(axes.yaxis) == ["Conv", "Relu"]
    assert [text.get_text() for text in axes.texts] == ["1,234", "1"]
    assert axes.get_xlabel() == "nodes"
    assert axes.yaxis_inverted()
    assert drawn[0].get_suptitle() == "Operators"


def test_the_rest_beyond_twenty_is_added_up(tmp_path, drawn):
    bar_chart({f"Op{number}": 100 - number for number in range(25)}, tmp_path / "chart.png", "Operators", "nodes")
    axes = drawn[0].axes[0]
    assert tick_labels(axes.yaxis) == [*(f"Op{number}" for number in range(20)), "other (5)"]
    assert axes.patches[-1].get_width() == 80 + 79 + 78 + 77 + 76


def test_a_single_rest_is_drawn_as_itself(tmp_path, drawn):
    bar_chart({f"Op{number}": 100 - number for number in range(21)}, tmp_path / "chart.png", "Operators", "nodes")
    assert tick_labels(drawn[0].axes[0].yaxis)[-1] == "Op20"


def test_names_of_any_kind(tmp_path, drawn):
    long = "com.example.some_domain::AnOperatorWithAVeryLongName"
    bar_chart({long: 3, "$a_b$": 2, "演算": 1}, tmp_path / "chart.png", "Operators of $x^2", "nodes")
    shown = tick_labels(drawn[0].axes[0].yaxis)
    assert shown[0].startswith("com.example")
    assert shown[0].endswith("VeryLongName")
    assert len(shown[0]) == 34
    assert shown[1:] == ["$a_b$", "演算"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda path: bar_chart({}, path, "t", "nodes"),
        lambda path: bar_chart({"Conv": 0}, path, "t", "nodes"),
        lambda path: grouped_bar_chart([], {}, path, "t", "nodes"),
        lambda path: grouped_bar_chart(["Conv"], {}, path, "t", "nodes"),
        lambda path: training_chart([], path),
        lambda path: latency_chart([], path),
        lambda path: operator_chart([], path),
    ],
    ids=["bars", "zero", "groups", "series", "training", "latency", "operators"],
)
def test_nothing_to_show_is_drawn_too(draw, tmp_path):
    assert draw(tmp_path / "chart.png").stat().st_size > 0


def test_groups(tmp_path, drawn):
    grouped_bar_chart(["Conv", "Relu"], {"before": [2, 1], "after": [2, 0]}, tmp_path / "c.png", "Levels", "nodes")
    axes = drawn[0].axes[0]
    assert tick_labels(axes.xaxis) == ["Conv", "Relu"]
    assert [bar.get_height() for bar in axes.patches] == [2, 1, 2, 0]
    assert [text.get_text() for text in axes.texts] == ["2", "1", "2", "0"]
    assert axes.get_ylabel() == "nodes"
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["before", "after"]


@pytest.mark.parametrize("as_row", [lambda row: row, lambda row: row.to_dict()], ids=["records", "mappings"])
def test_training_has_a_panel_for_loss_and_one_for_accuracy(tmp_path, drawn, as_row):
    rows = [
        Epoch(epoch=1, loss=2.0, train_accuracy=0.5, test_accuracy=0.6),
        Epoch(epoch=2, loss=1.0, train_accuracy=0.8, test_accuracy=0.7),
    ]
    training_chart([as_row(row) for row in rows], tmp_path / "c.png")
    loss, accuracy = drawn[0].axes
    assert [list(line.get_ydata()) for line in loss.lines] == [[2.0, 1.0]]
    assert [list(line.get_ydata()) for line in accuracy.lines] == [[0.5, 0.8], [0.6, 0.7]]
    assert [line.get_label() for line in accuracy.lines] == ["train", "test"]
    assert (loss.get_xlabel(), loss.get_ylabel(), accuracy.get_ylabel()) == ("epoch", "loss", "accuracy")


def test_latency_and_throughput(tmp_path, drawn):
    results = [
        Result("b", 8, 4.0, 5.0, 6.0, 2000.0),
        Result("a", 1, 1.0, 2.0, 3.0, 1000.0),
        Result("a", 8, 3.0, 4.0, 5.0, 2667.0),
    ]
    latency_chart(results, tmp_path / "c.png")
    latency, throughput = drawn[0].axes
    assert tick_labels(latency.xaxis) == ["1", "8"]
    heights = [bar.get_height() for bar in latency.patches]
    assert heights[1:] == [4.0, 1.0, 3.0]
    assert heights[0] != heights[0]  # b was not measured at batch size 1
    marks = [line.get_ydata().tolist()[-1] for line in latency.lines]
    assert marks == [5.0, 6.0, 4.0, 5.0]
    assert [text.get_text() for text in latency.texts if text.get_text()] == ["p50 4", "p50 1", "p50 3"]
    assert [text.get_text() for text in throughput.texts if text.get_text()] == ["2,000", "1,000", "2,667"]
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["b", "a", "p95", "p99"]
    assert (latency.get_ylabel(), throughput.get_ylabel()) == ("latency (ms)", "throughput (samples/s)")


def test_operators_are_sorted_and_share_a_unit(tmp_path, drawn):
    operator_chart([("fc", 250.0, 0.2), ("conv", 1000.0, 0.8)], tmp_path / "c.png")
    axes = drawn[0].axes[0]
    assert tick_labels(axes.yaxis) == ["conv", "fc"]
    assert [text.get_text() for text in axes.texts] == ["1 ms  (80.0%)", "0.25 ms  (20.0%)"]
    assert axes.get_xlabel() == "time per run (ms)"
    operator_chart([("fc", 250.0, 1.0)], tmp_path / "c.png")
    assert [text.get_text() for text in drawn[1].axes[0].texts] == ["250 µs  (100.0%)"]


def test_a_chart_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OutputError, match="taken"):
        bar_chart({"Conv": 2}, tmp_path / "taken" / "chart.png", "Operators", "nodes")
    folder = tmp_path / "chart.png"
    folder.mkdir()
    with pytest.raises(OutputError):
        bar_chart({"Conv": 2}, Path(folder), "Operators", "nodes")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["chart.png", "taken"]
