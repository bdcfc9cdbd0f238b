"""A YOLO-shaped detector, exported with dynamic batch and image size."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import onnxsmith


def block(inside, outside, stride=1):
    """Convolution, BatchNorm, SiLU."""
    return nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1), nn.BatchNorm2d(outside), nn.SiLU())


class Detector(nn.Module):
    """Predictions [batch, anchors, 4 + classes] from images [batch, 3, height, width], sides a multiple of 16."""

    def __init__(self, classes=3):
        super().__init__()
        self.stem = nn.Sequential(block(3, 8, 2), block(8, 16, 2), block(16, 32, 2))
        self.deep = block(32, 32, 2)
        self.joined = block(64, 32)
        self.heads = nn.ModuleList(nn.Conv2d(32, 4 + classes, 1) for _ in range(2))

    def forward(self, images):
        fine = self.stem(images)
        coarse = self.deep(fine)
        upsampled = nn.functional.interpolate(coarse, scale_factor=2.0, mode="nearest")
        fine = self.joined(torch.cat([fine, upsampled], 1))
        scales = [
            head(feature).flatten(2).transpose(1, 2) for head, feature in zip(self.heads, (fine, coarse), strict=True)
        ]
        return torch.sigmoid(torch.cat(scales, 1))


def make_detector():
    """The detector with random weights."""
    torch.manual_seed(0)
    return Detector()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=None, help="a temporary folder by default")
    arguments = parser.parse_args()
    folder = arguments.output or Path(tempfile.mkdtemp(prefix="onnxsmith-"))
    module = make_detector().eval()
    path = folder / "detector.onnx"
    export = onnxsmith.export_pytorch(
        module, path, torch.randn(1, 3, 160, 160), input_names=["images"], dynamic="batch_and_image"
    )
    print(f"{path}: dynamic {', '.join(export.dynamic_dims)}; agrees with PyTorch: {export.agrees}")
    for batch, height, width in ((1, 160, 160), (2, 320, 192), (4, 64, 256)):
        images = np.random.default_rng(0).random((batch, 3, height, width), np.float32)
        ours = onnxsmith.infer(path, {"images": images}).outputs["output"]
        with torch.no_grad():
            theirs = module(torch.from_numpy(images)).numpy()
        error = np.abs(ours - theirs).max()
        print(f"{batch} × {height} × {width}: {ours.shape[1]} predictions, largest error {error:.1e}")


if __name__ == "__main__":
    main()
