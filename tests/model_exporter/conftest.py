import pytest

from onnxsmith.config import LimitsConfig, PyTorchConfig, SklearnConfig, TrainingConfig
from onnxsmith.model_exporter import PyTorchExporter, SklearnExporter
from onnxsmith.model_exporter.training import train_simple_cnn

LIMITS = LimitsConfig(timeout_s=120)


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
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write
