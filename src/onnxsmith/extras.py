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
        MissingExtraError: It is not installed, or does not import; the message says what to install.
    """
    top = module.split(".", maxsplit=1)[0]
    distribution = DISTRIBUTIONS.get(top, top)
    extra = next(name for name, modules in EXTRAS.items() if top in modules)
    install = f"pip install 'onnxsmith[{extra}]'"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == top:
            raise MissingExtraError(
                f"{distribution} is needed {purpose}, and it is not installed.", f"Install it with: {install}"
            ) from error
        raise MissingExtraError(
            f"{distribution} is needed {purpose}, and {error.name}, which it needs, is not installed.",
            f"Install the versions that belong together: {install} --upgrade",
        ) from error
    except Exception as error:
        raise MissingExtraError(
            f"{distribution} is needed {purpose}, and it is installed but cannot be imported: "
            f"{type(error).__name__}: {error}",
            f"Install it anew: {install} --force-reinstall",
        ) from error


def installed_version(module: str) -> str | None:
    """The version of a module's distribution, or None if it is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(module, module))
    except importlib.metadata.PackageNotFoundError:
        return None
