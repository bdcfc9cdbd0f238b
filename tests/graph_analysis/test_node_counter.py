from __future__ import annotations

from pathlib import Path

import pytest

from onnxsmith.errors import ModelError
from onnxsmith.graph_analysis import CountComparison, NodeCounter, Reduction
from onnxsmith.model import Model

BEFORE = """
g (float[2] x) => (float[2] y) {
    a = Identity(x) b = Relu(a) c = Relu(b) d = Add(c, c) e = Neg(d) y = custom.Op(e)
}"""
AFTER = "g (float[2] x) => (float[2] y) { b = Relu(x) c = Relu(b) d = com.microsoft.FusedAdd(c, c) y = custom.Op(d) }"
HEADER = '<ir_version: 10, opset_import: ["": 21, "custom": 1, "com.microsoft": 1]>\n'


@pytest.fixture
def models(build_model) -> dict[str, Model]:
    texts = {"before": BEFORE, "same": BEFORE, "after": AFTER}
    return {label: Model.from_proto(build_model(HEADER + text)) for label, text in texts.items()}


def test_counts_are_sorted_down_and_ties_by_name(models):
    assert list(NodeCounter(models["before"]).counts().items()) == [
        ("Relu", 2),
        ("Add", 1),
        ("Identity", 1),
        ("Neg", 1),
        ("custom::Op", 1),
    ]


def test_subgraphs_are_included(build_model):
    model = Model.from_proto(
        build_model("""
        g (bool c, float[2] x) => (float[2] y) {
            y = If(c) <then_branch = t () => (float[2] a) { a = Neg(x) },
                       else_branch = e () => (float[2] b) { n = Neg(x) b = Neg(n) }>
        }""")
    )
    assert NodeCounter(model).counts() == {"Neg": 3, "If": 1}


def test_a_graph_without_nodes(build_model, tmp_path):
    counter = NodeCounter(Model.from_proto(build_model("g (float[2] x) => (float[2] x) {}")))
    assert counter.counts() == {}
    assert counter.plot_distribution(tmp_path / "none.png").stat().st_size > 0


def test_models_are_held_against_the_first(models):
    found = NodeCounter().compare_counts(models)
    assert found.labels == ("before", "same", "after")
    assert [(row.op_type, row.counts) for row in found.rows] == [
        ("Relu", {"before": 2, "same": 2, "after": 2}),
        ("custom::Op", {"before": 1, "same": 1, "after": 1}),
        ("Add", {"before": 1, "same": 1, "after": 0}),
        ("Identity", {"before": 1, "same": 1, "after": 0}),
        ("Neg", {"before": 1, "same": 1, "after": 0}),
        ("com.microsoft::FusedAdd", {"before": 0, "same": 0, "after": 1}),
    ]
    assert found.totals == {"before": 6, "same": 6, "after": 4}
    assert found.reductions["before"] == found.reductions["same"] == Reduction(nodes=0, percent=0.0)
    assert found.reductions["after"].nodes == 2
    assert found.reductions["after"].percent == pytest.approx(100 / 3)
    assert CountComparison.model_validate_json(found.model_dump_json()) == found


def test_nothing_to_compare(tmp_path):
    found = NodeCounter().compare_counts({}, tmp_path / "none.png")
    assert (found.labels, found.rows, found.totals, found.reductions) == ((), (), {}, {})
    assert (tmp_path / "none.png").exists()


def test_more_nodes_than_none_is_no_percentage(build_model, models):
    empty = Model.from_proto(build_model("g (float[2] x) => (float[2] x) {}"))
    found = NodeCounter().compare_counts({"empty": empty, "after": models["after"]})
    assert found.reductions["after"] == Reduction(nodes=-4, percent=0.0)


def test_charts_show_the_counts(models, tmp_path, drawn):
    path = NodeCounter(models["before"]).plot_distribution(tmp_path / "nodes.png")
    assert path == tmp_path / "nodes.png"
    axes = drawn[-1].axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Relu", "Add", "Identity", "Neg", "custom::Op"]
    assert [bar.get_width() for bar in axes.patches] == [2, 1, 1, 1, 1]
    NodeCounter().compare_counts(models, tmp_path / "levels.png")
    axes = drawn[-1].axes[0]
    assert [bar.get_height() for bar in axes.patches] == [2, 1, 1, 1, 1, 0] * 2 + [2, 1, 0, 0, 0, 1]
    assert [text.get_text() for text in drawn[-1].legends[0].get_texts()] == ["before", "same", "after"]


def test_a_counter_without_a_model_says_so():
    with pytest.raises(ModelError, match="no model to count"):
        NodeCounter().counts()


def test_without_a_path_the_chart_goes_to_the_models_folder(tmp_path, monkeypatch, write_model):
    monkeypatch.chdir(tmp_path)
    counter = NodeCounter(Model.load(write_model("g (float[2] x) => (float[2] y) { y = Neg(x) }", "net.onnx")))
    assert counter.plot_distribution() == Path("outputs/models/net_operators.png")
    assert (tmp_path / "outputs/models/net_operators.png").read_bytes().startswith(b"\x89PNG")
