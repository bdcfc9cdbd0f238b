"""ONNX's messages and checker without the rest of the onnx package, for a child process that lives for one check.

`import onnx` brings NumPy and more, and takes several times as long as the check itself. A stand-in with the messages,
the schemas and the checker takes its place; where that cannot be made, the package itself is imported as ever.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType, SimpleNamespace
from typing import Any


def install() -> None:
    """Makes `import onnx` mean the stand-in, unless the package has been imported before."""
    spec = None if "onnx" in sys.modules else importlib.util.find_spec("onnx")
    if spec is None or spec.submodule_search_locations is None:
        return
    stand_in = ModuleType("onnx")
    stand_in.__path__ = list(spec.submodule_search_locations)
    sys.modules["onnx"] = stand_in
    try:
        messages = importlib.import_module("onnx.onnx_ml_pb2")
        native = importlib.import_module("onnx.onnx_cpp2py_export")
        stand_in.__dict__.update({name: value for name, value in vars(messages).items() if name.endswith("Proto")})
        stand_in.__dict__.update(defs=native.defs, checker=_checker(native))
    except (ImportError, AttributeError):
        uninstall()


def uninstall() -> None:
    """Makes `import onnx` mean the package again; the messages stay the same."""
    if "onnx" in sys.modules and not hasattr(sys.modules["onnx"], "__file__"):
        del sys.modules["onnx"]


def _checker(native: ModuleType) -> SimpleNamespace:
    def check_model(message: Any) -> None:
        native.checker.check_model(
            message.SerializeToString(),
            full_check=False,
            skip_opset_compatibility_check=False,
            check_custom_domain=False,
        )

    return SimpleNamespace(check_model=check_model, ValidationError=native.checker.ValidationError)
