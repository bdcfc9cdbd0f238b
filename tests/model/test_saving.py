from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxsmith.errors import InvalidModelError, OutputError
from onnxsmith.model import Model, analyse_native, staged_folder
from onnxsmith.model.saving import write_text

TEXT = "g (float[n, 64] x) => (float[n, 64] y) { y = MatMul(x, w) }"
WEIGHT = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)


def names(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))


@pytest.fixture
def proto(build_model) -> onnx.ModelProto:
    return build_model(TEXT, numpy_helper.from_array(WEIGHT, "w"))


@pytest.fixture
def embedded(write_model, proto) -> Model:
    return Model.load(write_model(proto, "in/model.onnx"))


@pytest.fixture
def external(write_model, proto) -> Model:
    return Model.load(write_model(proto, "in/model.onnx", save_as_external_data=True, location="model.onnx.data"))


def weight(path: Path) -> np.ndarray:
    return Model.load(path).ir.graph.initializers["w"].const_value.numpy()


# ---- where the weights go


def test_small_weights_stay_in_the_file(embedded, tmp_path):
    saved = embedded.save(tmp_path / "out" / "saved.onnx")
    assert names(saved.parent) == ["saved.onnx"]
    assert np.array_equal(weight(saved), WEIGHT)


def test_weights_beside_the_file_when_asked(embedded, tmp_path):
    saved = embedded.save(tmp_path / "out" / "saved.onnx", external_data=True)
    assert names(saved.parent) == ["saved.onnx", "saved.onnx.data"]
    assert saved.with_name("saved.onnx.data").read_bytes() == WEIGHT.tobytes()
    assert saved.stat().st_size < 1000
    assert np.array_equal(weight(saved), WEIGHT)


def test_weights_into_the_file_when_asked(external, tmp_path):
    saved = external.save(tmp_path / "out" / "saved.onnx", external_data=False)
    assert names(saved.parent) == ["saved.onnx"]
    assert np.array_equal(weight(saved), WEIGHT)


def test_nothing_to_put_beside_the_file(write_model, tmp_path):
    model = Model.load(write_model("g (float[n] x) => (float[n] y) <float[1] w = {1}> { y = Add(x, w) }"))
    saved = model.save(tmp_path / "out" / "saved.onnx", external_data=True)
    assert names(saved.parent) == ["saved.onnx"]


def test_above_a_limit_weights_go_beside_the_file(embedded, tmp_path, monkeypatch):
    monkeypatch.setattr("onnxsmith.model.model._EMBED_LIMIT", WEIGHT.nbytes - 1)
    saved = embedded.save(tmp_path / "out" / "saved.onnx")
    assert names(saved.parent) == ["saved.onnx", "saved.onnx.data"]


def test_weights_too_large_for_one_file(external, tmp_path, monkeypatch):
    monkeypatch.setattr("onnxsmith.model.model.PROTOBUF_LIMIT", WEIGHT.nbytes - 1)
    with pytest.raises(InvalidModelError, match="over 2 GB and do not fit in one file") as caught:
        external.save(tmp_path / "out" / "saved.onnx", external_data=False)
    assert caught.value.hint == "Save them as external data."
    assert names(tmp_path) == ["in", "in/model.onnx", "in/model.onnx.data"]


def test_changed_weights_are_written_and_the_model_is_not_touched(external, tmp_path):
    clone = external.ir.clone()
    clone.graph.initializers["w"].const_value = ir.Tensor(WEIGHT * 2, name="w")
    saved = Model(clone).save(tmp_path / "out" / "saved.onnx", external_data=True)
    assert np.array_equal(weight(saved), WEIGHT * 2)
    assert isinstance(clone.graph.initializers["w"].const_value, ir.Tensor)
    assert isinstance(external.ir.graph.initializers["w"].const_value, ir.ExternalTensor)
    assert np.array_equal(external.ir.graph.initializers["w"].const_value.numpy(), WEIGHT)


def test_descriptions_of_tensors_move_with_them(write_model, proto, tmp_path):
    proto.graph.initializer[0].doc_string = "a weight"
    proto.graph.initializer[0].metadata_props.add(key="k", value="v")
    model = Model.load(write_model(proto))
    for external_data in (True, False):
        model = Model.load(model.save(tmp_path / str(external_data) / "saved.onnx", external_data=external_data))
        tensor = model.to_proto().graph.initializer[0]
        assert tensor.doc_string == "a weight"
        assert [(entry.key, entry.value) for entry in tensor.metadata_props] == [("k", "v")]


