"""Another opset: the same answers from the operators that are there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array
from structure_helpers import apply, op_types, reasons

from onnxsmith.errors import PassError
from onnxsmith.graph_optimizer.passes.base import PassResult
from onnxsmith.graph_optimizer.passes.convert_opset import ConvertOpset
from onnxsmith.graph_optimizer.passes.table import parse_pass
from onnxsmith.model import Model

GENERATOR = np.random.default_rng(0)
IMAGE = GENERATOR.standard_normal((1, 4, 6, 6)).astype(np.float32)
IMAGE[0, 0, 0, :3] = (np.nan, -0.0, np.inf)


def convert(text: str, before: int, after: int, ir_version: int = 8, **feeds: np.ndarray) -> PassResult:
    """Converts, and asserts that every output is as before."""
    header = f'<ir_version: {ir_version}, opset_import: ["": {before}]>'
    result = apply(ConvertOpset(opset=after), text, feeds or {"x": IMAGE}, header)
    if not result.notes:
        assert result.model.opset == after
    return result


@pytest.mark.parametrize("after", [9, 10, 11, 12, 13, 18, 21])
@pytest.mark.parametrize(
    ("before", "body"),
    [
        (7, "y = Slice<starts = [0, -3], ends = [1, 1000], axes = [1, -1]>(x)"),
        (7, "y = Slice<starts = [0, 1], ends = [1, 3]>(x)"),
        (7, "y = Pad<pads = [0, 0, 1, 2, 0, 0, 1, 0], value = -1.5>(x)"),
        (7, 'y = Pad<pads = [0, 0, 1, 2, 0, 0, 1, 0], mode = "reflect">(x)'),
        (7, "y = Clip<min = -0.5>(x)"),
        (7, "y = Clip<min = -0.5, max = 0.5>(x)"),
        (7, "y = Dropout<ratio = 0.25>(x)"),
        (7, "y = Softmax<axis = 3>(x)"),
        (7, "y = Softmax(x)"),
        (7, "y = LogSoftmax<axis = 2>(x)"),
        (7, "y = Hardmax<axis = 2>(x)"),
        (7, "s = Squeeze<axes = [0]>(x)  y = Unsqueeze<axes = [0, 2]>(s)"),
        (7, "a = ReduceSum<axes = [1, 3], keepdims = 0>(x)  b = ReduceMax<axes = [1]>(a)  y = ReduceMean(b)"),
        (7, "a, b = Split<axis = 1>(x)  y = Sub(a, b)"),
        (7, "a, b = Split<axis = 1, split = [1, 3]>(x)  y = Add(a, b)"),
        (7, "v, i = TopK<axis = -1, k = 2>(x)  f = Cast<to = 1>(i)  y = Add(v, f)"),
        (7, 'y = Upsample<mode = "nearest", scales = [1.0, 1.0, 2.0, 3.0]>(x)'),
        (7, 'y = Upsample<mode = "linear", scales = [1.0, 1.0, 2.0, 2.5]>(x)'),
        (10, 's = Constant<value = float[4] {1.0, 1.0, 2.0, 1.5}>()  y = Resize<mode = "nearest">(x, s)'),
        (7, "y = MaxPool<kernel_shape = [2, 2]>(x)"),
    ],
)
def test_up(before: int, after: int, body: str) -> None:
    if before < after:
        result = convert(f"g (float[1, 4, 6, 6] x) => (float{shape(body)} y) {{ {body} }}", before, after)
        assert result.changed


def shape(body: str) -> str:
    """A declared shape of the right rank."""
    return "[a, b, c, d, e]" if "Unsqueeze" in body else "[a, b]" if "ReduceMean" in body else "[a, b, c, d]"


def test_batch_norm_and_subgraphs() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 8]> g (float[1, 4, 6, 6] x, bool c) => (float[1, 4, 6, 6] y) {
            a = BatchNormalization<epsilon = 0.01, spatial = 1>(x, s, b, m, v)
            y = If(c) <then_branch = t () => (float[1, 4, 6, 6] p) { p = Clip<max = 1.0>(a) },
                       else_branch = e () => (float[1, 4, 6, 6] q) { q = Softmax<axis = 2>(a) }>
        }"""
    )
    model.graph.initializer.extend(
        from_array(GENERATOR.uniform(0.5, 2, 4).astype(np.float32), name) for name in ("s", "b", "m", "v")
    )
    for choice in (True, False):
        result = apply(ConvertOpset(opset=17), model, {"x": IMAGE, "c": np.array(choice)})
    assert op_types(result)[:3] == ["BatchNormalization", "If", "Clip"]
    assert {node.metadata_props.get("onnxsmith.pass") for node in result.model.nodes() if node.op_type == "Clip"} == {
        "convert-opset"
    }


def test_resampling_operators() -> None:
    boxes = np.array([[0, 0, 4, 4], [1, 1, 3, 5]], np.float32)
    convert(
        """g (float[1, 4, 6, 6] x, float[2, 4] r, int64[2] i) => (float[2, 4, 2, 2] y) {
            y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 2>(x, r, i) }""",
        11,
        18,
        x=np.nan_to_num(IMAGE, posinf=1),
        r=boxes,
        i=np.zeros(2, np.int64),
    )
    grid = GENERATOR.uniform(-1, 1, (1, 3, 3, 2)).astype(np.float32)
    for mode in ("", '<mode = "bicubic">', '<mode = "nearest">'):
        text = f"g (float[1, 4, 6, 6] x, float[1, 3, 3, 2] r) => (float[1, 4, 3, 3] y) {{ y = GridSample{mode}(x, r) }}"
        convert(text, 16, 20, x=np.nan_to_num(IMAGE, posinf=1), r=grid)


