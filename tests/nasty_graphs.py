"""Small graphs that break optimisers, by kind: each is made for several operators, dtypes, opsets or places."""

# ruff: noqa: E501 - a graph reads best on one line
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from graph_checks import session

Make = Callable[[], onnx.ModelProto]

CASES: dict[str, Make] = {}


def _text(name: str, graph: str, *, opset: int = 17, ir: int = 8, domains: str = "") -> None:
    header = f'<ir_version: {ir}, opset_import: ["": {opset}{domains}]>\n'
    CASES[name] = lambda: _typed(onnx.parser.parse_model(header + graph))


def _typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Gives outputs that are only named their types; shapes are left open."""
    opened = {value.name: value.type for value in session(model.SerializeToString()).get_outputs()}
    for value in model.graph.output:
        if not value.type.WhichOneof("value"):
            kind = opened[value.name].removeprefix("tensor(").removesuffix(")").upper()
            value.type.tensor_type.elem_type = TensorProto.DataType.Value(kind)
    return model


def _info(name: str, kind: int, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: dict[str, Any] | None = None,
    *,
    opset: int = 17,
    ir: int = 8,
    functions: tuple[onnx.FunctionProto, ...] = (),
    domains: tuple[str, ...] = (),
) -> onnx.ModelProto:
    tensors = [
        value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value), name)
        for name, value in (constants or {}).items()
    ]
    return helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, tensors),
        opset_imports=[helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)],
        ir_version=ir,
        functions=list(functions),
    )


# Random operators stay, and are told apart.
RANDOM: dict[str, list[str]] = {}
for _op, _body, _kinds in (
    ("uniform", "a = RandomUniform <shape = [3]> () b = RandomUniform <shape = [3]> ()", ["RandomUniform"] * 2),
    ("uniform_like", "a = RandomUniformLike (x) b = RandomUniformLike (x)", ["RandomUniformLike"] * 2),
    ("bernoulli", "p = Constant <value_floats = [0.5, 0.5, 0.5]> () a = Bernoulli (p) b = Bernoulli (p)", ["Bernoulli"] * 2),
    (
        "multinomial",
        "p = Constant <value = float[1, 2] {0, 0}> () s = Multinomial <dtype = 7, sample_size = 3> (p) "
        "q = Cast <to = 1> (s) k = Constant <value_ints = [3]> () a = Reshape (q, k) b = Neg (a)",
        ["Multinomial"],
    ),
    (
        "dropout",
        "r = Constant <value_float = 0.5> () t = Constant <value = bool {1}> () o = Constant <value_floats = [1.0, 2.0, 3.0]> () "
        "a = Dropout (o, r, t) b = Dropout (o, r, t)",
        ["Dropout"] * 2,
    ),
):  # fmt: skip
    _text(f"random_{_op}", f"g (float[3] x) => (float[3] y) {{ {_body} c = Sub (a, b) y = Add (c, x) }}")
    RANDOM[f"random_{_op}"] = _kinds

# A neutral constant that makes the result larger, or of a rank of its own.
for _op, _dtype, _neutral in (
    ("Add", "int64", "0, 0"), ("Sub", "float", "0, 0"), ("Mul", "double", "1, 1"), ("Div", "int32", "1, 1"),
    ("Pow", "float", "1, 1"), ("Or", "bool", "0, 0"), ("And", "bool", "1, 1"), ("Xor", "bool", "0, 0"),
    ("BitwiseOr", "int32", "0, 0"), ("BitwiseAnd", "int32", "-1, -1"),
):  # fmt: skip
    for _shape, _place in (("2, 1", "x, k"), ("2, 1", "k, x")):
        if _op in ("Sub", "Div", "Pow") and _place == "k, x":
            continue
        _text(
            f"neutral_{_op}_{_place[0]}_first",
            f"g ({_dtype}[n] x) => ({_dtype}[2, n] y) <{_dtype}[{_shape}] k = {{{_neutral}}}> {{ y = {_op} ({_place}) }}",
            opset=18,
        )

# An initializer that a caller can override, in every role.
for _name, _type, _held, _body in (
    ("weight", "float[3]", "1, 2, 3", "a = Mul (w, w) y = Add (x, a)"),
    ("zero", "float[3]", "0, 0, 0", "y = Add (x, w)"),
    ("twin", "float[3]", "1, 2, 3", "c = Constant <value_floats = [1.0, 2.0, 3.0]> () a = Mul (x, w) b = Mul (x, c) y = Sub (a, b)"),
    ("condition", "bool", "1", "n = Neg (x) y = Where (w, x, n)"),
    ("shape", "int64[2]", "3, 1", "y = Reshape (x, w)"),
    ("axes", "int64[1]", "0", "r = ReduceSum <keepdims = 0> (x, w) y = Add (x, r)"),
    ("index", "int64", "1", "y = Gather (x, w)"),
    ("repeats", "int64[1]", "1", "y = Tile (x, w)"),
    ("sizes", "int64[1]", "3", "y = Expand (x, w)"),
    ("pads", "int64[2]", "0, 0", "y = Pad (x, w)"),
    ("bound", "float", "0", "a = Clip (x, w) y = Relu (a)"),
    ("end", "int64[1]", "3", "s = Constant <value_ints = [0]> () y = Slice (x, s, w)"),
    ("scale", "float", "0.5", "q = QuantizeLinear (x, w) y = DequantizeLinear (q, w)"),
    ("power", "float", "1", "y = Pow (x, w)"),
    ("ratio", "float", "0.5", "y = Dropout (x, w)"),
    ("if", "bool", "1", "y = If (w) <then_branch = t () => (float[3] a) { a = Neg (x) }, else_branch = e () => (float[3] b) { b = Exp (x) }>"),
    ("output", "float[3]", "1, 2, 3", "a = Identity (w) y = Mul (x, a)"),
):  # fmt: skip
    _text(f"overridable_{_name}", f"g (float[3] x, {_type} w) => (y) <{_type} w = {{{_held}}}> {{ {_body} }}")

# Layout algebra in every dtype.
for _dtype in ("float16", "bfloat16", "double", "int8", "uint8", "int32", "uint64", "bool", "string"):
    _text(
        f"layout_{_dtype}",
        f"""g ({_dtype}[a, 2, 3] x) => (y, z)
        {{ p = Transpose <perm = [0, 2, 1]> (x) q = Transpose <perm = [2, 0, 1]> (p) s = Shape (q) r = Reshape (q, s)
        i = Identity (r) y = Transpose <perm = [1, 2, 0]> (i) k = Constant <value_ints = [0, -1]> () z = Reshape (x, k) }}""",
    )
for _dtype, _number in (("float16", 10), ("double", 11), ("int32", 6), ("int8", 3), ("uint8", 2), ("bool", 9)):
    _text(
        f"cast_there_and_back_{_dtype}",
        f"g (float[n] x) => (float[n] y) {{ a = Cast <to = {_number}> (x) y = Cast <to = 1> (a) }}",
    )
    _text(
        f"cast_of_a_cast_{_dtype}",
        f"g (float[n] x) => (int64[n] y) {{ a = Cast <to = {_number}> (x) y = Cast <to = 7> (a) }}",
    )


def _quantised(kind: int, *, blocked: bool, opset: int, transposed: bool) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    low, high = (-8, 8) if kind in (TensorProto.INT4,) else (0, 16) if kind == TensorProto.UINT4 else (0, 100)
    if kind == TensorProto.FLOAT8E4M3FN:
        weight = helper.make_tensor("q", kind, [32, 32], rng.standard_normal(1024).astype(np.float32))
    else:
        weight = helper.make_tensor("q", kind, [32, 32], rng.integers(low, high, 1024).tolist())
    scale = np.full((2, 32) if blocked else 32, 0.01, np.float32)
    attributes = {"axis": 0, "block_size": 16} if blocked else {"axis": 1}
    nodes = [helper.make_node("DequantizeLinear", ["q", "s"], ["d"], **attributes)]
    nodes += (
        [helper.make_node("Transpose", ["d"], ["w"])] if transposed else [helper.make_node("Identity", ["d"], ["w"])]
    )
    nodes += [helper.make_node("MatMul", ["x", "w"], ["y"])]
    inputs, outputs = [_info("x", TensorProto.FLOAT, ["n", 32])], [_info("y", TensorProto.FLOAT, ["n", 32])]
    return _model(nodes, inputs, outputs, {"q": weight, "s": scale}, opset=opset, ir=10)


for _kind in ("INT8", "UINT8", "INT4", "UINT4", "FLOAT8E4M3FN", "INT16"):
    for _blocked, _transposed in ((False, False), (True, True), (False, True)):
        if _kind == "FLOAT8E4M3FN" and _blocked:
            continue
        CASES[f"quantised_{_kind}_{'blocks' if _blocked else 'axis'}{'_transposed' if _transposed else ''}"] = (
            lambda kind=_kind, blocked=_blocked, transposed=_transposed: _quantised(
                getattr(TensorProto, kind), blocked=blocked, opset=21, transposed=transposed
            )
        )

# What would grow.
for _name, _body in (
    ("constant_of_shape", "c = ConstantOfShape <value = float[1] {2}> (k)"),
    ("expand", "o = Constant <value_float = 2.0> () c = Expand (o, k)"),
    ("tile", "o = Constant <value = float[1, 1] {2}> () c = Tile (o, k)"),
    ("range", "a = Constant <value_float = 0.0> () b = Constant <value_float = 90000.0> () d = Constant <value_float = 1.0> () "
     "f = Range (a, b, d) v = Constant <value_ints = [300, 300]> () c = Reshape (f, v)"),
    ("pad", "o = Constant <value = float[1, 1] {2}> () p = Constant <value_ints = [0, 0, 299, 299]> () c = Pad (o, p)"),
    ("one_hot", "i = Constant <value_ints = [0, 1]> () n = Constant <value_int = 60000> () "
     "v = Constant <value_floats = [0.0, 1.0]> () h = OneHot (i, n, v) m = ReduceMean (h) c = Expand (m, k)"),
    ("eye", "z = ConstantOfShape (k) c = EyeLike <dtype = 1> (z)"),
):  # fmt: skip
    _text(f"growth_{_name}", f"g (float[1] x) => (y) <int64[2] k = {{300, 300}}> {{ {_body} y = Add (x, c) }}")

# Slices that clamp, go backwards, take nothing; reshapes of nothing.
_END = 9223372036854775807
for _number, (_start, _end, _step) in enumerate((
    (-_END, -_END, -2), (_END, _END, -1), (-1, -_END, -1), (-1, 2147483647, -1), (5, -9, -2), (0, _END, 1),
    (2, 1, 1), (-3, -1, 1), (0, 0, -1), (-9, 9, 3),
)):  # fmt: skip
    _text(
        f"slice_{_number}",
        f"""g (float[4] x, float[n] z) => (y, w, v)
        <int64[1] a = {{{_start}}}, int64[1] b = {{{_end}}}, int64[1] c = {{0}}, int64[1] d = {{{_step}}}, int64[1] o = {{1}}>
        {{ p = Slice (x, a, b, c, d) y = Slice (p, c, b, c, o) w = Slice (z, a, b, c, d) e = Shape (w)
        k = Constant <value_ints = [1, 2, 3, 4]> () l = Slice (k, a, b, c, d) v = Concat <axis = 0> (e, l) }}""",
    )
for _name, _shape, _zero in (("copy", "0, -1", 0), ("none", "0, 0", 0), ("allow", "3, 0", 1), ("minus", "-1, 2, 3", 0)):
    _text(
        f"reshape_{_name}",
        f"g (float[a, 2, 3] x, float[0, 3] z) => (y, w) <int64[2] t = {{3, 0}}, int64[{_shape.count(',') + 1}] s = {{{_shape}}}>"
        f"{{ n = Neg (x) {'y = Abs (n)' if _zero else 'y = Reshape (n, s)'} w = Reshape <allowzero = 1> (z, t) }}",
    )

# Every opset in use.
for _opset in range(7, 25):
    _ir = 4 if _opset < 10 else 8 if _opset < 21 else 10
    _axes = "<axes = [0]> (x)" if _opset < 13 else "(x, c)"
    _text(
        f"opset_{_opset}",
        f"""g (float[1, 2, 4, 4] x) => (y, z) <float[2] s = {{1, 2}}, float[2] b = {{0.5, 0}}, float[2] m = {{0, 1}},
        float[2] v = {{1, 2}}, float[2, 2, 1, 1] w = {{1, 2, 3, 4}}, int64[1] c = {{0}}>
        {{ p = Conv (x, w) n = BatchNormalization (p, s, b, m, v) q = Softmax (n) d = Dropout (q) r = Relu (d)
        u = Squeeze {_axes} e = Unsqueeze {_axes.replace("(x", "(u")} t = Transpose <perm = [0, 3, 1, 2]> (e)
        y = Transpose <perm = [0, 2, 3, 1]> (t) f = Flatten (r) z = LogSoftmax (f) }}""",
        opset=_opset,
        ir=_ir,
    )

# Graphs in graphs.
for _name, _then in (
    ("outer", "a = Mul (x, w)"),
    ("itself", "a = Identity (x)"),
    ("constant", "a = Constant <value_floats = [1.0, 2.0, 3.0]> ()"),
    ("nested", "q = Constant <value = bool {1}> () a = If (q) <then_branch = t () => (float[3] i) { i = Add (x, w) }, else_branch = f () => (float[3] j) { j = Identity (w) }>"),
    ("shadow", "v = Neg (x) a = Add (v, v)"),
):  # fmt: skip
    for _condition in ("c", "k"):
        _text(
            f"if_{_name}_{'input' if _condition == 'c' else 'constant'}",
            f"""g (float[3] x, bool c) => (float[3] y, float[3] z) <float[3] w = {{1, 2, 3}}, bool k = {{1}}>
            {{ h = If ({_condition}) <then_branch = t () => (float[3] a) {{ {_then} }}, else_branch = e () => (float[3] b)
            {{ s = Abs (x) b = Add (s, w) }}> y = Identity (h) z = Identity (h) }}""",
        )
for _trips, _going in ((0, 1), (1, 1), (3, 1), (3, 0)):
    _text(
        f"loop_{_trips}_{_going}",
        f"""g (float[3] x) => (y, z) <int64 n = {{{_trips}}}, bool c = {{{_going}}}, float[3] w = {{1, 2, 3}}>
        {{ y, z = Loop (n, c, x) <body = b (int64 i, bool d, float[3] h) => (bool e, float[3] u, float[3] s)
        {{ e = Identity (d) k = Constant <value_float = 0.0> () o = Add (h, k) q = Mul (w, w) u = Add (o, q) s = Neg (u) }}> }}""",
    )
_text(
    "scan",
    """g (float[4, 3] x) => (y, z) <float[3] w = {1, 2, 3}>
    { o = Mul (w, w) y, z = Scan <num_scan_inputs = 1, body = b (float[3] h, float[3] e) => (float[3] u, float[3] s)
    { t = Add (h, e) u = Add (t, o) s = Identity (u) }> (w, x) }""",
)
_text(
    "loop_in_if",
    """g (float[3] x, bool c) => (y) <int64 n = {2}, bool t = {1}>
    { y = If (c) <then_branch = p () => (float[3] a) { a = Loop (n, t, x) <body = b (int64 i, bool d, float[3] h)
    => (bool e, float[3] u) { e = Identity (d) u = Add (h, x) }> }, else_branch = q () => (float[3] r) { r = Neg (x) }> }""",
)

# Functions of the model.
_FUNCTION = """
<domain: "own", opset_import: ["": 17]> Scaled <alpha: float = 2.0, axis> (a) => (b)
{ k = Constant <value_float: float = @alpha> () m = Mul (a, k) b = Softmax <axis: int = @axis> (m) }"""
for _name, _call in (("default", "axis = 0"), ("given", "alpha = 0.5, axis = -1"), ("in_branch", "axis = 0")):
    _body = f"y = own.Scaled <{_call}> (x)"
    if _name == "in_branch":
        _branches = f"then_branch = t () => (float[2, 3] a) {{ a = own.Scaled <{_call}> (x) }}"
        _body = f"y = If (c) <{_branches}, else_branch = e () => (float[2, 3] b) {{ b = Neg (x) }}>"
    _text(
        f"function_{_name}",
        f"g (float[2, 3] x, bool c) => (float[2, 3] y) {{ {_body} }} {_FUNCTION}",
        domains=', "own": 1',
    )

# Sequences and strings.
_text(
    "sequence",
    """g (float[n, 3] x) => (y, z) <int64 i = {-1}> { s = SequenceConstruct (x, x) e = SequenceAt (s, i) t = SequenceInsert (s, e)
    y = ConcatFromSequence <axis = 0> (t) z = SequenceLength (t) }""",
)
_text(
    "sequence_map",
    """g (float[n, 3] x) => (y) { s = SequenceConstruct (x, x) t = SequenceMap (s) <body = b (float[n, 3] a) => (float[n, 3] c)
    { d = Identity (a) c = Neg (d) }> y = ConcatFromSequence <axis = 0> (t) }""",
)
_text(
    "split_to_sequence",
    "g (float[4, 3] x) => (y) <int64 i = {1}, int64 k = {2}> { s = SplitToSequence <axis = 0> (x, k) y = SequenceAt (s, i) }",
)
_text(
    "strings",
    """g (string[n] x) => (y, z) <string[2] k = {"a", "b"}> { c = Concat <axis = 0> (k, k) d = Identity (c)
    y = Concat <axis = 0> (x, d) z = Shape (d) }""",
)

# Signs of zero, NaN, infinities.
for _name, _body in (
    ("divide", "a = Add (x, z) o = Constant <value_float = 1.0> () y = Div (o, a)"),
    ("where", "e = Equal (x, x) y = Where (e, x, z)"),
    ("min_max", "a = Max (x, z) y = Min (a, k)"),
    ("clip_minus_zero", "m = Neg (z) r = Relu (x) y = Clip (r, m, k)"),
    ("clip_swapped", "a = Clip (x, k, z) y = Relu (a)"),
    ("times_zero", "y = Mul (x, z)"),
    ("minus_itself", "y = Sub (x, x)"),
    ("over_itself", "y = Div (x, x)"),
    ("power_zero", "y = Pow (x, z)"),
    ("reciprocals", "a = Reciprocal (x) y = Reciprocal (a)"),
    ("root_of_square", "a = Mul (x, x) y = Sqrt (a)"),
    ("log_exp", "a = Exp (x) y = Log (a)"),
    ("equal_itself", "a = Equal (x, x) y = Cast <to = 1> (a)"),
    ("abs_neg", "a = Neg (x) y = Abs (a)"),
    ("not_less", "a = Less (x, z) b = Not (a) y = Cast <to = 1> (b)"),
    ("clip_without_bounds", "y = Clip (x)"),
):  # fmt: skip
    _text(f"special_{_name}", f"g (float[n] x) => (float[n] y) <float z = {{0}}, float k = {{6}}> {{ {_body} }}")

# Affine operators that fold into weights, and those that only look so.
for _name, _body in (
    ("shared", "c = Conv (x, w) d = Conv (n, w) p = Mul (c, s) y = Add (p, d)"),
    ("group", "v = Concat <axis = 1> (x, x) c = Conv <group = 2> (v, w) y = Mul (c, s)"),
    ("transposed", "c = ConvTranspose (x, w) t = Constant <value = float[1, 2, 1, 1] {2, 3}> () y = Mul (c, t)"),
    ("large_scale", "c = Conv (x, w) b = Constant <value = float[3, 2, 1, 1] {1, 2, 3, 4, 5, 6}> () y = Mul (c, b)"),
    ("inf", "c = Conv (x, w) i = Constant <value_float = inf> () y = Mul (c, i)"),
    ("zero", "c = Conv (x, w) i = Constant <value_float = 0.0> () y = Mul (c, i)"),
    ("reverse_sub", "c = Conv (x, w) y = Sub (s, c)"),
    ("reverse_div", "c = Conv (x, w) y = Div (s, c)"),
    ("pad_then_conv", "p = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> () q = Pad (x, p) y = Conv (q, w)"),
    ("pad_value", "p = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> () o = Constant <value_float = 1.0> () q = Pad (x, p, o) y = Conv (q, w)"),
    ("pad_auto", "p = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> () q = Pad (x, p) y = Conv <auto_pad = \"SAME_UPPER\"> (q, w)"),
):  # fmt: skip
    _constants = "float[2, 2, 1, 1] w = {1, 2, 3, 4}, float[1, 2, 1, 1] s = {0.5, 2}"
    _text(f"affine_{_name}", f"g (float[1, 2, h, 3] x) => (y) <{_constants}> {{ n = Neg (x) {_body} }}".replace("float = inf", "float = 3.4e38"))  # fmt: skip

# Declared shapes that are wrong, names that come twice, things between the lines.
for _wrong in (["a", "b"], [1], [7, 7], []):

    def _lying(wrong: list[Any] = _wrong) -> onnx.ModelProto:
        model = onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float[n, 3] x) => (y) '
            "{ a = Relu (x) s = Shape (a) k = Constant <value_ints = [-1]> () r = Reshape (a, k) y = Reshape (r, s) }"
        )
        model.graph.value_info.append(_info("r", TensorProto.FLOAT, wrong))
        return _typed(model)

    CASES[f"declared_{'_'.join(map(str, _wrong)) or 'scalar'}"] = _lying


def _sparse() -> onnx.ModelProto:
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    places = numpy_helper.from_array(np.array([0, 2]), "i")
    node = helper.make_node("Constant", [], ["w"], sparse_value=helper.make_sparse_tensor(values, places, [3]))
    nodes = [node, helper.make_node("Mul", ["w", "w"], ["k"]), helper.make_node("Add", ["x", "k"], ["y"])]
    return _model(nodes, [_info("x", TensorProto.FLOAT, [3])], [_info("y", TensorProto.FLOAT, [3])])


def _own_function_in_default_domain() -> onnx.ModelProto:
    function = helper.make_function(
        "", "Relu", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    nodes = [helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    shape = [3]
    return _model(
        nodes, [_info("x", TensorProto.FLOAT, shape)], [_info("y", TensorProto.FLOAT, shape)], functions=(function,)
    )


CASES["sparse_constant"] = _sparse
CASES["own_function_in_default_domain"] = _own_function_in_default_domain
_text(
    "training_batch_norm",
    """g (float[2, 2, 3] x) => (y, m, v) <float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] n = {0, 0}, float[2] w = {1, 1}>
    { y, m, v = BatchNormalization <training_mode = 1> (x, s, b, n, w) }""",
)
_text(
    "outputs_in_the_middle",
    "g (float[n] x) => (a, b, y) { a = Identity (x) b = Identity (a) c = Relu (b) y = Relu (c) }",
)
_text("input_is_output", "g (float[n] x) => (x, y) { y = Identity (x) }")
_text("constant_is_output", "g (float[n] x) => (y, z) <float[2] z = {1, 2}> { y = Neg (x) }")
_text("old_ir", "g (float[3] x, float[3] w) => (y) <float[3] w = {1, 2, 3}> { a = Mul (w, w) y = Add (x, a) }", ir=3)
_text(
    "pool_outputs",
    "g (float[1, 1, 4, 4] x) => (a, b, i) { a = MaxPool <kernel_shape = [2, 2]> (x) b, i = MaxPool <kernel_shape = [2, 2]> (x) }",
)
_text(
    "empty_optional_inputs",
    "g (float[n] x) => (y) <float k = {1}> { a = Clip (x, , k) b = Clip (a, , ) y = Dropout (b, , ) }",
)
for _op in ("Softmax", "LogSoftmax", "Hardmax"):
    _text(f"old_{_op}", f"g (float[3, a, 2, b] x) => (y) {{ y = {_op} <axis = 1> (x) }}", opset=12)
