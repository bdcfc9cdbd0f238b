import numpy as np
import onnx
import onnx_ir as ir

import onnxsmith
from onnxsmith.model.node_names import with_unique_node_names


def repeated(build_model):
    model = build_model("g (float[2] x) => (float[2] y) { a = Relu(x) b = Neg(a) c = Abs(b) y = Neg(c) }")
    for node, name in zip(model.graph.node, ("n", "n", "n_1", ""), strict=True):
        node.name = name
    return model


def test_the_first_keeps_its_name_and_no_name_is_taken_twice(build_model):
    original = ir.from_proto(repeated(build_model))
    copy = with_unique_node_names(original)
    assert [node.name for node in copy.graph] == ["n", "n_2", "n_1", ""]
    assert [node.name for node in original.graph] == ["n", "n", "n_1", ""]


def test_subgraphs_have_names_of_their_own(build_model):
    branch = "() => (float[2] o) { p = Relu(x) o = Neg(p) }"
    model = build_model(
        f"g (float[2] x, bool c) => (float[2] y) {{ y = If(c) <then_branch = t {branch}, else_branch = e {branch}> }}"
    )
    for attribute in model.graph.node[0].attribute:
        for node in attribute.g.node:
            node.name = "same"
    names = [[node.name for node in graph] for graph in with_unique_node_names(ir.from_proto(model)).graphs()]
    assert sorted(names) == [[""], ["same", "same_1"], ["same", "same_1"]]


def test_such_a_model_runs_and_is_optimised(build_model, write_model, tmp_path):
    path = write_model(repeated(build_model))
    before = path.read_bytes()
    x = np.array([-1, 2], np.float32)
    np.testing.assert_array_equal(onnxsmith.infer(path, {"x": x}).outputs["y"], [-0.0, -2])
    assert onnxsmith.inspect(path).node_count == 4
    level = onnxsmith.optimize(path, tmp_path / "o.onnx", level="ORT_DISABLE_ALL")
    assert level.agreement.agree
    assert len(onnx.load(tmp_path / "o.onnx").graph.node) == 4
    assert onnxsmith.profile(path, runs=2).nodes
    assert onnxsmith.benchmark(path, runs=2, batch_sizes=[1]).results
    assert path.read_bytes() == before
