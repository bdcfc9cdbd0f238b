"""What NumPy computes here has the bits that ONNX Runtime has; what it cannot is ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx.numpy_helper import from_array

from onnxsmith.graph_analysis.symbolic import Facts
from onnxsmith.graph_optimizer.evaluation import Evaluation, evaluate
from onnxsmith.model import Model

CONSTANTS = {
    "f": np.array([[1.5, -2.25, 3], [0, -0.0, 1e-40], [np.inf, 7, -9]], np.float32),
    "d": np.array([0.1, 2, 1e300]),
    "i": np.array([[-7, 7, 5], [2**62, -3, 0]]),
    "j": np.array([[2, -2, 3], [2, -2, 7]]),
    "k": np.array([250, 7, 255], np.uint8),
    "n": np.array([3, -100, 2**31 - 1], np.int32),
    "m": np.array([3, -100, 77], np.int32),
    "b": np.array([True, False, True]),
    "one": np.array([1]),
    "minus": np.array([-1]),
    "zero": np.array(0),
    "two": np.array([2, 3]),
    "nine": np.array([9]),
    "places": np.array([[0, 1], [1, -1]]),
    "updates": np.array([10, 20]),
    "perm": np.array([2, 0, -1]),
    "pads": np.array([1, 0, 0, 2]),
    "text": np.array([["a", "bé"], ["", "d"]], object),
    "h": np.array([1.5, 2], np.float16),
}

HERE = {
    "int8_add_wraps": "y = Add(k, k)",
    "int64_mul_wraps": "y = Mul(i, j)",
    "float_arithmetic": "a = Add(f, f) b1 = Mul(a, f) c = Sub(b1, f) y = Div(c, a)",
    "double": "a = Sqrt(d) b1 = Reciprocal(a) y = Neg(b1)",
    "sqrt_of_negative": "a = Sqrt(f) y = Abs(a)",
    "floor_ceil": "a = Floor(f) c = Ceil(f) y = Add(a, c)",
    "division_truncates": "y = Div(i, j)",
    "mod": "y = Mod(i, j)",
    "fmod": "y = Mod<fmod = 1>(i, j)",
    "less": "y = Less(f, f)",
    "equal_bool": "y = Equal(b, b)",
    "logic": "a = Not(b) c = And(a, b) e = Or(c, b) y = Xor(e, a)",
    "bits": "y = BitwiseXor(i, j)",
    "min_max": "a = Min(i, j) y = Max(a, j)",
    "reduce_sum_axes": "y = ReduceSum<keepdims = 0>(j, minus)",
    "reduce_sum_int32": "y = ReduceSum(m)",
    "reduce_max_all": "y = ReduceMax<keepdims = 0>(i)",
    "cum_sum": "y = CumSum(i, zero)",
    "range": "l = Squeeze(nine) t = Squeeze(one) y = Range(zero, l, t)",
    "cast_to_int": "s = Slice(f, zero1, one, zero1) y = Cast<to = 7>(s)",
    "cast_to_bool": "y = Cast<to = 9>(f)",
    "cast_narrows": "y = Cast<to = 3>(i)",
    "cast_double_to_float": "y = Cast<to = 1>(d)",
    "cast_half_to_float": "y = Cast<to = 1>(h)",
    "where": "y = Where(b, i, j)",
    "gather_negative": "y = Gather<axis = 1>(i, perm)",
    "gather_elements": "y = GatherElements<axis = 1>(i, places)",
    "gather_nd": "y = GatherND(i, places)",
    "scatter_nd": "y = ScatterND(i, places, updates)",
    "concat": "y = Concat<axis = -1>(i, j)",
    "split": "y, z = Split<axis = 1, num_outputs = 2>(i)",
    "slice_backwards": "y = Slice(i, nine, low, one, minus)",
    "slice_beyond": "y = Slice(i, minus, nine, one)",
    "transpose": "y = Transpose(i)",
    "squeeze_unsqueeze": "a = Unsqueeze(i, one) y = Squeeze(a, one)",
    "flatten": "y = Flatten<axis = -1>(i)",
    "reshape_zero": "y = Reshape(i, zeros)",
    "expand": "y = Expand(b, two)",
    "tile": "y = Tile(i, two)",
    "constant_of_shape": "y = ConstantOfShape<value = int64[1] {7}>(two)",
    "constant_of_shape_default": "y = ConstantOfShape(two)",
    "trilu": "y = Trilu<upper = 0>(f)",
    "trilu_k": "t = Squeeze(one) y = Trilu(f, t)",
    "eye": "y = EyeLike<k = 1>(f)",
    "non_zero": "y = NonZero(f)",
    "pad": "y = Pad(i, pads)",
    "shape": "y = Shape<start = -1>(i)",
    "size": "y = Size(i)",
    "text": "t = Transpose(text) y = Slice(t, one, nine)",
}

RUNTIME = {
    "exp": "y = Exp(f)",
    "half": "y = Add(h, h)",
    "after": "a = Exp(f) y = Neg(a)",
    "cast_of_infinity": "c = Clip(f) y = Cast<to = 6>(c)",
    "sum_of_large_numbers": "y = ReduceSum<keepdims = 0>(i, minus)",
    "bfloat16": "c = Cast<to = 16>(d) y = Cast<to = 1>(c)",
}


def build(text: str, **more: np.ndarray) -> onnx.ModelProto:
    header = '<ir_version: 10, opset_import: ["": 21]> g (float[1] x) => (float[1] o)'
    proto = onnx.parser.parse_model(f"{header} {{ {text} o = Identity(x) }}")
    constants = CONSTANTS | {"zero1": np.array([0]), "low": np.array([-9]), "zeros": np.array([0, -1])} | more
    proto.graph.initializer.extend(from_array(array, name) for name, array in constants.items())
    del proto.graph.output[:]
    names = [name for node in proto.graph.node for name in node.output if name in "yz"]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return proto


def computed(proto: onnx.ModelProto) -> tuple[Evaluation, dict[str, np.ndarray]]:
    model = Model.from_proto(onnx.ModelProto.FromString(proto.SerializeToString()))
    nodes = [node for node in model.nodes() if node.outputs[0].name != "o"]
    evaluation = evaluate(model.ir, nodes, list(model.ir.graph.outputs), Facts(model.ir).tensor)
    return evaluation, {value.name or "": tensor.numpy() for value, tensor in evaluation.values.items()}


def expected(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options)
    return dict(
        zip([out.name for out in session.get_outputs()], session.run(None, {"x": np.ones(1, np.float32)}), strict=True)
    )


def require_same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, right in wanted.items():
        left = found[name]
        if right.dtype == object:
            assert [text.decode() for text in left.reshape(-1).tolist()] == right.reshape(-1).tolist()
            continue
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        np.testing.assert_array_equal(left, right)
        if right.dtype.kind == "f":
            finite = ~np.isnan(right)
            np.testing.assert_array_equal(np.signbit(left)[finite], np.signbit(right)[finite])


@pytest.mark.parametrize("case", HERE)
def test_numpy_has_the_runtimes_bits(case):
    proto = build(HERE[case])
    evaluation, found = computed(proto)
    assert evaluation.children == 0
    require_same(found, expected(proto))


def test_the_runtime_computes_the_rest_in_one_child():
    names = {case: f"y{number}" for number, case in enumerate(RUNTIME)}
    text = " ".join(
        " ".join(f"{word}{number}" if word in ("a", "c", "y") else word for word in RUNTIME[case].split(" "))
        .replace("(a)", f"(a{number})")
        .replace("(c)", f"(c{number})")
        for number, case in enumerate(names)
    )
    proto = build(text)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names.values())
    evaluation, found = computed(proto)
    assert evaluation.children == 1
    assert not evaluation.refused
    require_same(found, expected(proto))


REFUSED = {
    "division by zero": ("y = Div(i, i)", "Div"),
    "an index out of range": ("y = Gather(i, nine)", "Gather"),
    "shapes that do not fit": ("y = Add(i, two)", "Add"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_fails_is_refused_with_the_reason(case):
    text, op_type = REFUSED[case]
    evaluation, found = computed(build(f"{text} z = Neg(j)"))
    assert [node.op_type for node in evaluation.refused] == [op_type]
    assert all(reason.startswith("it cannot be computed beforehand: ") for reason in evaluation.refused.values())
    assert list(found) == ["z"]
    assert found["z"].tolist() == [[-2, 2, -3], [-2, 2, -7]]


def test_the_nodes_beside_a_bad_one_are_computed():
    evaluation, found = computed(build("a = Exp(f) b1 = Gather(a, nine) y = Exp(b1) c = Exp(d) z = Exp(c)"))
    assert [node.op_type for node in evaluation.refused] == ["Gather"]
    np.testing.assert_array_equal(found["z"], expected(build("c = Exp(d) z = Exp(c)"))["z"])


def test_a_transposed_weight_is_laid_out_only_when_it_is_written(tmp_path):
    _, found = computed(build("y = Transpose(i)"))
    assert not found["y"].flags.c_contiguous
    evaluation, _ = computed(build("y = Transpose(i)"))
    (tensor,) = evaluation.values.values()
    with (tmp_path / "data").open("wb") as file:
        tensor.tofile(file)
    assert (tmp_path / "data").read_bytes() == np.ascontiguousarray(CONSTANTS["i"].T).tobytes()
