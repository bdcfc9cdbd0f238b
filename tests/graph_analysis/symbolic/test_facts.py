"""What is known of values: shapes with symbols, dtypes, contents, constants."""

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from onnxsmith.graph_analysis.symbolic import Facts, dim_max, make_symbol, mul

BATCH, SEQ, N, M = (make_symbol(name) for name in ("batch", "seq", "n", "m"))


def facts_of(text: str) -> tuple[Facts, dict[str, ir.Value]]:
    """The facts of a model given as ONNX text, and its values by name."""
    model = ir.from_proto(onnx.parser.parse_model(text))
    values: dict[str, ir.Value] = {}
    for graph in [model.graph, *model.graph.subgraphs()]:
        found = [*graph.inputs, *graph.initializers.values(), *(out for node in graph for out in node.outputs)]
        values.update({value.name: value for value in found})
    return Facts(model), values


def model(body: str, inputs: str = "float[batch, seq, 768] x", opset: int = 18) -> str:
    return f'<ir_version: 9, opset_import: ["" : {opset}]> g ({inputs}) => (float[a] y) {{ {body} }}'


def shape_of(body: str, inputs: str = "float[batch, seq, 768] x", opset: int = 18):
    facts, values = facts_of(model(body, inputs, opset))
    return facts.shape(values["y"])


SPLIT_HEADS = """
    s = Shape(x)
    zero = Constant<value_int = 0>()
    b = Gather(s, zero)
    one = Constant<value_ints = [1]>()
    l = Gather<axis = 0>(s, one)
    axes = Constant<value_ints = [0]>()
    b1 = Unsqueeze(b, axes)
    heads = Constant<value_ints = [12]>()
    rest = Constant<value_ints = [-1]>()
    target = Concat<axis = 0>(b1, l, heads, rest)
    r = Reshape(x, target)
    y = Transpose<perm = [0, 2, 1, 3]>(r)
"""


def test_shape_arithmetic_is_followed_through_a_reshape():
    facts, values = facts_of(model(SPLIT_HEADS))
    assert facts.data(values["b"]) == BATCH
    assert facts.data(values["target"]) == (BATCH, SEQ, 12, -1)
    assert facts.shape(values["r"]) == (BATCH, SEQ, 12, 64)
    assert facts.shape(values["y"]) == (BATCH, 12, SEQ, 64)
    assert facts.static_shape(values["y"]) is None
    assert facts.static_shape(values["target"]) == (4,)
    assert facts.dtype(values["y"]) == ir.DataType.FLOAT
    assert facts.dtype(values["target"]) == ir.DataType.INT64
    assert facts.rank(values["y"]) == 4


