"""The node tests inside the onnx package: each loads, is described, and gets inputs that its own checks accept."""

import warnings

import onnx
import pytest

from onnxsmith.graph_analysis import GraphInspector
from onnxsmith.model import Model, analyse_native, check_feeds, resolve_dims, sample_inputs

pytestmark = [pytest.mark.zoo, pytest.mark.timeout(1800)]

SAMPLED_EVERY = 25
"""Checked in a child process each: the rest is read in this one."""


def node_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return collect_testcases(None)


def test_every_node_test_is_read_and_sampled():
    cases = node_tests()
    assert len(cases) > 1000
    for case in cases:
        before = case.model.SerializeToString(deterministic=True)
        copy = onnx.ModelProto.FromString(before)
        model = Model.from_proto(copy)
        assert [spec.name for spec in model.inputs] == [info.name for info in case.model.graph.input], case.name
        again = model.to_proto()
        assert again.graph.input == case.model.graph.input, case.name
        assert again.graph.output == case.model.graph.output, case.name
        ranked = [spec for spec in model.inputs if spec.shape is not None and spec.kind in ("tensor", "sequence")]
        dims = resolve_dims(model.inputs)
        samples = sample_inputs(model, dims, only={spec.name for spec in ranked})
        assert check_feeds(ranked, samples).keys() == samples.keys(), case.name


def test_a_sample_of_them_is_checked_and_described():
    for case in node_tests()[::SAMPLED_EVERY]:
        model = Model.from_proto(onnx.ModelProto.FromString(case.model.SerializeToString()))
        report = GraphInspector(model, analysis=analyse_native(model)).inspect()
        assert report.main_node_count == len(case.model.graph.node), case.name
