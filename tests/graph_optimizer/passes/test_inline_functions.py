"""A model's own functions in the place of their calls."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from structure_helpers import apply, op_types, reasons, run

from onnxsmith.graph_optimizer.passes.base import PassResult
from onnxsmith.graph_optimizer.passes.inline_functions import InlineFunctions
from onnxsmith.model import Model

X = {"x": np.array([1.5, -2.0, 0.25, 3.0], np.float32)}
HEADER = '<ir_version: 10, opset_import: ["": 21, "my": 1]>'


def inline(text: str, header: str = HEADER) -> PassResult:
    return apply(InlineFunctions(), text, X, header)


def function(text: str, opsets: str = '"": 21, "my": 1', domain: str = "my") -> str:
    return f'\n<domain: "{domain}", opset_import: [{opsets}]> {text}'


def test_calls_of_one_function_get_names_of_their_own() -> None:
    result = inline(
        "g (float[4] x) => (float[4] y) { t = Neg(x)  a = my.F(t)  y = my.F(a) }"
        + function("F (x) => (y) { k = Constant<value = float {2.0}>()  t = Mul(x, k)  y = Abs(t) }")
    )
    assert op_types(result) == ["Neg", "Mul", "Abs", "Mul", "Abs"]
    assert not result.model.ir.functions
    assert result.changes == 2


def test_attributes_given_default_and_left_out() -> None:
    body = """F <slope: float = 0.5, axis> (x) => (y) {
        t = LeakyRelu<alpha: float = @slope>(x)  y = Softmax<axis: int = @axis>(t)
    }"""
    result = inline(
        "g (float[4] x) => (float[4] y) { a = my.F(x)  b = my.F<slope = 0.25, axis = 0>(x)  y = Add(a, b) }"
        + function(body)
    )
    nodes = [node for node in result.model.nodes() if node.op_type in ("LeakyRelu", "Softmax")]
    assert [{name: attribute.value for name, attribute in node.attributes.items()} for node in nodes] == [
        {"alpha": 0.5},
        {},
        {"alpha": 0.25},
        {"axis": 0},
    ]


def test_nested_functions_and_attributes_handed_down() -> None:
    result = inline(
        "g (float[4] x) => (float[4] y) { y = my.Outer<a = 0.125>(x) }"
        + function("Outer <a: float = 1.0> (x) => (y) { t = my.Inner<slope: float = @a>(x)  y = my.Inner(t) }")
        + function("Inner <slope: float = 0.5> (x) => (y) { y = LeakyRelu<alpha: float = @slope>(x) }")
    )
    assert op_types(result) == ["LeakyRelu", "LeakyRelu"]
    assert [node.attributes["alpha"].value for node in result.model.nodes()] == [0.125, 0.5]
    assert not result.model.ir.functions


def test_optional_inputs_and_outputs() -> None:
    result = inline(
        """g (float[4] x) => (float[4] y, float[4] z) {
            m = Constant<value = float {1.0}>()
            y, v = my.F(x, )  z, w = my.F(x, m)
        }"""
        + function("F (x, low) => (y, n) { y = Clip(x, low)  n = Neg(y) }")
    )
    assert [
        len([value for value in node.inputs if value]) for node in result.model.nodes() if node.op_type == "Clip"
    ] == [
        1,
        2,
    ]


def test_outputs_that_are_inputs() -> None:
    model = onnx.parser.parse_model(  # ONNX Runtime does not load it
        HEADER
        + "g (float[4] x) => (float[4] y, float[4] z) { y, z = my.F(x) }"
        + function("F (x) => (x, t) { t = Neg(x) }")
    )
    result = InlineFunctions().run(Model.from_proto(model))
    assert op_types(result) == ["Neg", "Identity"]
    y, z = run(result.model.to_proto(), X)
    np.testing.assert_array_equal(y, X["x"])
    np.testing.assert_array_equal(z, -X["x"])


def test_calls_in_branches_and_branches_in_functions() -> None:
    result = inline(
        """g (float[4] x) => (float[4] y) {
            z = Constant<value = float {0.0}>()  s = ReduceSum<keepdims = 0>(x)  c = Greater(s, z)
            t = Abs(x)
            y = If(c) <then_branch = t () => (float[4] p) { t2 = my.F(t)  p = my.F(t2) },
                       else_branch = e () => (float[4] q) { q = Sin(x) }>
        }"""
        + function(
            """F (x) => (y) {
                one = Constant<value = bool {1}>()
                t = Sin(x)
                y = If(one) <then_branch = t () => (float[n] p) { t2 = Neg(t)  p = Add(t2, x) },
                             else_branch = e () => (float[n] q) { q = Identity(t) }>
            }"""
        )
    )
    assert op_types(result).count("If") == 3
    assert not result.model.ir.functions


def test_another_opset_with_the_same_operators() -> None:
    result = inline(
        "g (float[4] x) => (float[4] y) { y = my.F(x) }"
        + function("F (x) => (y) { t = Sin(x)  y = Floor(t) }", '"": 18')
    )
    assert op_types(result) == ["Sin", "Floor"]


def declined(model: str) -> list[str]:
    result = InlineFunctions().run(Model.from_proto(onnx.parser.parse_model(model)))
    assert not result.changed
    assert result.model.ir.functions
    return reasons(result)


def test_another_opset_with_other_operators() -> None:
    text = HEADER + "g (float[4] x) => (float[4] y) { y = my.F(x) }"
    assert declined(text + function("F (x) => (y) { y = Softmax(x) }", '"": 12')) == [
        "it is written for opset 12, whose Softmax is another than that of opset 21"
    ]


def test_operators_of_other_domains_stay_and_what_calls_them() -> None:
    text = HEADER + "g (float[4] x) => (float[4] y) { y = my.F(x) }"
    text += function("F (x) => (y) { y = my.G(x) }") + function("G (x) => (y) { y = my.Native(x) }")
    assert declined(text) == ["it calls 'my.G', which stays"]
    assert declined(text.replace("= my.F", "= my.G")) == [
        "it has 'my.Native', which an engine may have its own way with"
    ]


@pytest.mark.parametrize(
    ("domain", "op_type", "reason"),
    [
        ("com.microsoft", "Gelu", "a runtime may have it as an operator of its own"),
        ("", "Relu", "a standard operator has its name, and runtimes take that one"),
    ],
)
def test_names_that_runtimes_have_operators_for(domain: str, op_type: str, reason: str) -> None:
    call = f"{domain}.{op_type}" if domain else op_type
    model = f"g (float[4] x) => (float[4] y) {{ y = {call}(x) }}"
    header = HEADER.replace("my", "com.microsoft")
    assert declined(header + model + function(f"{op_type} (x) => (y) {{ y = Neg(x) }}", '"": 21', domain)) == [reason]


def test_functions_that_would_explode_stay() -> None:
    text = HEADER + "g (float[4] x) => (float[4] y) { y = my.F40(x) }" + function("F0 (x) => (y) { y = Neg(x) }")
    for index in range(1, 41):
        text += function(f"F{index} (x) => (y) {{ t = my.F{index - 1}(x)  y = my.F{index - 1}(t) }}")
    assert declined(text) == [f"with all functions inlined, 1 nodes would become {2**40:,}"]


def test_a_circle_is_declined() -> None:
    text = HEADER + "g (float[4] x) => (float[4] y) { y = my.F(x) }"
    text += function("F (x) => (y) { y = my.G(x) }") + function("G (x) => (y) { y = my.F(x) }")
    assert declined(text) == ["functions of the model call each other in a circle"]


def test_metadata_and_doc_strings_stay() -> None:
    model = onnx.parser.parse_model(
        HEADER + "g (float[4] x) => (float[4] y) { y = my.F(x) }" + function("F (x) => (y) { t = Sin(x)  y = Neg(t) }")
    )
    model.functions[0].node[0].doc_string = "the sine"
    model.functions[0].node[0].metadata_props.add(key="place", value="layer 1")
    result = apply(InlineFunctions(), model, X)
    sine = next(iter(result.model.nodes()))
    assert (sine.doc_string, sine.metadata_props["place"]) == ("the sine", "layer 1")
