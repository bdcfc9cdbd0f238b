"""Whatever an outside tool does, the model is right and the other passes go on."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import fake_tools
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from fake_tools import Fake

import onnxsmith
from onnxsmith.errors import PassError
from onnxsmith.graph_optimizer.adapters.outside import OutsidePass
from onnxsmith.graph_optimizer.editor import PROVENANCE
from onnxsmith.graph_optimizer.pass_pipeline import PassPipeline, Stage
from onnxsmith.graph_optimizer.passes import table
from onnxsmith.graph_optimizer.passes.dead_code import EliminateDeadCode
from onnxsmith.model import Model

GRAPH = """
    main (float[N, 2] x, float[2] w) => (float[N, 2] y, float[N, 2] z)
    <float[2] w = {1, 2}, float[2] k = {3, 4}> {
        [relu] y = Relu(x)
        [add] a = Add(x, w)
        [mul] z = Mul(a, k)
        [dead] d = Neg(x)
    }
"""
RANDOM = """
    main (float[2] x) => (float[2] y) {
        [first] r1 = RandomNormalLike(x)
        [second] r2 = RandomNormalLike(x)
        [sub] y = Sub(r1, r2)
        [dead] d = Neg(x)
    }
"""

FAULTS = {
    "abort": "fake: native code crashed in the child process (SIGABRT).",
    "end": "fake: the child process ended without an answer (exit code 3).",
    "raise_something": "it raised LookupError: no such node",
    "need_a_package": "a_package_that_there_is_not, which it needs, is not installed. Install it with: pip install "
    "a_package_that_there_is_not",
    "write_nothing": "it wrote no model",
    "write_garbage": "what it wrote cannot be read: its result: is not an ONNX model, or it is cut off.",
    "write_half": "what it wrote cannot be read: its result: is not an ONNX model, or it is cut off.",
    "point_elsewhere": "what it wrote cannot be read: its result: tensor 'w' points to '/etc/passwd'",
    "drop_output": "it changed the interface: outputs: y, z before, y after",
    "swap_outputs": "it changed the interface: outputs: y, z before, z, y after",
    "rename_input": "it changed the interface: inputs: x before, other after",
    "change_dtype": "it changed the interface: input 'x': ",
    "fix_batch": "it changed the interface: input 'x': ",
    "freeze": "it changed the interface: initializers that a caller can override: w before, none after",
    "fold_overridable": "it folded 'w', which a caller can override",
    "change_opset": "it changed the opset of ai.onnx: 21 before, 20 after",
    "make_invalid": "what it wrote is invalid: Unrecognized attribute: no_such_attribute for operator Relu",
    "leave_a_hole": "what it wrote is invalid: ",
    "multiply": "it multiplied the file: 4,19",
}


def run(model: onnx.ModelProto, step: OutsidePass):
    """The step, then another pass."""
    pipeline = PassPipeline([Stage((step, EliminateDeadCode()))])
    return pipeline.run(lambda: Model.from_proto(onnx.ModelProto.FromString(model.SerializeToString())))


def assert_rolled_back(result, reason):
    (rollback,) = result.rolled_back
    assert rollback.name == "fake"
    assert reason in rollback.reason
    assert "\n" not in rollback.reason and "/tmp" not in rollback.reason
    assert [step.name for step in result.steps] == ["eliminate-dead-code"]
    assert all(node.name != "dead" for node in result.model.nodes())


@pytest.mark.parametrize("behaviour", FAULTS)
def test_a_fault_is_rolled_back_and_named(build_model, behaviour):
    result = run(build_model(GRAPH), Fake(behaviour=behaviour))
    assert_rolled_back(result, FAULTS[behaviour])
    assert [node.name for node in result.model.nodes()] == ["relu", "add", "mul"]
    assert [value.name for value in result.model.ir.graph.inputs] == ["x", "w"]


def test_a_tool_that_hangs_is_stopped(build_model):
    result = run(build_model(GRAPH), Fake(behaviour="hang", timeout_s=3))
    assert_rolled_back(result, "fake ran past its limit of 3 s and was stopped.")


@pytest.mark.skipif(os.name != "posix", reason="memory is limited on POSIX systems only")
def test_a_tool_that_eats_memory_is_stopped(build_model):
    result = run(build_model(GRAPH), Fake(behaviour="eat", memory_mb=1024))
    assert_rolled_back(result, "fake needs more memory than its limit of 1024 MiB")


def test_random_operators_are_not_merged(build_model):
    result = run(build_model(RANDOM), Fake(behaviour="merge_random"))
    assert_rolled_back(result, "it folded or merged the random operator RandomNormalLike")
    assert [node.name for node in result.model.nodes()] == ["first", "second", "sub"]


def test_a_growth_that_is_allowed(build_model):
    step = Fake(behaviour="multiply", max_growth=1e6)
    assert run(build_model(GRAPH), step).rolled_back == ()


def test_nothing_to_do_is_no_change(build_model):
    model = Model.from_proto(build_model(GRAPH))
    result = Fake().run(model)
    assert not result.changed
    assert result.model is model


def test_what_a_tool_forgets_is_put_back(build_model):
    message = build_model(GRAPH)
    message.producer_name, message.producer_version, message.domain = "trainer", "1.2", "org.example"
    message.model_version, message.doc_string = 7, "about the model"
    message.metadata_props.add(key="author", value="someone")
    message.graph.name, message.graph.doc_string = "the graph", "about the graph"
    message.graph.input[0].doc_string, message.graph.output[0].doc_string = "about x", "about y"
    message.graph.node[0].doc_string = "about the node"
    message.graph.node[0].metadata_props.add(key="layer", value="1")
    model = Model.from_proto(message)
    given = model.to_proto()
    result = Fake(behaviour="forget_what_it_is").run(model)
    assert model.to_proto() == given, "the model that the pass was given is as it was"

    got = result.model.to_proto()
    for field in ("producer_name", "producer_version", "domain", "model_version", "doc_string", "ir_version"):
        assert getattr(got, field) == getattr(given, field)
    assert got.metadata_props == given.metadata_props
    assert (got.graph.name, got.graph.doc_string) == ("the graph", "about the graph")
    assert got.graph.input == given.graph.input
    assert got.graph.output == given.graph.output
    relu, add, mul, _ = got.graph.node
    assert relu == given.graph.node[0]
    assert add == given.graph.node[1]
    assert [(entry.key, entry.value) for entry in mul.metadata_props] == [(PROVENANCE, "fake")]
    assert result.changes == 2, "one node went, one came"
    assert not any(entry.key == PROVENANCE for node in (relu, add) for entry in node.metadata_props)


def test_functions_that_are_still_called_are_put_back(build_model):
    message = build_model("""
        <ir_version: 8, opset_import: ["": 17, "own": 1]>
        main (float[2] x) => (float[2] y) {
            a = Relu(x)
            y = own.twice(a)
        }
        <domain: "own", opset_import: ["": 17]>
        twice (v) => (u) { u = Add(v, v) }
    """)
    result = Fake(behaviour="forget_functions").run(Model.from_proto(message)).model
    assert [node.op_type for node in result.nodes()] == ["Abs", "twice"]
    assert ("own", "twice", "") in result.ir.functions
    assert result.ir.opset_imports == {"": 17, "own": 1}


def test_weights_beside_the_result_live_as_long_as_it(build_model):
    message = build_model("main (float[300] x) => (float[300] y) <float[300] w> { a = Relu(x)  y = Add(a, w) }")
    message.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(300, dtype=np.float32), "w"))
    result = Fake(behaviour="move_weights_out").run(Model.from_proto(message)).model
    tensor = result.ir.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    file = Path(tensor.path)
    gc.collect()
    np.testing.assert_array_equal(tensor.numpy(), np.arange(300, dtype=np.float32) + 1)
    del tensor, result
    gc.collect()
    assert not file.parent.exists()


def test_a_weight_that_is_the_same_stays_where_it_was(build_model, write_model):
    message = build_model("main (float[100000] x) => (float[100000] y) { a = Relu(x)  y = Add(a, w) }")
    message.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(100000, np.float32), "w"))
    model = Model.load(write_model(message))
    result = Fake(behaviour="change_values").run(model).model
    assert [node.op_type for node in result.nodes()] == ["Abs", "Add"]
    assert result.ir.graph.initializers["w"].const_value is model.ir.graph.initializers["w"].const_value


def test_operators_that_onnx_lacks_are_noted(build_model):
    result = Fake(behaviour="use_own_operator").run(Model.from_proto(build_model(GRAPH)))
    (note,) = result.notes
    assert (note.name, note.node, note.op_type) == ("fake", "relu", "QuickGelu")
    assert note.reason == "is not an operator of ONNX: only a runtime that has it runs the model"
    assert "com.nobody.uses" not in result.model.ir.opset_imports


def test_wrong_values_are_found_and_the_tool_is_named(write_model, tmp_path, monkeypatch):
    monkeypatch.setitem(table.BUILT_IN, "fake", f"{fake_tools.__name__}:Fake")
    out = tmp_path / "out.onnx"
    passes = ["fake{behaviour=change_values}", "eliminate-dead-code"]
    report = onnxsmith.optimize(write_model(GRAPH), out, passes=passes, max_size_ratio=100)
    (rollback,) = report.rolled_back
    assert rollback.name == "fake"
    assert "output 'y'" in rollback.reason
    assert report.verification.agree is True
    assert [node.name for node in Model.load(out).nodes()] == ["relu", "add", "mul"]


@pytest.mark.parametrize("option", ["timeout_s=0", "memory_mb=-1", "max_growth=0", "timeout_s=soon"])
def test_limits_are_checked(monkeypatch, option):
    monkeypatch.setitem(table.BUILT_IN, "fake", f"{fake_tools.__name__}:Fake")
    with pytest.raises(PassError, match=option.partition("=")[0]):
        table.parse_pass(f"fake{{{option}}}")
