"""`onnxsmith run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxsmith.cli.common import (
    ConfigOption,
    DimOption,
    FormatOption,
    OutputFormat,
    QuietOption,
    SetOption,
    VerboseOption,
    fail_gate,
    parse_dims,
    session,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("run")(run_lifecycle)


def run_lifecycle(
    model: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MODEL]", help="An ONNX file; without it, the examples are exported.", show_default=False
        ),
    ] = None,
    dims: DimOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    output_format: FormatOption = OutputFormat.text,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Run the whole lifecycle and write the report."""
    with session(
        config=config,
        assignments=assignments,
        output_format=output_format,
        verbose=verbose,
        quiet=quiet,
        flags={"model": model, **{f"dims.{name}": size for name, size in parse_dims(dims).items()}},
        title="running",
        log_to_file=True,
        console_level="config",
    ) as run:
        from onnxsmith import api

        report = api.run(run.config, progress=run.progress)

        def rendered() -> list[RenderableType]:
            from onnxsmith.cli.render.lifecycle import render_lifecycle

            return render_lifecycle(report)

        run.emit(report, rendered)
    differing = [subject.label for subject in report.subjects if not subject.same_answers]
    if differing:
        fail_gate(f"the answers of {', '.join(differing)} are not the same in every form.")