def test_a_graph_out_of_order_is_refused(write_model, tmp_path):
    model = Model.load(write_model("g (float[n] x) => (float[n] y) { y = Relu(a)  a = Abs(x) }"))
    with pytest.raises(InvalidModelError, match="nodes are not in order"):
        model.save(tmp_path / "out" / "saved.onnx")
    assert not (tmp_path / "out").exists()


# ---- what is never overwritten


def spellings(path: Path, tmp_path: Path) -> Iterator[Path]:
    yield path
    yield Path(os.path.relpath(path))
    yield path.parent / ".." / path.parent.name / path.name
    link = tmp_path / "link.onnx"
    link.symlink_to(path)
    yield link
    folder = tmp_path / "linked"
    folder.symlink_to(path.parent)
    yield folder / path.name
    hard = tmp_path / "hard.onnx"
    os.link(path, hard)
    yield hard


def test_input_is_never_overwritten(embedded, tmp_path):
    assert embedded.path is not None
    before = embedded.path.read_bytes()
    for target in spellings(embedded.path, tmp_path):
        with pytest.raises(OutputError, match="is the input itself, and the input is never overwritten"):
            embedded.save(target)
        with pytest.raises(OutputError, match="is the input itself"):
            embedded.save(target, external_data=True)
    assert embedded.path.read_bytes() == before


def test_weights_of_the_input_are_never_overwritten(external):
    data = external.external_files[0]
    before = data.read_bytes()
    with pytest.raises(OutputError, match=r"model\.onnx\.data: is the input itself"):
        external.save(data)
    with pytest.raises(OutputError, match="is the input itself"):
        external.save(external.path)
    copy = Model(external.ir.clone())
    with pytest.raises(OutputError, match=r"model\.onnx\.data: is the input itself"):
        copy.save(external.path)
    assert data.read_bytes() == before


def test_a_folder_is_no_file(embedded, tmp_path):
    with pytest.raises(OutputError, match="is a folder; name a file in it"):
        embedded.save(tmp_path)
    (tmp_path / "saved.onnx.data").mkdir()
    with pytest.raises(OutputError, match="is a folder; name a file in it"):
        embedded.save(tmp_path / "saved.onnx", external_data=True)
    assert not (tmp_path / "saved.onnx").exists()


# ---- all of it or nothing


@contextlib.contextmanager
def watched(path: Path) -> Iterator[None]:
    """Fails if the file, which is there, changed or went, or anything else came."""
    before = {name: (path.parent / name).read_bytes() for name in names(path.parent)}
    yield
    assert {name: (path.parent / name).read_bytes() for name in names(path.parent)} == before


def test_another_file_is_replaced_whole(embedded, tmp_path):
    target = tmp_path / "saved.onnx"
    target.write_bytes(b"an older model")
    with target.open("rb") as reader:
        embedded.save(target)
        assert reader.read() == b"an older model"
    assert np.array_equal(weight(target), WEIGHT)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), RuntimeError("a fault")], ids=repr)
@pytest.mark.parametrize("external_data", [True, False])
def test_interrupted_save_leaves_nothing(embedded, tmp_path, monkeypatch, error, external_data):
    target = tmp_path / "out" / "saved.onnx"
    embedded.save(target)

    def fail(*args: object, **kwargs: object) -> None:
        raise error

    if external_data:
        monkeypatch.setattr(ir.ExternalTensor, "tofile", fail)
        monkeypatch.setattr(ir.TensorProtoTensor, "tofile", fail)
    else:
        monkeypatch.setattr(Path, "write_bytes", fail)
    with watched(target), pytest.raises(type(error)):
        embedded.save(target, external_data=external_data)
    with pytest.raises(type(error)):
        embedded.save(tmp_path / "new" / "deep" / "saved.onnx", external_data=external_data)
    assert not (tmp_path / "new").exists()


