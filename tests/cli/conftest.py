from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from onnxsmith.cli import main


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


@pytest.fixture
def cli(capfd, monkeypatch, tmp_path):
    """Runs the command line in an empty folder; consoles are made anew, so that they write where pytest reads."""
    from onnxsmith.cli import common

    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def run(*arguments: object) -> Outcome:
        common.stderr_console.cache_clear()
        common.stdout_console.cache_clear()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return run


@pytest.fixture
def classifier(write_model) -> Path:
    """Two folded-away candidates before a Relu, on a dynamic batch."""
    return write_model(
        "g (float[batch, 4] x) => (float[batch, 4] y) "
        "<float[4] w = {1, 2, 3, 4}> { a = Identity(x) b = Mul(a, w) y = Relu(b) }",
        "classifier.onnx",
    )
