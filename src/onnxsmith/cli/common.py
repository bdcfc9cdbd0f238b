"""What the commands share: options, the configuration in force, the log, progress, and how results are printed."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from onnxsmith.config import Config
    from onnxsmith.records import Progress, Record


class OutputFormat(StrEnum):
    """How a result is printed."""

    text = "text"
    json = "json"


class Level(StrEnum):
    """ONNX Runtime's graph optimisation levels."""

    ORT_DISABLE_ALL = "ORT_DISABLE_ALL"
    ORT_ENABLE_BASIC = "ORT_ENABLE_BASIC"
    ORT_ENABLE_EXTENDED = "ORT_ENABLE_EXTENDED"
    ORT_ENABLE_ALL = "ORT_ENABLE_ALL"


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file.", show_default=False)]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The configuration; config.yaml in this folder if it is there."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set any key of the configuration: --set benchmark.runs=50."),
]
FormatOption = Annotated[OutputFormat, typer.Option("--output-format", help="How the result is printed on stdout.")]
VerboseOption = Annotated[
    int, typer.Option("--verbose", "-v", count=True, show_default=False, help="More on stderr; -vv for everything.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing but errors on stderr.")]
DimOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=SIZE",
        help="Size of a dynamic dimension: --dim batch=4. One without a name is INPUT.AXIS: --dim images.2=640.",
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=VALUE",
        help="An input: a .npy or .npz file, an image, or JSON (sr=16000). What is not given is sampled.",
    ),
]
ProvidersOption = Annotated[
    str | None, typer.Option("--providers", metavar="NAMES", help="Execution providers, in order: CUDA,CPU.")
]
LevelOption = Annotated[Level | None, typer.Option("--level", help="The graph optimisation level.", show_default=False)]


