"""The HTML report: one self-contained file."""

from __future__ import annotations

import base64
import importlib.metadata
from pathlib import Path
from typing import Any

from onnxsmith.config import Config
from onnxsmith.extras import require
from onnxsmith.lifecycle.records import LifecycleReport, SubjectReport
from onnxsmith.model.saving import write_text
from onnxsmith.model_exporter import PyTorchExport
from onnxsmith.records import format_bytes


def write_report(report: LifecycleReport, config: Config, path: Path) -> Path:
    """Writes the report; pictures are inside the file.

    Args:
        report: What to write.
        config: The configuration in force, which the report prints.
        path: Where to.

    Raises:
        MissingExtraError: Jinja2 is not installed.
        OutputError: It cannot be written.
    """
    write_text(path, render_html(report, config))
    return path


def render_html(report: LifecycleReport, config: Config) -> str:
    """The report as HTML text."""
    jinja2 = require("jinja2", purpose="to write the run's report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("onnxsmith.lifecycle"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(bytes=format_bytes, picture=_picture, pixels=_pixels, percent=_percent)
    return str(
        environment.get_template("report.html.j2").render(
            report=report,
            overviews=[_overview(subject) for subject in report.subjects],
            config=config.model_dump(mode="json"),
            versions=_versions(),
            is_pytorch=lambda export: isinstance(export, PyTorchExport),
        )
    )


def _overview(subject: SubjectReport) -> dict[str, Any]:
    """The headline figures of one model."""
    first = subject.benchmark[0] if subject.benchmark else None
    best = max(subject.benchmark, key=lambda result: result.throughput_samples_per_s, default=None)
    optimization = subject.optimization
    fewest = min(optimization.levels, key=lambda result: result.nodes_after, default=None)
    agreements = [result.agreement.agree for result in optimization.levels]
    agreements.append(subject.optimized.verification.agree)
    return {
        "subject": subject,
        "first": first,
        "best": best,
        "nodes": subject.inspection.node_count,
        "fewest": fewest,
        "size": subject.inspection.size_bytes,
        "agree": None if any(agree is None for agree in agreements) else all(agreements),
        "largest_error": max(
            ((check.agreement.max_abs_error or 0.0, check.kind) for check in subject.optimized.verification.checks),
            default=(0.0, ""),
        ),
        "slowest": subject.profile.slowest_nodes[0] if subject.profile.slowest_nodes else None,
    }


def _versions() -> dict[str, str]:
    names = ("onnxsmith", "onnx", "onnx-ir", "onnxruntime", "numpy", "torch", "scikit-learn", "skl2onnx")
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _picture(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _pixels(image: tuple[tuple[float, ...], ...], scale: int = 14) -> list[dict[str, int]]:
    """The pixels of a small grey image, for an SVG."""
    return [
        {"x": column * scale, "y": row * scale, "size": scale, "grey": round(255 * (1 - pixel))}
        for row, line in enumerate(image)
        for column, pixel in enumerate(line)
    ]
