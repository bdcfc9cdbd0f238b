from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxsmith.errors import ExternalDataError, InvalidModelError
from onnxsmith.model import Model
from onnxsmith.model.native import _check_and_infer


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


FLOAT, SIZE = TensorProto.FLOAT, 16
WEIGHTS = np.arange(4, dtype=np.float32)


def external(name: str = "w", dims: tuple[int, ...] = (4,), dtype: int = FLOAT, **entries: object) -> TensorProto:
    tensor = TensorProto(name=name, data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", **entries}.items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def model_of(nodes, initializers=(), functions=(), **fields) -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    inputs = [info("x", FLOAT, [4]), info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", FLOAT, [4])], initializers, **fields)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def in_initializer(tensor):
    return model_of([helper.make_node("Add", ["x", "w"], ["y"])], [tensor])


def in_constant(tensor):
    return model_of([helper.make_node("Constant", [], ["w"], value=tensor), helper.make_node("Add", ["x", "w"], ["y"])])


def in_subgraph(tensor):
    def branch(op_type):
        output = helper.make_tensor_value_info("o", FLOAT, [4])
        return helper.make_graph([helper.make_node(op_type, ["x", "w"], ["o"])], op_type, [], [output], [tensor])

    return model_of([helper.make_node("If", ["c"], ["y"], then_branch=branch("Add"), else_branch=branch("Mul"))])


def in_function(tensor):
    nodes = [helper.make_node("Constant", [], ["w"], value=tensor), helper.make_node("Add", ["i", "w"], ["o"])]
    function = helper.make_function("local", "f", ["i"], ["o"], nodes, [helper.make_opsetid("", 21)])
    return model_of([helper.make_node("f", ["x"], ["y"], domain="local")], functions=[function])


def in_subgraph_of_function(tensor):
    output = helper.make_tensor_value_info("o", FLOAT, [4])
    body = helper.make_graph([helper.make_node("Add", ["i", "w"], ["o"])], "b", [], [output], [tensor])
    nodes = [helper.make_node("If", ["c"], ["o"], then_branch=body, else_branch=body)]
    function = helper.make_function("local", "f", ["i", "c"], ["o"], nodes, [helper.make_opsetid("", 21)])
    return model_of([helper.make_node("f", ["x", "c"], ["y"], domain="local")], functions=[function])


def in_sparse_initializer(tensor):
    indices = numpy_helper.from_array(np.arange(4), "at")
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(WEIGHTS, "w"), indices, [8])
    sparse.values.CopyFrom(tensor)
    return model_of([helper.make_node("Add", ["x", "w"], ["y"])], sparse_initializer=[sparse])


def in_sparse_attribute(tensor):
    indices = numpy_helper.from_array(np.arange(4), "at")
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(WEIGHTS, "w"), indices, [8])
    sparse.values.CopyFrom(tensor)
    return model_of([helper.make_node("Constant", [], ["y"], sparse_value=sparse)])


def in_training(tensor):
    model = model_of([helper.make_node("Relu", ["x"], ["y"])])
    output = helper.make_tensor_value_info("o", FLOAT, [4])
    step = helper.make_graph([helper.make_node("Identity", ["w"], ["o"])], "step", [], [output], [tensor])
    model.training_info.append(helper.make_training_info(step, [], None, None))
    return model


PLACES = [
    in_initializer,
    in_constant,
    in_subgraph,
    in_function,
    in_subgraph_of_function,
    in_sparse_initializer,
    in_sparse_attribute,
    in_training,
]
each_place = pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)


@pytest.fixture
def write(tmp_path):
    """Writes a model that is not complete, as it stands, and 16 bytes of weights beside it."""

    def write_message(model: onnx.ModelProto, weights: bytes | None = WEIGHTS.tobytes()) -> Path:
        folder = tmp_path / "models"
        folder.mkdir(exist_ok=True)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        if weights is not None:
            (folder / "w.bin").write_bytes(weights)
        return folder / "model.onnx"

    return write_message


# ---- what is refused


