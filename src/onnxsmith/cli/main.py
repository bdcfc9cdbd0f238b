"""The entry point: commands, errors and exit codes."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import sys
from typing import Annotated, Any, NoReturn

import typer

from onnxsmith.cli import analysis, config, doctor, export, inference, lifecycle, optimization

# Help without rich costs half as much to print.
app = typer.Typer(
    name="onnxsmith",
    help="The ONNX optimisation lifecycle: export, inspect, optimise, infer, benchmark, profile.",
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for module in (lifecycle, export, analysis, optimization, inference, doctor, config):
    module.register(app)


def _version(asked: bool) -> None:
    if asked:
        import onnxsmith

        sys.stdout.write(f"onnxsmith {onnxsmith.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The ONNX optimisation lifecycle: export, inspect, optimise, infer, benchmark, profile."""


def main(argv: list[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: The arguments; None takes the process's.

    Returns:
        0: done. 1: a gate failed, or the input, the configuration or the call is at fault. 2: our own error.
        130 and 143: stopped by Ctrl-C or by SIGTERM.
    """
    arguments = sys.argv[1:] if argv is None else argv
    signal.signal(signal.SIGTERM, _terminate)
    gc.set_threshold(100_000, 20, 100)  # a graph is hundreds of thousands of objects that stay: looking at them is idle
    try:
        return int(typer.main.get_command(app).main(arguments, prog_name="onnxsmith", standalone_mode=False) or 0)
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("Stopped; nothing was left half-written.\n")
        return 130
    except BrokenPipeError:
        # The reader of a pipe went away, as `| head` does; what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the last place that can turn it into an exit code
        return _report(error, as_json=_wants_json(arguments))


def _terminate(*_: Any) -> NoReturn:
    raise SystemExit(143)


def _wants_json(arguments: list[str]) -> bool:
    return any(
        argument == "--output-format=json" or (argument == "--output-format" and value == "json")
        for argument, value in itertools.pairwise([*arguments, ""])
    )


def _report(error: Exception, *, as_json: bool) -> int:
    if hasattr(error, "format_message"):  # a wrong call: an unknown option, a missing argument
        if as_json:
            _write_json_error("UsageError", error.format_message(), None)
        else:
            error.show()  # type: ignore[attr-defined]  # typer's exceptions have no public base class
        return 1
    from onnxsmith.errors import OnnxsmithError

    if isinstance(error, OnnxsmithError):
        message, hint, code = error.message, error.hint, error.exit_code
    elif isinstance(error, MemoryError):
        message, code = f"there is not enough memory: {error or 'an allocation failed'}.", 1
        hint = "The model or its inputs are too large for this machine; ask for smaller sizes (--dim, --batch-size)."
    else:
        import traceback

        message, code = f"{type(error).__name__}: {error}", 2
        hint = f"This is a fault of onnxsmith. Please report it with this:\n{traceback.format_exc()}"
    if as_json:
        _write_json_error(type(error).__name__, message, hint)
    else:
        from onnxsmith.cli.common import stderr_console
        from onnxsmith.records import printable

        console = stderr_console()
        console.print("[bold red]error:[/] ", end="")
        console.print(printable(message, lines=True), markup=False, highlight=False, soft_wrap=True)
        if hint:
            console.print(printable(hint, lines=True), markup=False, highlight=False, soft_wrap=True, style="dim")
    return code


def _write_json_error(kind: str, message: str, hint: str | None) -> None:
    import json

    from onnxsmith.records import SCHEMA_VERSION

    sys.stdout.write(
        json.dumps({"version": SCHEMA_VERSION, "error": {"type": kind, "message": message, "hint": hint}}, indent=2)
        + "\n"
    )
