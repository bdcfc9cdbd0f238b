"""The passes and pipelines that there are, described."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from onnxsmith.errors import PassError
from onnxsmith.graph_optimizer.passes.table import load_pass, pass_names, plugins
from onnxsmith.graph_optimizer.pipelines import PIPELINES, passes_of
from onnxsmith.records import Record


class OptionInfo(Record):
    """An option of a pass.

    Attributes:
        name: Its name.
        type: Its type, as Python writes it.
        default: Its default; None too where it has none.
        required: Whether it must be given.
    """

    name: str
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
    summary, _, details = inspect.cleandoc(kind.__doc__ or "").partition("\n")
    return PassInfo(
        name=name,
        summary=summary,
        details=details.strip(),
        exact=kind.exact,
        source=source,
        options=tuple(
            OptionInfo(
                name=field.name,
                type=str(field.type),
                default=None if field.default is dataclasses.MISSING else field.default,
                required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            )
            for field in dataclasses.fields(kind)
        ),
    )