@each_place
@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "sub/../../secret.bin"])
def test_path_outside_the_folder(write, tmp_path, place, location):
    (tmp_path / "secret.bin").write_bytes(bytes(SIZE))
    path = write(place(external(location=location)))
    with pytest.raises(ExternalDataError) as caught:
        Model.load(path)
    assert caught.value.message == (f"{path}: tensor 'w' points to '{location}', which is outside the model's folder.")
    assert caught.value.exit_code == 1


@each_place
def test_missing(write, place):
    path = write(place(external()), weights=None)
    with pytest.raises(ExternalDataError, match=r"the weights of 'w' are in 'w\.bin', which cannot be read \(No such"):
        Model.load(path)


@each_place
def test_too_short(write, place):
    path = write(place(external(offset=4, length=SIZE)))
    with pytest.raises(
        ExternalDataError, match=r"'w\.bin' is too short: tensor 'w' needs bytes 4 to 20, and the file has 16"
    ):
        Model.load(path)


def test_link_out_of_the_folder(write, tmp_path):
    path = write(in_initializer(external()), weights=None)
    (tmp_path / "secret.bin").write_bytes(bytes(SIZE))
    path.with_name("w.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ExternalDataError, match="outside the model's folder"):
        Model.load(path)


def test_folder_that_is_a_link_out(write, tmp_path):
    path = write(in_initializer(external(location="sub/secret.bin")))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.bin").write_bytes(bytes(SIZE))
    path.with_name("sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ExternalDataError, match="outside the model's folder"):
        Model.load(path)


def test_links_in_a_circle(write):
    path = write(in_initializer(external()), weights=None)
    path.with_name("w.bin").symlink_to("v.bin")
    path.with_name("v.bin").symlink_to("w.bin")
    with pytest.raises(ExternalDataError, match=r"whose links lead nowhere|cannot be read"):
        Model.load(path)


def test_hard_links(write):
    path = write(in_initializer(external()))
    os.link(path.with_name("w.bin"), path.with_name("again.bin"))
    with pytest.raises(ExternalDataError, match="has several hard links, and ONNX's readers refuse that"):
        Model.load(path)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (external(location=None), "tensor 'w' is external, but names no file."),
        (external(location=""), "tensor 'w' is external, but names no file."),
        (external(location="w\0.bin"), "tensor 'w' is external, but names no file."),
        (external(location="."), "which is not a file."),
        (external(location="w" * 300), "which cannot be read (File name too long)."),
        (external(offset="none"), "the offset of tensor 'w' in 'w.bin' is 'none', which is not a number of bytes."),
        (external(offset=-4), "the offset of tensor 'w' in 'w.bin' is '-4', which is not a number of bytes."),
        (external(offset="1_0"), "the offset of tensor 'w' in 'w.bin' is '1_0', which is not a number of bytes."),
        (external(offset="٣"), "the offset of tensor 'w' in 'w.bin' is '٣', which is not a number of bytes."),
        (external(offset=10**30), "which is not a number of bytes."),
        (external(offset=2**62), "'w.bin' is too short"),
        (external(length="x"), "the length of tensor 'w' in 'w.bin' is 'x', which is not a number of bytes."),
        (external(length=-16), "the length of tensor 'w' in 'w.bin' is '-16', which is not a number of bytes."),
        (external(length=8), "tensor 'w' needs 16 bytes for its shape [4], and claims 8 of 'w.bin'."),
        (external(length=20), "tensor 'w' needs 16 bytes for its shape [4], and claims 20 of 'w.bin'."),
        (external(dims=(1 << 31,)), "tensor 'w' needs bytes 0 to 8,589,934,592, and the file has 16."),
        (external(dims=(1 << 40, 1 << 40)), "'w.bin' is too short"),
        (external(dtype=TensorProto.STRING), "tensor 'w' holds strings, which cannot be external."),
    ],
)
def test_reference_that_makes_no_sense(write, tensor, message):
    path = write(in_initializer(tensor))
    with pytest.raises(ExternalDataError, match=re.escape(message)):
        Model.load(path)
    assert names(path.parent) == ["model.onnx", "w.bin"]


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (external(dims=(-4,)), "tensor 'w' has a negative dimension in its shape [-4]."),
        (external(dims=(-2, -2)), "tensor 'w' has a negative dimension in its shape [-2, -2]."),
        (external(dtype=0), "tensor 'w' has no known dtype."),
        (external(dtype=99), "tensor 'w' has no known dtype."),
    ],
)
def test_tensor_that_makes_no_sense(write, tensor, message):
    path = write(in_initializer(tensor))
    with pytest.raises(InvalidModelError, match=re.escape(message)):
        Model.load(path)


