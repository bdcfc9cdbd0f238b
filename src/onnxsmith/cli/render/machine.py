"""The text of `onnxsmith doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from onnxsmith.cli.render.parts import Parts, bullets, facts, table

if TYPE_CHECKING:
    from onnxsmith.doctor import DoctorReport


def render_doctor(report: DoctorReport) -> Parts:
    """The text of `onnxsmith doctor`."""
    memory = f"{report.memory_gb:.1f} GB" if report.memory_gb is not None else "unknown"
    features = ", ".join(feature.name for feature in report.cpu_features if feature.present)
    lacking = ", ".join(
        f"{feature.name} ({feature.good_for})" for feature in report.cpu_features if not feature.present
    )
    return [
        facts(
            f"onnxsmith {report.onnxsmith}",
            [
                ("Python", report.python),
                ("system", report.system),
                ("CPU", f"{report.cpu}, {report.cores} cores"),
                ("CPU features", features or "not listed by this system"),
                ("it lacks", lacking),
                ("memory", memory),
                ("free disk here", f"{report.disk_free_gb:.1f} GB"),
            ],
        ),
        table(
            "Packages",
            "package",
            "part of",
            "version",
            "how to get it",
            rows=[
                (part.name, part.group, part.version or "missing", part.how_to_get or "")
                for part in report.components
                if part.group != "provider"
            ],
        ),
        table(
            "Execution providers of ONNX Runtime",
            "provider",
            "here",
            "how to get it",
            rows=[
                (part.name, "yes" if part.present else "no", part.how_to_get or "")
                for part in report.components
                if part.group == "provider"
            ],
        ),
        *bullets("Problems", report.problems, "red"),
        *([] if report.problems else [Text("No problems.", style="green")]),
    ]