def test_a_size_that_may_be_0_is_told_only_where_a_reshape_keeps_it():
    # with seq = 0 the target's 0 means the input's size there, which is 8
    y = shape_of(
        """s = Shape<start = 2, end = 3>(x)  rest = Constant<value_ints = [-1]>()
        last = Constant<value_ints = [64]>()  target = Concat<axis = 0>(rest, s, last)  y = Reshape(x, target)""",
        "float[batch, 8, seq, 64] x",
    )
    assert y is not None
    assert y[2] == 64
    assert y[1] != SEQ
    allowed = shape_of(
        """s = Shape<start = 2, end = 3>(x)  rest = Constant<value_ints = [-1]>()
        last = Constant<value_ints = [64]>()  target = Concat<axis = 0>(rest, s, last)
        y = Reshape<allowzero = 1>(x, target)""",
        "float[batch, 8, seq, 64] x",
    )
    assert allowed == (mul(BATCH, 8), SEQ, 64)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("t = Constant<value_ints = [0, -1]>() y = Reshape(x, t)", (BATCH, SEQ * 768)),
        ("t = Constant<value_ints = [-1, 12, 64]>() y = Reshape(x, t)", (BATCH * SEQ, 12, 64)),
        ("y = Flatten<axis = 2>(x)", (BATCH * SEQ, 768)),
        ("y = Concat<axis = 1>(x, x)", (BATCH, SEQ * 2, 768)),
        ("y = Concat<axis = -1>(x, x, x)", (BATCH, SEQ, 2304)),
        ("c = Constant<value_ints = [1, 2]>() y = ReduceMean(x, c)", (BATCH, 1, 1)),
        ("c = Constant<value_ints = [-1]>() y = ReduceSum<keepdims = 0>(x, c)", (BATCH, SEQ)),
        ("y = ArgMax<axis = 2, keepdims = 0>(x)", (BATCH, SEQ)),
        ("a = Constant<value_ints = [0, -1]>() y = Unsqueeze(x, a)", (1, BATCH, SEQ, 768, 1)),
        ("y = MatMul(x, x)", (BATCH, SEQ, 768)),
        ("p = Constant<value_ints = [0, 1, 0, 0, 2, 0]>() y = Pad(x, p)", (BATCH, SEQ + 3, 768)),
        ("y = Softmax(x)", (BATCH, SEQ, 768)),
        ("s = Shape(x) y = Cast<to = 1>(s)", (3,)),
        ("s = Shape(x) y = ConstantOfShape(s)", (BATCH, SEQ, 768)),
        ("o = Constant<value_ints = [4, 1, 1, 1]>() y = Expand(x, o)", (4, BATCH, SEQ, 768)),
        ("r = Constant<value_ints = [1, 2, 1]>() y = Tile(x, r)", (BATCH, SEQ * 2, 768)),
        ("i = Constant<value_ints = [0, 5]>() y = Gather<axis = 1>(x, i)", (BATCH, 2, 768)),
        ("k = Constant<value_ints = [5]>() y = TopK<axis = 2>(x, k)", None),
        ('y = Einsum<equation = "bsd,btd->bst">(x, x)', (BATCH, SEQ, SEQ)),
        ("z = Constant<value_float = 1.0>() y = Add(z, x)", (BATCH, SEQ, 768)),
    ],
)
def test_rules_with_symbols(body, expected):
    if expected is None:
        body, expected = body.replace("y = TopK", "y, i = TopK"), (BATCH, SEQ, 5)
    assert shape_of(body) == expected


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (0, 2**63 - 1, 1, SEQ),
        (1, 2**63 - 1, 1, dim_max(SEQ - 1, 0)),
        (0, -1, 1, dim_max(SEQ - 1, 0)),
        (-(2**63), 2**63 - 1, 1, SEQ),
        (-1, -(2**63), -1, SEQ),
    ],
)
def test_slices_of_a_symbol(start, end, step, expected):
    constants = "".join(
        f"{name} = Constant<value = int64[1] {{{number}}}>() "
        for name, number in (("s", start), ("e", end), ("a", 1), ("t", step))
    )
    assert shape_of(constants + "y = Slice(x, s, e, a, t)") == (BATCH, expected, 768)


def test_attributes_and_inputs_by_opset():
    assert shape_of("y = Squeeze<axes = [1]>(x)", "float[n, 1, m] x", opset=11) == (N, M)
    assert shape_of("y = Slice<axes = [1], starts = [1], ends = [3]>(x)", "float[n, 7] x", opset=9) == (N, 2)
    assert shape_of("y, z = Split<axis = 1, split = [3, 4]>(x)", "float[n, 7] x", opset=11) == (N, 3)
    assert shape_of("y, z = Split<axis = 1, num_outputs = 2>(x)", "float[n, 7] x", opset=18) == (N, 4)
    assert shape_of("y = ReduceMax<axes = [1], keepdims = 0>(x)", "float[n, 7] x", opset=13) == (N,)
    assert shape_of("y = Pad<pads = [0, 1, 0, 1]>(x)", "float[n, 7] x", opset=9) == (N, 9)


def test_broadcasting():
    inputs = "float[n, 1, 5] a, float[m, 1] b, float[n, 1, 1] c"
    assert shape_of("y = Add(a, b)", inputs) == (N, M, 5)
    assert shape_of("y = Where(d, a, c)", inputs + ", bool[1] d") == (N, 1, 5)
    unknown = shape_of("y = Add(a, b)", "float[n] a, float[m] b")
    assert unknown is not None
    assert unknown[0] not in (N, M)
    assert shape_of("y = Add(a, b)", "float[n] a, float[7] b") == (7,)