# ---- data in the file itself


def held(dtype: int, dims: tuple[int, ...], **data: object) -> TensorProto:
    return TensorProto(name="w", data_type=dtype, dims=dims, **data)


@each_place
@pytest.mark.parametrize("size", [0, 8, 15, 20])
def test_embedded_data_of_another_size(write, place, size):
    path = write(place(held(FLOAT, (4,), raw_data=bytes(size))))
    with pytest.raises(InvalidModelError, match=re.escape("tensor 'w' has shape [4], and data of another size")):
        Model.load(path)


@pytest.mark.parametrize(
    "tensor",
    [
        held(FLOAT, (1 << 31,), raw_data=bytes(16)),
        held(FLOAT, (1 << 62, 1 << 62), raw_data=bytes(16)),
        held(FLOAT, (4,), float_data=[1, 2, 3]),
        held(FLOAT, (4,), float_data=[1, 2, 3, 4, 5]),
        held(TensorProto.INT64, (4,), int64_data=[1]),
        held(TensorProto.FLOAT16, (4,), int32_data=[1]),
        held(TensorProto.INT4, (4,), int32_data=[1]),
        held(TensorProto.INT4, (3,), raw_data=bytes(1)),
        held(TensorProto.COMPLEX64, (2,), float_data=[1, 2]),
        held(TensorProto.STRING, (2,), string_data=[b"a"]),
        held(TensorProto.STRING, (2,), raw_data=b"ab"),
    ],
)
def test_embedded_data_that_does_not_fit(write, tensor):
    path = write(in_initializer(tensor))
    with pytest.raises(InvalidModelError, match="and data of another size"):
        Model.load(path)


def test_negative_dimension(write):
    path = write(in_initializer(held(FLOAT, (-4,), raw_data=bytes(16))))
    with pytest.raises(InvalidModelError, match=re.escape("has a negative dimension in its shape [-4]")):
        Model.load(path)


def test_tensor_attribute_without_its_tensor(write):
    model = in_constant(held(FLOAT, (4,), raw_data=bytes(16)))
    model.graph.node[0].attribute[0].ClearField("t")
    with pytest.raises(InvalidModelError, match="has no known dtype"):
        Model.load(write(model))


@pytest.mark.parametrize(
    "tensor",
    [
        held(FLOAT, (), float_data=[1]),
        held(FLOAT, (0, 5)),
        held(FLOAT, (4,), raw_data=bytes(16)),
        held(TensorProto.FLOAT16, (3,), int32_data=[1, 2, 3]),
        held(TensorProto.INT4, (3,), int32_data=[1, 2]),
        held(TensorProto.UINT4, (3,), raw_data=bytes(2)),
        held(TensorProto.INT2, (5,), raw_data=bytes(2)),
        held(TensorProto.BOOL, (2,), int32_data=[0, 1]),
        held(TensorProto.COMPLEX64, (2,), float_data=[1, 2, 3, 4]),
        held(TensorProto.COMPLEX128, (1,), double_data=[1, 2]),
        held(TensorProto.UINT64, (1,), uint64_data=[1]),
        held(TensorProto.STRING, (2,), string_data=[b"a", b""]),
    ],
)
def test_embedded_data_that_fits(write, tensor):
    model = Model.load(write(in_initializer(tensor)))
    assert model.ir.graph.initializers["w"].const_value.numpy().shape == tuple(tensor.dims)


# ---- what is read, and where it goes


def read_back(path: Path) -> list[list[float]]:
    """The values of every tensor called w, wherever it is."""
    model = onnx.load(path, load_external_data=False)
    found = []
    for tensor in [tensor for tensor in all_tensors(model) if tensor.name == "w"]:
        if tensor.data_location == TensorProto.EXTERNAL:
            onnx.external_data_helper.load_external_data_for_tensor(tensor, str(path.parent))
        found.append(numpy_helper.to_array(tensor).tolist())
    return found


