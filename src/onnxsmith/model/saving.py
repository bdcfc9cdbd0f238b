"""Writing results: all of it, or nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from onnxsmith.errors import OutputError


@contextmanager
def staged_folder(folder: Path) -> Iterator[Path]:
    """A folder to write results in, whose files move to `folder` when the block ends well.

    The staging folder lies inside `folder`, so that each move is a rename. When the block raises, Ctrl-C included,
    nothing of it is left.

    Raises:
        OutputError: The folder cannot be made or written, the disk is full, or a folder, a device or a pipe is where a
            result goes.
    """
    staging: Path | None = None
    made = _missing_parents(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".onnxsmith-", dir=folder))
        yield staging
        files = sorted(staging.iterdir(), key=_place_in_order)
        for file in files:
            _forbid_special(folder / file.name)
        for file in files:
            file.replace(folder / file.name)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}.") from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        for parent in made:
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()


def forbid_same_file(target: Path, sources: Iterable[Path]) -> None:
    """Refuses a destination that is one of the inputs, by whatever name or link.

    Raises:
        OutputError: It is, or cannot be a file's name.
    """
    try:
        same = target.exists() and any(source.exists() and target.samefile(source) for source in sources)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror}.") from None
    if same:
        raise OutputError(f"{target}: is the input itself, and the input is never overwritten.", "Name another file.")


def _forbid_special(target: Path) -> None:
    """Refuses what a rename must not replace: a folder, a device such as /dev/null, or /dev/stdout, a link to one."""
    if target.is_dir():
        raise OutputError(f"{target}: is a folder; name a file in it.")
    is_stream = target.is_symlink() and target.readlink().is_relative_to("/proc")
    if is_stream or (target.exists() and not target.is_file()):
        raise OutputError(f"{target}: is a device or a pipe; name a file.")


def _place_in_order(file: Path) -> tuple[bool, bool]:
    """External data first and models last: a model never stands there without its weights."""
    return file.suffix != ".data", file.suffix == ".onnx"


def _missing_parents(folder: Path) -> list[Path]:
    """The folders that making `folder` would make, innermost first."""
    return [path for path in (folder, *folder.parents) if not path.exists()]


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole or not at all.

    Raises:
        OutputError: It cannot be written.
    """
    with staged_folder(path.parent) as staging:
        (staging / path.name).write_text(text, encoding="utf-8")
