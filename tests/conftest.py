"""Small models for every test, written as ONNX text."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts what runs in the background so, and what tests start and interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

HEADER = '<ir_version: 10, opset_import: ["": 21, "custom": 1]>\n'
"""What `build_model` puts before a text that is a graph alone."""

BuildModel = Callable[..., onnx.ModelProto]
WriteModel = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the developer's own `ONNXSMITH_…` variables out of the tests."""
    for name in [name for name in os.environ if name.startswith("ONNXSMITH_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def build_model() -> BuildModel:
    """Builds a model from ONNX text; a graph alone gets `HEADER`."""

    def build(text: str, *initializers: onnx.TensorProto) -> onnx.ModelProto:
        text = text.strip()
        model = onnx.parser.parse_model(text if text.startswith("<") else HEADER + text)
        model.graph.initializer.extend(initializers)
        return model

    return build


@pytest.fixture
def write_model(tmp_path: Path, build_model: BuildModel) -> WriteModel:
    """Writes a model, given as text or as a message, below `tmp_path`; options go to `onnx.save_model`."""

    def write(model: str | onnx.ModelProto, name: str = "model.onnx", **options: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save_model(build_model(model) if isinstance(model, str) else model, path, **options)
        return path

    return write
