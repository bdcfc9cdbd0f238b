"""Bad input: one clear error, exit code 1, nothing written."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

COMMANDS = [
    ("inspect",),
    ("infer",),
    ("benchmark",),
    ("profile",),
    ("optimize", "-o", "out.onnx"),
    ("optimize", "--output-dir", "levels"),
]


def external(location="w.bin", length=16, offset=0):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    node = helper.make_node("Add", ["x", "w"], ["y"])
    io = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([node], "g", io[:1], io[1:], [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def graph(*nodes, inputs=("x",), outputs=("y",)):
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in (*inputs, *outputs)}
    made = helper.make_graph(list(nodes), "g", [values[n] for n in inputs], [values[n] for n in outputs])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


GOOD = graph(helper.make_node("Relu", ["x"], ["y"]))
BAD_FILES = {
    "missing": (None, "no such file"),
    "empty": (b"", "is empty"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(64), "PNG"),
    "text": (b"this is not a model, it is a text\n", "not an ONNX model"),
    "pickle": (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94.", "not an ONNX model"),
    "truncated": (GOOD[:-7], "model.onnx"),
    "no external data": (external("nothing.bin"), "nothing.bin"),
    "short external data": (external("short.bin"), "too short"),
    "external data outside": (external("../../../etc/hostname"), "outside the model's folder"),
    "absolute external data": (external("/etc/hostname"), "outside the model's folder"),
    "cycle": (
        graph(helper.make_node("Add", ["x", "b"], ["y"], "n1"), helper.make_node("Relu", ["y"], ["b"], "n2")),
        "model.onnx",
    ),
    "unknown operator": (graph(helper.make_node("NoSuchOperator", ["x"], ["y"], "odd")), "NoSuchOperator"),
    "missing input": (graph(helper.make_node("Add", ["x", "nowhere"], ["y"], "n")), "nowhere"),
}


def everything_under(folder: Path):
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_one_clear_error(cli, tmp_path, kind, command):
    content, expected = BAD_FILES[kind]
    model = tmp_path / "model.onnx"
    (tmp_path / "short.bin").write_bytes(bytes(8))
    if content is not None:
        model.write_bytes(content)
    before = everything_under(tmp_path)
    outcome = cli(command[0], model, *command[1:])
    assert outcome.code == 1, outcome.err
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert "model.onnx" in outcome.err
    assert expected in outcome.err
    assert "Traceback" not in outcome.err
    assert everything_under(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("infer", "M", "--input", "x=[1, 2, 3]"), "has shape [3]"),
        (("infer", "M", "--input", "x=[[1, 2, 3, 4]]"), "rank 2"),
        (("infer", "M", "--input", 'x="words"'), "cannot be read as float32"),
        (("infer", "M", "--input", "x=wrong.npy"), "has dtype float64"),
        (("infer", "M", "--input", "z=1"), "no input 'z'"),
        (("infer", "D", "--dim", "batch=0"), "must be at least 1"),
        (("infer", "D", "--dim", "batch=x"), "not a whole number"),
        (("infer", "D", "--dim", "batch=2", "--dim", "batch=3"), "given twice"),
        (
            ("infer", "D", "--dim", "batch=5", "--input", "x=[[1, 2, 3, 4]]"),
            "dimension 'batch' is asked to be 5, and is 1 in the inputs that are given",
        ),
        (("infer", "D", "--dim", "bach=2"), "Did you mean 'batch'?"),
        (("infer", "D", "--input", "x=zero.npy"), "is zero"),
        (("infer", "M", "--providers", "CUDAA"), "Did you mean 'CUDA'?"),
        (("infer", "M", "--set", "benchmark.rns=1"), "Did you mean 'runs'?"),
        (("infer", "M", "--set", "benchmark.runs=many"), "valid integer"),
        (("infer", "M", "--set", "nonsense"), "key=value"),
        (("infer", "M", "--config", "nowhere.yaml"), "no such configuration file"),
        (("infer", "M", "--config", "bad.yaml"), "bad.yaml:2: unknown key 'providrs' in 'inference'"),
        (("benchmark", "D", "--batch-size", "0"), "greater than or equal to 1"),
        (("benchmark", "D", "--runs", "0"), "--runs"),
        (("optimize", "M", "-o", "M"), "never overwritten"),
        (("optimize", "M", "-o", "."), "is a folder"),
        (("optimize", "M", "-o", "wrong.npy/out.onnx"), "cannot be"),
        (("optimize", "M", "-o", "/proc/nowhere/out.onnx"), "cannot be"),
        (("infer", "M", "-o", "/proc/nowhere/out.npz"), "cannot be"),
        (("inspect", "M", "--chart", "/proc/nowhere/c.png"), "cannot be"),
        (("profile", "M", "--trace", "M"), "never overwritten"),
        (("inspect", "."), "is a folder"),
        (("inspect",), "Missing argument"),
        (("nothing",), "No such command"),
        (("infer", "M", "--nothing"), "No such option"),
        (("export", "sklearn", "model.pkl", "-o", "o.onnx"), "trust"),
        (("export", "pytorch", "nowhere:factory", "-o", "o.onnx", "--input-shape", "1,4"), "nowhere"),
        (("export", "pytorch", "nowhere:factory", "-o", "o.onnx"), "input_shapes"),
        (("export", "pytorch", "a:b", "-o", "o.onnx", "--input-shape", "1,x"), "whole numbers"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_bad_call_is_one_clear_error(cli, write_model, arguments, expected):
    if arguments[0] == "export":
        pytest.importorskip("torch" if arguments[1] == "pytorch" else "skl2onnx", reason="it is an extra")
    paths = {
        "M": write_model("g (float[4] x) => (float[4] y) { y = Relu(x) }", "fixed.onnx"),
        "D": write_model("g (float[batch, 4] x) => (float[batch, 4] y) { y = Relu(x) }", "dynamic.onnx"),
    }
    np.save("wrong.npy", np.zeros(4))
    np.save("zero.npy", np.zeros((0, 4), np.float32))
    Path("bad.yaml").write_text("inference:\n  providrs: [CPU]\n")
    Path("model.pkl").write_bytes(b"\x80\x04N.")
    before = everything_under(paths["M"].parent)
    outcome = cli(*(paths.get(argument, argument) for argument in arguments))
    assert outcome.code == 1, outcome.err
    assert expected in outcome.err.replace("\n", " ")
    assert "Traceback" not in outcome.err
    assert everything_under(paths["M"].parent) == before


def test_errors_as_json(cli, tmp_path):
    error = cli("inspect", tmp_path / "nothing.onnx", "--output-format", "json").json
    assert error["version"] == 1
    assert error["error"]["type"] == "ModelFileError"
    assert "nothing.onnx" in error["error"]["message"]
    assert cli("inspect", "--output-format=json").json["error"]["type"] == "UsageError"


def test_our_own_fault_is_exit_code_2(cli, classifier, monkeypatch):
    from onnxsmith import api

    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(api, "inspect", broken)
    outcome = cli("inspect", classifier)
    assert outcome.code == 2
    assert "ZeroDivisionError: a bug" in outcome.err
    assert "fault of onnxsmith" in outcome.err


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_stopping_leaves_nothing_half_written(tmp_path, kind):
    """A model whose run takes long is stopped in the middle of optimising it."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["still"]), helper.make_node("Sin", ["state"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [4]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [4]),
        ],
    )
    steps = numpy_helper.from_array(np.array(2**40), "steps")
    node = helper.make_node("Loop", ["steps", "", "x"], ["y"], body=body)
    io = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "g", io[:1], io[1:], [steps]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, tmp_path / "endless.onnx")
    before = everything_under(tmp_path)
    command = [sys.executable, "-m", "onnxsmith", "optimize", "endless.onnx", "--output-dir", "levels"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
    time.sleep(4)
    assert process.poll() is None
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False
    )
    process.send_signal(kind)
    process.communicate(timeout=20)
    assert process.returncode == (130 if kind == signal.SIGINT else 143)
    assert everything_under(tmp_path) == before
    for child in children.stdout.split():
        assert not _alive(int(child))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root, to mount a small disk")
