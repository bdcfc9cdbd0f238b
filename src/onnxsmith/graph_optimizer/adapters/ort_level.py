"""One of ONNX Runtime's optimisation levels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from onnxsmith.config import Level
from onnxsmith.graph_optimizer.adapters.outside import OutsidePass
from onnxsmith.graph_optimizer.ort_levels import save_optimized
from onnxsmith.inference_engine.ort_session import SessionSettings

_EMBED_LIMIT = 1 << 30
"""ONNX Runtime cannot write a file of more than 2 GB."""


@dataclass(frozen=True)
class OrtLevel(OutsidePass):
    """ONNX Runtime's own optimiser; above the basic level, the result runs in ONNX Runtime only.

    Attributes:
        level: The level. ORT_ENABLE_ALL chooses layouts for the processor that it runs on.
    """

    name: ClassVar[str] = "ort-level"
    tool: ClassVar[str] = f"{__name__}:optimize"

    level: Level = "ORT_ENABLE_BASIC"


def optimize(source: Path, target: Path, *, level: Level) -> None:
    """Runs it, in the child."""
    weights = source.with_name(f"{source.name}.data")
    external = weights.exists() or source.stat().st_size > _EMBED_LIMIT
    settings = SessionSettings(level=level, optimized_model_path=target)
    save_optimized(source, settings, "the model", external=external)
    written = target.with_name(f"{target.name}.data")
    if written.exists() and written.stat().st_size == 0:
        written.unlink()  # every initializer was small
