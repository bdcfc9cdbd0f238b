"""Every edit keeps names, outputs and provenance right."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from core_helpers import HEADER, floats, model_of, op_types, run

from onnxsmith.graph_analysis.nesting import WITH_GRAPHS, subgraphs
from onnxsmith.graph_optimizer.editor import PROVENANCE, Editor, Unknown, label

X = {"x": floats(1, -2)}
OLD = '<ir_version: 3, opset_import: ["": 8]>\n'
BRANCHES = """
g (bool c, float[2] x) => (float[2] y) {
  a = Neg(x)
  y = If (c) <
    then_branch = t () => (float[2] p) { b = Relu(a)  p = Abs(b) },
    else_branch = e () => (float[2] q) { a = Abs(x)  q = Neg(a) }
  >
}
"""


def edit(model, root=None):
    editor = Editor(model, "test")
    editor.root = model.ir.graph[root] if root is not None else None
    return editor


def value(model, name):
    graph = model.ir.graph
    made = {output.name: output for node in model.nodes() for output in node.outputs}
    return made.get(name) or graph.initializers.get(name) or next(v for v in graph.inputs if v.name == name)


def test_replace_moves_every_use_and_removes_what_made_it():
    model = model_of("g (float[2] x) => (float[2] y) { a = Neg(x) b = Identity(a) y = Add(b, b) }")
    edit(model, 1).replace(value(model, "b"), value(model, "a"))
    assert op_types(model) == ["Neg", "Add"]
    np.testing.assert_array_equal(run(model, X)[0], [-2, 4])


def test_an_output_keeps_its_name_and_declared_type():
    model = model_of("g (float[2] x) => (float[N] y) { a = Neg(x) y = Identity(a) z = Abs(a) }")
    edit(model, 1).replace(value(model, "y"), value(model, "a"))
    assert op_types(model) == ["Neg", "Abs"]
    (output,) = model.outputs
    assert (output.name, output.shape) == ("y", ("N",))
    assert model.ir.graph[1].inputs[0].name == "y"
    np.testing.assert_array_equal(run(model, X)[0], [-1, 2])


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("g (float[2] x) => (float[2] y) { y = Neg(x) }", "x"),
        ("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", "w"),
        ("g (float[2] x) => (float[2] z, float[2] y) { z = Abs(x) y = Neg(x) }", "z"),
    ],
    ids=["input", "initializer", "other output"],
)
def test_an_identity_stands_where_a_value_cannot_be_the_output_itself(text, new):
    model = model_of(text)
    root = len(model.ir.graph) - 1
    expected = {"x": floats(1, -2), "w": floats(1, 2), "z": floats(1, 2)}[new]
    names = [output.name for output in model.outputs]
    edit(model, root).replace(value(model, "y"), value(model, new))
    assert op_types(model)[-1] == "Identity"
    assert [output.name for output in model.outputs] == names
    np.testing.assert_array_equal(run(model, X)[-1], expected)


def test_an_outer_value_cannot_be_a_branch_output_itself():
    model = model_of(BRANCHES)
    editor = edit(model)
    then = next(graph for graph in editor.graphs() if graph.name == "t")
    editor.root = then[1]
    editor.replace(then.outputs[0], value(model, "a"))
    assert [node.op_type for node in then] == ["Identity"]
    np.testing.assert_array_equal(run(model, {"c": np.array(True), **X})[0], [-1, 2])
    np.testing.assert_array_equal(run(model, {"c": np.array(False), **X})[0], [-1, -2])


def test_an_output_given_out_twice_is_replaced_twice():
    model = model_of("g (float[2] x) => (float[2] y) { a = Neg(x) y = Identity(a) }")
    model.ir.graph.outputs.append(model.ir.graph.outputs[0])
    edit(model, 1).replace(value(model, "y"), value(model, "a"))
    assert [output.name for output in model.ir.graph.outputs] == ["y", "y"]
    assert op_types(model) == ["Neg"]


def test_names_are_new_to_the_whole_model_and_what_shadows_gets_its_own():
    model = model_of(BRANCHES)
    editor = edit(model, 0)
    names = [made.name for node in editor.nodes() for made in node.outputs]
    assert len(names) == len(set(names))
    assert "a_inner_0" in names
    model.ir.graph[0].outputs[0].name = "taken"
    assert editor.fresh("b") == "b_1"
    assert editor.fresh("b") == "b_2"
    np.testing.assert_array_equal(run(model, {"c": np.array(False), **X})[0], [-1, -2])


def test_new_nodes_say_which_pass_made_them():
    model = model_of("g (float[2] x) => (float[2] y) { [n] y = Neg(x) }")
    editor = edit(model, 0)
    editor.replace_node(model.ir.graph[0], "Abs", [model.ir.graph.inputs[0]])
    (node,) = model.ir.graph
    assert (node.op_type, node.name, node.metadata_props[PROVENANCE]) == ("Abs", "n", "test")
    assert node.outputs[0].name == "y"
    assert editor.root is not None


def test_replacing_a_node_replaces_each_output():
    model = model_of(
        "g (float[4] x) => (float[2] y, float[2] z) <int64[2] s = {2, 2}> { y, b = Split(x, s) z = Neg(b) }"
    )
    editor = edit(model, 0)
    editor.replace_node(model.ir.graph[0], "Split", [model.ir.graph.inputs[0]], {"num_outputs": 2})
    outputs = run(model, {"x": floats(1, 2, 3, 4)})
    np.testing.assert_array_equal(outputs[0], [1, 2])
    np.testing.assert_array_equal(outputs[1], [-3, -4])


def test_constants_are_initializers_or_nodes_before_ir_4():
    text = "g (float[2] x) => (float[2] y) { y = Neg(x) }"
    for header, expected in ((HEADER, ["Add"]), (OLD, ["Constant", "Add"])):
        model = model_of(text, header=header)
        editor = edit(model, 0)
        constant = editor.constant(floats(3, 4), "three")
        assert editor.is_constant(constant)
        assert editor.array(constant).tolist() == [3, 4]
        editor.replace_node(editor.root, "Add", [model.ir.graph.inputs[0], constant])
        assert op_types(model) == expected
        assert [spec.name for spec in model.inputs] == ["x"]
        np.testing.assert_array_equal(run(model, X)[0], [4, 2])


def test_a_constant_of_rank_0_keeps_its_rank():
    model = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    constant = edit(model, 0).constant(np.array(3.0, np.float32))
    assert constant.shape == ir.Shape([])


def test_what_only_a_removed_node_used_goes_through_subgraphs_too():
    text = BRANCHES.replace(
        "g (bool c, float[2] x) => (float[2] y) {", "g (bool c, float[2] x) => (float[2] k) { k = Neg(x)"
    )
    model = model_of(text)
    editor = edit(model)
    branch = model.ir.graph[-1]
    assert branch.op_type == "If"
    assert editor.remove_unused(branch) > 0
    assert op_types(model) == ["Neg"]
    assert not value(model, "k").uses()


def test_what_is_used_or_given_out_stays():
    model = model_of("g (float[2] x) => (float[2] y) { a = Neg(x) y = Abs(a) }")
    editor = edit(model)
    assert [editor.remove_unused(node) for node in list(model.ir.graph)] == [0, 0]


def test_another_input_frees_what_only_the_old_one_needed():
    model = model_of("g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Relu(b) }")
    editor = edit(model)
    node = model.ir.graph[2]
    editor.set_input(node, 0, model.ir.graph.inputs[0])
    assert op_types(model) == ["Relu"]
    assert node in editor.take_touched()
    assert editor.take_touched() == []


def test_only_user_counts_uses_and_outputs():
    model = model_of("g (float[2] x) => (float[2] y, float[2] b) { a = Neg(x) b = Abs(a) c = Add(b, b) y = Relu(c) }")
    editor = edit(model)
    assert editor.only_user(value(model, "a")) is model.ir.graph[1]
    assert editor.only_user(value(model, "b")) is None
    assert editor.only_user(value(model, "c")) is model.ir.graph[3]
    assert editor.only_user(value(model, "x")) is model.ir.graph[0]


def test_constants_are_what_nobody_can_override():
    model = model_of(
        "g (float[2] x, float[2] w = {1, 2}) => (float[2] y) <int64[1] k = {3}, float s = {1.5}> "
        "{ c = Constant <value_floats = [1.0, 2.0]> () a = Add(x, w) y = Add(a, c) }"
    )
    editor = edit(model)
    assert not editor.is_constant(value(model, "w"))
    assert editor.array(value(model, "w")) is None
    assert editor.array(value(model, "c")).tolist() == [1, 2]
    assert editor.ints(value(model, "k")) == [3]
    assert editor.scalar(value(model, "k")) == 3
    assert editor.scalar(value(model, "s")) == 1.5
    assert editor.ints(value(model, "s")) is None
    assert editor.scalar(value(model, "c")) is None
    assert (editor.scalar(None), editor.ints(None), editor.array(None)) == (None, None, None)


def test_standard_operators_are_those_of_the_opset_and_not_the_models_own():
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17, "custom": 1, "local": 1]>\n'
        "g (float[2] x) => (float[2] y) { a = Gelu(x) b = custom.Neg(a) c = Abs(b) y = Neg(c) }\n"
        '<domain: "", opset_import: ["": 17]> Abs (p) => (q) { q = Neg(p) }'
    )
    from onnxsmith.model import Model

    model = Model.from_proto(model)
    editor = edit(model)
    gelu, custom, local, neg = model.ir.graph
    assert not editor.is_standard(gelu)  # opset 20 has it
    assert not editor.is_standard(custom)
    assert not editor.is_standard(local)
    assert editor.is_standard(neg)
    assert editor.is_standard(neg, "Neg", "Abs")
    assert not editor.is_standard(neg, "Abs")
    assert editor.producer(value(model, "y"), "Neg") is neg
    assert editor.producer(value(model, "a")) is None
    assert editor.has_operator("Gelu", 20)
    assert not editor.has_operator("Gelu")


def test_a_reference_to_a_functions_attribute_is_unknown():
    model = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    node = model.ir.graph[0]
    editor = edit(model)
    assert editor.attribute(node, "axis", 7) == 7
    node.attributes["axis"] = ir.RefAttr("axis", "outer", ir.AttributeType.INT)
    with pytest.raises(Unknown, match="attribute 'axis' is a reference"):
        editor.attribute(node, "axis")


def test_a_new_domain_is_imported():
    model = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    editor = edit(model, 0)
    editor.replace_node(model.ir.graph[0], "Gelu", [model.ir.graph.inputs[0]], domain="com.microsoft")
    assert model.ir.opset_imports["com.microsoft"] == 1


def test_what_was_declined_is_noted_and_nameless_nodes_have_a_label():
    model = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    editor = edit(model, 0)
    node = model.ir.graph[0]
    assert editor.decline(node, "because") is False
    (note,) = editor.notes
    assert (note.name, note.node, note.op_type, note.reason) == ("test", label(node), "Neg", "because")
    assert label(node) == "Neg(y)"
    assert list(subgraphs(node)) == []


def test_what_is_known_is_kept_between_passes_and_not_by_clones():
    from onnxsmith.model import Model

    model = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    one, two = Editor(model, "one"), Editor(model, "two")
    assert one.facts is two.facts
    clone = Model(model.ir.clone())
    assert Editor(clone, "one").facts is not one.facts


def test_the_operators_with_graphs_are_those_of_the_schemas():
    graph_kinds = {onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS}
    found = {
        schema.name
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain == "" and any(attribute.type in graph_kinds for attribute in schema.attributes.values())
    }
    assert found == WITH_GRAPHS


def test_a_numpy_number_is_a_constant_of_rank_0():
    model = model_of("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    editor = Editor(model, "test")
    editor.root = model.ir.graph[0]
    value = editor.constant(np.float32(1) / np.float32(4))
    assert editor.static_shape(value) == ()
    assert editor.scalar(value) == 0.25
    assert editor.dtype(value) == ir.DataType.FLOAT
