"""If and Loop whose course is known."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from structure_helpers import OPSET_21, Feeds, apply, op_types, reasons

from onnxsmith.graph_optimizer.passes.base import PassResult
from onnxsmith.graph_optimizer.passes.control_flow import FoldControlFlow
from onnxsmith.model import Model


def fold(text: str, feeds: Feeds, header: str = OPSET_21) -> PassResult:
    return apply(FoldControlFlow(), text, feeds, header)


X = {"x": np.array([1.5, -2.0, np.nan], np.float32)}


@pytest.mark.parametrize(("condition", "left"), [(1, "Neg"), (0, "Abs")])
def test_if_with_constant_condition(condition: int, left: str) -> None:
    result = fold(
        f"""g (float[3] x) => (float[3] y) <bool c = {{{condition}}}> {{
            a = Relu(x)
            y = If(c) <then_branch = t () => (float[3] z) {{ z = Neg(a) }},
                       else_branch = e () => (float[3] z) {{ z = Abs(a) }}>
        }}""",
        X,
    )
    assert op_types(result) == ["Relu", left]
    assert result.changes == 1


def test_condition_that_follows_from_shapes() -> None:
    result = fold(
        """g (float[n, 3] x) => (float[n, 3] y) {
            s = Shape(x)
            one = Constant<value_ints = [1]>()
            last = Gather(s, one)
            three = Constant<value_ints = [3]>()
            c = Equal(last, three)
            y = If(c) <then_branch = t () => (float[n, 3] z) { z = Neg(x) },
                       else_branch = e () => (float[n] w) { w = ReduceMax<keepdims = 0>(x, one) }>
        }""",
        {"x": np.ones((2, 3), np.float32)},
    )
    assert op_types(result)[-1] == "Neg"


def test_branch_with_initializers_that_are_outputs_and_one_value_twice() -> None:
    result = fold(
        """g (float[3] x) => (float[3] y, float[3] y2, float[2] k) <bool c = {1}> {
            y, y2, k = If(c) <
                then_branch = t () => (float[3] z, float[3] z2, float[2] w)
                    <float[2] w = {1.0, 2.0}, float[3] b = {1.0, 2.0, 3.0}> { z = Add(x, b)  z2 = Identity(z) },
                else_branch = e () => (float[3] q, float[3] q2, float[2] r)
                    <float[2] r = {3.0, 4.0}> { q = Abs(x)  q2 = Neg(x) }>
        }""",
        X,
    )
    assert sorted(op_types(result)) == ["Add", "Identity", "Identity"]


def test_nested_ifs_with_names_that_shadow() -> None:
    result = fold(
        """g (float[3] x) => (float[3] y) <bool c = {1}> {
            a = Neg(x)
            y = If(c) <
                then_branch = t () => (float[3] z) {
                    no = Constant<value = bool {0}>()
                    b = Abs(a)
                    z = If(no) <then_branch = tt () => (float[3] q) { q = Exp(b) },
                                else_branch = te () => (float[3] q) { r = Sin(b)  q = Add(r, a) }>
                },
                else_branch = e () => (float[3] z) { b = Exp(a)  z = Log(b) }>
        }""",
        X,
    )
    assert op_types(result) == ["Neg", "Abs", "Sin", "Add"]
    assert result.changes == 2


def test_ir_version_3() -> None:
    result = fold(
        """g (float[3] x) => (float[3] y) {
            c = Constant<value = bool {1}>()
            y = If(c) <then_branch = t () => (float[3] z) { k = Constant<value = float {2.0}>()  z = Mul(x, k) },
                       else_branch = e () => (float[3] z) { z = Abs(x) }>
        }""",
        X,
        '<ir_version: 3, opset_import: ["": 8]>',
    )
    assert "If" not in op_types(result)
    assert not result.model.ir.graph.initializers


def test_random_operators_stay() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g () => (float[4] y) <bool c = {1}> {
            y = If(c) <then_branch = t () => (float[4] z) { z = RandomNormal<shape = [4]>() },
                       else_branch = e () => (float[4] z) { z = RandomUniform<shape = [4]>() }>
        }"""
    )
    result = FoldControlFlow().run(Model.from_proto(model))
    assert op_types(result) == ["RandomNormal"]


