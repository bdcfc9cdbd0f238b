"""The command line. Each command is a thin layer over `onnxsmith.api`; nothing is decided here."""

from onnxsmith.cli.main import main

__all__ = ["main"]
