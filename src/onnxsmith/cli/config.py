"""`onnxsmith config show` and `onnxsmith config schema`."""

from __future__ import annotations

import sys
from typing import Any

import typer

from onnxsmith.cli.common import ConfigOption, FormatOption, OutputFormat, SetOption, emit_json


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="The configuration in force, and its schema.", no_args_is_help=True, rich_markup_mode=None)
    group.command("show")(show)
    group.command("schema")(schema)
    app.add_typer(group, name="config")


def show(
    config: ConfigOption = None, assignments: SetOption = None, output_format: FormatOption = OutputFormat.text
) -> None:
    """Print the configuration in force, and where each value that is not a default came from."""
    from onnxsmith.config_loading import load_config, parse_assignments

    loaded = load_config(config, flags=parse_assignments(assignments or []))
    values = loaded.config.model_dump(mode="json")
    if output_format is OutputFormat.json:
        emit_json(
            {"file": str(loaded.file) if loaded.file else None, "config": values, "origins": dict(loaded.origins)}
        )
        return
    sys.stdout.write(f"# file: {loaded.file or 'none'}; what has no comment is a default\n")
    sys.stdout.write("".join(_yaml_lines(values, loaded.origins)))


def _yaml_lines(values: dict[str, Any], origins: Any, prefix: str = "", indent: int = 0) -> list[str]:
    import yaml

    lines = []
    for key, value in values.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            lines.append(f"{'  ' * indent}{key}:\n")
            lines += _yaml_lines(value, origins, f"{dotted}.", indent + 1)
            continue
        text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000).split("\n")[0]
        origin = f"  # {origins[dotted]}" if dotted in origins else ""
        lines.append(f"{'  ' * indent}{key}: {text}{origin}\n")
    return lines


def schema(output_format: FormatOption = OutputFormat.json) -> None:
    """Print the JSON schema of the configuration: every key, its type, its default and what it is for.

    It is JSON in either output format.
    """
    import json

    from onnxsmith.config import Config

    sys.stdout.write(json.dumps(Config.model_json_schema(), indent=2) + "\n")
