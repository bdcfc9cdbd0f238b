"""The passes and pipelines that there are, described."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from onnxsmith.errors import PassError
from onnxsmith.graph_optimizer.passes.base import Pass
from onnxsmith.graph_optimizer.passes.table import load_pass, pass_names, plugins
from onnxsmith.graph_optimizer.pipelines import PIPELINES, passes_of
from onnxsmith.records import Record

_ATTRIBUTES = "Attributes:\n"
_FIELD = re.compile(r" {4}(\w+): (.*)")


class OptionInfo(Record):
    """An option of a pass.

    Attributes:
        name: Its name.
        description: What it is for.
        type: Its type, as Python writes it.
        default: Its default; None too where it has none.
        required: Whether it must be given.
    """

    name: str
    description: str
    type: str
    default: Any
    required: bool


class PassInfo(Record):
    """A pass.

    Attributes:
        name: Its name.
        summary: What it does, in a sentence.
        details: The rest of its description.
        exact: Whether every bit of every output stays.
        source: `built-in`, or the entry point that it comes from.
        options: Its options.
        problem: Why it cannot be loaded, or None.
    """

    name: str
    summary: str
    details: str
    exact: bool
    source: str
    options: tuple[OptionInfo, ...]
    problem: str | None = None


class PipelineInfo(Record):
    """A named pipeline.

    Attributes:
        name: Its name.
        summary: What it is for.
        passes: Its passes in order.
    """

    name: str
    summary: str
    passes: tuple[str, ...]


class PassListing(Record):
    """All passes and pipelines."""

    passes: tuple[PassInfo, ...]
    pipelines: tuple[PipelineInfo, ...]


def list_passes() -> PassListing:
    """Describes all of them; one that cannot be loaded stays in the list with the reason."""
    return PassListing(
        passes=tuple(map(_describe, pass_names())),
        pipelines=tuple(
            PipelineInfo(
                name=pipeline.name,
                summary=pipeline.summary,
                passes=tuple(dict.fromkeys(step.name for step in passes_of(pipeline.make()))),
            )
            for pipeline in PIPELINES.values()
        ),
    )


def describe_pass(name: str) -> PassInfo:
    """Describes one.

    Raises:
        PassError: There is none of that name, or it cannot be loaded.
    """
    load_pass(name)
    return _describe(name)


def _describe(name: str) -> PassInfo:
    source = plugins()[name].value if name in plugins() else "built-in"
    try:
        kind = load_pass(name)
    except PassError as error:
        return PassInfo(
            name=name, summary="", details="", exact=False, source=source, options=(), problem=error.message
        )
    summary, _, details = _text(kind).partition("\n")
    described = _described_fields(kind)
    return PassInfo(
        name=name,
        summary=summary,
        details=" ".join(details.split()),
        exact=kind.exact,
        source=source,
        options=tuple(
            OptionInfo(
                name=field.name,
                description=described.get(field.name, ""),
                type=field.type.__name__ if type(field.type) is type else str(field.type),
                default=None if field.default is dataclasses.MISSING else field.default,
                required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            )
            for field in dataclasses.fields(kind)
        ),
    )


def _text(kind: type[Pass]) -> str:
    """A class's docstring before its attributes."""
    return inspect.cleandoc(kind.__doc__ or "").partition(_ATTRIBUTES)[0]


def _described_fields(kind: type[Pass]) -> dict[str, str]:
    """What the docstrings of a class and its bases say of their fields."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        name = ""
        for line in inspect.cleandoc(base.__doc__ or "").partition(_ATTRIBUTES)[2].splitlines():
            match = _FIELD.match(line)
            if match is not None:
                name, text = match.groups()
                found[name] = text
            elif name and line.strip():
                found[name] += f" {line.strip()}"
    return found
