from __future__ import annotations

import importlib.metadata
import sys
import tomllib
from pathlib import Path

import pytest

from onnxsmith.errors import MissingExtraError
from onnxsmith.extras import DISTRIBUTIONS, EXTRAS, installed_version, require


@pytest.fixture
def shadowed(tmp_path, monkeypatch):
    """Puts a module of one's own in the place of an optional one."""

    def shadow(name: str, code: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
        for module in [module for module in sys.modules if module.split(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.syspath_prepend(str(tmp_path))

    return shadow


def test_a_module_that_is_there(shadowed):
    shadowed("onnxsim", "answer = 42")
    assert require("onnxsim", purpose="to simplify").answer == 42


def test_a_module_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtraError) as caught:
        require("sklearn", purpose="to export an estimator")
    assert caught.value.message == "scikit-learn is needed to export an estimator, and it is not installed."
    assert caught.value.hint == "Install it with: pip install 'onnxsmith[sklearn]'"
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("module", "code", "message"),
    [
        (
            "onnxsim",
            "import no_such_dependency",
            "and no_such_dependency, which it needs, is not",
        ),
        ("onnxsim.inner", "", "onnxsim is needed to x, and onnxsim.inner, which it needs, is not installed."),
        ("onnxsim", "raise ImportError('libgomp.so.1: no such file')", "cannot be imported: ImportError: libgomp.so.1"),
        ("onnxsim", "raise OSError('broken')", "it is installed but cannot be imported: OSError: broken"),
    ],
)
def test_a_module_that_does_not_import(shadowed, module, code, message):
    shadowed("onnxsim", code)
    with pytest.raises(MissingExtraError) as caught:
        require(module, purpose="to x")
    assert message in caught.value.message
    assert "pip install 'onnxsmith[peers]'" in str(caught.value.hint)


def test_versions():
    assert installed_version("numpy") == importlib.metadata.version("numpy")
    assert installed_version("no_such_module") is None


def test_extras_are_those_of_the_package():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {
        name: {requirement.split(">=")[0] for requirement in requirements}
        for name, requirements in project["optional-dependencies"].items()
        if name != "all"
    }
    known = {name: {DISTRIBUTIONS.get(module, module) for module in modules} for name, modules in EXTRAS.items()}
    assert known == declared
