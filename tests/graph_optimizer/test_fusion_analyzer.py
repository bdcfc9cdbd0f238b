"""Counting patterns over versions of a model."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.numpy_helper import from_array

from onnxsmith.graph_optimizer import FusionAnalyzer
from onnxsmith.graph_optimizer.passes.batch_norm import FoldBatchNorm
from onnxsmith.model import Model

HEADER = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
CHAIN = "c = Conv(x, w) b = BatchNormalization(c, s, s, s, s) y = Relu(b)"


@pytest.fixture
def make(build_model):
    def build(nodes: str) -> Model:
        text = f"{HEADER} g (float[1,2,4,4] x) => (float[1,2,4,4] y) {{ {nodes} }}"
        weight = from_array(np.ones((2, 2, 1, 1), np.float32), "w")
        return Model.from_proto(build_model(text, weight, from_array(np.ones(2, np.float32), "s")))

    return build


def test_find_patterns_counts(make):
    report = FusionAnalyzer(make(CHAIN.replace("y =", "z =") + " d = Conv(z, w) y = Relu(d)")).find_patterns()
    assert report.counts == {"Conv+BatchNormalization+Relu": 1, "Conv+Relu": 1}
    assert [match.nodes for match in report.matches] == [
        ("Conv_0", "BatchNormalization_1", "Relu_2"),
        ("Conv_3", "Relu_4"),
    ]


def test_compare_fusion_says_where_each_pattern_went(make):
    versions = {
        "original": make(CHAIN),
        "one": make(CHAIN),
        "two": make("c = Conv(x, w) y = Relu(c)"),
        "three": make("y = com.microsoft.FusedConv(x, w)"),
    }
    comparison = FusionAnalyzer(versions["original"]).compare_fusion(versions)
    assert comparison.levels == ("original", "one", "two", "three")
    assert comparison.batch_normalizations == {"original": 1, "one": 1, "two": 0, "three": 0}
    assert comparison.batch_normalizations_gone_at == "two"
    assert comparison.gone_at == {"Conv+BatchNormalization+Relu": "two", "Conv+Relu": "three"}
    assert comparison.patterns["Conv+Relu"] == {"original": 0, "one": 0, "two": 1, "three": 0}
    assert comparison.fused_operators == {
        "original": {},
        "one": {},
        "two": {},
        "three": {"com.microsoft::FusedConv": 1},
    }


def test_what_stays_never_went(make):
    versions = {"original": make(CHAIN), "one": make(CHAIN)}
    comparison = FusionAnalyzer(versions["original"]).compare_fusion(versions)
    assert comparison.batch_normalizations_gone_at == "never"
    assert comparison.gone_at == {"Conv+BatchNormalization+Relu": "never"}


def test_a_model_without_batch_normalization_folds_none(make):
    model = make("c = Conv(x, w) y = Relu(c)")
    assert FusionAnalyzer(model).compare_fusion({"it": model}).batch_normalizations_gone_at is None


def test_what_our_own_passes_do_is_measured_on_a_copy(make):
    model = make(CHAIN)
    (folding,) = FusionAnalyzer(model).find_patterns().own
    assert (folding.name, folding.applied, folding.notes, folding.fault) == ("fold-batch-norm", 1, (), None)
    assert [node.op_type for node in model.ir.graph] == ["Conv", "BatchNormalization", "Relu"]


def test_why_our_own_passes_decline_is_said_node_by_node(make):
    model = make(CHAIN.replace("b =", "o = Neg(c) b =").replace("y = Relu(b)", "y = Add(b, o)"))
    (folding,) = FusionAnalyzer(model).find_patterns().own
    (note,) = folding.notes
    assert (folding.name, folding.applied, note.op_type) == ("fold-batch-norm", 0, "BatchNormalization")
    assert note.reason == "the output of the Conv before it is used elsewhere too"


def test_a_pass_of_ours_that_fails_is_named(make, monkeypatch):
    def fail(self, node, editor):
        raise ValueError("planted")

    monkeypatch.setattr(FoldBatchNorm, "rewrite", fail)
    (folding,) = FusionAnalyzer(make(CHAIN)).find_patterns().own
    assert (folding.applied, folding.fault) == (0, "ValueError: planted")
