from __future__ import annotations

import hashlib
import os
import random
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxsmith.errors import ExternalDataError, InvalidModelError, ModelError, ModelFileError
from onnxsmith.model import Model, TensorSpec
from onnxsmith.model.native import _check_and_infer

CHAIN = """g (float[batch, 4] x, float[4] unused) => (float[batch, 4] y) <float[4] w = {1, 2, 3, 4}>
{ a = Mul(x, w)  y = Relu(a) }"""


# ---- files that are no models


def pickled() -> bytes:
    import pickle

    return pickle.dumps({"weights": [1, 2, 3]})


def zipped() -> bytes:
    import io
    import zipfile

    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        archive.writestr("data.pkl", b"")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (b"", "is empty", "make it again"),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "is not an ONNX model", "It looks like a PNG image."),
        (b"\xff\xd8\xff\xe0" + bytes(64), "is not an ONNX model", "It looks like a JPEG image."),
        (pickled(), "is not an ONNX model", "It looks like a pickle."),
        (zipped(), "is not an ONNX model", "It looks like a zip archive (a PyTorch checkpoint, perhaps)."),
        (b"\x1f\x8b\x08" + bytes(32), "is not an ONNX model", "It looks like a gzip archive."),
        (b"\x08\x00\x00\x00ORTM" + bytes(32), "is not an ONNX model", "a model in ONNX Runtime's own format"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(32), "is not an ONNX model", "It looks like a TensorFlow Lite model."),
        (b"<!DOCTYPE html><html></html>", "is not an ONNX model", "a failed download, perhaps"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is not an ONNX model", "run `git lfs pull`"),
        (b"Once upon a time there was no model.", "is not an ONNX model", "copied whole"),
        (random.Random(0).randbytes(4096), "is not an ONNX model", "copied whole"),
        (bytes(4096), "is not an ONNX model", "copied whole"),
        (b"\x08\x0a\x12\x03abc", "is not an ONNX model: there is no graph in it", "copied whole"),
    ],
    ids=lambda part: repr(part[:8]) if isinstance(part, bytes) else "",
)
def test_no_model(tmp_path, data, message, hint):
    file = tmp_path / "model.onnx"
    file.write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        Model.load(file)
    assert caught.value.message.startswith(f"{file}: {message}")
    assert hint in (caught.value.hint or "")
    assert caught.value.exit_code == 1
    assert file.read_bytes() == data
    assert os.listdir(tmp_path) == ["model.onnx"]  # noqa: PTH208


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(ModelFileError, match=r"nowhere\.onnx: there is no such file"):
        Model.load(tmp_path / "nowhere.onnx")
    with pytest.raises(ModelFileError, match="is a folder, not an ONNX file"):
        Model.load(tmp_path)
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(ModelFileError, match="cannot be read: Not a directory"):
        Model.load(tmp_path / "file" / "model.onnx")


def test_unreadable_file(write_model, monkeypatch):
    path = write_model(CHAIN)

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ModelFileError, match=r"model\.onnx: cannot be read: Permission denied\."):
        Model.load(path)


def test_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is a pipe or a device"):
        Model.load(tmp_path / "pipe")


def test_file_over_two_gigabytes(tmp_path):
    file = tmp_path / "model.onnx"
    with file.open("wb") as stream:
        stream.truncate(1 << 31)  # a sparse file
    with pytest.raises(ModelFileError, match="2,147,483,648 bytes; one ONNX file can have 2 GB at most"):
        Model.load(file)


def test_every_prefix_of_a_model_is_refused_or_found_invalid(build_model, tmp_path):
    proto = build_model(
        """<ir_version: 10, opset_import: ["": 21], producer_name: "test">
        g (float[batch, 2] x, bool c) => (float[batch, 2] y) <float[2] w = {1, 2}>
        { a = Add(x, x)
          b = If(c) <then_branch = t () => (float[batch, 2] o) { o = Mul(a, w) },
                     else_branch = e () => (float[batch, 2] o) { o = Identity(a) }>
          y = Softmax<axis = 1>(b) }"""
    )
    data = proto.SerializeToString()
    file = tmp_path / "model.onnx"
    refused = 0
    for length in range(1, len(data)):
        file.write_bytes(data[:length])
        try:
            Model.load(file)
        except (ModelFileError, InvalidModelError, ExternalDataError):
            refused += 1
            continue
        problem, _, _ = _check_and_infer(file)
        assert problem is not None, length
    assert refused > 0.9 * len(data)