def test_fourier_transform() -> None:
    signal = GENERATOR.standard_normal((2, 5, 8, 1)).astype(np.float32)
    convert("g (float[2, 5, 8, 1] x) => (float[2, 5, 8, 2] y) { y = DFT(x) }", 17, 20, x=signal)


def test_group_norm_gets_a_scale_for_each_channel() -> None:
    result = apply(
        ConvertOpset(opset=21),
        """g (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y) <float[2] s = {2.0, 0.5}, float[2] b = {1.0, -1.0}> {
            y = GroupNormalization<num_groups = 2>(x, s, b) }""",
        {"x": np.nan_to_num(IMAGE, posinf=1)},
        '<ir_version: 8, opset_import: ["": 18]>',
    )
    assert op_types(result)[-1] == "GroupNormalization"


def test_down_where_the_older_opset_has_it() -> None:
    result = convert(
        """g (float[1, 4, 6, 6] x) => (float[4, 6] y) <int64[1] a = {0}, int64[1] b = {-1}> {
            s = Squeeze(x, a)  r = ReduceMean<keepdims = 0>(s, b)  y = Relu(r) }""",
        18,
        11,
    )
    assert op_types(result) == ["Squeeze", "ReduceMean", "Relu"]


@pytest.mark.parametrize(
    ("before", "after", "body", "reason"),
    [
        (21, 12, "y = Softmax(x)", "Softmax is another at opset 12, and is not taken back"),
        (21, 17, "y = Gelu(x)", ""),
        (20, 19, "y = Gelu(x)", "opset 19 has no Gelu"),
        (
            14,
            13,
            "z = Shape(x)  y = Reshape<allowzero = 1>(x, z)",
            "Reshape at opset 13 has no such attribute 'allowzero'",
        ),
        (
            10,
            11,
            "s = Constant<value = float[4] {1.0, 1.0, 0.5, 0.5}>()  y = Resize(x, s)",
            "it may shrink, which later opsets round differently",
        ),
    ],
)
def test_all_or_nothing(before: int, after: int, body: str, reason: str) -> None:
    result = convert(f"g (float[1, 4, 6, 6] x) => (float[a, b, c, d] y) {{ w = Relu(x)  {body} }}", before, after)
    assert not result.changed
    assert result.model.opset == before
    assert not reason or reasons(result) == [reason]


@pytest.mark.parametrize("after", [11, 13])
def test_down_without_what_says_only_the_default(after: int) -> None:
    result = convert(
        """g (float[1, 4, 6, 6] x) => (float[2, 72] y) {
            s = Shape<start = 0>(x)  p, q = Split<num_outputs = 2>(s)  z = Concat<axis = 0>(p, q)
            r = Reshape<allowzero = 0>(x, z)  t = Constant<value = int64[2] {2, 72}>()  y = Reshape(r, t) }""",
        18,
        after,
    )
    assert op_types(result) == ["Shape", "Split", "Concat", "Reshape", "Reshape"]


def test_model_of_a_file(tmp_path: Path) -> None:
    """The result must not be taken for what is in the file."""
    text = '<ir_version: 8, opset_import: ["": 12]> g (float[3] x) => (float[3] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    result = ConvertOpset(opset=17).run(Model.load(tmp_path / "model.onnx"))
    assert result.model.path is None
    with result.model.on_disk() as path:
        assert onnx.load(path).opset_import[0].version == 17


def test_types_that_an_older_opset_lacks() -> None:
    result = convert("g (int32[3] x) => (int32[3] y) { y = Relu(x) }", 14, 13, x=np.array([-1, 0, 1], np.int32))
    assert reasons(result) == ["Relu at opset 13 does not take the type of 'x', or it is not known"]


def test_functions_of_the_model() -> None:
    text = """<ir_version: 8, opset_import: ["": 12, "my": 1]> g (float[3] x) => (float[3] y) { y = my.F(x) }
        <domain: "my", opset_import: ["": 12]> F (x) => (y) { t = Sin(x)  y = OP(t) }"""
    feeds = {"x": np.array([0.5, 1.0, 2.0], np.float32)}
    result = apply(ConvertOpset(opset=17), onnx.parser.parse_model(text.replace("OP", "Cos")), feeds)
    assert result.changed
    result = apply(ConvertOpset(opset=17), onnx.parser.parse_model(text.replace("OP", "Softmax<axis = 0>")), feeds)
    assert not result.changed
    assert reasons(result) == ["it is in the function 'my.F' and is another at opset 17; inline the function first"]


def test_same_opset_and_impossible_ones() -> None:
    model = Model.from_proto(
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { y = Relu(x) }'
        )
    )
    assert not ConvertOpset(opset=17).run(model).changed
    for opset in (6, 1000):
        with pytest.raises(PassError, match=f"opset {opset} is not one of 7 to"):
            parse_pass(f"convert-opset{{opset={opset}}}")
