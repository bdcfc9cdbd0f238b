"""What users name: `package.module:factory`, a state dict, a pickled estimator."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import pickle
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxsmith.errors import ExportError
from onnxsmith.extras import require
from onnxsmith.model_exporter.chatter import quiet, reason

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

_PICKLES = (".pkl", ".pickle", ".joblib")
_NAMED_KEYS = 5


def load_factory(source: str, expected: type, what: str) -> Any:
    """Imports `package.module:name` and calls it, unless it is what is wanted already.

    The current folder is searched before installed packages, as `python -m` does.

    Args:
        source: Where it is.
        expected: The type that is wanted.
        what: That type in words: "a torch.nn.Module".

    Raises:
        ExportError: There is no such module or name, it raised, or it gave something else.
    """
    module_name, colon, name = source.partition(":")
    if not colon or not module_name or not name:
        raise ExportError(
            f"'{source}' does not name a factory.",
            "Write it as package.module:factory, for example mypackage.nets:make.",
        )
    with _current_folder_first():
        module = _import(module_name, source)
        try:
            found = functools.reduce(getattr, name.split("."), module)
        except AttributeError:
            raise ExportError(f"'{source}': the module {module_name} has no '{name}'.", _offered(module)) from None
        if isinstance(found, expected):
            return found
        if not callable(found):
            raise ExportError(f"'{source}' is a {type(found).__name__}, neither {what} nor a function that makes one.")
        try:
            with quiet():
                made = found()
        except (Exception, SystemExit) as error:
            raise ExportError(f"'{source}' raised {type(error).__name__}: {reason(error)}") from error
    if not isinstance(made, expected):
        raise ExportError(f"'{source}' returned a {type(made).__name__}, not {what}.")
    return made


def load_module(source: str, state_dict: Path | None = None, seed: int = 0) -> torch.nn.Module:
    """Makes the `torch.nn.Module` that a user names.

    Args:
        source: `package.module:factory`, a class without arguments, or an instance.
        state_dict: Its weights, or None to keep those it is made with.
        seed: Of random weights.

    Raises:
        ExportError: The factory or the state dict cannot be used.
        MissingExtraError: PyTorch is not installed.
    """
    torch = require("torch", purpose="to export from PyTorch")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = load_factory(source, torch.nn.Module, "a torch.nn.Module")
    if state_dict is not None:
        _apply(module, load_state_dict(state_dict), state_dict)
    return module


def load_state_dict(path: Path) -> dict[str, torch.Tensor]:
    """Reads a state dict: tensors only, no pickled objects.

    Raises:
        ExportError: The file is missing, holds anything but a state dict, or cannot be read.
        MissingExtraError: PyTorch is not installed.
    """
    torch = require("torch", purpose="to read a state dict")
    save = "Save only the weights: torch.save(module.state_dict(), 'weights.pt')"
    try:
        with quiet():
            state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ExportError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise ExportError(f"{path}: cannot be read: {error.strerror or error}.") from None
    except pickle.UnpicklingError as error:
        if "Unsupported global" not in str(error) and "Unsupported class" not in str(error):
            raise ExportError(f"{path}: is not a PyTorch state dict, or it is cut off.", save) from error
        raise ExportError(
            f"{path}: holds pickled objects beside tensors, and they are refused: loading them would run their code.",
            save,
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExportError(f"{path}: is not a PyTorch state dict, or it is cut off: {reason(error)}", save) from error
    if not isinstance(state, Mapping):
        raise ExportError(f"{path}: holds a {type(state).__name__}, not a state dict.", save)
    others = [str(key) for key, value in state.items() if not isinstance(value, torch.Tensor)]
    if others:
        raise ExportError(
            f"{path}: holds more than a state dict: {_named(others)} {'is' if len(others) == 1 else 'are'} no tensor.",
            save,
        )
    return dict(state)


def _apply(module: torch.nn.Module, state: dict[str, torch.Tensor], path: Path) -> None:
    try:
        missing, unexpected = module.load_state_dict(state, strict=False)
    except RuntimeError as error:
        # PyTorch lists tensors of another shape below a heading.
        lines = [line.strip() for line in str(error).splitlines()[1:]] or [str(error)]
        raise ExportError(f"{path}: does not fit {type(module).__name__}: {lines[0]}") from error
    problems = [
        f"{text} {_named(keys)}" for text, keys in (("it lacks", missing), ("it has in addition", unexpected)) if keys
    ]
    if problems:
        raise ExportError(f"{path}: does not fit {type(module).__name__}: {'; '.join(problems)}.")


def load_estimator(source: str, trust_pickle: bool = False) -> Any:
    """Loads the scikit-learn estimator that a user names.

    Args:
        source: `package.module:factory`, or a file made by joblib or pickle.
        trust_pickle: A pickle runs code as it loads; True says that this one is trusted.

    Raises:
        ExportError: The factory or the file cannot be used, or the file is not trusted.
        MissingExtraError: scikit-learn is not installed.
    """
    base = require("sklearn.base", purpose="to export from scikit-learn")
    what = "a scikit-learn estimator"
    path = Path(source)
    if path.suffix not in _PICKLES and not path.is_file():
        return load_factory(source, base.BaseEstimator, what)
    if not path.is_file():
        raise ExportError(f"{path}: there is no such file.")
    if not trust_pickle:
        raise ExportError(
            f"{path}: a pickle can run any code as it loads, so it is for trusted input only.",
            "If you trust it, say so with --trust-pickle; or name a factory: package.module:factory.",
        )
    import joblib  # scikit-learn depends on it

    try:
        with _current_folder_first(), quiet() as heard:
            estimator = joblib.load(path)
    except Exception as error:
        raise ExportError(
            f"{path}: cannot be loaded: {reason(error)}",
            "Load it where it was made, with the same versions of Python and scikit-learn.",
        ) from error
    for warning in heard.warnings:
        logger.warning("%s: %s", path, warning)
    if not isinstance(estimator, base.BaseEstimator):
        raise ExportError(f"{path}: holds a {type(estimator).__name__}, not {what}.")
    return estimator


def _import(name: str, source: str) -> Any:
    try:
        with quiet():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ExportError(
                f"'{source}': there is no module {error.name}.",
                "It is searched for in the current folder and among the installed packages.",
            ) from None
        raise ExportError(f"'{source}': importing {name} failed: {reason(error)}") from error
    except (Exception, SystemExit) as error:
        raise ExportError(
            f"'{source}': importing {name} failed with {type(error).__name__}: {reason(error)}"
        ) from error


def _offered(module: Any) -> str | None:
    names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    own = [name for name in names if getattr(vars(module)[name], "__module__", None) == module.__name__]
    return f"It has: {_named(own)}." if own else None


def _named(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:_NAMED_KEYS])
    return f"{shown} and {len(names) - _NAMED_KEYS} more" if len(names) > _NAMED_KEYS else shown


@contextlib.contextmanager
def _current_folder_first() -> Iterator[None]:
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    # A module may have been written since the folder was last listed.
    importlib.invalidate_caches()
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)
