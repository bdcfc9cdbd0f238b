from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxsmith.errors import TensorError
from onnxsmith.model import Model, resolve_dims, sample_inputs


def model_with(*inputs: onnx.ValueInfoProto) -> Model:
    nodes = [helper.make_node("Anything", [info.name for info in inputs], ["y"], domain="custom")]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("custom", 1)]
    return Model.from_proto(helper.make_model(graph, opset_imports=imports, ir_version=10))


def sample(model: Model, dims: dict[str, int] | None = None, seed: int = 0, **options):
    return sample_inputs(model, resolve_dims(model.inputs, dims), seed, **options)


def info(name: str, dtype: int, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("FLOAT", np.float32),
        ("DOUBLE", np.float64),
        ("FLOAT16", np.float16),
        ("BFLOAT16", ml_dtypes.bfloat16),
        ("FLOAT8E4M3FN", ml_dtypes.float8_e4m3fn),
        ("FLOAT8E4M3FNUZ", ml_dtypes.float8_e4m3fnuz),
        ("FLOAT8E5M2", ml_dtypes.float8_e5m2),
        ("FLOAT8E5M2FNUZ", ml_dtypes.float8_e5m2fnuz),
        ("FLOAT8E8M0", ml_dtypes.float8_e8m0fnu),
        ("FLOAT4E2M1", ml_dtypes.float4_e2m1fn),
        ("INT4", ml_dtypes.int4),
        ("UINT4", ml_dtypes.uint4),
        ("INT8", np.int8),
        ("UINT8", np.uint8),
        ("INT16", np.int16),
        ("UINT16", np.uint16),
        ("INT32", np.int32),
        ("UINT32", np.uint32),
        ("INT64", np.int64),
        ("UINT64", np.uint64),
        ("BOOL", np.bool_),
        ("COMPLEX64", np.complex64),
        ("COMPLEX128", np.complex128),
        ("STRING", np.object_),
    ],
)
def test_every_dtype(dtype, expected):
    model = model_with(info("x", getattr(TensorProto, dtype), "n", 300))
    array = sample(model, {"n": 3})["x"]
    assert array.dtype == expected
    assert array.shape == (3, 300)
    if dtype == "STRING":
        assert all(type(word) is str for word in array.flat)
        assert len(set(array.flat)) > 3
        return
    values = array.astype(np.complex128 if dtype.startswith("COMPLEX") else np.float64)
    assert np.isfinite(values).all()
    if "INT" in dtype and dtype not in ("INT8", "UINT8"):
        assert set(values.flat) == {0, 1}
    elif dtype in ("INT8", "UINT8"):
        limits = np.iinfo(expected)
        assert (values.min(), values.max()) == (limits.min, limits.max)
    elif dtype == "BOOL":
        assert 0.4 < values.mean() < 0.6
    elif dtype.startswith("COMPLEX"):
        assert abs(values.mean()) < 0.2
        assert abs(values.std() - 2**0.5) < 0.2
    elif dtype != "FLOAT8E8M0":
        assert abs(values.mean()) < 0.2
        assert abs(values.std() - 1) < 0.2


@pytest.mark.parametrize("dtype", ["INT64", "INT32", "BOOL", "FLOAT", "FLOAT16", "UINT8"])
def test_a_mask_is_all_ones(dtype):
    array = sample(model_with(info("attention_mask", getattr(TensorProto, dtype), 2, 5)))["attention_mask"]
    assert (array == 1).all()


def test_scalars_and_empty_inputs():
    model = model_with(info("s", TensorProto.FLOAT), info("e", TensorProto.INT64, 0, 3), info("t", TensorProto.STRING))
    values = sample(model)
    assert values["s"].shape == ()
    assert values["e"].shape == (0, 3)
    assert values["t"].shape == ()
    assert isinstance(values["t"].item(), str)


def test_a_seed_gives_the_same_values_whatever_other_inputs_there_are():
    alone = model_with(info("x", TensorProto.FLOAT, 4))
    both = model_with(info("a", TensorProto.FLOAT, 9), info("x", TensorProto.FLOAT, 4))
    assert np.array_equal(sample(alone)["x"], sample(both)["x"])
    assert np.array_equal(sample(alone, seed=5)["x"], sample(alone, seed=5)["x"])
    assert not np.array_equal(sample(alone, seed=5)["x"], sample(alone, seed=6)["x"])
    assert list(sample(both, only={"x"})) == ["x"]


# ---- integers that index a table


def embedding(text: str, rows: int, write_model, build_model, **tables: np.ndarray) -> np.ndarray:
    initializers = [numpy_helper.from_array(array, name) for name, array in tables.items()]
    model = Model.load(write_model(build_model(text, *initializers)))
    ids = sample(model, {"n": 500})["ids"]
    assert 0 <= ids.min() <= 2
    assert rows - 3 <= ids.max() < rows
    return ids