def test_damaged_models_raise_nothing_but_model_errors(build_model, tmp_path):
    rng = random.Random(1)
    data = build_model(CHAIN).SerializeToString()
    file, copy = tmp_path / "model.onnx", tmp_path / "copy.onnx"
    outcomes = {"loaded": 0, "refused": 0}
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 4])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        file.write_bytes(damaged)
        try:
            model = Model.load(file)
            assert isinstance(model.inputs, tuple)
            assert isinstance(model.outputs, tuple)
            assert len(model.digest()) == 64
            model.save(copy)
            Model.load(copy)
            outcomes["loaded"] += 1
        except ModelError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 100, outcomes


def test_names_that_are_not_text(build_model, tmp_path):
    data = build_model("g (float[1] x) => (float[1] yyyy) { yyyy = Relu(x) }").SerializeToString()
    file = tmp_path / "model.onnx"
    file.write_bytes(data.replace(b"yyyy", b"\xff\xfe\xc3\xc3"))
    with pytest.raises(ModelFileError, match="is damaged: it has names that are not UTF-8"):
        Model.load(file)


def nested(levels: int) -> bytes:
    """A model whose If nodes lie that deep in each other, assembled from its bytes: protobuf writes none so deep."""

    def field(number: int, payload: bytes) -> bytes:
        size, length = b"", len(payload)
        while length > 127:
            size, length = size + bytes([length & 127 | 128]), length >> 7
        return bytes([number << 3 | 2]) + size + bytes([length]) + payload

    output = helper.make_tensor_value_info("o", TensorProto.BOOL, []).SerializeToString()
    leaf = field(1, helper.make_node("Identity", ["c"], ["o"]).SerializeToString()) + field(2, b"g") + field(12, output)
    graph = leaf
    for _ in range(levels):
        branches = [
            field(5, field(1, name) + field(6, body) + b"\xa0\x01\x05")
            for name, body in ((b"then_branch", graph), (b"else_branch", leaf))
        ]
        node = field(1, b"c") + field(2, b"o") + field(4, b"If") + b"".join(branches)
        graph = field(1, node) + field(2, b"g") + field(12, output)
    graph += field(11, helper.make_tensor_value_info("c", TensorProto.BOOL, []).SerializeToString())
    return b"\x08\x08" + field(7, graph) + field(8, helper.make_opsetid("", 17).SerializeToString())


def test_deep_nesting(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(nested(30))
    assert len(list(Model.load(file).graphs())) == 61
    assert _check_and_infer(file)[0] is None
    file.write_bytes(nested(200))
    with pytest.raises(ModelFileError, match="has graphs nested too deep for any ONNX reader"):
        Model.load(file)


# ---- models that must load, and come back whole


def value(name: str, dtype: int = TensorProto.FLOAT, shape: object = ("n",)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def make(nodes, inputs, outputs, *, initializers=(), ir_version=10, opsets=None, functions=(), **graph_fields):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers), **graph_fields)
    imports = [helper.make_opsetid(domain, version) for domain, version in (opsets or {"": 21}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=list(functions))


def raw(name: str, dtype: int, shape: list[int], data: bytes) -> TensorProto:
    return TensorProto(name=name, data_type=dtype, dims=shape, raw_data=data)


def ir_version_3() -> onnx.ModelProto:
    return make(
        [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[1, 1])],
        [value("x", 1, [1, 2, 4, 4]), value("w", 1, [3, 2, 1, 1])],
        [value("y", 1, [1, 3, 4, 4])],
        initializers=[numpy_helper.from_array(np.ones((3, 2, 1, 1), np.float32), "w")],
        ir_version=3,
        opsets={"": 7},
    )


