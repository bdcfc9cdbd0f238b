"""ResNet-50 on a CPU: exported, optimised by what is installed, validated, and measured side by side."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from transformers import ResNetConfig, ResNetForImageClassification

import onnxsmith


class Logits(torch.nn.Module):
    """A classifier that returns its logits as a tensor, not in an object."""

    def __init__(self, config: ResNetConfig):
        super().__init__()
        self.classifier = ResNetForImageClassification(config)

    def forward(self, pixel_values):
        return self.classifier(pixel_values=pixel_values).logits


def make() -> torch.nn.Module:
    """ResNet-50 with random weights: sizes and latencies are those of the trained one, its answers are not."""
    return Logits(ResNetConfig(num_labels=1000))


def make_tiny() -> torch.nn.Module:
    """The same architecture, small enough to export and measure in seconds."""
    return Logits(
        ResNetConfig(embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1], layer_type="bottleneck", num_labels=10)
    )


def onnxoptimizer(source: Path, target: Path) -> None:
    import onnxoptimizer

    onnx.save(onnxoptimizer.optimize(onnx.load(source)), target)


def onnxsim(source: Path, target: Path) -> None:
    import onnxsim

    simplified, same = onnxsim.simplify(onnx.load(source))
    if not same:
        raise RuntimeError("onnxsim says that its own check failed")
    onnx.save(simplified, target)


def onnxslim(source: Path, target: Path) -> None:
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def ort_extended(source: Path, target: Path) -> None:
    """Everything of ONNX Runtime but the layout, which binds a file to the CPU that wrote it."""
    onnxsmith.optimize(source, target, level="ORT_ENABLE_EXTENDED")


def own_passes(source: Path, target: Path) -> None:
    onnxsmith.optimize(source, target)


OPTIMIZERS: tuple[Callable[[Path, Path], None], ...] = (onnxoptimizer, onnxsim, onnxslim, ort_extended, own_passes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="a folder for the models; a temporary one by default")
    parser.add_argument("--tiny", action="store_true", help="a small ResNet instead of ResNet-50")
    parser.add_argument("--runs", type=int, default=50, help="timed runs of each model")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        run(folder, tiny=arguments.tiny, runs=arguments.runs)


def run(folder: Path, *, tiny: bool, runs: int) -> None:
    torch.manual_seed(0)
    module = (make_tiny() if tiny else make()).eval()
    image = torch.randn(1, 3, 64, 64) if tiny else torch.randn(1, 3, 224, 224)
    export = onnxsmith.export_pytorch(module, folder / "original.onnx", image, input_names=["pixel_values"])
    print(f"exported: {export.node_count} nodes, {export.size_bytes:,} bytes, agrees with PyTorch: {export.agrees}")

    files = {"original": export.path}
    for optimizer in OPTIMIZERS:
        target = folder / f"{optimizer.__name__}.onnx"
        try:
            optimizer(export.path, target)
        except ImportError:
            print(f"skipped: {optimizer.__name__} is not installed (pip install 'onnxsmith[peers]')")
        else:
            files[optimizer.__name__] = target

    with torch.no_grad():
        expected = module(image).numpy()
    measured = {row.model: row for row in onnxsmith.benchmark(files, batch_sizes=[1], runs=runs).results}
    base = measured["original"].p50_latency_ms
    columns = f"{'nodes':>5} {'MB':>7} {'p50 ms':>8} {'p99 ms':>8} {'speed-up':>8} {'rel. error':>10}"
    print(f"\n{'model':<14} {columns}  top class")
    for label, file in files.items():
        report, timing = onnxsmith.inspect(file), measured[label]
        logits = onnxsmith.infer(file, {"pixel_values": image.numpy()}).outputs["output"]
        error = np.abs(logits - expected).max() / np.abs(expected).max()
        same = "same" if logits.argmax() == expected.argmax() else "DIFFERS"
        print(
            f"{label:<14} {report.node_count:>5} {report.size_bytes / 2**20:>7.2f} {timing.p50_latency_ms:>8.3f} "
            f"{timing.p99_latency_ms:>8.3f} {base / timing.p50_latency_ms:>7.2f}x {error:>10.1e}  {same}"
        )


if __name__ == "__main__":
    main()
