"""The example network. Importing this module imports PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxsmith.extras import require

if TYPE_CHECKING:
    import torch
    from torch import nn
else:
    torch = require("torch", purpose="for SimpleCNN")
    nn = torch.nn


class SimpleCNN(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Conv → BatchNorm → ReLU → Conv → BatchNorm → ReLU → AvgPool → Flatten → Linear × 2.

    Takes float32 [batch, channels, image_size, image_size] and gives logits, float32 [batch, classes].

    Args:
        channels: Channels of the image.
        classes: Classes to tell apart.
        image_size: Height and width of the image; even.
    """

    def __init__(self, channels: int = 1, classes: int = 10, image_size: int = 8) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, kernel_size=3, padding=1)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)
        self.bn2 = nn.BatchNorm2d(64)
        self.pool = nn.AvgPool2d(2)
        self.fc1 = nn.Linear(64 * (image_size // 2) ** 2, 128)
        self.fc2 = nn.Linear(128, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """The logits, [batch, classes]."""
        features = torch.relu(self.bn1(self.conv1(image)))
        features = torch.relu(self.bn2(self.conv2(features)))
        return self.fc2(self.fc1(torch.flatten(self.pool(features), 1)))
