"""Pairs of QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array
from structure_helpers import OPSET_21, apply, op_types, reasons

from onnxsmith.graph_optimizer.passes.base import PassResult
from onnxsmith.graph_optimizer.passes.qdq import SimplifyQdq

GENERATOR = np.random.default_rng(0)


def simplify(text: str, x: np.ndarray, **arrays: np.ndarray | onnx.TensorProto) -> PassResult:
    model = onnx.parser.parse_model(OPSET_21 + text)
    for name, array in arrays.items():
        model.graph.initializer.append(array if isinstance(array, onnx.TensorProto) else from_array(array, name))
    return apply(SimplifyQdq(), model, {"x": x})


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("scale", [0.1, 1 / 3, 1e-5, -7.3, 1234.5])
def test_every_number_comes_back(dtype: type, scale: float) -> None:
    limits = np.iinfo(dtype)
    name = np.dtype(dtype).name
    result = simplify(
        f"g ({name}[n] x) => ({name}[n] y) {{ a = DequantizeLinear(x, s, z)  b = QuantizeLinear(a, s, z)"
        "  y = Identity(b) }",
        np.arange(limits.min, limits.max + 1, dtype=dtype),
        s=np.array(scale, np.float32),
        z=np.array(limits.max // 3, dtype),
    )
    assert op_types(result) == ["Identity"]


def test_chain_of_pairs() -> None:
    pair = "QuantizeLinear({0}, s)  {1} = DequantizeLinear({1}q, s)"
    result = simplify(
        f"g (float[n] x) => (float[n] y) {{ aq = {pair.format('x', 'a')}  bq = {pair.format('a', 'b')}  "
        f"yq = {pair.format('b', 'y')} }}",
        GENERATOR.standard_normal(100).astype(np.float32),
        s=np.array(0.02, np.float32),
    )
    assert op_types(result) == ["QuantizeLinear", "DequantizeLinear"]


def test_channels_with_equal_constants_of_their_own() -> None:
    scale, zero = np.array([0.1, 0.2, 0.3], np.float32), np.array([1, 2, 3], np.int8)
    result = simplify(
        """g (int8[2, 3] x) => (int8[2, 3] y) {
            a = DequantizeLinear<axis = -1>(x, s, z)  b = QuantizeLinear<axis = 1>(a, s2, z2)  y = Identity(b) }""",
        np.array([[1, 2, 3], [-128, 127, 0]], np.int8),
        s=scale,
        z=zero,
        s2=scale.copy(),
        z2=zero.copy(),
    )
    assert op_types(result) == ["Identity"]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ("QuantizeLinear(a, s, z2)", "the DequantizeLinear before it has another scale, zero point or type"),
        ("QuantizeLinear(a, s2, z)", "the DequantizeLinear before it has another scale, zero point or type"),
        ("QuantizeLinear(a, s)", "the DequantizeLinear before it has another scale, zero point or type"),
    ],
)
def test_others_stay(second: str, reason: str) -> None:
    text = f"g (int8[3] x) => (float[3] y) {{ a = DequantizeLinear(x, s, z)  b = {second}  y = Cast<to = 1>(b) }}"
    result = simplify(
        text,
        np.array([-128, 5, 127], np.int8),
        s=np.array(0.5, np.float32),
        s2=np.array(0.25, np.float32),
        z=np.array(0, np.int8),
        z2=np.array(1, np.int8),
    )
    assert not result.changed
    assert reasons(result) == [reason]


def test_scale_of_zero_and_computed_scale_stay() -> None:
    text = "g (int8[3] x) => (int8[3] y) { a = DequantizeLinear(x, s, z)  y = QuantizeLinear(a, s, z) }"
    zero = np.array(0, np.int8)
    x = np.array([-128, 5, 127], np.int8)
    result = simplify(text, x, s=np.array(0.0, np.float32), z=zero)
    assert reasons(result) == ["its scale is zero, not finite, or too small or large to be divided by exactly"]
    model = onnx.parser.parse_model(OPSET_21 + text.replace("x)", "x, float s)"))
    model.graph.initializer.append(from_array(zero, "z"))
    result = apply(SimplifyQdq(), model, {"x": x, "s": np.array(0.5, np.float32)})
    assert not result.changed
    assert "is computed" in reasons(result)[0]


def test_float8_stays() -> None:
    model = onnx.parser.parse_model(
        OPSET_21
        + """g (float[3] x) => (float[3] y) <float s = {0.5}> {
            q = QuantizeLinear<output_dtype = 19>(x, s)  a = DequantizeLinear(q, s)
            b = QuantizeLinear<output_dtype = 19>(a, s)  y = DequantizeLinear(b, s) }"""
    )
    result = apply(SimplifyQdq(), model, {"x": np.array([1.0, np.inf, np.nan], np.float32)})
    assert not result.changed
    assert reasons(result) == ["FLOAT8E5M2 does not come back as it was"]


def test_pairs_around_a_transpose_stay_for_the_runtime() -> None:
    result = simplify(
        """g (uint8[2, 3] x) => (uint8[3, 2] y) {
            a = DequantizeLinear(x, s)  b = Transpose(a)  y = QuantizeLinear(b, s) }""",
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        s=np.array(0.5, np.float32),
    )
    assert not result.changed
    assert reasons(result) == ["runtimes recognise a quantised Transpose by the pairs around it"]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_constant_is_quantised_as_the_runtime_does(dtype: type) -> None:
    halves = (np.arange(-600, 600) / 4).astype(np.float32)
    weight = np.concatenate([halves, GENERATOR.standard_normal(848).astype(np.float32) * 50, [3e38, -3e38, -0.0, 0.0]])
    result = simplify(
        """g (float[2052] x) => (float[2052] y) {
            q = QuantizeLinear(w, s, z)  d = DequantizeLinear(q, s, z)  y = Add(x, d) }""",
        np.zeros(2052, np.float32),
        w=weight.astype(np.float32),
        s=np.array(0.5, np.float32),
        z=np.array(3, dtype),
    )
    assert op_types(result) == ["DequantizeLinear", "Add"]


def test_constant_by_channels() -> None:
    result = simplify(
        """g (float[4, 8] x) => (float[4, 8] y) {
            q = QuantizeLinear<axis = 0>(w, s, z)  d = DequantizeLinear<axis = 0>(q, s, z)  y = Add(x, d) }""",
        np.zeros((4, 8), np.float32),
        w=GENERATOR.standard_normal((4, 8)).astype(np.float32),
        s=np.array([0.01, 0.02, 0.03, 0.001], np.float32),
        z=np.array([0, 1, -5, 7], np.int8),
    )
    assert op_types(result) == ["DequantizeLinear", "Add"]


def test_constants_that_are_not_quantised() -> None:
    arrays = {"s": np.array(0.5, np.float32), "w": np.array([1.0, np.nan, 2.0], np.float32)}
    text = "g (float[3] x) => (float[3] y) { q = QuantizeLinear(w, s)  d = DequantizeLinear(q, s)  y = Add(x, d) }"
    result = simplify(text, np.zeros(3, np.float32), **arrays)
    assert reasons(result) == ["its constant has NaN or infinity, which runtimes quantise in different ways"]
    result = simplify(text.replace("Add(x, d)", "Sum(x, d, w)"), np.zeros(3, np.float32), **arrays)
    assert reasons(result) == ["its constant is used elsewhere too, and would be stored twice"]
    assert not result.changed


def test_packed_weights_stay_packed() -> None:
    four = onnx.helper.make_tensor("w", onnx.TensorProto.INT4, [4], [1, -2, 3, -4])
    result = simplify(
        "g (float[4] x) => (float[4] y) { d = DequantizeLinear(w, s)  y = Add(x, d) }",
        np.zeros(4, np.float32),
        w=four,
        s=np.array(0.5, np.float32),
    )
    assert not result.changed