def test_overridable_condition_is_not_constant() -> None:
    text = """g (float[3] x, bool c) => (float[3] y) <bool c = {1}> {
        y = If(c) <then_branch = t () => (float[3] z) { z = Neg(x) },
                   else_branch = e () => (float[3] z) { z = Abs(x) }>
    }"""
    result = fold(text, X | {"c": np.array(False)})
    assert not result.changed
    assert reasons(result) == ["its condition is not known before it runs"]


LOOP = """g (float[3] x) => (float[3] y, float[s, 3] all) <int64 m = {TRIPS}, bool c = {COND}> {
    y, all = Loop(m, c, x) <body = b (int64 i, bool go, float[3] v) => (bool stay, float[3] w, float[3] out) {
        stay = Identity(go)
        f = CastLike(i, v)
        o = Constant<value = float {1.0}>()
        g1 = Add(f, o)
        w = Add(v, g1)
        out = Mul(w, x)
    }>
}"""


def loop(trips: int, condition: int) -> str:
    return LOOP.replace("TRIPS", str(trips)).replace("COND", str(condition))


def test_loop_that_runs_once() -> None:
    result = fold(loop(1, 1), X)
    assert "Loop" not in op_types(result)
    assert op_types(result)[-1] == "Unsqueeze"


@pytest.mark.parametrize(("trips", "condition"), [(0, 1), (-3, 1), (5, 0)])
def test_loop_that_never_runs(trips: int, condition: int) -> None:
    result = fold(loop(trips, condition), X)
    assert op_types(result) == ["Identity", "Identity"]


def test_loop_that_runs_more_than_once_stays() -> None:
    result = fold(loop(3, 1), X)
    assert op_types(result)[0] == "Loop"
    assert reasons(result) == ["it runs more than once"]


def test_loop_whose_body_ends_it() -> None:
    result = fold(
        """g (float[3] x) => (float[3] y) <bool c = {1}> {
            y = Loop(, c, x) <body = b (int64 i, bool go, float[3] v) => (bool stay, float[3] w) {
                stay = Constant<value = bool {0}>()
                w = Neg(v)
            }>
        }""",
        X,
    )
    assert op_types(result) == ["Neg"]


def test_loop_that_passes_its_inputs_on_and_swaps_them() -> None:
    result = fold(
        """g (float[3] x, float[3] k) => (float[3] y, float[3] z, float[3] q) <int64 m = {1}> {
            y, z, q = Loop(m, , x, k, x) <body = b (int64 i, bool go, float[3] v, float[3] w, float[3] u)
                => (bool go2, float[3] w2, float[3] v2, float[3] u2) {
                go2 = Identity(go)
                w2 = Identity(w)
                v2 = Identity(v)
                u2 = Neg(u)
            }>
        }""",
        X | {"k": np.ones(3, np.float32)},
    )
    assert "Loop" not in op_types(result)


def test_condition_of_a_loop_that_is_not_known() -> None:
    text = loop(1, 1).replace("(float[3] x)", "(float[3] x, bool c)").replace(", bool c = {1}>", ">")
    result = fold(text, X | {"c": np.array(False)})
    assert reasons(result) == ["how often it runs is not known"]


def test_many_ifs_take_linear_time() -> None:
    count = 400
    lines = ["g (float[3] x0) => (float[3] y) <bool c = {1}> {"]
    lines += [
        f"x{index + 1} = If(c) <then_branch = t () => (float[3] z) {{ z = Neg(x{index}) }}, "
        f"else_branch = e () => (float[3] z) {{ z = Abs(x{index}) }}>"
        for index in range(count)
    ]
    lines += [f"y = Identity(x{count})", "}"]
    result = fold("\n".join(lines), {"x0": X["x"]})
    assert op_types(result) == ["Neg"] * count + ["Identity"]
