"""Each kind of fault in a graph is found."""

import onnx_ir as ir
import pytest
from core_helpers import HEADER, model_of

from onnxsmith.graph_optimizer.structure import find_fault
from onnxsmith.model import Model

CHAIN = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Neg(x) b = Add(a, w) y = Relu(b) }"
BRANCHES = """
g (bool c, float[2] x) => (float[2] y) {
  a = Neg(x)
  y = If (c) <
    then_branch = t () => (float[2] p) { p = Abs(a) },
    else_branch = e () => (float[2] q) { q = Neg(x) }
  >
}
"""


def test_a_sound_model_has_none():
    for text in (CHAIN, BRANCHES):
        assert find_fault(model_of(text).ir) is None


def test_optional_inputs_may_be_left_out_and_custom_operators_take_anything():
    text = "g (float[2] x) => (float[2] y) { a = Clip(x) y = custom.Odd(a, , x, x) }"
    assert find_fault(model_of(text).ir) is None


def swap_order(graph):
    node = graph[0]
    graph.remove(node)
    graph.append(node)


def same_name(graph):
    graph[1].outputs[0].name = "a"


def no_name(graph):
    graph[0].outputs[0].name = None


def missing_input(graph):
    graph[2].replace_input_with(0, None)


def too_many_inputs(graph):
    graph[2].resize_inputs(2)
    graph[2].replace_input_with(1, graph[0].outputs[0])


def too_many_outputs(graph):
    graph[2].resize_outputs(2)


def foreign_value(graph):
    graph[2].replace_input_with(0, ir.Value(name="foreign"))


def lost_initializer(graph):
    del graph.initializers["w"]


def lost_output(graph):
    graph.outputs[0] = ir.Value(name="y")


@pytest.mark.parametrize(
    ("breaking", "fault"),
    [
        (swap_order, "node 'Add(b)' uses 'a', which nothing before it makes"),
        (same_name, "the name 'a' is taken twice"),
        (missing_input, "node 'Relu(y)': its inputs and outputs are not what Relu takes"),
        (too_many_inputs, "node 'Relu(y)': its inputs and outputs are not what Relu takes"),
        (too_many_outputs, "node 'Relu(y)': its inputs and outputs are not what Relu takes"),
        (foreign_value, "node 'Relu(y)' uses 'foreign', which nothing before it makes"),
        (lost_initializer, "node 'Add(b)' uses 'w', which nothing before it makes"),
        (lost_output, "output 'y' is made by nothing"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_each_fault_is_named(breaking, fault):
    model = model_of(CHAIN)
    breaking(model.ir.graph)
    assert find_fault(model.ir) == fault


def test_faults_in_branches_are_found():
    model = model_of(BRANCHES)
    then = model.ir.graph[1].attributes["then_branch"].as_graph()
    other = model.ir.graph[1].attributes["else_branch"].as_graph()
    inside = other[0].outputs[0]
    then[0].replace_input_with(0, inside)
    assert find_fault(model.ir) == "node 'Abs(p)' uses 'q', which nothing before it makes"


def test_a_branch_uses_the_outer_graph_only_up_to_its_node():
    model = model_of(BRANCHES)
    graph = model.ir.graph
    node = graph[0]
    graph.remove(node)
    graph.append(node)
    assert find_fault(model.ir) == "node 'Abs(p)' uses 'a', which nothing before it makes"


def test_a_name_in_a_branch_must_not_shadow():
    model = model_of(BRANCHES)
    model.ir.graph[1].attributes["then_branch"].as_graph()[0].outputs[0].name = "a"
    assert find_fault(model.ir) == "the name 'a' is taken twice"


def test_a_models_own_function_is_not_held_against_the_operator_of_its_name():
    import onnx

    proto = onnx.parser.parse_model(
        HEADER + "g (float[2] x) => (float[2] y) { y = Relu(x, x) }"
        '<domain: "", opset_import: ["": 21]> Relu (p, q) => (r) { r = Add(p, q) }'
    )
    assert find_fault(Model.from_proto(proto).ir) is None


def test_a_deep_chain_is_walked_without_recursion():
    body = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(20_000))
    assert find_fault(model_of(f"g (float[2] v0) => (float[2] v20000) {{ {body} }}").ir) is None
