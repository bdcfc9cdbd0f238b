"""Training of the example network on scikit-learn's digits, which need no download."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxsmith.config import TrainingConfig
from onnxsmith.extras import installed_version, require
from onnxsmith.model import staged_folder
from onnxsmith.records import Progress, Record, no_progress

if TYPE_CHECKING:
    import torch

    from onnxsmith.model_exporter.simple_cnn import SimpleCNN

logger = logging.getLogger(__name__)

_WEIGHTS = "simple_cnn.pt"
_ENTRY = "simple_cnn.json"
_PIXEL_MAX = 16.0


@dataclass(frozen=True)
class DigitsSplit:
    """The digits in a training and a held-out part.

    Attributes:
        train_images: float32 [n, 1, 8, 8], pixels from 0 to 1.
        train_labels: int64 [n].
        test_images: float32 [m, 1, 8, 8].
        test_labels: int64 [m].
    """

    train_images: np.ndarray[Any, Any]
    train_labels: np.ndarray[Any, Any]
    test_images: np.ndarray[Any, Any]
    test_labels: np.ndarray[Any, Any]


class EpochResult(Record):
    """One pass over the training split.

    Attributes:
        epoch: Its number, from 1.
        loss: Mean cross-entropy over the pass.
        train_accuracy: Share of the training images that were right when they came up in the pass.
        test_accuracy: Share of the held-out images that are right after it.
    """

    epoch: int
    loss: float
    train_accuracy: float
    test_accuracy: float


@dataclass(frozen=True)
class TrainedCNN:
    """A trained network, and what it was held against.

    Attributes:
        module: The network, in evaluation mode.
        history: A row for each epoch.
        images: The held-out images, float32 [n, 1, 8, 8].
        labels: Their classes, int64 [n].
        test_accuracy: Share of the held-out images that are right.
        reused: True where the weights come from an earlier training.
    """

    module: SimpleCNN
    history: tuple[EpochResult, ...]
    images: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    test_accuracy: float
    reused: bool = False


class _CacheEntry(Record):
    """What stands beside cached weights; any difference in `key` trains again."""

    key: dict[str, Any]
    weights_sha256: str
    history: tuple[EpochResult, ...]


def load_digits_split(config: TrainingConfig, seed: int) -> DigitsSplit:
    """The digits, split by class; the same seed gives the same split.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    datasets = require("sklearn.datasets", purpose="for the digits that SimpleCNN is trained on")
    selection = require("sklearn.model_selection", purpose="to split the digits")
    digits = datasets.load_digits()
    images = (digits.images[:, np.newaxis] / _PIXEL_MAX).astype(np.float32)
    labels = digits.target.astype(np.int64)
    train_images, test_images, train_labels, test_labels = selection.train_test_split(
        images, labels, test_size=config.test_fraction, random_state=seed, stratify=labels
    )
    return DigitsSplit(train_images, train_labels, test_images, test_labels)


def train_simple_cnn(config: TrainingConfig, seed: int = 0, progress: Progress = no_progress) -> TrainedCNN:
    """Trains `SimpleCNN` with Adam and a cosine schedule; the same seed gives the same weights on the same machine.

    Args:
        config: Epochs, batch size, learning rate and the held-out share.
        seed: Of the split, the initial weights and the order of the images.
        progress: Told after each epoch.

    Raises:
        MissingExtraError: PyTorch or scikit-learn is not installed.
    """
    torch = require("torch", purpose="to train SimpleCNN")
    split = load_digits_split(config, seed)
    images, labels = torch.from_numpy(split.train_images), torch.from_numpy(split.train_labels)
    history = []
    with torch.random.fork_rng(devices=[]), _one_thread():
        torch.manual_seed(seed)
        module = _new_module()
        optimizer = torch.optim.Adam(module.parameters(), lr=config.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.epochs)
        for epoch in range(1, config.epochs + 1):
            loss, train_accuracy = _train_epoch(module, optimizer, images, labels, config.batch_size)
            schedule.step()
            result = EpochResult(
                epoch=epoch, loss=loss, train_accuracy=train_accuracy, test_accuracy=_accuracy(module, split)
            )
            history.append(result)
            logger.info(
                "epoch %2d/%d: loss %.4f, accuracy %.4f in training, %.4f held out",
                epoch, config.epochs, loss, train_accuracy, result.test_accuracy,
            )  # fmt: skip
            progress("training", epoch, config.epochs)
    return TrainedCNN(module, tuple(history), split.test_images, split.test_labels, history[-1].test_accuracy)