@pytest.mark.parametrize(
    ("body", "shape", "rows"),
    [
        ("y = Gather(t, ids)", (50, 4), 50),
        ("y = Gather<axis = 1>(t, ids)", (4, 50), 50),
        ("y = Gather<axis = -1>(t, ids)", (4, 50), 50),
        ("a = Cast<to = 7>(ids)  b = Unsqueeze(a, z)  y = Gather(t, b)", (50, 4), 50),
        ("y = Gather(t, ids)  u = Gather(small, ids)", (50, 4), 30),
        ("a = Identity(ids)  y = Gather(t, a)  b = Abs(ids)", (50, 4), 50),
    ],
)
def test_an_index_stays_below_the_table(write_model, build_model, body, shape, rows):
    text = f"g (int32[n] ids) => (float[?, ?] y) {{ {body} }}"
    tables = {"t": np.zeros(shape, np.float32), "small": np.zeros((30, 4), np.float32), "z": np.array([0])}
    assert embedding(text, rows, write_model, build_model, **tables).dtype == np.int32


def test_an_index_used_in_a_subgraph(write_model, build_model):
    branch = "() => (float[?, ?] o) { o = Gather(t, ids) }"
    body = f"y = If(c) <then_branch = a {branch}, else_branch = b {branch}>"
    text = f"g (int64[n] ids, bool c) => (float[?, ?] y) {{ {body} }}"
    embedding(text, 50, write_model, build_model, t=np.zeros((50, 4), np.float32))


def test_a_fused_embedding(write_model, build_model):
    text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    g (int32[1, n] ids, int32[1, n] kinds) => (float[?, ?, ?] y)
    { y, m = com.microsoft.EmbedLayerNormalization(ids, kinds, words, places, segments, one, zero) }"""
    tables = {
        "words": np.zeros((60, 4), np.float32),
        "places": np.zeros((500, 4), np.float32),
        "segments": np.zeros((2, 4), np.float32),
        "one": np.ones(4, np.float32),
        "zero": np.zeros(4, np.float32),
    }
    embedding(text, 60, write_model, build_model, **tables)


def test_an_index_without_a_constant_table_is_0_or_1(write_model):
    text = "g (int64[n] ids, float[m, 4] t) => (float[?, ?] y) { y = Gather(t, ids) }"
    ids = sample(Model.load(write_model(text)), {"n": 100})["ids"]
    assert set(ids.flat) == {0, 1}


# ---- sequences and maps


def test_sequences():
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 2])
    values = sample(model_with(helper.make_value_info("s", helper.make_sequence_type_proto(tensor))), {"n": 3})["s"]
    assert [value.shape for value in values] == [(3, 2), (3, 2)]
    assert not np.array_equal(*values)


@pytest.mark.parametrize(("key", "keys"), [(TensorProto.INT64, {0, 1}), (TensorProto.STRING, {"a", "b"})])
def test_maps(key, keys):
    type_map = helper.make_map_type_proto(key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    value = sample(model_with(helper.make_value_info("m", type_map)))["m"]
    assert set(value) == keys
    assert all(type(number) is float for number in value.values())
    listed = sample(model_with(helper.make_value_info("m", helper.make_sequence_type_proto(type_map))))["m"]
    assert [set(one) for one in listed] == [keys, keys]


def test_a_map_that_runs(write_model):
    type_map = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    node = helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    graph = helper.make_graph(
        [node], "g", [helper.make_value_info("m", type_map)], [helper.make_tensor_value_info("y", 1, [1, 2])]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    path = write_model(helper.make_model(graph, opset_imports=imports, ir_version=8))
    feeds = sample(Model.load(path))
    (row,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    assert np.allclose(row, [feeds["m"]["a"], feeds["m"]["b"]])


def test_optionals():
    tensor = helper.make_tensor_type_proto(TensorProto.INT64, [2])
    value = sample(model_with(helper.make_value_info("o", helper.make_optional_type_proto(tensor))))["o"]
    assert value.shape == (2,)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (model_with(helper.make_tensor_value_info("x", TensorProto.FLOAT, None)), "'x' has no declared rank"),
        (model_with(helper.make_tensor_value_info("x", TensorProto.UNDEFINED, [2])), "'x' is of dtype undefined"),
        (
            model_with(helper.make_sparse_tensor_value_info("x", TensorProto.FLOAT, [2])),
            r"'x' is of type sparse_tensor\(float32\[2\]\)",
        ),
        (model_with(onnx.ValueInfoProto(name="x")), "'x' has no declared type"),
    ],
    ids=["rank", "dtype", "sparse", "untyped"],
)
def test_what_cannot_be_sampled(model, message):
    with pytest.raises(TensorError, match=message) as caught:
        sample(model)
    assert caught.value.exit_code == 1
