"""Whether an optimised model still computes what the original did, on several kinds of input."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxsmith.config import Config
from onnxsmith.errors import RuntimeFailure, TensorError
from onnxsmith.graph_optimizer.agreement import Agreement, InputCheck, Verification, compare_outputs
from onnxsmith.graph_optimizer.editor import INITIALIZERS_WITHOUT_INPUTS
from onnxsmith.graph_optimizer.half_precision import half_outputs
from onnxsmith.graph_optimizer.operators import random_operators
from onnxsmith.inference_engine.execution_providers import ExecutionProviderSelector
from onnxsmith.inference_engine.ort_inference import OrtInference, run_in_child, session_settings
from onnxsmith.model import Model, check_feeds, resolve_dims, sample_inputs

logger = logging.getLogger(__name__)

STRICTNESS = 0.1
"""A rewrite may round differently, but not as differently as another kernel may: a tenth of the usual tolerance."""

_HALF = {ir.DataType.FLOAT16: 2.5e-3, ir.DataType.BFLOAT16: 1.25e-2}
"""A quarter of these types' tolerances: four times as much is tolerated."""

_LARGE = 1e3

_MOST_OVERRIDDEN = 1 << 20
"""The elements of an initializer that is overridden."""


class NumericCheck:
    """Runs the original once, unoptimised, and holds other models against it.

    Args:
        model: The original.
        config: `inference`, `limits`, `dims` and `seed` are used.
        feeds: Inputs to check on first; what is not given is sampled.
        sizes: Sizes of dynamic dimensions, by name.
    """

    def __init__(
        self,
        model: Model,
        config: Config,
        feeds: Mapping[str, Any] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.model = model
        self.config = config
        self._given = dict(feeds or {})
        self._sizes = dict(sizes or {})

    def verify(self, other: Model) -> Verification:
        """Runs another model, unoptimised, and compares all outputs.

        Args:
            other: A model with the same inputs and outputs.
        """
        kinds, outputs, reason = self._reference
        try:
            got = self._run(other, list(kinds.values())) if kinds else []
        except RuntimeFailure as error:
            return Verification(agree=False, reason=f"it does not run where the original does: {error.message}")
        if reason is not None:
            return Verification(agree=None, reason=reason)
        checks = tuple(
            InputCheck(kind=kind, agreement=self._compare(feeds, expected, answer))
            for (kind, feeds), expected, answer in zip(kinds.items(), outputs, got, strict=True)
        )
        wrong = next((check for check in checks if not check.agreement.agree), None)
        return Verification(
            agree=wrong is None,
            checks=checks,
            reason=None if wrong is None else f"on {wrong.kind} inputs: {wrong.agreement.reason}",
        )

    def _compare(self, feeds: Mapping[str, Any], expected: dict[str, Any], got: dict[str, Any]) -> Agreement:
        """Compares two sets of outputs, with regard to how much rounding alone moves the original's."""
        agreement = compare_outputs(expected, got, strictness=STRICTNESS)
        if agreement.agree or agreement.max_abs_error is None:
            return agreement
        try:
            moved = self._run(self.model, [perturbed(feeds, self.config.seed)])[0]
        except RuntimeFailure:
            return agreement
        return compare_outputs(expected, got, strictness=STRICTNESS, noise=self._noise(expected, moved))

    def _noise(self, expected: Mapping[str, Any], moved: Mapping[str, Any]) -> dict[str, float]:
        """How far rounding moves each output.

        Where half precision has a part in it, which nodes stand side by side decides where numbers are rounded: on a
        CPU the runtime computes most of that in single precision, between Casts that it takes out where two meet.
        """
        found = distances(expected, moved)
        for name, dtype in self._half.items():
            if name in found:
                found[name] = max(found[name], _HALF[dtype] * _largest(expected[name]))
        return found

    @cached_property
    def _half(self) -> dict[str, ir.DataType]:
        return half_outputs(self.model)

    def differs(self, other: Model) -> str | None:
        """What is wrong with another model's outputs, or None."""
        verification = self.verify(other)
        return verification.reason if verification.agree is False else None

    def outputs(self, model: Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a model once, unoptimised.

        Raises:
            RuntimeFailure: It does not run.
        """
        return self._run(model, [feeds])[0]

    def feeds_of(self, kind: str | None) -> Mapping[str, Any]:
        """The inputs of a kind; the first kind that the original takes where there is none of that name."""
        kinds = self._reference[0]
        return kinds.get(kind or "", next(iter(kinds.values()), {}))

    @cached_property
    def _reference(self) -> tuple[dict[str, Mapping[str, Any]], list[dict[str, Any]], str | None]:
        """The kinds of input that the original takes, its outputs on them, and why they say nothing."""
        try:
            kinds = self._kinds()
        except TensorError as error:
            if self._given or self._sizes:
                raise
            return {}, [], f"no inputs could be made: {error.message}"
        first = next(iter(kinds))
        try:
            outputs = self._run(self.model, [*kinds.values(), kinds[first]])
        except RuntimeFailure:
            return self._one_by_one(kinds)
        return self._repeatable(kinds, outputs)

    def _one_by_one(
        self, kinds: dict[str, Mapping[str, Any]]
    ) -> tuple[dict[str, Mapping[str, Any]], list[dict[str, Any]], str | None]:
        """The original fails on some kind of input: it says nothing about that kind, and the others remain."""
        taken: dict[str, Mapping[str, Any]] = {}
        outputs: list[dict[str, Any]] = []
        failure = ""
        for kind, feeds in kinds.items():
            try:
                outputs += self._run(self.model, [feeds])
                taken[kind] = feeds
            except RuntimeFailure as error:
                failure = failure or error.message
                logger.info("not compared on %s inputs, on which the original fails: %s", kind, error.message)
                if not taken:
                    break  # it fails on the most usual input: it is not worth a child for each of the others
        if not taken:
            return {}, [], f"the original does not run on these inputs: {failure}"
        outputs += self._run(self.model, [next(iter(taken.values()))])
        return self._repeatable(taken, outputs)

    def _repeatable(
        self, kinds: dict[str, Mapping[str, Any]], outputs: list[dict[str, Any]]
    ) -> tuple[dict[str, Mapping[str, Any]], list[dict[str, Any]], str | None]:
        again = outputs.pop()
        if compare_outputs(outputs[0], again).agree:
            return kinds, outputs, None
        random = ", ".join(random_operators(self.model))
        reason = "two runs of the original differ" + (f": it has random operators ({random})" if random else "")
        return kinds, outputs, reason

    def _run(self, model: Model, feeds: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
        selection = ExecutionProviderSelector.select(["CPU"])
        settings = session_settings(self.config.inference, selection, level="ORT_DISABLE_ALL")
        with model.on_disk() as file:
            return run_in_child(file, settings, feeds, limits=self.config.limits).outputs

    def _kinds(self) -> dict[str, Mapping[str, Any]]:
        specs = self.model.inputs
        seed = self.config.seed

        def sample(number: int) -> dict[str, Any]:
            config = self.config.model_copy(update={"seed": seed + number})
            return OrtInference(self.model, config).complete_feeds(self._given, self._sizes)[0]

        first = "given" if self._given else "normal"
        kinds: dict[str, dict[str, Any]] = {first: sample(0)}
        free = [spec.name for spec in specs if spec.name not in self._given]
        if free:
            kinds["uniform"] = _changed(sample(1), free, _uniform)
            kinds["zeros"] = _changed(sample(2), free, np.zeros_like)
            kinds["large"] = _changed(sample(3), free, lambda array: array * array.dtype.type(_LARGE))
            kinds["nan"] = _changed(sample(4), free, _with_nan)
        if not self._given and (others := self._other_sizes()) is not None:
            kinds["other sizes"] = sample_inputs(self.model, others, seed + 5)
        checked = {kind: check_feeds(specs, feeds) for kind, feeds in kinds.items()}
        return checked | {kind: checked[first] | values for kind, values in self._overridden().items()}

    def _overridden(self) -> dict[str, dict[str, Any]]:
        """Other contents for the initializers that a caller can override: of floats, and of the rest.

        They are apart because an original often fails on other counts, and then says nothing about the floats.
        """
        if self.model.ir.ir_version < INITIALIZERS_WITHOUT_INPUTS:
            return {}
        kinds: dict[str, dict[str, Any]] = {}
        for value in self.model.ir.graph.inputs:
            tensor = value.const_value if value.is_initializer() else None
            if tensor is None or tensor.size > _MOST_OVERRIDDEN or tensor.dtype.bitwidth < 8 or not value.name:
                continue
            array = tensor.numpy()
            if array.dtype.kind == "f":
                other = np.asarray(array * 1.25 + 0.125).astype(array.dtype)
                kinds.setdefault("overridden", {})[value.name] = other
            elif array.dtype.kind in "iub":
                other = np.asarray(~array) if array.dtype.kind == "b" else np.flip(array)
                if np.array_equal(other, array):
                    other = np.asarray(array + 1).astype(array.dtype)
                kinds.setdefault("overridden counts", {})[value.name] = other
        return kinds

    def _other_sizes(self) -> Any:
        """Other sizes for the dynamic dimensions that nobody asked for, or None."""
        specs = self.model.inputs
        resolved = resolve_dims(specs, self._sizes, self.config.dims)
        changed = {
            key: max(1, size + 1 if size < 3 else size // 2)
            for key, size in resolved.sizes.items()
            if key in resolved.defaulted
        }
        return resolve_dims(specs, {**self._sizes, **changed}, self.config.dims) if changed else None


def perturbed(feeds: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Feeds whose floating-point numbers are off by up to two units in their last place."""
    rng = np.random.default_rng(seed)

    def change(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        step = 2 * np.finfo(array.dtype).eps
        return np.asarray(array * (1 + step * rng.uniform(-1, 1, array.shape))).astype(array.dtype)

    return _changed(dict(feeds), list(feeds), change)


def distances(expected: Mapping[str, Any], moved: Mapping[str, Any]) -> dict[str, float]:
    """How far each output moved, where it is an array of numbers."""
    found = {}
    for name, value in expected.items():
        other = moved[name]
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.shape == np.shape(other):
            with np.errstate(invalid="ignore"):  # infinity less infinity
                found[name] = _largest(value.astype(np.float64) - other.astype(np.float64))
    return found


def _largest(array: np.ndarray[Any, Any]) -> float:
    """The largest finite magnitude."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def _changed(feeds: dict[str, Any], names: list[str], change: Any) -> dict[str, Any]:
    """Feeds with the floating-point arrays of some inputs changed."""
    return {
        name: change(value)
        if name in names and isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size
        else value
        for name, value in feeds.items()
    }


def _uniform(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    span = float(array.max() - array.min()) or 1.0
    return np.asarray((array - array.min()) / span).astype(array.dtype)


def _with_nan(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array = array.copy()
    array.reshape(-1)[array.size // 2] = np.nan
    return array
