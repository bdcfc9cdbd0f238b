"""Optional dependencies: imported where they are used, and named when they are missing."""

from __future__ import annotations

import importlib
import importlib.metadata
from types import ModuleType

from onnxsmith.errors import MissingExtraError

EXTRAS: dict[str, tuple[str, ...]] = {
    "report": ("jinja2", "matplotlib"),
    "images": ("PIL",),
    "torch": ("torch",),
    "sklearn": ("sklearn", "skl2onnx"),
    "peers": ("onnxsim", "onnxslim", "onnxoptimizer"),
}
"""Each extra of the package and the modules that it brings."""

DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow"}
"""The distribution's name where it is not the module's."""


def require(module: str, *, purpose: str) -> ModuleType:
    """Imports an optional module.

    Args:
        module: The module, dotted where a submodule is wanted.
        purpose: What it is needed for, as it stands in the error: "to export from PyTorch".

    Raises:
        MissingExtraError: It is not installed; the message says what to install.
    """
    top = module.split(".", maxsplit=1)[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != top:
            raise MissingExtraError(f"{top} is installed, but {error.name}, which it needs, is not.") from error
        extra = next(name for name, modules in EXTRAS.items() if top in modules)
        distribution = DISTRIBUTIONS.get(top, top)
        raise MissingExtraError(
            f"{distribution} is needed {purpose}, and it is not installed.",
            f"Install it with: pip install 'onnxsmith[{extra}]'",
        ) from error


def installed_version(module: str) -> str | None:
    """The version of a module's distribution, or None if it is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(module, module))
    except importlib.metadata.PackageNotFoundError:
        return None
