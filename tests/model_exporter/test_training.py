import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from onnxsmith.config import TrainingConfig
from onnxsmith.model_exporter import training
from onnxsmith.model_exporter.pytorch_exporter import SimpleCNN
from onnxsmith.model_exporter.training import load_digits_split, train_or_reuse, train_simple_cnn

BRIEF = TrainingConfig(epochs=1)


def test_simple_cnn_is_what_its_description_says():
    module = SimpleCNN()
    assert [type(part).__name__ for part in module.children()] == [
        "Conv2d", "BatchNorm2d", "Conv2d", "BatchNorm2d", "AvgPool2d", "Linear", "Linear",
    ]  # fmt: skip
    first = next(iter(module.state_dict().items()))
    assert (first[0], tuple(first[1].shape)) == ("conv1.weight", (32, 1, 3, 3))
    assert module(torch.zeros(5, 1, 8, 8)).shape == (5, 10)
    assert SimpleCNN(channels=3, classes=4, image_size=32).eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 4)


def test_training_learns_the_digits(trained):
    assert trained.test_accuracy > 0.97
    assert not trained.module.training
    assert [row.epoch for row in trained.history] == list(range(1, 13))
    assert trained.history[-1].test_accuracy == trained.test_accuracy
    assert trained.history[-1].loss < trained.history[0].loss / 10
    with torch.no_grad():
        classes = trained.module(torch.from_numpy(trained.images)).argmax(1).numpy()
    assert (classes == trained.labels).mean() == trained.test_accuracy


def test_the_split_is_the_held_out_part_of_the_training_and_its_pixels_are_shares(trained):
    split = load_digits_split(TrainingConfig(), seed=0)
    np.testing.assert_array_equal(split.test_images, trained.images)
    np.testing.assert_array_equal(split.test_labels, trained.labels)
    assert (split.test_images.dtype, split.test_images.shape) == (np.float32, (360, 1, 8, 8))
    assert (split.train_images.shape, split.train_labels.dtype) == ((1437, 1, 8, 8), np.int64)
    assert (split.train_images.min(), split.train_images.max()) == (0.0, 1.0)
    assert not np.array_equal(load_digits_split(TrainingConfig(), seed=1).test_labels, split.test_labels)


def test_the_same_seed_gives_the_same_weights_and_leaves_the_callers_settings_alone():
    threads = torch.get_num_threads()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = train_simple_cnn(BRIEF, seed=3)
    torch.testing.assert_close(torch.rand(3), expected, rtol=0, atol=0)
    assert torch.get_num_threads() == threads
    second, other = train_simple_cnn(BRIEF, seed=3), train_simple_cnn(BRIEF, seed=4)
    torch.testing.assert_close(first.module.state_dict(), second.module.state_dict(), rtol=0, atol=0)
    assert first.history == second.history
    assert not torch.equal(first.module.conv1.weight, other.module.conv1.weight)


def test_each_epoch_is_reported(caplog):
    seen = []
    with caplog.at_level("INFO", logger="onnxsmith"):
        train_simple_cnn(TrainingConfig(epochs=2), progress=lambda *step: seen.append(step))
    assert seen == [("training", 1, 2), ("training", 2, 2)]
    assert "epoch  2/2: loss" in caplog.text


def test_a_second_run_takes_the_first_ones_weights(tmp_path, monkeypatch):
    first = train_or_reuse(BRIEF, 3, tmp_path / "models")
    monkeypatch.setattr(training, "train_simple_cnn", None)
    second = train_or_reuse(BRIEF, 3, tmp_path / "models")
    assert (first.reused, second.reused) == (False, True)
    assert (second.history, second.test_accuracy) == (first.history, first.test_accuracy)
    torch.testing.assert_close(second.module.state_dict(), first.module.state_dict(), rtol=0, atol=0)
    assert sorted(file.name for file in (tmp_path / "models").iterdir()) == ["simple_cnn.json", "simple_cnn.pt"]


def _truncate(folder):
    (folder / "simple_cnn.pt").write_bytes((folder / "simple_cnn.pt").read_bytes()[:1000])


def _no_json(folder):
    (folder / "simple_cnn.json").write_text("{")


def _no_history(folder):
    entry = json.loads((folder / "simple_cnn.json").read_text())
    (folder / "simple_cnn.json").write_text(json.dumps({**entry, "history": []}))


def _other_version(folder):
    entry = json.loads((folder / "simple_cnn.json").read_text())
    entry["key"]["torch"] = "0.1"
    (folder / "simple_cnn.json").write_text(json.dumps(entry))


def _no_weights(folder):
    (folder / "simple_cnn.pt").unlink()


def _not_text(folder):
    _no_weights(folder)
    (folder / "simple_cnn.json").unlink()
    (folder / "simple_cnn.json").write_bytes(b"\xff\xfe")


@pytest.mark.parametrize("damage", [_truncate, _no_json, _no_history, _other_version, _no_weights, _not_text])
def test_a_cache_that_does_not_fit_is_trained_again(tmp_path, monkeypatch, trained, damage):
    calls = []
    monkeypatch.setattr(training, "train_simple_cnn", lambda *_: calls.append(1) or trained)
    train_or_reuse(TrainingConfig(), 0, tmp_path)
    damage(tmp_path)
    assert not train_or_reuse(TrainingConfig(), 0, tmp_path).reused
    assert train_or_reuse(TrainingConfig(), 0, tmp_path).reused
    assert len(calls) == 2


def test_other_settings_train_again(tmp_path, monkeypatch, trained):
    calls = []
    monkeypatch.setattr(training, "train_simple_cnn", lambda *_: calls.append(1) or replace(trained))
    for config, seed in ((TrainingConfig(), 0), (TrainingConfig(), 1), (BRIEF, 1)):
        train_or_reuse(config, seed, tmp_path)
    assert len(calls) == 3
