"""ONNX Runtime's optimiser for transformers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from onnxsmith.graph_optimizer.adapters.outside import OutsidePass

ModelType = Literal[
    "bart", "bert", "bert_keras", "bert_tf", "clip", "conformer", "gpt2", "gpt2_tf", "gpt_neox", "mmdit", "phi",
    "qwen3", "sam2", "swin", "t5", "tnlr", "unet", "vae", "vit",
]  # fmt: skip
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class OrtTransformers(OutsidePass):
    """ONNX Runtime's fusions for transformers, by the kind of model; the result runs in ONNX Runtime only.

    Attributes:
        model_type: The kind of model.
        num_heads: Heads of its attention; 0 is what the graph shows.
        hidden_size: Its hidden size; 0 is what the graph shows.
    """

    name: ClassVar[str] = "ort-transformers"
    tool: ClassVar[str] = f"{__name__}:optimize"

    model_type: ModelType = "bert"
    num_heads: Count = 0
    hidden_size: Count = 0


def optimize(source: Path, target: Path, *, model_type: ModelType, num_heads: int, hidden_size: int) -> None:
    """Runs it, in the child."""
    from onnxruntime.transformers.optimizer import optimize_model

    # Level 0: ONNX Runtime's levels are another pass.
    optimized = optimize_model(str(source), model_type, num_heads, hidden_size, opt_level=0)
    external = source.with_name(f"{source.name}.data").exists()
    optimized.save_model_to_file(str(target), use_external_data_format=external)
