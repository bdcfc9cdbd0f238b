"""`onnxsmith doctor`."""

from __future__ import annotations

import typer

from onnxsmith.cli.common import FormatOption, OutputFormat, emit_json, stdout_console


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("doctor")(doctor)


def doctor(output_format: FormatOption = OutputFormat.text) -> None:
    """Show what is installed and what is missing.

    Packages, execution providers and CPU features, and how to get those that are not there.
    """
    from onnxsmith.doctor import diagnose

    report = diagnose()
    if output_format is OutputFormat.json:
        emit_json(report.to_dict())
    else:
        from onnxsmith.cli.render.machine import render_doctor

        for part in render_doctor(report):
            stdout_console().print(part)
    if report.problems:
        raise typer.Exit(1)
