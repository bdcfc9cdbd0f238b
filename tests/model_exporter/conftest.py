import importlib
import sys

import onnxruntime
import pytest
import torch

from onnxsmith.config import LimitsConfig, PyTorchConfig, SklearnConfig, TrainingConfig
from onnxsmith.model_exporter import PyTorchExporter, SklearnExporter
from onnxsmith.model_exporter.training import train_simple_cnn
from onnxsmith.process import Supervised
from onnxsmith.records import no_progress

LIMITS = LimitsConfig(timeout_s=120)


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Threads that wait for each other take minutes on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def real_children():
    """Asked for by a test whose subject is the child process."""


@pytest.fixture(autouse=True)
def children_in_this_process(request, monkeypatch):
    """Calls here what belongs in a child: these models are our own, and a child costs a third of a second."""

    def call(function, /, *args, limits, what, progress=no_progress, **kwargs):
        module, name = function.split(":")
        return Supervised(getattr(importlib.import_module(module), name)(*args, progress=progress, **kwargs), "", None)

    if "real_children" not in request.fixturenames:
        monkeypatch.setattr("onnxsmith.model.native.run_supervised", call)
        monkeypatch.setattr("onnxsmith.inference_engine.ort_inference.run_supervised", call)


@pytest.fixture(scope="session")
def trained():
    """SimpleCNN, trained once with the default settings."""
    return train_simple_cnn(TrainingConfig(), seed=0)


@pytest.fixture
def torch_exporter():
    """A PyTorchExporter with any key of its configuration."""
    return lambda **config: PyTorchExporter(PyTorchConfig(**config), limits=LIMITS)


@pytest.fixture
def sklearn_exporter():
    """A SklearnExporter with any key of its configuration."""
    return lambda **config: SklearnExporter(SklearnConfig(**config), limits=LIMITS)


@pytest.fixture
def written_module(tmp_path, monkeypatch):
    """Writes `user_nets.py` in the current folder, as a user has it."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="user_nets"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


@pytest.fixture
def run_here():
    """Runs an exported model once in this process, which costs no child. Returns its outputs by name."""

    def run(path, feeds):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds), strict=True))

    return run
