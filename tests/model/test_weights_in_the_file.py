"""Large raw data stays in the model's file until something reads it, and a saved file has it where it was."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxsmith.errors import InvalidModelError, ModelError, ModelFileError
from onnxsmith.model import Model
from onnxsmith.model.mapped import MappedTensor
from onnxsmith.model.native import _check_and_infer

LARGE = 1 << 16
FLOAT = TensorProto.FLOAT
info = helper.make_tensor_value_info
DTYPES = [
    np.float32,
    np.float16,
    np.float64,
    np.int8,
    np.uint16,
    np.int64,
    np.bool_,
    np.complex64,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.int4,
    ml_dtypes.uint4,
]


def array(dtype: object = np.float32, size: int = LARGE, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0, 7, size)
    return (values > 3 if dtype is np.bool_ else values).astype(dtype)


def tensor(name: str = "w", **options: object) -> TensorProto:
    return numpy_helper.from_array(array(**options), name)


def model_of(nodes=(), initializers=(), functions=(), **fields) -> onnx.ModelProto:
    nodes = [*nodes, helper.make_node("Add", ["x", "bulk"], ["y"])]
    # Larger than what is read whole, so that the rest may be small.
    initializers = [tensor("bulk", size=LARGE + 1), *initializers]
    inputs = [info("x", FLOAT, [LARGE + 1]), info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", FLOAT, [LARGE + 1])], initializers, **fields)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def every_dtype() -> onnx.ModelProto:
    return model_of(initializers=[tensor(f"w{at}", dtype=dtype, seed=at) for at, dtype in enumerate(DTYPES)])


def an_odd_count_of_nibbles() -> onnx.ModelProto:
    return model_of(initializers=[tensor(dtype=ml_dtypes.int4, size=LARGE + 1)])


def shapes_with_many_axes() -> onnx.ModelProto:
    return model_of(initializers=[numpy_helper.from_array(array(size=4 * 5 * 6 * 700).reshape(4, 5, 6, 700, 1), "w")])


def typed_data() -> onnx.ModelProto:
    floats = helper.make_tensor("f", FLOAT, [LARGE], array())
    halves = helper.make_tensor("h", TensorProto.BFLOAT16, [LARGE], array())
    return model_of(initializers=[floats, halves, helper.make_tensor("i", TensorProto.INT64, [9], list(range(9)))])


def strings() -> onnx.ModelProto:
    return model_of(initializers=[helper.make_tensor("s", TensorProto.STRING, [20_000], [b"text"] * 20_000)])


def empty_and_scalar() -> onnx.ModelProto:
    return model_of(initializers=[tensor("none", size=0), numpy_helper.from_array(np.float32(3), "scalar")])


def descriptions() -> onnx.ModelProto:
    described = tensor()
    described.doc_string = "a weight"
    described.metadata_props.add(key="k", value="v")
    return model_of(initializers=[described])


def attributes() -> onnx.ModelProto:
    one = helper.make_node("Constant", [], ["a"], value=tensor("inside"))
    several = helper.make_node("Custom", ["a"], ["b"], domain="local")
    several.attribute.append(helper.make_attribute("all", [tensor("first"), tensor("second", seed=1)]))
    return model_of([one, several])


def branch(op_type: str) -> onnx.GraphProto:
    inner = helper.make_node("Constant", [], [f"{op_type}_v"], value=tensor(seed=5))
    add = helper.make_node(op_type, [f"{op_type}_w", f"{op_type}_v"], [f"{op_type}_o"])
    return helper.make_graph(
        [inner, add], op_type, [], [info(f"{op_type}_o", FLOAT, [LARGE])], [tensor(f"{op_type}_w")]
    )


def subgraphs() -> onnx.ModelProto:
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch("Add"), else_branch=branch("Mul"))
    return model_of([node])


def functions() -> onnx.ModelProto:
    nodes = [helper.make_node("Constant", [], ["w"], value=tensor()), helper.make_node("Add", ["i", "w"], ["o"])]
    function = helper.make_function("local", "f", ["i"], ["o"], nodes, [helper.make_opsetid("", 21)])
    return model_of([helper.make_node("f", ["x"], ["z"], domain="local")], functions=[function])


def sparse() -> onnx.ModelProto:
    at = numpy_helper.from_array(np.arange(0, 2 * LARGE, 2), "at")
    stored = helper.make_sparse_tensor(tensor("sparse"), at, [2 * LARGE])
    constant = helper.make_node("Constant", [], ["k"], sparse_value=stored)
    return model_of([constant], sparse_initializer=[stored])


def initializer_that_is_an_input() -> onnx.ModelProto:
    model = model_of(initializers=[tensor()])
    model.graph.input.append(info("w", FLOAT, [LARGE]))
    return model


BUILDERS = [
    every_dtype,
    an_odd_count_of_nibbles,
    shapes_with_many_axes,
    typed_data,
    strings,
    empty_and_scalar,
    descriptions,
    attributes,
    subgraphs,
    functions,
    sparse,
    initializer_that_is_an_input,
]


def write(proto: onnx.ModelProto | bytes, path: Path) -> Path:
    path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    return path


def as_read_whole(data: bytes) -> Model:
    """The model as it would be were nothing left in the file."""
    return Model.from_proto(onnx.ModelProto.FromString(data))


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_a_model_comes_back_byte_for_byte(tmp_path, build):
    path = write(build(), tmp_path / "model.onnx")
    model = Model.load(path)
    assert isinstance(model.ir.graph.initializers["bulk"].const_value, MappedTensor)
    expected = as_read_whole(path.read_bytes()).to_proto().SerializeToString()
    assert model.to_proto().SerializeToString() == expected
    assert model.save(tmp_path / "saved.onnx").read_bytes() == expected
    assert Model.load(tmp_path / "saved.onnx").save(tmp_path / "again.onnx").read_bytes() == expected
    assert as_read_whole(path.read_bytes()).save(tmp_path / "whole.onnx").read_bytes() == expected


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_weights_go_out_and_come_back(tmp_path, build):
    path = write(build(), tmp_path / "model.onnx")
    outside = Model.load(path).save(tmp_path / "out" / "saved.onnx", external_data=True)
    assert outside.with_name("saved.onnx.data").stat().st_size >= 4 * LARGE
    inside = onnx.load(Model.load(outside).save(tmp_path / "in.onnx", external_data=False))
    original = as_read_whole(path.read_bytes()).to_proto()
    stored = {held.name: held for held in inside.graph.initializer}
    for held in original.graph.initializer:
        found = stored.pop(held.name)
        assert (found.data_type, found.dims, found.doc_string) == (held.data_type, held.dims, held.doc_string)
        assert np.array_equal(numpy_helper.to_array(found), numpy_helper.to_array(held))
    assert not stored
    assert [node for node in inside.graph.node] == [node for node in original.graph.node]  # noqa: C416
    assert list(inside.functions) == list(original.functions)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_values(tmp_path, dtype):
    values = array(dtype)
    path = write(model_of(initializers=[numpy_helper.from_array(values, "w")]), tmp_path / "model.onnx")
    found = Model.load(path).ir.graph.initializers["w"].const_value
    assert isinstance(found, MappedTensor)
    assert found.numpy().dtype == values.dtype
    assert np.array_equal(found.numpy(), values)
    assert np.array_equal(np.asarray(found), values)
    assert found.tobytes() == numpy_helper.from_array(values, "w").raw_data
    assert found.nbytes == len(found.tobytes())


def test_embedded_weights_are_not_external(tmp_path):
    path = write(every_dtype(), tmp_path / "model.onnx")
    model = Model.load(path)
    assert model.external_files == ()
    assert model.size_bytes == path.stat().st_size
    assert not any(isinstance(held.const_value, ir.ExternalTensor) for held in model.ir.graph.initializers.values())
    model.save(tmp_path / "out" / "saved.onnx")
    assert os.listdir(tmp_path / "out") == ["saved.onnx"]  # noqa: PTH208


def test_a_model_without_a_file_has_the_same_digest_wherever_its_weights_lie(tmp_path):
    path = write(subgraphs(), tmp_path / "model.onnx")
    mapped, whole = Model(Model.load(path).ir), as_read_whole(path.read_bytes())
    assert mapped.digest() == whole.digest()
    assert mapped.size_bytes == whole.size_bytes


def test_the_frame_has_no_weights_and_the_model_keeps_them(tmp_path):
    model = Model.load(write(subgraphs(), tmp_path / "model.onnx"))
    before = model.to_proto()
    frame = model.frame()
    assert {held.name: held.data_location for held in frame.graph.initializer} == {"bulk": TensorProto.EXTERNAL}
    assert len(frame.graph.node) == len(before.graph.node)
    assert model.to_proto() == before


# ---- what happens to the file


def test_a_file_that_is_removed_or_replaced_is_still_read(tmp_path):
    path = write(every_dtype(), tmp_path / "model.onnx")
    expected = path.read_bytes()
    model = Model.load(path)
    write(b"another", tmp_path / "other").replace(path)
    assert np.array_equal(model.ir.graph.initializers["w0"].const_value.numpy(), array(seed=0))
    path.unlink()
    saved = onnx.load(model.save(tmp_path / "saved.onnx"))
    assert list(saved.graph.initializer) == list(onnx.ModelProto.FromString(expected).graph.initializer)


@pytest.mark.parametrize("size", [0, 100])
def test_a_file_that_was_written_to_is_refused(tmp_path, size):
    path = write(every_dtype(), tmp_path / "model.onnx")
    model = Model.load(path)
    with path.open("r+b") as file:
        file.truncate(size)
    with pytest.raises(ModelFileError, match=r"model\.onnx: was written to after it was loaded") as caught:
        model.save(tmp_path / "out" / "saved.onnx")
    assert caught.value.hint is not None
    assert not (tmp_path / "out").exists()
    with pytest.raises(ModelFileError, match="was written to"):
        model.ir.graph.initializers["w0"].const_value.numpy()


def test_no_file_stays_open(tmp_path):
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("needs /proc")
    path = write(every_dtype(), tmp_path / "model.onnx")
    gc.collect()
    before = len(list(folder.iterdir()))
    for _ in range(5):
        Model.load(path).save(tmp_path / "saved.onnx")
    gc.collect()
    assert len(list(folder.iterdir())) == before


def test_where_the_kernel_cannot_copy(tmp_path, monkeypatch):
    path = write(subgraphs(), tmp_path / "model.onnx")

    def refuse(*args: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    assert onnx.load(Model.load(path).save(tmp_path / "saved.onnx")) == as_read_whole(path.read_bytes()).to_proto()


# ---- what is unusual


def fails_alike(data: bytes, path: Path) -> None:
    """Loading says the same of a file whether its weights are left in it or not."""
    write(data, path)
    with pytest.raises(ModelError) as left:
        Model.load(path)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ModelError) as whole:
        patch.setattr("onnxsmith.model.model_file._READ_WHOLE", 1 << 40)
        Model.load(path)
    assert (type(left.value), str(left.value)) == (type(whole.value), str(whole.value))


@pytest.mark.parametrize("cut", [1, 2, 3, 10, 1000, 200_000, LARGE * 4])
def test_a_file_that_is_cut_off(tmp_path, cut):
    data = model_of(initializers=[tensor()]).SerializeToString()
    fails_alike(data[:-cut], tmp_path / "model.onnx")


@pytest.mark.parametrize(
    "change",
    [
        {"dims": [LARGE + 1]},
        {"dims": [-LARGE]},
        {"dims": [1 << 62, 1 << 62]},
        {"data_type": TensorProto.INT8},
        {"data_type": TensorProto.STRING},
        {"data_type": 0},
        {"data_type": 99},
    ],
    ids=str,
)
def test_data_that_does_not_fit_its_shape(tmp_path, change):
    damaged = tensor()
    if "dims" in change:
        del damaged.dims[:]
        damaged.dims.extend(change["dims"])
    else:
        damaged.data_type = change["data_type"]
    fails_alike(model_of(initializers=[damaged]).SerializeToString(), tmp_path / "model.onnx")


def test_names_that_are_not_text(tmp_path):
    data = model_of(initializers=[tensor("wwww")]).SerializeToString()
    fails_alike(data.replace(b"wwww", b"\xff\xfe\xc3\xc3"), tmp_path / "model.onnx")


def test_what_protobuf_allows_and_no_writer_writes(tmp_path):
    proto = model_of(initializers=[tensor()])
    data = proto.SerializeToString()
    twice = TensorProto(raw_data=array(seed=9).tobytes()).SerializeToString()
    held = proto.graph.initializer[1].SerializeToString()
    odd = {
        "raw data twice": held + twice,
        "an unknown field": held + b"\xfa\x7f\x03abc",
        "a segment": held + TensorProto(segment=TensorProto.Segment(begin=0, end=1)).SerializeToString(),
    }
    for name, changed in odd.items():
        longer = onnx.GraphProto.FromString(proto.graph.SerializeToString())
        del longer.initializer[1]
        graph = longer.SerializeToString() + header(5, len(changed)) + changed
        rest = onnx.ModelProto.FromString(data)
        rest.ClearField("graph")
        path = write(rest.SerializeToString() + header(7, len(graph)) + graph, tmp_path / "model.onnx")
        expected = as_read_whole(path.read_bytes()).ir.graph.initializers["w"].const_value.numpy()
        model = Model.load(path)
        assert isinstance(model.ir.graph.initializers["bulk"].const_value, MappedTensor), name
        assert np.array_equal(model.ir.graph.initializers["w"].const_value.numpy(), expected), name


def test_a_graph_in_two_parts_is_one(tmp_path):
    proto = model_of(initializers=[tensor()])
    first, second = onnx.ModelProto(), onnx.ModelProto()
    first.CopyFrom(proto)
    del first.graph.initializer[1]
    second.graph.initializer.append(proto.graph.initializer[1])
    path = write(first.SerializeToString() + second.SerializeToString(), tmp_path / "model.onnx")
    assert Model.load(path).to_proto() == as_read_whole(proto.SerializeToString()).to_proto()


def header(number: int, length: int) -> bytes:
    data = bytes([number << 3 | 2])
    while length > 127:
        data, length = data + bytes([length & 127 | 128]), length >> 7
    return data + bytes([length])


def test_damage_is_judged_as_if_the_file_was_read_whole(tmp_path):
    rng = random.Random(4)
    data = subgraphs().SerializeToString()
    spots = [at for at in range(len(data)) if at < 300 or at > len(data) - 300]
    outcomes = {"same": 0, "refused": 0}
    path, copy = tmp_path / "model.onnx", tmp_path / "copy.onnx"
    for _ in range(150):
        damaged = bytearray(data)
        damaged[rng.choice(spots)] = rng.randrange(256)
        write(bytes(damaged), path)
        try:
            model = Model.load(path)
        except ModelError:
            fails_alike(bytes(damaged), path)
            outcomes["refused"] += 1
            continue
        try:
            whole = as_read_whole(bytes(damaged)).to_proto()
        except InvalidModelError:
            continue
        assert model.to_proto() == whole
        with contextlib.suppress(InvalidModelError):
            model.save(copy)
            assert onnx.load(copy) == whole
            outcomes["same"] += 1
    assert min(outcomes.values()) > 10, outcomes


# ---- memory


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("external_data", [False, True])
def test_a_large_model_is_loaded_and_saved_in_little_memory(tmp_path, external_data):
    count, rows = 6, 50 << 18
    path = tmp_path / "model.onnx"
    weights = [TensorProto(name=f"w{at}", data_type=FLOAT, dims=[rows]) for at in range(count)]
    graph = helper.make_graph(
        [helper.make_node("Sum", ["x", *(held.name for held in weights)], ["y"])],
        "g",
        [info("x", FLOAT, [1])],
        [info("y", FLOAT, [rows])],
        weights,
    )
    for held in weights:
        held.data_location = TensorProto.EXTERNAL
        held.external_data.add(key="location", value="w.bin")
    del graph.initializer[:]
    graph.initializer.extend(weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(rows * 4)
    write(proto, tmp_path / "small.onnx")
    script = (
        "import sys, re, threading, time\n"
        "from pathlib import Path\n"
        "from onnxsmith.model import Model\n"
        "def now(): return int(re.search(r'RssAnon:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) >> 10\n"
        "before = peak = now()\n"
        "done = threading.Event()\n"
        "def watch():\n"
        "    global peak\n"
        "    while not done.wait(0.002): peak = max(peak, now())\n"
        "watcher = threading.Thread(target=watch); watcher.start()\n"
        "Model.load(sys.argv[1]).save(sys.argv[2], external_data=sys.argv[3] == 'True')\n"
        "done.set(); watcher.join(); print(max(peak, now()) - before)\n"
    )

    def grown_by(source: Path, target: Path, external_data: bool) -> int:
        command = [sys.executable, "-c", script, str(source), str(target), str(external_data)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert grown_by(tmp_path / "small.onnx", path, external_data=False) < 60
    assert path.stat().st_size > 300 << 20
    assert _check_and_infer(path)[0] is None
    assert grown_by(path, tmp_path / "out" / "saved.onnx", external_data) < 60
    total = sum(file.stat().st_size for file in (tmp_path / "out").iterdir())
    assert 300 << 20 < total < (300 << 20) + 4096
