"""The text of `onnxsmith export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxsmith.cli.render.parts import Parts, bullets, facts, table
from onnxsmith.records import format_bytes

if TYPE_CHECKING:
    from onnxsmith.model_exporter import PyTorchExport, SklearnExport


def render_pytorch_export(export: PyTorchExport) -> Parts:
    """The text of `onnxsmith export pytorch`."""
    return [
        facts(
            str(export.path),
            [
                ("module", f"{export.module}, {export.parameter_count:,} parameters"),
                ("exporter", export.exporter),
                ("opset", export.opset),
                ("nodes", export.node_count),
                ("size", format_bytes(export.size_bytes)),
                ("inputs", ", ".join(f"{spec.name}: {spec}" for spec in export.inputs)),
                ("outputs", ", ".join(f"{spec.name}: {spec}" for spec in export.outputs)),
                ("dynamic dimensions", ", ".join(export.dynamic_dims) or "none"),
            ],
        ),
        table(
            "ONNX Runtime against PyTorch on the same inputs",
            "input shapes",
            "largest error",
            "relative",
            "verdict",
            rows=[
                (
                    ", ".join(str(list(shape)) for shape in row.input_shapes),
                    f"{row.max_abs_error:.2e}",
                    f"{row.max_rel_error:.2e}",
                    "agrees" if row.agree else "DIFFERS",
                )
                for row in export.comparison
            ],
            right=(1, 2),
        ),
        *bullets("Warnings", export.warnings, "yellow"),
    ]


def render_sklearn_export(export: SklearnExport) -> Parts:
    """The text of `onnxsmith export sklearn`."""
    return [
        facts(
            str(export.path),
            [
                ("estimator", export.estimator),
                ("opset", export.opset),
                ("operators", export.operator_count),
                ("", ", ".join(f"{op} × {count}" for op, count in export.node_types.items())),
                ("size", format_bytes(export.size_bytes)),
                ("inputs", ", ".join(f"{spec.name}: {spec}" for spec in export.inputs)),
                ("outputs", ", ".join(f"{spec.name}: {spec}" for spec in export.outputs)),
                ("against scikit-learn", export.comparison or "not compared"),
            ],
        ),
        *bullets("Warnings", export.warnings, "yellow"),
    ]
