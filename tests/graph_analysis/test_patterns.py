"""Patterns on hand-made graphs, and near-misses that must not match."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from onnxsmith.graph_analysis.patterns import find_patterns
from onnxsmith.model import Model

CHANNEL = "float[2] s = {1, 2}, float[2] t = {0, 1}, float[2] m = {0, 0}, float[2] v = {1, 1}"
CONV = "float[2,2,1,1] w = {1, 2, 3, 4}"


def model_of(
    nodes: str,
    constants: str = "",
    *,
    inputs: str = "float[1,2,4,4] x",
    outputs: str = "float[1,2,4,4] y",
    opset: int = 17,
) -> Model:
    text = f"""<ir_version: 8, opset_import: ["" : {opset}, "my" : 1, "com.microsoft" : 1, "com.microsoft.nchwc" : 1]>
    g ({inputs}) => ({outputs}) <{constants}> {{ {nodes} }}"""
    return Model.from_proto(onnx.parser.parse_model(text))


def patterns(model: Model) -> dict[str, int]:
    return dict(Counter(match.pattern for match in find_patterns(model)))


BN = "c = Conv(x, w) b = BatchNormalization(c, s, t, m, v)", f"{CONV}, {CHANNEL}"
LAYER_NORM_CONSTANTS = "float two = {2}, float eps = {1e-5}, float[4] g = {1, 1, 1, 1}, float[4] h = {0, 0, 0, 0}"
LAYER_NORM = """mean = ReduceMean<axes = [-1]>(x) d = Sub(x, mean) p = Pow(d, two) var = ReduceMean<axes = [-1]>(p)
    e = Add(var, eps) r = Sqrt(e) q = Div(d, r) k = Mul(q, g) y = Add(k, h)"""
GELU_CONSTANTS = "float root = {1.41421356}, float one = {1}, float half = {0.5}"
TANH_CONSTANTS = "float three = {3}, float c = {0.044715}, float k = {0.79788456}, float one = {1}, float half = {0.5}"
SWISH_CONSTANTS = "float three = {3}, float zero = {0}, float six = {6}"

FOUND = {
    "conv_bn": (BN[0].replace("b =", "y ="), BN[1], {"Conv+BatchNormalization": 1}),
    "conv_bn_relu_swallows_conv_bn": (BN[0] + " y = Relu(b)", BN[1], {"Conv+BatchNormalization+Relu": 1}),
    "conv_bn_clip": (
        BN[0] + " y = Clip(b, lo, hi)",
        BN[1] + ", float lo = {0}, float hi = {6}",
        {"Conv+BatchNormalization+Clip": 1},
    ),
    "conv_relu": ("c = Conv(x, w) y = Relu(c)", CONV, {"Conv+Relu": 1}),
    "conv_leaky_relu": ("c = Conv(x, w) y = LeakyRelu(c)", CONV, {"Conv+LeakyRelu": 1}),
    "conv_add": ("c = Conv(x, w) y = Add(c, a)", CONV + ", float[2,1,1] a = {1, 2}", {"Conv+Add": 1}),
    "conv_add_constant_first": ("c = Conv(x, w) y = Add(a, c)", CONV + ", float[1,2,1,1] a = {1, 2}", {"Conv+Add": 1}),
    "conv_add_scalar": ("c = Conv(x, w) y = Add(c, a)", CONV + ", float a = {1}", {"Conv+Add": 1}),
    "conv_mul": ("c = Conv(x, w) y = Mul(c, a)", CONV + ", float[1,2,1,1] a = {1, 2}", {"Conv+Mul": 1}),
    "conv_add_relu": ("c = Conv(x, w) a = Add(c, x) y = Relu(a)", CONV, {"Conv+Add+Relu": 1}),
    "layer_norm": (LAYER_NORM, LAYER_NORM_CONSTANTS, {"LayerNorm": 1}),
    "layer_norm_square_by_mul": (
        LAYER_NORM.replace("Pow(d, two)", "Mul(d, d)"),
        LAYER_NORM_CONSTANTS,
        {"LayerNorm": 1},
    ),
    "layer_norm_two_subs": (
        LAYER_NORM.replace("p = Pow(d, two)", "d2 = Sub(x, mean) p = Pow(d2, two)"),
        LAYER_NORM_CONSTANTS,
        {"LayerNorm": 1},
    ),
    "layer_norm_positive_axes": (LAYER_NORM.replace("[-1]>(x)", "[3]>(x)"), LAYER_NORM_CONSTANTS, {"LayerNorm": 1}),
    "skip_layer_norm": ("a = Add(x, x2) y = LayerNormalization(a, g, h)", LAYER_NORM_CONSTANTS, {"SkipLayerNorm": 1}),
    "skip_layer_norm_decomposed": (
        "a = Add(x, x2) " + LAYER_NORM.replace("(x", "(a"),
        LAYER_NORM_CONSTANTS,
        {"SkipLayerNorm": 1},
    ),
    "rms_norm": (
        "p = Pow(x, two) n = ReduceMean<axes = [-1]>(p) e = Add(n, eps) r = Sqrt(e) q = Div(x, r) y = Mul(g, q)",
        LAYER_NORM_CONSTANTS,
        {"RMSNorm": 1},
    ),
    "rms_norm_reciprocal": (
        "p = Mul(x, x) n = ReduceMean<axes = [-1]>(p) e = Add(eps, n) r = Sqrt(e) i = Reciprocal(r)"
        " q = Mul(x, i) y = Mul(q, g)",
        LAYER_NORM_CONSTANTS,
        {"RMSNorm": 1},
    ),
    "layer_norm_of_two_values_is_an_rms_norm_of_their_difference": (
        LAYER_NORM.replace("mean = ReduceMean<axes = [-1]>(x)", "mean = ReduceMean<axes = [-1]>(x2)"),
        LAYER_NORM_CONSTANTS,
        {"RMSNorm": 1},
    ),
    "gelu": ("d = Div(x, root) e = Erf(d) a = Add(e, one) p = Mul(x, a) y = Mul(p, half)", GELU_CONSTANTS, {"GELU": 1}),
    "gelu_half_first": (
        "h = Mul(x, half) d = Div(x, root) e = Erf(d) a = Add(one, e) y = Mul(h, a)",
        GELU_CONSTANTS,
        {"GELU": 1},
    ),
    "gelu_half_on_the_gate": (
        "d = Mul(i, x) e = Erf(d) a = Add(e, one) p = Mul(a, half) y = Mul(x, p)",
        GELU_CONSTANTS + ", float i = {0.70710678}",
        {"GELU": 1},
    ),
    "gelu_constants_in_nodes": (
        "root = Constant<value_float = 1.4142135>() one = Constant<value_float = 1.0>()"
        " half = Constant<value = float {0.5}>() d = Div(x, root) e = Erf(d) a = Add(e, one)"
        " p = Mul(x, a) y = Mul(p, half)",
        "",
        {"GELU": 1},
    ),
    "gelu_tanh": (
        "p = Pow(x, three) q = Mul(c, p) a = Add(x, q) i = Mul(a, k) t = Tanh(i) u = Add(t, one)"
        " h = Mul(x, half) y = Mul(h, u)",
        TANH_CONSTANTS,
        {"GELU": 1},
    ),
    "gelu_tanh_cube_by_mul": (
        "s = Mul(x, x) p = Mul(s, x) q = Mul(p, c) a = Add(q, x) i = Mul(k, a) t = Tanh(i)"
        " u = Add(one, t) h = Mul(x, u) y = Mul(h, half)",
        TANH_CONSTANTS,
        {"GELU": 1},
    ),
    "silu": ("s = Sigmoid(x) y = Mul(s, x)", "", {"SiLU": 1}),
    "quick_gelu": ("a = Mul(x, k) s = Sigmoid(a) y = Mul(x, s)", "float k = {1.702}", {"QuickGELU": 1}),
    "hard_swish": (
        "a = Add(x, three) c = Clip(a, zero, six) p = Mul(x, c) y = Div(p, six)",
        SWISH_CONSTANTS,
        {"HardSwish": 1},
    ),
    "hard_swish_gate": ("s = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, s)", "", {"HardSwish": 1}),
    "transpose_matmul": ("t = Transpose<perm = [0, 1, 3, 2]>(x) y = MatMul(x, t)", "", {"Transpose+MatMul": 1}),
    "transposes": (
        "t = Transpose<perm = [0, 1, 3, 2]>(x) y = Transpose<perm = [0, 2, 1, 3]>(t)",
        "",
        {"Transpose+Transpose": 1},
    ),
    "three_transposes_are_one_chain": (
        "t = Transpose(x) u = Transpose(t) y = Transpose(u)",
        "",
        {"Transpose+Transpose": 1},
    ),
    "reshapes": (
        "a = Reshape(x, one) y = Reshape(a, two)",
        "int64[1] one = {-1}, int64[2] two = {4, 8}",
        {"Reshape+Reshape": 1},
    ),
    "pad_conv": ("p = Pad(x, pads) y = Conv(p, w)", CONV + ", int64[8] pads = {0,0,1,1,0,0,1,1}", {"Pad+Conv": 1}),
    "pad_conv_relu": (
        "p = Pad(x, pads) c = Conv(p, w) y = Relu(c)",
        CONV + ", int64[8] pads = {0,0,1,1,0,0,1,1}",
        {"Pad+Conv": 1, "Conv+Relu": 1},
    ),
    "dropout": ("d = Dropout(x) y = Relu(d)", "", {"Dropout": 1}),
    "identity_between": ("c = Conv(x, w) i = Identity(c) y = Relu(i)", CONV, {"Identity": 1, "Conv+Relu": 1}),
    "constant_behind_identity": (
        "s2 = Identity(s) c = Conv(x, w) y = BatchNormalization(c, s2, t, m, v)",
        BN[1],
        {"Identity": 1, "Conv+BatchNormalization": 1},
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_each_pattern_is_found(case):
    nodes, constants, expected = FOUND[case]
    inputs = "float[1,2,4,4] x" + (", float[1,2,4,4] x2" if "x2" in nodes else "")
    assert patterns(model_of(nodes, constants, inputs=inputs)) == expected


MATMUL = "float[4,4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}, float[4] b = {1, 2, 3, 4}"
MATMUL_FOUND = {
    "matmul_add": ("a = MatMul(x, w) y = Add(b, a)", {"MatMul+Add": 1}),
    "matmul_add_relu": ("a = MatMul(x, w) c = Add(a, b) y = Relu(c)", {"MatMul+Add+Relu": 1}),
    "matmul_relu": ("a = MatMul(x, w) y = Relu(a)", {"MatMul+Relu": 1}),
    "gemm_relu": ("a = Gemm(x, w, b) y = Relu(a)", {"Gemm+Relu": 1}),
    "gemm_batch_norm": ("a = Gemm(x, w, b) y = BatchNormalization(a, b, b, b, b)", {"Gemm+BatchNormalization": 1}),
    "weight_behind_transpose": ("t = Transpose(w) a = MatMul(x, t) y = Add(a, b)", {"MatMul+Add": 1}),
    "residual": ("a = MatMul(x, w) y = Add(a, x)", {}),
}


@pytest.mark.parametrize("case", MATMUL_FOUND)
def test_matmul_and_gemm(case):
    nodes, expected = MATMUL_FOUND[case]
    assert patterns(model_of(nodes, MATMUL, inputs="float[N,4] x", outputs="float[N,4] y")) == expected


ATTENTION = {
    "plain": "s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v)",
    "scaled": "s = MatMul(q, k) t = Mul(s, scale) p = Softmax(t) y = MatMul(p, v)",
    "divided_and_masked": "s = MatMul(q, k) t = Div(s, scale) u = Add(t, mask) p = Softmax(u) y = MatMul(p, v)",
    "where_mask": "s = MatMul(q, k) u = Where(keep, s, mask) p = Softmax(u) y = MatMul(p, v)",
    "nan_guard": "s = MatMul(q, k) p = Softmax(s) n = IsNaN(p) g = Where(n, scale, p) y = MatMul(g, v)",
    "cast": "s = MatMul(q, k) p = Softmax(s) c = Cast<to = 1>(p) y = MatMul(c, v)",
    "dropout": "s = MatMul(q, k) p = Softmax(s) d = Dropout(p) y = MatMul(d, v)",
    "half_fused": "s = com.microsoft.FusedMatMul<alpha = 0.5>(q, k) p = Softmax(s) y = MatMul(p, v)",
}
ATTENTION_INPUTS = "float[1,2,4,8] q, float[1,2,8,4] k, float[1,2,4,8] v, float[4,4] mask, bool[4,4] keep"


@pytest.mark.parametrize("case", ATTENTION)
def test_attention(case):
    model = model_of(ATTENTION[case], "float scale = {2}", inputs=ATTENTION_INPUTS, outputs="float[1,2,4,8] y")
    assert patterns(model)["Attention"] == 1
    assert set(patterns(model)) <= {"Attention", "Dropout"}


def test_scores_that_are_an_output_are_no_attention():
    nodes = "s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v)"
    model = model_of(nodes, inputs=ATTENTION_INPUTS, outputs="float[1,2,4,8] y, float[1,2,4,4] p")
    assert patterns(model) == {}


def test_the_key_s_transpose_is_reported_beside_attention():
    nodes = "t = Transpose<perm = [0, 1, 3, 2]>(k) s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v)"
    inputs = "float[1,2,4,8] q, float[1,2,4,8] k, float[1,2,4,8] v"
    assert patterns(model_of(nodes, inputs=inputs, outputs="float[1,2,4,8] y")) == {
        "Attention": 1,
        "Transpose+MatMul": 1,
    }


MISSED = {
    "other_user_of_conv": (BN[0] + " z = Relu(c) y = Add(b, z)", BN[1]),
    "batch_norm_in_training": (
        "c = Conv(x, w) y, rm, rv = BatchNormalization<training_mode = 1>(c, s, t, m, v)",
        BN[1],
    ),
    "batch_norm_scale_is_input": ("c = Conv(x, w) y = BatchNormalization(c, x2, t, m, v)", BN[1]),
    "conv_add_not_per_channel": ("c = Conv(x, w) y = Add(c, a)", CONV + ", float[1,1,4,1] a = {1, 2, 3, 4}"),
    "conv_mul_gate_not_constant": ("c = Conv(x, w) y = Mul(c, x2)", CONV),
    "layer_norm_wrong_power": (LAYER_NORM, LAYER_NORM_CONSTANTS.replace("two = {2}", "two = {3}")),
    "layer_norm_over_channels": (LAYER_NORM.replace("axes = [-1]", "axes = [1]"), LAYER_NORM_CONSTANTS),
    "layer_norm_keepdims_0": (
        LAYER_NORM.replace("var = ReduceMean<axes = [-1]>", "var = ReduceMean<axes = [-1], keepdims = 0>"),
        LAYER_NORM_CONSTANTS,
    ),
    "layer_norm_bias_add_is_no_skip": ("a = Add(x, h) y = LayerNormalization(a, g, h)", LAYER_NORM_CONSTANTS),
    "gelu_wrong_root": (
        "d = Div(x, root) e = Erf(d) a = Add(e, one) p = Mul(x, a) y = Mul(p, half)",
        GELU_CONSTANTS.replace("1.41421356", "1.5"),
    ),
    "gelu_of_two_values": (
        "d = Div(x2, root) e = Erf(d) a = Add(e, one) p = Mul(x, a) y = Mul(p, half)",
        GELU_CONSTANTS,
    ),
    "gelu_inner_value_used_again": (
        "d = Div(x, root) e = Erf(d) a = Add(e, one) p = Mul(x, a) q = Mul(p, half) y = Add(q, e)",
        GELU_CONSTANTS,
    ),
    "silu_of_two_values": ("s = Sigmoid(x2) y = Mul(x, s)", ""),
    "hard_swish_wrong_slope": ("s = HardSigmoid(x) y = Mul(x, s)", ""),
    "hard_swish_wrong_shift": (
        "a = Add(x, three) c = Clip(a, zero, six) p = Mul(x, c) y = Div(p, six)",
        SWISH_CONSTANTS.replace("three = {3}", "three = {2}"),
    ),
    "transpose_of_other_axes": ("t = Transpose<perm = [0, 3, 2, 1]>(x) y = MatMul(x, t)", ""),
    "transpose_with_two_users": (
        "t = Transpose<perm = [0, 1, 3, 2]>(x) z = Relu(t) a = MatMul(x, t) y = Add(a, z)",
        "",
    ),
    "pad_reflect": ('p = Pad<mode = "reflect">(x, pads) y = Conv(p, w)', CONV + ", int64[8] pads = {0,0,1,1,0,0,1,1}"),
    "pad_channels": ("p = Pad(x, pads) y = Conv(p, w)", CONV + ", int64[8] pads = {0,1,1,1,0,0,1,1}"),
    "pad_with_one": (
        "p = Pad(x, pads, one) y = Conv(p, w)",
        CONV + ", int64[8] pads = {0,0,1,1,0,0,1,1}, float one = {1}",
    ),
    "pad_before_auto_pad": (
        'p = Pad(x, pads) y = Conv<auto_pad = "SAME_UPPER">(p, w)',
        CONV + ", int64[8] pads = {0,0,1,1,0,0,1,1}",
    ),
    "dropout_in_training": ("d = Dropout(x, half, yes) y = Relu(d)", "float half = {0.5}, bool yes = {1}"),
    "dropout_mask_used": ("d, mask = Dropout(x) c = Cast<to = 1>(mask) y = Add(d, c)", ""),
    "identity_from_input_to_output": ("y = Identity(x)", ""),
    "operator_of_another_domain": ("c = my.Conv(x, w) y = Relu(c)", CONV),
}


@pytest.mark.parametrize("case", MISSED)
def test_near_misses(case):
    nodes, constants = MISSED[case]
    inputs = "float[1,2,4,4] x" + (", float[1,2,4,4] x2" if "x2" in nodes else "")
    assert patterns(model_of(nodes, constants, inputs=inputs)) == {}


def test_a_value_that_is_a_graph_output_is_not_fused_away():
    model = model_of(BN[0] + " y = Relu(b)", BN[1], outputs="float[1,2,4,4] y, float[1,2,4,4] b")
    assert patterns(model) == {"Conv+BatchNormalization": 1}
    model = model_of(BN[0] + " y = Relu(b)", BN[1], outputs="float[1,2,4,4] y, float[1,2,4,4] c")
    assert patterns(model) == {}


def test_an_initializer_that_a_caller_can_override_is_no_constant():
    model = model_of(
        BN[0].replace("b =", "y ="), BN[1], inputs="float[1,2,4,4] x, float[2] s", outputs="float[1,2,4,4] y"
    )
    assert patterns(model) == {}


def test_a_use_in_a_subgraph_counts_as_a_use():
    nodes = """c = Conv(x, w)  r = Relu(c)
    i = If (yes) <then_branch = g1 () => (float[1,2,4,4] a) { a = Neg(c) },
                  else_branch = g2 () => (float[1,2,4,4] a) { a = Abs(x) }>
    y = Add(r, i)"""
    model = model_of(nodes, CONV, inputs="float[1,2,4,4] x, bool yes")
    assert patterns(model) == {}


def test_subgraphs_are_searched_and_named():
    nodes = """y = If (yes) <then_branch = g1 () => (float[1,2,4,4] a) { c = Conv(x, w) a = Relu(c) },
                  else_branch = g2 () => (float[1,2,4,4] a) { a = Abs(x) }>"""
    (match,) = find_patterns(model_of(nodes, CONV, inputs="float[1,2,4,4] x, bool yes"))
    assert (match.pattern, match.graph, match.nodes) == ("Conv+Relu", "If_0/then_branch", ("Conv_0", "Relu_1"))


def test_labels_are_names_or_places():
    model = model_of("c = Conv(x, w) y = Relu(c)", CONV)
    model.ir.graph[1].name = "act"
    (match,) = find_patterns(model)
    assert match.nodes == ("Conv_0", "act")
    assert match.fused_by == "ConvActivationFusion, ORT_ENABLE_EXTENDED (expected, not measured)"


def test_matches_are_in_the_order_of_the_graph_and_disjoint():
    model = model_of("c = Conv(x, w) r = Relu(c) d = Conv(r, w) y = Relu(d)", CONV)
    first, second = find_patterns(model)
    assert first.nodes == ("Conv_0", "Relu_1")
    assert second.nodes == ("Conv_2", "Relu_3")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_constants_rounded_to_another_dtype_still_count(dtype):
    model = model_of("d = Div(x, root) e = Erf(d) a = Add(e, one) p = Mul(x, a) y = Mul(p, half)", GELU_CONSTANTS)
    proto = model.to_proto()
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name))
    assert patterns(Model.from_proto(proto)) == {"GELU": 1}


QDQ = "float s = {0.1}, int8 z = {0}, int8[2,2,1,1] wq = {1, 2, 3, 4}"


def test_quantised_operators():
    nodes = """xq = QuantizeLinear(x, s, z) xd = DequantizeLinear(xq, s, z) wd = DequantizeLinear(wq, s, z)
    c = Conv(xd, wd) r = Relu(c) q = QuantizeLinear(r, s, z) y = DequantizeLinear(q, s, z)"""
    (match,) = find_patterns(model_of(nodes, QDQ))
    assert match.pattern == "DequantizeLinear+Conv+Relu+QuantizeLinear"
    assert match.nodes == ("DequantizeLinear_1", "DequantizeLinear_2", "Conv_3", "Relu_4", "QuantizeLinear_5")


def test_a_dequantized_value_may_feed_two_operators():
    nodes = """xq = QuantizeLinear(x, s, z) xd = DequantizeLinear(xq, s, z)
    a = Relu(xd) aq = QuantizeLinear(a, s, z) b = Neg(xd) bq = QuantizeLinear(b, s, z)
    ad = DequantizeLinear(aq, s, z) bd = DequantizeLinear(bq, s, z) y = Add(ad, bd)"""
    assert patterns(model_of(nodes, QDQ)) == {
        "DequantizeLinear+Relu+QuantizeLinear": 1,
        "DequantizeLinear+Neg+QuantizeLinear": 1,
    }


def test_an_operator_with_a_float_input_is_not_quantised():
    nodes = (
        """xq = QuantizeLinear(x, s, z) xd = DequantizeLinear(xq, s, z) a = Add(xd, x) y = QuantizeLinear(a, s, z)"""
    )
    assert patterns(model_of(nodes, QDQ, outputs="int8[1,2,4,4] y")) == {}


def test_long_chains_stay_fast_and_shallow():
    chain = "t0 = Transpose(x) " + " ".join(f"t{i} = Transpose(t{i - 1})" for i in range(1, 3000)) + " y = Relu(t2999)"
    found = find_patterns(model_of(chain))
    assert {match.pattern for match in found} == {"Transpose+Transpose"}
    assert sum(len(match.nodes) for match in found) >= 2990
    adds = "s0 = MatMul(x, x) " + " ".join(f"s{i} = Add(s{i - 1}, s{i - 1})" for i in range(1, 200))
    assert find_patterns(model_of(adds + " p = Softmax(s199) y = MatMul(p, x)")) == ()


NCHWC = """c = com.microsoft.nchwc.Conv(x, w) o = com.microsoft.nchwc.ReorderOutput(c) y = Mul(o, a)"""


def test_a_convolution_in_the_cpu_s_layout_is_still_one():
    constants = CONV + ", float[1,2,1,1] a = {1, 2}"
    assert patterns(model_of(NCHWC, constants)) == {"Conv+Mul": 1}
    fused = NCHWC.replace("Conv(", 'Conv<activation = "Relu">(')
    assert patterns(model_of(fused, constants)) == {}