def test_windows():
    image = "float[n, 3, 224, w] x, float[64, 3, 7, 7] k"
    width = make_symbol("w")
    y = shape_of("y = Conv<strides = [2, 2], pads = [3, 3, 3, 3]>(x, k)", image)
    assert y == (N, 64, 112, (width - 1) // 2 + 1)
    assert shape_of('y = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, k)', image) == (
        N,
        64,
        112,
        (width + 1) // 2,
    )
    assert shape_of("y = GlobalAveragePool(x)", image) == (N, 3, 1, 1)
    assert shape_of(
        "y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(x)", "float[1, 3, 8, 9] x"
    ) == (
        1,
        3,
        4,
        4,
    )
    pooled = "y = AveragePool<kernel_shape = [64, 64], strides = [64, 64], ceil_mode = 1>(x)"
    assert shape_of(pooled, "float[1, 3, 8, 9] x") == (1, 3, 1, 1)
    assert shape_of("y = ConvTranspose<strides = [2, 2]>(x, k)", "float[n, 64, 5, w] x, float[64, 8, 2, 2] k") == (
        N,
        8,
        10,
        width * 2,
    )


def test_contents_of_whole_numbers_only_where_they_are_known():
    facts, values = facts_of(
        model(
            """s = Shape(x) minus = Constant<value_ints = [-1]>() e = Equal(s, minus)
            o = ConstantOfShape<value = int64[1] {1}>(r) r = Shape(s)
            w = Where(e, s, s) two = Constant<value_int = 2>() d = Div(s, two) m = Mul(d, two)
            p = ReduceProd<keepdims = 0>(s) g = Greater(s, minus)
            f = Cast<to = 1>(s) q = Constant<value_floats = [0.5]>() h = Mul(f, q) i = Floor(h) y = Cast<to = 7>(i)"""
        )
    )
    assert facts.data(values["s"]) == (BATCH, SEQ, 768)
    assert facts.data(values["e"]) == (0, 0, 0)
    assert facts.data(values["g"]) == (1, 1, 1)
    assert facts.data(values["w"]) == (BATCH, SEQ, 768)
    assert facts.data(values["d"]) == (BATCH // 2, SEQ // 2, 384)
    assert facts.data(values["p"]) == BATCH * SEQ * 768
    assert facts.data(values["y"]) is None, "sizes that are not known do not go through floats"
    assert facts.data(values["x"]) is None


def test_whole_numbers_that_do_not_fit_are_not_told():
    facts, values = facts_of(
        model("a = Constant<value = int32[1] {2147483647}>() b = Add(a, a) y = Sub(a, a)", "float[n] x")
    )
    assert facts.data(values["a"]) == (2147483647,)
    assert facts.data(values["b"]) is None
    assert facts.data(values["y"]) == (0,)


def test_division_is_towards_zero():
    facts, values = facts_of(
        model("a = Constant<value_ints = [-7, 7]>() b = Constant<value_ints = [2, -2]>() y = Div(a, b)", "float[n] x")
    )
    assert facts.data(values["y"]) == (-3, -3)


def test_constants_in_all_their_forms():
    facts, values = facts_of(
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[n] x, float[2] over) => (float[n] y) <float[2] over = {1, 2}, float[2] w = {3, 4}> {
            a = Constant<value = float[1] {5}>() b = Constant<value_int = 6>() c = Constant<value_floats = [7.0]>()
            d = Constant<value_string = "eight">() e = Constant<value_strings = ["a", "b"]>() y = Add(x, a) }"""
    )
    assert facts.array(values["w"]).tolist() == [3, 4]
    assert facts.array(values["a"]).tolist() == [5]
    assert facts.array(values["b"]) == 6
    assert facts.array(values["b"]).dtype == np.int64
    assert facts.array(values["c"]).dtype == np.float32
    assert facts.tensor(values["d"]).dtype == ir.DataType.STRING
    assert facts.shape(values["d"]) == ()
    assert facts.shape(values["e"]) == (2,)
    assert not facts.is_constant(values["over"])
    assert facts.array(values["over"]) is None
    assert facts.shape(values["over"]) == (2,)
    assert not facts.is_constant(values["y"])


def test_what_a_model_declares_of_inner_values_is_not_believed():
    loaded = onnx.parser.parse_model(model("z = Relu(x) y = Relu(z)"))
    loaded.graph.value_info.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.INT64, [1, 2]))
    read = ir.from_proto(loaded)
    facts = Facts(read)
    (first, _) = read.graph
    assert facts.shape(first.outputs[0]) == (BATCH, SEQ, 768)
    assert facts.dtype(first.outputs[0]) == ir.DataType.FLOAT


def test_custom_operators_are_as_declared():
    loaded = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18, "my" : 1]> g (float[n] x) => (float[a] y) { z = my.Op(x) y = Relu(z) }'
    )
    loaded.graph.value_info.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["n", 3]))
    read = ir.from_proto(loaded)
    facts = Facts(read)
    shape = facts.shape(read.graph.outputs[0])
    assert shape is not None
    assert shape[1] == 3
    assert shape[0] != N, "a name that an inner value has need not be the input's size"


def test_bodies():
    facts, values = facts_of(
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[n, 3] x, bool c, int64 trips) => (float[a] y) {
            f = If (c) <
                then_branch = t () => (float[p, q] p0) { p0 = Relu(x) },
                else_branch = e () => (float[p, q] q0) { w = Constant<value = float[1, 3] {1, 2, 3}>() q0 = Add(w, w) }
            >
            l, scan = Loop (trips, c, x) <
                body = b (int64 i, bool go, float[d, e] carried) => (bool stay, float[d, e] next, float[d, e] out) {
                    stay = Identity(go) next = Identity(carried) out = Relu(x) }
            >
            y = Relu(f)
        }"""
    )
    shape = facts.shape(values["f"])
    assert shape is not None
    assert shape[1] == 3
    assert shape[0] not in (1, N)
    assert facts.shape(values["l"]) is None
    assert facts.dtype(values["l"]) == ir.DataType.FLOAT
    stacked = facts.shape(values["scan"])
    assert stacked is not None
    assert len(stacked) == 3
    assert stacked[2] == 3
    assert facts.shape(values["p0"]) == (N, 3)
    assert facts.shape(values["i"]) == ()


def test_new_values_are_inferred_when_asked_for_and_forgotten_on_request():
    read = ir.from_proto(onnx.parser.parse_model(model("y = Relu(x)")))
    facts = Facts(read)
    (relu,) = read.graph
    assert facts.shape(relu.outputs[0]) == (BATCH, SEQ, 768)
    added = ir.Node("", "Transpose", [relu.outputs[0]], [ir.AttrInt64s("perm", [2, 0, 1])])
    read.graph.append(added)
    assert facts.shape(added.outputs[0]) == (768, BATCH, SEQ)
    added.attributes["perm"] = ir.AttrInt64s("perm", [1, 0, 2])
    facts.forget_values(added.outputs)
    assert facts.shape(added.outputs[0]) == (SEQ, BATCH, 768)
    read.graph.inputs[0].shape = ir.Shape([1, 2, 3])
    facts.forget()
    assert facts.shape(added.outputs[0]) == (2, 1, 3)


@pytest.mark.parametrize(
    "body",
    [
        "y = Transpose<perm = [0, 0, 1]>(x)",
        'y = Transpose<perm = "no">(x)',
        "y = MatMul(x)",
        "y = Concat<axis = 9>(x, x)",
        "a = Constant<value_ints = [0, 0]>() y = Unsqueeze(x, a)",
        "y = Conv<strides = [0, 0]>(x, x)",
        "y = Reshape(x, x)",
        "t = Constant<value_ints = [-5]>() y = Reshape(x, t)",
        "y = Flatten<axis = 7>(x)",
        "y = NoSuchOperator(x)",
        "y = Add(x, z)",
    ],
)
def test_what_makes_no_sense_is_not_known(body):
    assert shape_of(body) is None


def test_a_cycle_is_not_known():
    read = ir.from_proto(onnx.parser.parse_model(model("z = Relu(x) y = Relu(z)")))
    first, second = read.graph
    first.replace_input_with(0, second.outputs[0])
    assert Facts(read).shape(second.outputs[0]) is None


def test_a_long_chain():
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["batch", 4]))
    value, nodes = x, []
    for _ in range(20_000):
        nodes.append(ir.Node("", "Add", [value, x]))
        value = nodes[-1].outputs[0]
    graph = ir.Graph([x], [value], nodes=nodes, opset_imports={"": 18})
    assert Facts(ir.Model(graph, ir_version=9)).shape(value) == (BATCH, 4)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("r = com.microsoft.QLinearAdd(x, s, p, z, s, p, s, p)", (N, 8, 4, M)),
        ("r = com.microsoft.QLinearSigmoid(x, s, p, s, p)", (N, 8, 4, M)),
        ("r = com.microsoft.QLinearConcat<axis = 1>(s, p, x, s, p, x, s, p)", (N, 16, 4, M)),
        ("r = com.microsoft.QLinearGlobalAveragePool(x, s, p, s, p)", (N, 8, 1, 1)),
    ],
)
def test_quantised_operators_of_onnxruntime(body, shape):
    text = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (int8[n, 8, 4, m] x, int8[8, 1, 1] z, float s, int8 p) => (int8[a, b, c, d] y) {{ {body} y = Identity(r) }}"""
    facts, values = facts_of(text)
    assert facts.shape(values["r"]) == shape
    assert facts.dtype(values["r"]) == ir.DataType.INT8


def test_labels_of_a_classifier_have_a_type():
    text = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
        g (float[n, 2] x) => (int64[n] label, float[n, 2] p) {
        l, q = ai.onnx.ml.LinearClassifier<coefficients = [1.0, 2.0, 3.0, 4.0], classlabels_ints = [0, 1]>(x)
        label = Identity(l) p = Identity(q) }"""
    facts, values = facts_of(text)
    assert (facts.dtype(values["l"]), facts.dtype(values["q"])) == (ir.DataType.INT64, ir.DataType.FLOAT)