def functions_and_domains() -> onnx.ModelProto:
    function = helper.make_function(
        "local",
        "twice",
        ["i"],
        ["o"],
        [helper.make_node("Mul", ["i", "two"], ["o"]), helper.make_node("Constant", [], ["two"], value_float=2.0)][
            ::-1
        ],
        [helper.make_opsetid("", 21)],
        attributes=["unused"],
    )
    return make(
        [
            helper.make_node("twice", ["x"], ["a"], domain="local", unused=1),
            helper.make_node(
                "Anything", ["a", "", "x"], ["y", "", "z"], domain="custom", strings=["ä", ""], floats=[1.5]
            ),
        ],
        [value("x")],
        [value("y"), value("z")],
        opsets={"": 21, "local": 1, "custom": 3},
        functions=[function],
    )


def strings() -> onnx.ModelProto:
    table = TensorProto(
        name="t", data_type=TensorProto.STRING, dims=[2, 2], string_data=[b"a", b"", "ü".encode(), b"d"]
    )
    return make(
        [helper.make_node("Gather", ["t", "i"], ["y"])],
        [value("i", TensorProto.INT64)],
        [value("y", TensorProto.STRING, ["n", 2])],
        initializers=[table],
    )


def sequences_and_optionals() -> onnx.ModelProto:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 2])
    sequence = helper.make_sequence_type_proto(tensor)
    optional = helper.make_optional_type_proto(sequence)
    return make(
        [
            helper.make_node("OptionalGetElement", ["o"], ["s"]),
            helper.make_node("SequenceInsert", ["s", "x"], ["y"]),
            helper.make_node("Optional", [], ["none"], type=tensor),
        ],
        [helper.make_value_info("o", optional), value("x", 1, ["n", 2])],
        [
            helper.make_value_info("y", sequence),
            helper.make_value_info("none", helper.make_optional_type_proto(tensor)),
        ],
    )


def zipmap() -> onnx.ModelProto:
    type_map = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    return make(
        [helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])],
        [value("x", 1, ["n", 2])],
        [helper.make_value_info("y", helper.make_sequence_type_proto(type_map))],
        opsets={"": 17, "ai.onnx.ml": 1},
        ir_version=8,
    )


def dict_vectorizer() -> onnx.ModelProto:
    type_map = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    return make(
        [helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])],
        [helper.make_value_info("x", type_map)],
        [value("y", 1, [1, 2])],
        opsets={"": 17, "ai.onnx.ml": 1},
        ir_version=8,
    )


def sparse_parts(name: str) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.array([5.0, 7.0], np.float32), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1, 3], np.int64), f"{name}_at"), [4])


def sparse() -> onnx.ModelProto:
    return make(
        [
            helper.make_node("Constant", [], ["c"], sparse_value=sparse_parts("v")),
            helper.make_node("Add", ["w", "c"], ["a"]),
            helper.make_node("Add", ["a", "x"], ["y"]),
        ],
        [value("x", 1, [4])],
        [value("y", 1, [4])],
        sparse_initializer=[sparse_parts("w")],
    )


