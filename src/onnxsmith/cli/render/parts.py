"""What every text is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from onnxsmith.records import printable

Parts = list[RenderableType]


def table(title: str, *columns: str, rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> Table:
    """A table; the columns numbered in `right` are set flush right."""
    made = Table(
        title=escape(printable(title)), title_justify="left", box=box.SIMPLE_HEAD, title_style="bold", pad_edge=False
    )
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index in right else "left", overflow="fold", no_wrap=index in right)
    for row in rows:
        made.add_row(*(escape(printable(str(cell))) for cell in row))
    return made


def facts(title: str, pairs: Iterable[tuple[str, object]]) -> RenderableType:
    """Names and values; pairs with an empty value are left out."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim")
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value not in ("", None, ()):
            made.add_row(name, escape(printable(str(value))))
    return Group(Text(printable(title), style="bold"), made, Text())


def bullets(title: str, lines: Iterable[str], style: str = "") -> Parts:
    """A list of lines under a title; nothing where there are none."""
    texts = [Text(f"- {printable(line)}", style=style) for line in lines]
    return [Group(Text(printable(title), style="bold"), *texts, Text())] if texts else []