def test_ctrl_c_in_the_middle_of_a_large_save(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, sys, threading, time\n"
        "import numpy as np, onnx_ir as ir\n"
        "from onnxsmith.model import Model\n"
        "class Slow(ir.Tensor):\n"
        "    def tofile(self, file):\n"
        "        file.write(b'half'); file.flush(); print('writing', flush=True); time.sleep(30)\n"
        "tensor = Slow(np.zeros(4096, np.float32), name='w')\n"
        "value = ir.Value(name='w', type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)\n"
        "graph = ir.Graph([], [value], nodes=[], initializers=[value], opset_imports={'': 21}, name='g')\n"
        "Model(ir.Model(graph, ir_version=10)).save(sys.argv[1], external_data=True)\n"
    )
    target = tmp_path / "out" / "saved.onnx"
    process = subprocess.Popen(
        [sys.executable, str(script), str(target)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    assert any("saved.onnx.data" in name for name in names(tmp_path))
    process.send_signal(2)
    _, error = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in error
    assert names(tmp_path) == ["script.py"]


def test_full_disk(embedded, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(small)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        (small / "saved.onnx").write_bytes(b"old")
        for external_data in (True, False):
            with pytest.raises(OutputError, match="small: cannot be written: No space left on device"):
                embedded.save(small / "saved.onnx", external_data=external_data)
        assert names(small) == ["saved.onnx"]
        assert (small / "saved.onnx").read_bytes() == b"old"
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_full_disk_as_the_system_reports_it(embedded, tmp_path, monkeypatch):
    def fail(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OutputError, match="out: cannot be written: No space left on device") as caught:
        embedded.save(tmp_path / "out" / "saved.onnx")
    assert caught.value.exit_code == 1
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_be_written(embedded, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(OutputError, match=r"file: cannot be written: (File exists|Not a directory)"):
        embedded.save(tmp_path / "file" / "saved.onnx")
    with pytest.raises(OutputError, match="cannot be written: Not a directory"):
        embedded.save(tmp_path / "file" / "deeper" / "saved.onnx")
    assert (tmp_path / "file").read_bytes() == b"x"

    def refuse(*args: object, **kwargs: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(OutputError, match="new: cannot be written: Permission denied"):
        embedded.save(tmp_path / "new" / "saved.onnx")
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_read_only_file_system(embedded):
    with pytest.raises(OutputError, match="/proc: cannot be written"):
        embedded.save("/proc/saved.onnx")


# ---- the staging folder itself


def test_staged_files_appear_together(tmp_path):
    with staged_folder(tmp_path / "a" / "b") as staging:
        (staging / "one.txt").write_text("1")
        (staging / "two.onnx").write_text("2")
        assert [name for name in names(tmp_path) if not Path(name).name.startswith(".") and "." in Path(name).name] == [
            str(staging.relative_to(tmp_path) / name) for name in ("one.txt", "two.onnx")
        ]
    assert names(tmp_path) == ["a", "a/b", "a/b/one.txt", "a/b/two.onnx"]


def test_models_come_after_their_weights(tmp_path, monkeypatch):
    order = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, target: order.append(self.name) or replace(self, target))
    with staged_folder(tmp_path) as staging:
        for name in ("b.onnx", "a.onnx", "z.data", "c.json"):
            (staging / name).write_text("x")
    assert order[0] == "z.data"
    assert sorted(order[-2:]) == ["a.onnx", "b.onnx"]


def test_an_empty_block_leaves_no_folder(tmp_path):
    with staged_folder(tmp_path / "a" / "b"):
        pass
    assert names(tmp_path) == []


def test_what_was_there_stays(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="no"), staged_folder(tmp_path / "a"):
        raise ValueError("no")
    assert names(tmp_path) == ["a"]


def test_write_text(tmp_path):
    write_text(tmp_path / "new" / "report.html", "Grüße")
    assert (tmp_path / "new" / "report.html").read_text(encoding="utf-8") == "Grüße"


# ---- weights that are too large for one file


@pytest.mark.large
def test_more_than_two_gigabytes(tmp_path):
    count, rows = 3, 192 << 20
    size = rows * 4
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(size * count)
        for number in range(count):
            file.seek(size * number)
            file.write(np.float32(number + 1).tobytes())
    initializers = []
    for number in range(count):
        tensor = TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=[rows], data_location=1)
        for key, entry in (("location", "w.bin"), ("offset", number * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(entry))
        initializers.append(tensor)
    nodes = [helper.make_node("Sum", ["x", *(tensor.name for tensor in initializers)], ["y"])]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("x", 1, [1])], [info("y", 1, [rows])], initializers)
    message = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (tmp_path / "model.onnx").write_bytes(message.SerializeToString())

    model = Model.load(tmp_path / "model.onnx")
    assert model.size_bytes > 2 << 30
    assert analyse_native(model).shapes[0]["y"] == (rows,)
    digest = model.digest()
    with pytest.raises(InvalidModelError, match="over 2 GB"):
        model.save(tmp_path / "out" / "one.onnx", external_data=False)
    saved = Model.load(model.save(tmp_path / "out" / "saved.onnx"))
    assert names(tmp_path / "out") == ["saved.onnx", "saved.onnx.data"]
    firsts = [value.const_value.numpy()[0] for value in saved.ir.graph.initializers.values()]
    assert firsts == [1.0, 2.0, 3.0]
    assert len({digest, Model(model.ir).digest(), Model.load(tmp_path / "model.onnx").digest()}) == 2
    (tmp_path / "out" / "saved.onnx.data").unlink()