def small_dtypes() -> onnx.ModelProto:
    kinds = {
        TensorProto.INT4: b"\x21\x03",
        TensorProto.UINT4: b"\x21\x03",
        TensorProto.BFLOAT16: bytes(6),
        TensorProto.FLOAT16: bytes(6),
        TensorProto.FLOAT8E4M3FN: b"\x01\x02\x03",
        TensorProto.FLOAT8E4M3FNUZ: b"\x01\x02\x03",
        TensorProto.FLOAT8E5M2: b"\x01\x02\x03",
        TensorProto.FLOAT8E5M2FNUZ: b"\x01\x02\x03",
        TensorProto.FLOAT4E2M1: b"\x21\x03",
        TensorProto.BOOL: b"\x00\x01\x01",
        TensorProto.COMPLEX64: bytes(24),
        TensorProto.DOUBLE: bytes(24),
    }
    names = [TensorProto.DataType.Name(kind).lower() for kind in kinds]
    typed = TensorProto(name="typed4", data_type=TensorProto.INT4, dims=[3], int32_data=[0x21, 0x03])
    return make(
        [helper.make_node("Identity", [name], [f"{name}_out"]) for name in names],
        [],
        [value(f"{name}_out", kind, [3]) for name, kind in zip(names, kinds, strict=True)],
        initializers=[*(raw(name, kind, [3], kinds[kind]) for name, kind in zip(names, kinds, strict=True)), typed],
        ir_version=11,
        opsets={"": 23},
    )


def training_and_metadata() -> onnx.ModelProto:
    model = make([helper.make_node("Relu", ["x"], ["y"], name="r", doc_string="a node")], [value("x")], [value("y")])
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    weight.doc_string = "a weight"
    weight.metadata_props.add(key="tensor", value="kept")
    model.graph.initializer.append(weight)
    step = helper.make_graph([helper.make_node("Identity", ["w"], ["w_new"])], "step", [], [value("w_new", 1, [2])])
    model.training_info.append(helper.make_training_info(step, [("w", "w_new")], None, None))
    model.producer_name, model.producer_version, model.domain, model.model_version = "p", "1.2", "org", 7
    model.doc_string, model.graph.doc_string = "a model", "a graph"
    model.metadata_props.add(key="author", value="ä")
    model.graph.metadata_props.add(key="graph", value="kept")
    model.graph.node[0].metadata_props.add(key="node", value="kept")
    model.graph.input[0].doc_string = "an input"
    model.graph.input[0].type.denotation = "TENSOR"
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    model.graph.quantization_annotation.add(tensor_name="y").quant_parameter_tensor_names.add(key="SCALE", value="w")
    return model


def no_nodes() -> onnx.ModelProto:
    return make([], [value("x")], [value("x")])


def empty_names() -> onnx.ModelProto:
    nodes = [helper.make_node("Clip", ["x", "", "m"], ["a"]), helper.make_node("Dropout", ["a"], ["y", ""])]
    return make(nodes, [value("x")], [value("y")], initializers=[numpy_helper.from_array(np.float32(1), "m")])


def unknown_rank() -> onnx.ModelProto:
    nodes = [helper.make_node("Anything", ["x"], ["y"], domain="custom")]
    return make(nodes, [value("x", 1, None)], [value("y", 1, None)], opsets={"": 21, "custom": 1})


def bytes_in_attributes() -> onnx.ModelProto:
    node = helper.make_node("Anything", ["x"], ["y"], domain="custom", one=b"\xff\x00", many=[b"\xfe", b"ok"])
    return make([node], [value("x")], [value("y")], opsets={"": 21, "custom": 1})


VALID = [
    ir_version_3,
    functions_and_domains,
    strings,
    sequences_and_optionals,
    zipmap,
    dict_vectorizer,
    sparse,
    small_dtypes,
    training_and_metadata,
    no_nodes,
    empty_names,
    unknown_rank,
    bytes_in_attributes,
]


