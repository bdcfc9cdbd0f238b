"""What results are made of."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1
"""The version of the JSON that commands print; it grows when a field changes its meaning or goes."""


class Record(BaseModel):
    """A frozen result. `model_dump_json()` gives its JSON; NaN and infinity become null there."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null", protected_namespaces=())

    def to_dict(self) -> dict[str, Any]:
        """The result as plain Python values."""
        return self.model_dump(mode="json")


Progress = Callable[[str, int, int], None]
"""Called with a label, the steps done and the steps in all."""


def no_progress(label: str, done: int, total: int) -> None:
    """A `Progress` that shows nothing."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the known name nearest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else ""


def printable(text: str, *, lines: bool = False) -> str:
    r"""Text whose control characters are written out (`\x1b`), so that a name from a model cannot steer a terminal.

    Args:
        text: Any text.
        lines: Keep line breaks.
    """
    return "".join(
        character if character.isprintable() or (lines and character == "\n") else repr(character)[1:-1]
        for character in text
    )


def format_bytes(count: int) -> str:
    """Bytes in words: "97.3 MB", a megabyte being 2^20 bytes."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