@dataclass(frozen=True)
class Session:
    """One call of a command.

    Attributes:
        config: The configuration in force.
        origins: Where each value that is not a default came from.
        file: The configuration's file, or None.
        format: How the result is printed.
        progress: Shows progress on stderr.
        stop_progress: Takes the progress bar away, so that a result does not meet it.
    """

    config: Config
    origins: Mapping[str, str]
    file: Path | None
    format: OutputFormat
    progress: Progress
    stop_progress: Callable[[], None]

    def protect(self, *outputs: Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
        """Refuses outputs that are the configuration's file or an input.

        Args:
            *outputs: What the command is to write; None is passed over.
            inputs: Files, or `--input` options, whose value may be a file.

        Raises:
            OutputError: One is.
        """
        from onnxsmith.model.saving import forbid_same_file

        named = [str(text) for text in inputs if text is not None]
        sources = [Path(part) for text in named for part in (text, text.partition("=")[2]) if part]
        files = [source for source in (self.file, *sources) if source is not None and _is_file(source)]
        for output in outputs:
            if output is not None:
                forbid_same_file(output, files)

    def emit(self, result: Record, render: Callable[[], Sequence[RenderableType]], **parts: Record | None) -> None:
        """Prints a result on stdout, as JSON or as what `render` makes; `parts` are put into the JSON by name."""
        self.stop_progress()
        if self.format is OutputFormat.json:
            emit_json({**result.to_dict(), **{name: part.to_dict() for name, part in parts.items() if part}})
            return
        for part in render():
            stdout_console().print(part)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a JSON value that is no path
        return False


def emit_json(fields: Mapping[str, Any]) -> None:
    """Prints JSON on stdout, with the version of its schema first."""
    import json

    from onnxsmith.records import SCHEMA_VERSION

    sys.stdout.write(json.dumps({"version": SCHEMA_VERSION, **fields}, indent=2, allow_nan=False) + "\n")


@contextmanager
def session(
    *,
    config: Path | None,
    assignments: list[str] | None,
    output_format: OutputFormat,
    verbose: int = 0,
    quiet: bool = False,
    flags: Mapping[str, Any] | None = None,
    title: str,
    log_to_file: bool = False,
    console_level: str | None = None,
) -> Iterator[Session]:
    """Loads the configuration, starts the log and the progress display.

    Args:
        config: The file that the user named.
        assignments: `--set` values.
        output_format: How the result is printed.
        verbose: How often `-v` was given.
        quiet: Whether `-q` was given.
        flags: A command's own options by the key that each one sets; they are stronger than `--set`.
        title: What is going on, for the progress display.
        log_to_file: Write the log file even where there is no configuration file.
        console_level: The console's level without `-v`; None is WARNING.
    """
    from onnxsmith.config_loading import load_config, parse_assignments

    given = {key: value for key, value in (flags or {}).items() if value is not None}
    loaded = load_config(config, flags={**parse_assignments(assignments or []), **given})
    console = "ERROR" if quiet else ("INFO" if verbose == 1 else "DEBUG") if verbose else console_level or "WARNING"
    if console_level == "config" and not (quiet or verbose):
        console = loaded.config.logging.level
    file = loaded.config.paths.log if log_to_file or loaded.file is not None else None
    with _logging(console, file), _progress(title, show=not quiet) as (progress, stop):
        yield Session(loaded.config, loaded.origins, loaded.file, output_format, progress, stop)


@contextmanager
def _logging(level: str, file: Path | None) -> Iterator[None]:
    from onnxsmith.errors import OutputError

    root = logging.getLogger("onnxsmith")
    console = _ConsoleHandler()
    console.setLevel(level)
    handlers: list[logging.Handler] = [console]
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            to_file = logging.FileHandler(file, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{file}: the log cannot be written: {error.strerror}.", "Set paths.log.") from None
        to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
        to_file.setLevel("INFO")
        handlers.append(to_file)
    root.setLevel("DEBUG" if level == "DEBUG" else "INFO")
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()


class _ConsoleHandler(logging.Handler):
    """Writes to stderr over the progress bar; long lines stay whole."""

    _STYLES: Final = {"WARNING": "yellow", "ERROR": "red", "DEBUG": "dim"}

    def emit(self, record: logging.LogRecord) -> None:
        from onnxsmith.records import printable

        text = printable(record.getMessage(), lines=True)
        line = text if record.levelname == "INFO" else f"{record.levelname.lower()}: {text}"
        stderr_console().print(
            line, style=self._STYLES.get(record.levelname, ""), markup=False, highlight=False, soft_wrap=True
        )


@contextmanager
def _progress(title: str, *, show: bool) -> Iterator[tuple[Progress, Callable[[], None]]]:
    """A progress bar on stderr, where that is a terminal, and what takes it away."""
    from onnxsmith.records import no_progress

    if not show or not stderr_console().is_terminal:
        yield no_progress, lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=stderr_console(), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def update(label: str, done: int, total: int) -> None:
            bar.update(task, description=f"{title}: {label}" if label else title, completed=done, total=total)

        yield update, bar.stop


@functools.cache
def stderr_console() -> Console:
    """The console for progress, logs and errors."""
    from rich.console import Console

    return Console(stderr=True)


@functools.cache
def stdout_console() -> Console:
    """The console for results; wide where it is not a terminal, so that nothing is cut."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich itself would end the process with an error

    console = Output()
    return console if console.is_terminal else Output(width=160)


def fail_gate(reason: str) -> NoReturn:
    """Ends the command with exit code 1 although its result was printed and its files are there.

    Args:
        reason: What did not hold.
    """
    stderr_console().print(f"failed: {reason}", style="bold red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def parse_new_dims(texts: list[str] | None) -> dict[str, int | str]:
    """Reads `NAME=SIZE` and `NAME=NEW_NAME` options.

    Raises:
        TensorError: One is not of that form.
    """
    renamed = {}
    sizes = []
    for text in texts or []:
        name, equals, new = text.rpartition("=")
        if equals and name and new.isidentifier():
            renamed[name] = new
        else:
            sizes.append(text)
    return {**parse_dims(sizes), **renamed}


def parse_dims(texts: list[str] | None) -> dict[str, int]:
    """Reads `NAME=SIZE` options.

    Raises:
        TensorError: One is not of that form.
    """
    from onnxsmith.errors import TensorError

    sizes = {}
    for text in texts or []:
        name, equals, size = text.rpartition("=")
        if not equals or not name:
            raise TensorError(f"--dim {text}: write it as NAME=SIZE, for example --dim batch=4.")
        if name in sizes:
            raise TensorError(f"--dim {text}: '{name}' is given twice.")
        try:
            sizes[name] = int(size)
        except ValueError:
            raise TensorError(f"--dim {text}: '{size}' is not a whole number.") from None
    return sizes
