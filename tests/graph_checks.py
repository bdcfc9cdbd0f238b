"""Runs named pipelines over small graphs, and holds every output of the result against the original's."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from onnxsmith.errors import RuntimeFailure
from onnxsmith.graph_optimizer import evaluation
from onnxsmith.graph_optimizer.agreement import compare_outputs
from onnxsmith.graph_optimizer.interface import compare_interfaces
from onnxsmith.graph_optimizer.numeric_check import distances, perturbed
from onnxsmith.graph_optimizer.pass_pipeline import PassPipeline
from onnxsmith.graph_optimizer.pipelines import stages_of
from onnxsmith.model import Model

PIPELINES = ("default", "exact", "aggressive", "ort-cpu")

Feeds = Mapping[str, Any]


def session(data: bytes) -> ort.InferenceSession:
    """A session without optimisation."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def run(data: bytes, feeds: Feeds) -> dict[str, Any]:
    """The outputs of a model in ONNX Runtime, unoptimised."""
    return run_all(data, {"": feeds})[""]


def run_all(data: bytes, feeds: Mapping[str, Feeds], *, failing: bool = False) -> dict[str, dict[str, Any]]:
    """The outputs by kind of feeds; where it fails on some, these are left out if `failing` is set."""
    opened = session(data)
    names = [value.name for value in opened.get_outputs()]
    answers = {}
    for kind, given in feeds.items():
        try:
            answers[kind] = dict(zip(names, opened.run(None, dict(given)), strict=True))
        except Exception:
            if not failing:
                raise
    return answers


def evaluate_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets ONNX Runtime compute constant nodes in this process: a child for each model takes a second."""

    def here(function: str, *arguments: Any, **_: Any) -> SimpleNamespace:
        module, name = function.split(":")
        try:
            value = getattr(importlib.import_module(module), name)(*arguments, progress=lambda *_: None)
        except Exception as error:
            raise RuntimeFailure(str(error)) from error
        return SimpleNamespace(value=value)

    monkeypatch.setattr(evaluation, "run_supervised", here)


def same_bits(left: Any, right: Any) -> bool:
    """Whether two outputs are the same, -0.0 and 0.0 told apart, one NaN as good as another."""
    if isinstance(left, list) or left is None or right is None:
        both = isinstance(right, list) and left is not None and len(left) == len(right)
        return left is right or (both and all(map(same_bits, left, right)))
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind != "f":
        return bool(np.array_equal(left, right))
    numbers = ~np.isnan(left)
    return bool(
        np.array_equal(left, right, equal_nan=True)
        and np.array_equal(np.signbit(left[numbers]), np.signbit(right[numbers]))
    )


def _is_valid(message: onnx.ModelProto) -> bool:
    """Whether the checker passes it: it wants a rank for every output, and ONNX Runtime does not."""
    try:
        onnx.checker.check_model(message)
    except onnx.checker.ValidationError:
        return False
    return True


def find_difference(
    message: onnx.ModelProto, feeds: Mapping[str, Feeds], pipeline: str, *, bits: bool | None = None, growth: int = 8192
) -> str | None:
    """What is wrong with the model that a pipeline makes, or None.

    Args:
        message: The model.
        feeds: By kind; those that the original fails on are left out.
        pipeline: Its name.
        bits: Whether every bit must be as before; by default in the pipeline that promises it.
        growth: How many bytes larger it may become.
    """
    data = message.SerializeToString()
    expected = run_all(data, feeds, failing=True)
    model = Model.from_proto(onnx.ModelProto.FromString(data))
    result = PassPipeline(stages_of(pipeline)).run(lambda: Model(model.ir.clone()))
    if result.rolled_back:
        return f"{result.rolled_back[0].name} was rolled back: {result.rolled_back[0].reason}"
    differences, _ = compare_interfaces(model, result.model)
    if differences:
        return f"the interface differs: {differences[0]}"
    made = result.model.to_proto()
    if _is_valid(message):
        onnx.checker.check_model(made)
    after = made.SerializeToString()
    if len(after) > len(data) + growth:
        return f"{len(data):,} bytes became {len(after):,}"
    got = run_all(after, {kind: feeds[kind] for kind in expected})
    steps = ", ".join(step.name for step in result.steps)
    for kind, outputs in expected.items():
        if all(same_bits(value, got[kind][name]) for name, value in outputs.items()):
            continue
        if bits or (bits is None and pipeline == "exact"):
            return f"on {kind} inputs bits differ after {steps}"
        agreement = compare_outputs(outputs, got[kind])
        if not agreement.agree and agreement.max_abs_error is not None:  # as much as rounding alone moves it is none
            moved = run_all(data, {kind: perturbed(feeds[kind], 0)}, failing=True).get(kind)
            noise = None if moved is None else distances(outputs, moved)
            agreement = compare_outputs(outputs, got[kind], noise=noise)
        if not agreement.agree:
            return f"on {kind} inputs after {steps}: {agreement.reason}"
    return None
