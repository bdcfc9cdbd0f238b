"""Keeps SymPy from being imported before it is used.

`import onnx_ir` imports SymPy, which takes longer than all the rest of it, for arithmetic on symbolic dimensions that
few runs come to. While onnx_ir is imported for the first time, stand-ins take the place of SymPy and of the one module
of onnx_ir that uses it as it is loaded; they go to the real modules when something is asked of them. Afterwards
`import sympy` is what it always was, and where SymPy has been imported already nothing is done.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_DEFERRED = ("sympy", "onnx_ir._symbolic_shapes")


def install() -> None:
    """Makes the first `import onnx_ir` from here on do without SymPy."""
    if "onnx_ir" not in sys.modules and "sympy" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds onnx_ir, once."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "onnx_ir":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None and "sympy" not in sys.modules:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Loads onnx_ir with stand-ins in place."""

    def __init__(self, real: Loader) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        stand_ins = {name: _StandIn(name) for name in _DEFERRED}
        sys.modules.update(stand_ins)
        try:
            self._real.exec_module(module)
        finally:
            for name, stand_in in stand_ins.items():
                if sys.modules.get(name) is stand_in:
                    del sys.modules[name]


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)
