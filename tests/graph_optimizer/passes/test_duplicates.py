"""What is there twice, and what only looks like it."""

from __future__ import annotations

import time

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.numpy_helper import from_array
from structure_helpers import OPSET_21, Feeds, apply, op_types, reasons

from onnxsmith.graph_optimizer.passes.base import PassResult
from onnxsmith.graph_optimizer.passes.duplicates import EliminateDuplicates
from onnxsmith.graph_optimizer.passes.equal_tensors import equal_tensors
from onnxsmith.model import Model

X = {"x": np.array([1.5, -2.0, np.nan, 0.0], np.float32)}


def merge(text: str | onnx.ModelProto, feeds: Feeds = X, header: str = OPSET_21) -> PassResult:
    return apply(EliminateDuplicates(), text, feeds, header)


def with_initializers(text: str, **arrays: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(OPSET_21 + text)
    model.graph.initializer.extend(from_array(array, name) for name, array in arrays.items())
    return model


def test_equal_chains_and_swapped_operands() -> None:
    result = merge(
        """g (float[4] x) => (float[4] y) {
            a = Abs(x)  b = Neg(a)  a2 = Abs(x)  b2 = Neg(a2)
            c = Add(a, b)  c2 = Add(b2, a2)
            d = Sub(a, b)  d2 = Sub(b2, a2)
            e = Mul(c, c2)  f = Mul(d, d2)  y = Add(e, f)
        }"""
    )
    assert op_types(result) == ["Abs", "Neg", "Add", "Sub", "Sub", "Mul", "Mul", "Add"]
    assert result.changes == 3


def test_default_attribute_equals_the_same_written_out() -> None:
    result = merge(
        """g (float[4] x) => (float[4] y) {
            a = LeakyRelu(x)  b = LeakyRelu<alpha = 0.01>(x)  c = LeakyRelu<alpha = 0.02>(x)
            d = Sub(a, b)  y = Sub(d, c)
        }"""
    )
    assert op_types(result) == ["LeakyRelu", "LeakyRelu", "Sub", "Sub"]


def test_other_outputs_are_not_duplicates() -> None:
    result = merge(
        """g (float[1,1,4] x) => (float[1,1,3] y, float[1,1,3] z, int64[1,1,3] i) {
            y = MaxPool<kernel_shape = [2]>(x)
            z, i = MaxPool<kernel_shape = [2]>(x)
        }""",
        {"x": X["x"].reshape(1, 1, 4)},
    )
    assert not result.changed


def test_random_nodes_and_training_dropout_stay() -> None:
    model = onnx.parser.parse_model(
        OPSET_21
        + """g (float[4] x) => (float[4] y) {
            a = RandomNormalLike(x)  b = RandomNormalLike(x)
            p = Constant<value = float {0.5}>()  t = Constant<value = bool {1}>()
            c = Dropout(x, p, t)  d = Dropout(x, p, t)
            e = Sub(a, b)  f = Sub(c, d)  y = Add(e, f)
        }"""
    )
    result = EliminateDuplicates().run(Model.from_proto(model))
    assert not result.changed


def test_custom_operators_and_functions_stay() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "my": 1]>
        g (float[4] x) => (float[4] y) { a = my.F(x)  b = my.F(x)  c = my.Op(x)  d = my.Op(x)  y = Sum(a, b, c, d) }
        <domain: "my", opset_import: ["": 21]> F (x) => (y) { y = RandomNormalLike(x) }"""
    )
    assert not EliminateDuplicates().run(Model.from_proto(model)).changed


def test_two_outputs_keep_their_names() -> None:
    result = merge("g (float[4] x) => (float[4] y, float[4] z) { y = Abs(x)  z = Abs(x) }")
    assert not result.changed
    assert reasons(result) == ["another node makes the same value, and this one is an output"]


def test_an_output_and_what_is_used_within() -> None:
    result = merge("g (float[4] x) => (float[4] y, float[4] z) { a = Abs(x)  y = Neg(a)  b = Abs(x)  z = Neg(y) }")
    assert op_types(result) == ["Abs", "Neg", "Neg"]
    result = merge("g (float[4] x) => (float[4] y, float[4] z) { a = Abs(x)  z = Neg(a)  y = Abs(x) }")
    assert op_types(result) == ["Abs", "Neg"]


def test_negative_zero_and_nan() -> None:
    model = with_initializers(
        "g (float[4] x) => (float[4] y) { a = Div(x, p)  b = Div(x, n)  c = Div(x, q)  y = Sum(a, b, c) }",
        p=np.array(0.0, np.float32),
        n=np.array(-0.0, np.float32),
        q=np.array(0.0, np.float32),
    )
    result = merge(model)
    assert op_types(result) == ["Div", "Div", "Sum"]
    assert sorted(result.model.ir.graph.initializers) == ["n", "p"]


def test_equal_bytes_of_other_dtype_or_shape() -> None:
    result = merge(
        with_initializers(
            "g (float[4] x) => (float[4] y) { f = Cast<to = 1>(i)  y = Sum(x, a, b, f) }",
            a=np.zeros((1,), np.float32),
            b=np.zeros((1, 1), np.float32)[0],
            i=np.zeros((1,), np.int32),
        )
    )
    assert sorted(result.model.ir.graph.initializers) == ["a", "i"]


def test_overridable_and_output_initializers_stay() -> None:
    model = with_initializers(
        "g (float[4] x, float[4] a) => (float[4] y, float[4] c) { y = Sum(x, a, b, c) }",
        a=np.ones(4, np.float32),
        b=np.ones(4, np.float32),
        c=np.ones(4, np.float32),
    )
    result = merge(model, X | {"a": np.full(4, 3.0, np.float32)})
    assert set(result.model.ir.graph.initializers) >= {"a", "c"}
    assert not result.changed


def test_packed_and_string_initializers() -> None:
    four = onnx.helper.make_tensor("q", onnx.TensorProto.INT4, [4], [1, -2, 3, -4])
    model = onnx.parser.parse_model(
        OPSET_21
        + """g (float[4] x) => (float[4] y, string[4] t) <float s = {0.5}> {
            a = DequantizeLinear(q, s)  b = DequantizeLinear(q2, s)  y = Sum(x, a, b)
            t = StringConcat(n, n2)
        }"""
    )
    for name in ("q", "q2"):
        four.name = name
        model.graph.initializer.append(four)
    words = np.array(["a", "b", "", "d"], object)
    model.graph.initializer.extend([from_array(words, "n"), from_array(words, "n2")])
    result = merge(model)
    assert op_types(result) == ["DequantizeLinear", "Sum", "StringConcat"]
    assert sorted(result.model.ir.graph.initializers) == ["n", "q", "s"]


def test_equal_branches_are_one_subgraph() -> None:
    branch = """If(c) <then_branch = t () => (float[4] z) { u = Neg(x)  z = Exp(u) },
                       else_branch = e () => (float[4] w) { w = Sin(x) }>"""
    other = branch.replace("Sin", "Cos")
    renamed = branch.replace("u ", "v ").replace("(u)", "(v)").replace(" z", " q")
    result = merge(
        f"g (float[4] x, bool c) => (float[4] y) {{ a = {branch}  b = {renamed}  d = {other}  y = Sum(a, b, d) }}",
        X | {"c": np.array(True)},
    )
    assert op_types(result)[:3] == ["If", "If", "Sum"]


def test_equal_branches_with_random_nodes_are_two() -> None:
    branch = """If(c) <then_branch = t () => (float[4] z) { z = RandomNormalLike(x) },
                       else_branch = e () => (float[4] w) { w = Sin(x) }>"""
    text = f"g (float[4] x, bool c) => (float[4] y) {{ a = {branch}  b = {branch}  y = Sum(a, b) }}"
    result = EliminateDuplicates().run(Model.from_proto(onnx.parser.parse_model(OPSET_21 + text)))
    assert [kind for kind in op_types(result) if kind == "If"] == ["If", "If"]


def test_inner_graphs_use_what_the_outer_one_made_before() -> None:
    result = merge(
        """g (float[4] x, bool c) => (float[4] y, float[4] s) {
            a = Neg(x)
            b = If(c) <then_branch = t () => (float[4] z) { u = Neg(x)  v = Sin(x)  z = Add(u, v) },
                       else_branch = e () => (float[4] w) { v = Sin(x)  w = Exp(v) }>
            y = Add(a, b)  s = Sin(x)
        }""",
        X | {"c": np.array(True)},
    )
    assert sorted(op_types(result)) == ["Add", "Add", "Exp", "If", "Neg", "Sin", "Sin", "Sin"]


@pytest.mark.parametrize("place", ["x", "iteration"])
def test_bodies_of_loops(place: str) -> None:
    body = """<body = b (int64 i, bool go, float[4] v) => (bool go2, float[4] w) {
        go2 = Identity(go)  f = CastLike(i, v)  w = Add(v, PLACE) }>""".replace("PLACE", "f" if place != "x" else "x")
    result = merge(
        f"g (float[4] x) => (float[4] y) <int64 m = {{3}}> {{ a = Loop(m, , x) {body}  b = Loop(m, , x) {body}"
        "  y = Add(a, b) }"
    )
    assert [kind for kind in op_types(result) if kind == "Loop"] == ["Loop"]


def test_weights_that_differ_are_hardly_read() -> None:
    big = np.zeros(100_000, np.float32)
    middle = big.copy()
    middle[50_000] = 1
    end = big.copy()
    end[-1] = 1
    tensors = [ir.tensor(array) for array in (big, middle, end, big.copy())]
    reads = 0

    class Counted(ir.Tensor):
        def numpy(self) -> np.ndarray:
            nonlocal reads
            reads += 1
            return super().numpy()

    single = Counted(np.zeros(7, np.float32))
    classes = equal_tensors([*tensors, single])
    assert reads == 0
    assert classes[id(tensors[0])] == classes[id(tensors[3])]
    assert len({classes[id(tensor)] for tensor in (*tensors, single)}) == 4


def test_linear_time() -> None:
    def seconds(count: int) -> float:
        x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4]))
        nodes, value = [], x
        for _ in range(count):
            pair = [ir.node("Neg", [value]), ir.node("Neg", [value])]
            nodes += [*pair, ir.node("Add", [pair[0].outputs[0], pair[1].outputs[0]])]
            value = nodes[-1].outputs[0]
        model = ir.Model(ir.Graph([x], [value], nodes=nodes, opset_imports={"": 21}, name="g"), ir_version=10)
        start = time.perf_counter()
        result = EliminateDuplicates().run(Model(model))
        assert result.changes == count
        return time.perf_counter() - start

    seconds(100)
    assert seconds(8000) < 30 * seconds(1000)


def test_a_transposed_weight_is_compared_as_it_lies() -> None:
    square = np.arange(300 * 300, dtype=np.float32).reshape(300, 300)
    tensors = [ir.Tensor(square.T), ir.Tensor(np.ascontiguousarray(square.T)), ir.Tensor(square), ir.Tensor(square + 1)]
    classes = equal_tensors(tensors)
    numbers = [classes[id(tensor)] for tensor in tensors]
    assert numbers[0] == numbers[1]
    assert len(set(numbers)) == 3