@pytest.mark.parametrize(
    "command",
    [
        ("optimize", "M", "-o", "D/out.onnx"),
        ("optimize", "M", "--output-dir", "D/levels"),
        ("infer", "M", "-o", "D/out.npz"),
        ("inspect", "M", "--chart", "D/chart.png"),
        ("profile", "M", "--trace", "D/trace.json"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("options", ["size=4k", "ro"])
def test_a_full_or_read_only_disk_is_one_clear_error(cli, tmp_path, command, options):
    weights = numpy_helper.from_array(np.ones((64, 256), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    io = [helper.make_tensor_value_info("x", 1, [64, 64]), helper.make_tensor_value_info("y", 1, [64, 256])]
    model = helper.make_model(
        helper.make_graph([node], "g", io[:1], io[1:], [weights]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, tmp_path / "model.onnx")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=False).returncode:
        pytest.skip("this machine lets nobody mount a disk")
    try:
        paths = {"M": tmp_path / "model.onnx"}
        arguments = [str(paths.get(word, word)).replace("D/", f"{disk}/") for word in command]
        outcome = cli(*arguments)
        assert outcome.code == 1, outcome.err
        reasons = ("Read-only file system",) if options == "ro" else ("the disk is full", "No space left on device")
        assert any(f"cannot be written: {reason}" in outcome.err for reason in reasons)
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_call_without_arguments_shows_the_help(cli):
    outcome = cli()
    assert outcome.code == 1
    assert "Usage: onnxsmith" in outcome.err + outcome.out
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        (("inspect", "m.onnx", "--chart", "m.onnx"), "m.onnx"),
        (("benchmark", "m.onnx", "--runs", "2", "--chart", "m.onnx"), "m.onnx"),
        (("optimize", "m.onnx", "--input", "x=x.npy", "-o", "x.npy"), "x.npy"),
        (("optimize", "m.onnx", "-o", "c.yaml", "--config", "c.yaml"), "c.yaml"),
        (("infer", "m.onnx", "--input", "all.npz", "-o", "all.npz"), "all.npz"),
        (("profile", "m.onnx", "--input", "x=x.npy", "--trace", "x.npy"), "x.npy"),
        (("export", "sklearn", "e.pkl", "-o", "e.pkl", "--trust-pickle"), "e.pkl"),
        (("export", "sklearn", "-o", "x.npy", "--sample", "x.npy"), "x.npy"),
        (("export", "pytorch", "mods:make", "-o", "mods.py", "--input-shape", "1,4"), "mods.py"),
        (("export", "pytorch", "mods:make", "--state-dict", "w.pt", "-o", "w.pt", "--input-shape", "1,4"), "w.pt"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_no_output_overwrites_an_input(cli, arguments, target):
    node = helper.make_node("Relu", ["x"], ["y"])
    io = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    onnx.save(
        helper.make_model(
            helper.make_graph([node], "g", io[:1], io[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ),
        "m.onnx",
    )
    np.save("x.npy", np.zeros(4, np.float32))
    np.savez("all.npz", x=np.zeros(4, np.float32))
    Path("c.yaml").write_text("seed: 1\n")
    Path("e.pkl").write_bytes(b"\x80\x04N.")
    Path("w.pt").write_bytes(b"weights")
    Path("mods.py").write_text("import torch\n\ndef make():\n    return torch.nn.Linear(4, 2)\n")
    before = Path(target).read_bytes()
    outcome = cli(*arguments)
    assert outcome.code == 1, outcome.err
    assert f"{target}: is the input itself, and the input is never overwritten." in outcome.err
    assert Path(target).read_bytes() == before


@pytest.mark.parametrize("command", [("infer",), ("profile",), ("optimize", "-o", "o.onnx")], ids=" ".join)
def test_inputs_larger_than_the_memory_are_one_clear_error(cli, write_model, command):
    path = write_model("g (float[100000, 1000000, 100] x) => (float[100000, 1000000, 100] y) { y = Neg(x) }")
    outcome = cli(command[0], path, *command[1:])
    assert outcome.code == 1, outcome.err
    assert "not enough memory" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_factory_that_ends_the_process_is_one_clear_error(cli):
    pytest.importorskip("torch", reason="PyTorch is an extra")
    Path("leaver.py").write_text("import sys\n\ndef make():\n    sys.exit(7)\n")
    outcome = cli("export", "pytorch", "leaver:make", "-o", "n.onnx", "--input-shape", "2,4")
    assert outcome.code == 1
    assert "'leaver:make' raised SystemExit" in outcome.err
