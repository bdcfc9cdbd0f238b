"""The text of `onnxsmith inspect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from onnxsmith.cli.render.parts import Parts, bullets, facts, table
from onnxsmith.records import format_bytes, printable

if TYPE_CHECKING:
    from onnxsmith.graph_analysis import ModelReport, ShapeReport

_MOST_ROWS = 20


def render_inspection(
    report: ModelReport, *, nodes: bool = False, initializers: bool = False, shapes: ShapeReport | None = None
) -> Parts:
    """The text of `onnxsmith inspect`."""
    totals = report.totals
    external = ", ".join(f"{file.name} ({format_bytes(file.bytes)})" for file in report.external_files)
    parameters = ", ".join(f"{count:,} {dtype}" for dtype, count in totals.parameters_by_dtype.items())
    parts: Parts = [
        facts(
            report.path or report.graph_name,
            [
                ("digest", f"sha256:{report.digest}"),
                ("size", format_bytes(report.size_bytes)),
                ("external data", external),
                ("IR version", report.ir_version),
                ("opset", ", ".join(f"{domain} {version}" for domain, version in report.opsets.items())),
                ("graph", report.graph_name),
                ("producer", f"{report.producer_name} {report.producer_version}".strip()),
                ("description", report.doc_string),
                ("metadata", ", ".join(f"{key}={value}" for key, value in report.metadata.items())),
                ("parameters", f"{totals.parameters:,} ({parameters})" if parameters else "0"),
                ("weights", f"{totals.initializers:,} initializers, {format_bytes(totals.bytes)}"),
                ("nodes", _node_counts(report)),
                ("functions", ", ".join(f"{f.domain}::{f.name} ({f.nodes} nodes)" for f in report.functions)),
                ("custom operators", ", ".join(report.custom_operators)),
                ("dynamic dimensions", ", ".join(f"{d.name} ({', '.join(d.places)})" for d in report.dynamic_dims)),
                ("overridable", ", ".join(report.overridable_initializers)),
            ],
        ),
        table("Inputs", "name", "type", rows=[(spec.name, spec) for spec in report.inputs]),
        table("Outputs", "name", "type", rows=[(spec.name, spec) for spec in report.outputs]),
        _counts(report),
    ]
    if nodes:
        parts.append(_nodes(report))
    if initializers:
        parts.append(
            table(
                "Initializers",
                "name",
                "dtype",
                "shape",
                "elements",
                "bytes",
                "where",
                rows=[
                    (i.name, i.dtype, list(i.shape), f"{i.elements:,}", f"{i.bytes:,}", _where(i.external, i.graph))
                    for i in report.initializers
                ],
                right=(3, 4),
            )
        )
    if shapes is not None:
        parts += bullets(
            f"Shapes: known for {shapes.known_before} of {shapes.total} tensors in the file, "
            f"for {shapes.known_after} after inference",
            (),
        )
        parts.append(Text("\n".join(map(printable, shapes.lines))))
    return [
        *parts,
        *bullets("Opportunities", _opportunities(report)),
        *bullets("Warnings", report.warnings, "yellow"),
    ]


def _node_counts(report: ModelReport) -> str:
    inside = report.node_count - report.main_node_count
    return f"{report.node_count:,}" + (f" ({inside:,} of them in subgraphs)" if inside else "")


def _where(external: bool, graph: str) -> str:
    return ", ".join(filter(None, ("external" if external else "", graph)))


def _counts(report: ModelReport) -> RenderableType:
    rows = list(report.op_counts.items())
    shown = rows[:_MOST_ROWS]
    rest = rows[_MOST_ROWS:]
    if rest:
        shown.append((f"{len(rest)} other types", sum(count for _, count in rest)))
    return table("Operators", "operator", "nodes", rows=shown, right=(1,))


def _nodes(report: ModelReport) -> RenderableType:
    return table(
        "Nodes",
        "#",
        "operator",
        "name",
        "inputs",
        "outputs",
        "attributes",
        rows=[
            (
                f"{node.graph}[{node.index}]" if node.graph else node.index,
                f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
                node.name,
                ", ".join(node.inputs),
                ", ".join(node.outputs),
                ", ".join(f"{key}={value}" for key, value in node.attributes.items()),
            )
            for node in report.nodes
        ],
    )


def _opportunities(report: ModelReport) -> list[str]:
    """One line a kind, with how often it is there and the first place."""
    by_kind: dict[str, list[tuple[str, str]]] = {}
    for found in report.opportunities:
        by_kind.setdefault(found.kind, []).append((found.text, found.nodes[0] if found.nodes else ""))
    return [
        f"{kind}, {len(found)} time{'s' if len(found) > 1 else ''}: {found[0][0]}" for kind, found in by_kind.items()
    ]