def all_tensors(model: onnx.ModelProto) -> list[TensorProto]:
    from onnxsmith.model import messages

    return list(messages.all_tensors(model))


@each_place
@pytest.mark.parametrize("external_data", [True, False, None])
def test_weights_follow_a_model_wherever_they_are(write, tmp_path, place, external_data):
    path = write(place(external(offset=4, length=SIZE)), weights=b"\xee" * 4 + WEIGHTS.tobytes())
    model = Model.load(path)
    assert model.external_files == (path.with_name("w.bin"),)
    saved = model.save(tmp_path / "out" / "saved.onnx", external_data=external_data)
    path.with_name("w.bin").unlink()
    assert all(values == WEIGHTS.tolist() for values in read_back(saved))
    assert len(read_back(saved)) == len(all_named_w(place))
    assert Model.load(saved).outputs == model.outputs
    if external_data is False:
        assert names(saved.parent) == ["saved.onnx"]


def all_named_w(place) -> list[TensorProto]:
    return [tensor for tensor in all_tensors(place(external())) if tensor.name == "w"]


@pytest.mark.parametrize("place", PLACES[:5], ids=lambda place: place.__name__)
def test_external_stays_external(write, tmp_path, place):
    saved = Model.load(write(place(external()))).save(tmp_path / "out" / "saved.onnx")
    assert names(saved.parent) == ["saved.onnx", "saved.onnx.data"]
    locations = [
        entry.value
        for tensor in all_tensors(onnx.load(saved, load_external_data=False))
        for entry in tensor.external_data
        if entry.key == "location"
    ]
    assert set(locations) == {"saved.onnx.data"}
    assert Model.load(saved).external_files == (saved.with_name("saved.onnx.data"),)


def test_several_files_and_folders(write):
    tensors = [external("w"), external("v", location="sub/v.bin"), external("u", offset=16, length=16)]
    path = write(in_initializer(tensors[0]), weights=WEIGHTS.tobytes() * 2)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer.extend(tensors[1:])
    path.with_name("sub").mkdir()
    (path.parent / "sub" / "v.bin").write_bytes((WEIGHTS + 1).tobytes())
    loaded = Model.load(write(model, weights=WEIGHTS.tobytes() * 2))
    assert loaded.external_files == (path.parent / "sub" / "v.bin", path.parent / "w.bin")
    values = {name: value.const_value.numpy().tolist() for name, value in loaded.ir.graph.initializers.items()}
    assert values == {"w": WEIGHTS.tolist(), "v": (WEIGHTS + 1).tolist(), "u": WEIGHTS.tolist()}


def test_link_inside_the_folder(write, tmp_path):
    path = write(in_initializer(external()))
    path.with_name("w.bin").rename(path.with_name("real.bin"))
    path.with_name("w.bin").symlink_to("real.bin")
    model = Model.load(path)
    assert _check_and_infer(path)[0] is None
    assert read_back(model.save(tmp_path / "saved.onnx")) == [WEIGHTS.tolist()]


def test_download_cache_of_links(write, tmp_path):
    path = write(in_initializer(external()))
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for name in ("model.onnx", "w.bin"):
        path.with_name(name).rename(blobs / f"{name}-hash")
        path.with_name(name).symlink_to(Path("..", "blobs", f"{name}-hash"))
    model = Model.load(path)
    assert model.ir.graph.initializers["w"].const_value.numpy().tolist() == WEIGHTS.tolist()
    assert _check_and_infer(path)[0] is None
    assert read_back(model.save(tmp_path / "saved.onnx")) == [WEIGHTS.tolist()]


def test_working_folder_may_change_after_loading(write, tmp_path, monkeypatch):
    path = write(in_initializer(external()))
    monkeypatch.chdir(path.parent)
    model = Model.load("model.onnx")
    monkeypatch.chdir(tmp_path)
    assert model.ir.graph.initializers["w"].const_value.numpy().tolist() == WEIGHTS.tolist()


def test_weights_that_went_after_loading(write, tmp_path):
    path = write(in_initializer(external()))
    model = Model.load(path)
    path.with_name("w.bin").unlink()
    with pytest.raises(ExternalDataError, match="which is no longer there"):
        model.save(tmp_path / "out" / "saved.onnx")
    assert not (tmp_path / "out").exists()