def canonical(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without what says nothing: the order of value infos, those of initializers, empty last outputs."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    initializers = {tensor.name for tensor in copy.graph.initializer}
    initializers |= {sparse.values.name for sparse in copy.graph.sparse_initializer}
    infos = sorted(
        (info for info in copy.graph.value_info if info.name not in initializers), key=lambda info: info.name
    )
    del copy.graph.value_info[:]
    copy.graph.value_info.extend(infos)
    for node in copy.graph.node:
        while node.output and not node.output[-1]:
            node.output.pop()
    return copy


@pytest.mark.parametrize("build", VALID, ids=lambda build: build.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning:onnx_ir")
def test_valid_models_load_and_come_back_whole(write_model, tmp_path, build):
    original = build()
    path = write_model(original)
    model = Model.load(path)
    assert _check_and_infer(path)[0] is None
    saved = onnx.load(model.save(tmp_path / "saved.onnx"))
    assert canonical(saved) == canonical(original)
    again = Model.load(tmp_path / "saved.onnx")
    assert again.inputs == model.inputs
    assert again.outputs == model.outputs
    clone = Model(model.ir.clone())
    assert canonical(clone.to_proto()) == canonical(original)


def test_specs_of_every_kind(write_model):
    def specs(build):
        model = Model.load(write_model(build()))
        return {spec.name: (spec.kind, spec.dtype, spec.shape) for spec in (*model.inputs, *model.outputs)}

    assert specs(ir_version_3) == {"x": ("tensor", "float32", (1, 2, 4, 4)), "y": ("tensor", "float32", (1, 3, 4, 4))}
    assert specs(strings) == {"i": ("tensor", "int64", ("n",)), "y": ("tensor", "string", ("n", 2))}
    assert specs(sequences_and_optionals) == {
        "o": ("optional", "float32", ("n", 2)),
        "x": ("tensor", "float32", ("n", 2)),
        "y": ("sequence", "float32", ("n", 2)),
        "none": ("optional", "float32", ("n", 2)),
    }
    assert specs(zipmap)["y"] == ("sequence", "map(int64, float32)", None)
    assert specs(dict_vectorizer)["x"] == ("map", "map(string, float32)", None)
    assert specs(unknown_rank)["x"] == ("tensor", "float32", None)
    assert specs(small_dtypes)["bfloat16_out"] == ("tensor", "bfloat16", (3,))
    assert specs(small_dtypes)["int4_out"] == ("tensor", "int4", (3,))


def test_text_of_specs():
    assert str(TensorSpec(name="x", kind="tensor", dtype="float32", shape=("n", None, 3))) == "float32[n, ?, 3]"
    assert str(TensorSpec(name="x", kind="sequence", dtype="int64", shape=None)) == "sequence(int64[?…])"


def test_meaningless_dimensions_are_unknown(write_model):
    model = Model.load(
        write_model(make([], [value("x", 1, [-1, "?", "", 0, "n"])], [value("x", 1, [-1, "?", "", 0, "n"])]))
    )
    assert model.inputs[0].shape == (None, None, None, 0, "n")
    assert model.inputs[0].dynamic_dims == ((0, None), (1, None), (2, None), (4, "n"))


def test_sparse_initializer_is_dense_to_a_reader(write_model):
    model = Model.load(write_model(sparse()))
    tensor = model.ir.graph.initializers["w"].const_value
    assert tensor.numpy().tolist() == [0, 5, 0, 7]
    assert np.frombuffer(tensor.tobytes(), np.float32).tolist() == [0, 5, 0, 7]
    assert model.ir.graph.initializers["w"].shape == [4]
    model.ir.graph.initializers["w"].name = "renamed"
    assert [part.values.name for part in model.to_proto().graph.sparse_initializer] == ["renamed"]


def test_sparse_initializer_with_an_index_for_each_axis(write_model):
    model = sparse()
    values = numpy_helper.from_array(np.array([5.0, 7.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([[0, 1], [1, 0]], np.int64), "w_at")
    model.graph.sparse_initializer[0].CopyFrom(helper.make_sparse_tensor(values, indices, [2, 2]))
    loaded = Model.load(write_model(model))
    assert loaded.ir.graph.initializers["w"].const_value.numpy().tolist() == [[0, 5], [7, 0]]


# ---- what a model says of itself


def test_inputs_are_those_a_caller_must_give(write_model):
    model = Model.load(write_model(ir_version_3()))
    assert [spec.name for spec in model.inputs] == ["x"]
    assert [v.name for v in model.ir.graph.inputs] == ["x", "w"]


def test_opset(write_model):
    assert Model.load(write_model(CHAIN)).opset == 21
    assert Model.load(write_model(make([], [value("x")], [value("x")], opsets={"ai.onnx": 18}))).opset == 18
    assert Model.load(write_model(make([], [value("x")], [value("x")], opsets={"custom": 1}))).opset == 0


def test_graphs_and_nodes_go_inside(write_model):
    model = Model.load(
        write_model(
            """g (float[1] x, bool c) => (float[1] y) {
              [outer] y = If(c) <
                then_branch = t () => (float[1] o) { o = If(c) <
                    then_branch = tt () => (float[1] p) { p = Relu(x) },
                    else_branch = te () => (float[1] p) { p = Abs(x) }> },
                else_branch = e () => (float[1] o) { o = Neg(x) }> }"""
        )
    )
    assert [place for place, _ in model.graphs()] == [
        "",
        "outer/then_branch",
        "outer/then_branch/If_0/then_branch",
        "outer/then_branch/If_0/else_branch",
        "outer/else_branch",
    ]
    assert sorted(node.op_type for node in model.nodes()) == ["Abs", "If", "If", "Neg", "Relu"]


def test_name(write_model):
    path = write_model(CHAIN)
    assert Model.load(path).name == str(path)
    assert Model(Model.load(path).ir).name == "g"


def test_digest_and_size_of_a_file(write_model):
    path = write_model(CHAIN)
    model = Model.load(path)
    assert model.digest() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert model.size_bytes == path.stat().st_size


def weighted(build_model, fill: float = 1.0) -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.full((64, 64), fill, np.float32), "w")
    return build_model("g (float[n, 64] x) => (float[n, 64] y) { y = MatMul(x, w) }", weight)


def test_digest_covers_external_data(write_model, build_model):
    options = {"save_as_external_data": True, "location": "w.bin"}
    path = write_model(weighted(build_model), **options)
    model = Model.load(path)
    steps = []
    digest = model.digest(lambda *step: steps.append(step))
    both = path.read_bytes() + path.with_name("w.bin").read_bytes()
    assert digest == hashlib.sha256(both).hexdigest()
    assert model.size_bytes == len(both)
    assert steps[-1] == ("hashing", len(both), len(both))
    bound = path.with_name("w.bin")
    bound.write_bytes(bytes([1]) + bound.read_bytes()[1:])
    assert model.digest() != digest


def test_digest_without_a_file_covers_the_weights(build_model, write_model):
    digests = {Model.from_proto(weighted(build_model, fill)).digest() for fill in (1.0, 1.0, 2.0)}
    assert len(digests) == 2
    external = []
    for fill in (1.0, 2.0):
        path = write_model(weighted(build_model, fill), f"{fill}/m.onnx", save_as_external_data=True, location="w.bin")
        external.append(Model(Model.load(path).ir))
    assert external[0].digest() != external[1].digest()
    assert external[0].digest() == Model(external[0].ir).digest()
    assert 64 * 64 * 4 < external[0].size_bytes < 64 * 64 * 4 + 1000


def test_weights_are_not_read_before_they_are_needed(tmp_path):
    size = 256 << 20
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(size)
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[size // 4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    path = tmp_path / "model.onnx"
    model = make(
        [helper.make_node("Mul", ["x", "w"], ["y"])], [value("x", 1, [1])], [value("y")], initializers=[weight]
    )
    path.write_bytes(model.SerializeToString())
    tracemalloc.start()
    try:
        loaded = Model.load(path)
        assert loaded.inputs[0].name == "x"
        assert loaded.size_bytes > size
        assert _check_and_infer(path)[0] is None
        assert len(loaded.to_proto().graph.initializer) == 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    tensor = loaded.ir.graph.initializers["w"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    assert tensor.raw is None


def test_on_disk(write_model, monkeypatch, tmp_path):
    path = write_model(CHAIN)
    monkeypatch.chdir(tmp_path)
    with Model.load("model.onnx").on_disk() as file:
        assert file == path
    with Model(Model.load(path).ir).on_disk() as file:
        assert Model.load(file).inputs == Model.load(path).inputs
    assert not file.exists()