def train_or_reuse(config: TrainingConfig, seed: int, folder: Path, progress: Progress = no_progress) -> TrainedCNN:
    """Trains `SimpleCNN`, or takes what an earlier call with the same settings and versions left in `folder`.

    Args:
        config: As for `train_simple_cnn`.
        seed: As for `train_simple_cnn`.
        folder: Where the weights (`simple_cnn.pt`, a state dict) and the history (`simple_cnn.json`) are kept.
        progress: Told after each epoch.

    Raises:
        MissingExtraError: PyTorch or scikit-learn is not installed.
        OutputError: The folder cannot be written.
    """
    torch = require("torch", purpose="to train SimpleCNN")
    key = _cache_key(config, seed)
    cached = _load_cached(folder, key, config, seed)
    if cached is not None:
        logger.info("SimpleCNN is trained already: %s, accuracy %.4f held out", folder / _WEIGHTS, cached.test_accuracy)
        return cached
    trained = train_simple_cnn(config, seed, progress)
    buffer = io.BytesIO()
    torch.save(trained.module.state_dict(), buffer)
    weights = buffer.getvalue()
    entry = _CacheEntry(key=key, weights_sha256=hashlib.sha256(weights).hexdigest(), history=trained.history)
    with staged_folder(folder) as staging:
        (staging / _WEIGHTS).write_bytes(weights)
        (staging / _ENTRY).write_text(entry.model_dump_json(indent=2), encoding="utf-8")
    return trained


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Sums are the same whatever the number of cores; on a busy machine it is faster, too, than threads that wait."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _new_module() -> SimpleCNN:
    from onnxsmith.model_exporter.simple_cnn import SimpleCNN

    return SimpleCNN()


def _train_epoch(
    module: SimpleCNN, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor, batch_size: int
) -> tuple[float, float]:
    """The mean loss and the accuracy over one pass."""
    import torch

    module.train()
    loss_sum, right = 0.0, 0
    for rows in torch.randperm(len(images)).split(batch_size):
        logits = module(images[rows])
        loss = torch.nn.functional.cross_entropy(logits, labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss_sum += loss.item() * len(rows)
        right += int((logits.argmax(1) == labels[rows]).sum())
    return loss_sum / len(images), right / len(images)


def _accuracy(module: SimpleCNN, split: DigitsSplit) -> float:
    """The held-out accuracy; leaves the module in evaluation mode."""
    import torch

    module.eval()
    with torch.no_grad():
        classes = module(torch.from_numpy(split.test_images)).argmax(1).numpy()
    return float((classes == split.test_labels).mean())


def _cache_key(config: TrainingConfig, seed: int) -> dict[str, Any]:
    """Everything that the weights depend on; the code counts by its text."""
    code = b"".join((Path(__file__).parent / name).read_bytes() for name in ("simple_cnn.py", "training.py"))
    return {
        "training": config.model_dump(mode="json"),
        "seed": seed,
        "torch": installed_version("torch"),
        "scikit-learn": installed_version("sklearn"),
        "code": hashlib.sha256(code).hexdigest(),
    }


def _load_cached(folder: Path, key: dict[str, Any], config: TrainingConfig, seed: int) -> TrainedCNN | None:
    """The cached network, or None where there is none that fits."""
    import torch

    try:
        entry = _CacheEntry.model_validate_json((folder / _ENTRY).read_text(encoding="utf-8"))
        weights = (folder / _WEIGHTS).read_bytes()
        fits = entry.key == key and len(entry.history) == config.epochs
        if not fits or hashlib.sha256(weights).hexdigest() != entry.weights_sha256:
            return None
        module = _new_module()
        module.load_state_dict(torch.load(io.BytesIO(weights), weights_only=True))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RuntimeError, pickle.UnpicklingError) as error:
        logger.debug("%s: the cached training cannot be used: %s", folder / _ENTRY, error)
        return None
    split = load_digits_split(config, seed)
    accuracy = _accuracy(module, split)
    return TrainedCNN(module, entry.history, split.test_images, split.test_labels, accuracy, reused=True)
