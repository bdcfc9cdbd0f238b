"""The export of fitted scikit-learn estimators. scikit-learn is imported only when something is exported."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google.protobuf.message
import numpy as np
import onnx

from onnxsmith.config import LimitsConfig, SklearnConfig
from onnxsmith.errors import ExportError, InvalidModelError, OutputError, RuntimeFailure
from onnxsmith.extras import require
from onnxsmith.inference_engine.ort_inference import run_model
from onnxsmith.model import Model, TensorSpec, analyse_native, staged_folder
from onnxsmith.model_exporter.chatter import quiet, reason
from onnxsmith.model_exporter.factories import load_estimator
from onnxsmith.model_exporter.sklearn_comparison import SklearnComparison, compare_predictions
from onnxsmith.model_exporter.sklearn_sample import SklearnSample, make_sample
from onnxsmith.records import Progress, Record, no_progress

logger = logging.getLogger(__name__)

_ML_OPSET = 3
"""The version of ai.onnx.ml that skl2onnx writes at most."""

_TEST_FRACTION = 0.2
_INFORMATIVE = 2


@dataclass(frozen=True)
class SklearnExample:
    """The example pipeline, fitted, with what was held out.

    Attributes:
        estimator: StandardScaler and LogisticRegression.
        x_test: Rows it has not seen, float64 [n, features].
        y_test: Their classes, int64 [n].
    """

    estimator: Any
    x_test: np.ndarray[Any, Any]
    y_test: np.ndarray[Any, Any]


class SklearnExport(Record):
    """An exported estimator.

    Attributes:
        path: The ONNX file.
        estimator: The estimator's class; for a pipeline, its steps.
        opset_asked: The opset asked for.
        opset: The opset in the file; skl2onnx writes the lowest that its operators need.
        node_types: How often each operator occurs, most frequent first.
        operator_count: Nodes in all, those of subgraphs included.
        size_bytes: Bytes on disk.
        inputs: The inputs.
        outputs: The outputs.
        comparison: Its answers beside scikit-learn's, or None where they could not be compared.
        warnings: What a user should know.
    """

    path: Path
    estimator: str
    opset_asked: int
    opset: int
    node_types: dict[str, int]
    operator_count: int
    size_bytes: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    comparison: SklearnComparison | None
    warnings: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """True where the answers were compared, and each row agrees."""
        return self.comparison is not None and self.comparison.agree


class SklearnExporter:
    """Exports a fitted estimator with skl2onnx, checks the model, and holds its answers against scikit-learn's.

    Args:
        config: Opset, ZipMap, the size of the example.
        limits: For the child processes that check and run the model.
        seed: Of the example and of made-up samples.
    """

    def __init__(self, config: SklearnConfig, *, limits: LimitsConfig, seed: int = 0) -> None:
        self.config = config
        self.limits = limits
        self.seed = seed

    def example(self) -> SklearnExample:
        """Fits StandardScaler and LogisticRegression on `make_classification`, a fifth of it held out.

        Raises:
            MissingExtraError: scikit-learn is not installed.
        """
        purpose = "for the example pipeline"
        datasets = require("sklearn.datasets", purpose=purpose)
        linear_model = require("sklearn.linear_model", purpose=purpose)
        selection = require("sklearn.model_selection", purpose=purpose)
        pipeline = require("sklearn.pipeline", purpose=purpose)
        preprocessing = require("sklearn.preprocessing", purpose=purpose)
        x, y = datasets.make_classification(
            n_samples=self.config.samples,
            n_features=self.config.features,
            n_informative=_INFORMATIVE,
            n_redundant=min(2, self.config.features - _INFORMATIVE),
            random_state=self.seed,
        )
        x_train, x_test, y_train, y_test = selection.train_test_split(
            x, y, test_size=_TEST_FRACTION, random_state=self.seed, stratify=y
        )
        estimator = pipeline.Pipeline(
            [("scaler", preprocessing.StandardScaler()), ("classifier", linear_model.LogisticRegression())]
        )
        estimator.fit(x_train, y_train)
        return SklearnExample(estimator, x_test, y_test)

    def export_from_config(
        self,
        path: str | Path,
        *,
        sample: Any = None,
        trust_pickle: bool = False,
        progress: Progress = no_progress,
    ) -> SklearnExport:
        """Exports the estimator that the configuration names, or the example.

        Args:
            path: Where the ONNX file goes.
            sample: Rows to compare on, as for `export`; the example has its own.
            trust_pickle: Load `config.estimator` although it is a pickle, which can run any code.
            progress: Told of the steps.

        Raises:
            ExportError: The estimator cannot be loaded, or as for `export`.
        """
        if self.config.estimator is None:
            example = self.example()
            return self.export(example.estimator, path, sample=example.x_test, labels=example.y_test, progress=progress)
        estimator = load_estimator(self.config.estimator, trust_pickle)
        return self.export(estimator, path, sample=sample, progress=progress)

    def export(
        self,
        estimator: Any,
        path: str | Path,
        *,
        sample: Any = None,
        labels: Any = None,
        initial_types: Sequence[tuple[str, Any]] | None = None,
        progress: Progress = no_progress,
    ) -> SklearnExport:
        """Exports a fitted estimator.

        The file appears when everything is done, and not before. Answers that differ from scikit-learn's are no error:
        `comparison` and `warnings` tell of them.

        Args:
            estimator: A classifier, regressor, transformer, clusterer, outlier detector or pipeline of them.
            path: Where the ONNX file goes.
            sample: Rows to compare on, an array or a data frame; it also says what the inputs are. None makes up
                numbers, where the estimator takes numbers.
            labels: The true labels of the sample, for the accuracy.
            initial_types: skl2onnx's name and type of each input, where neither the sample nor the estimator says it:
                `[("city", StringTensorType([None, 1])), ("age", FloatTensorType([None, 1]))]`.
            progress: Told of the steps.

        Raises:
            ExportError: The estimator is not fitted, its inputs are not known, or skl2onnx does not convert it.
            OutputError: The file cannot be written.
            MissingExtraError: scikit-learn or skl2onnx is not installed.
            RuntimeFailure: ONNX's checker crashed, or passed a limit.
        """
        path = Path(path)
        if path.is_dir():
            raise OutputError(f"{path}: is a folder; name a file in it.")
        name = _describe(estimator)
        _check_fitted(estimator, name)
        rows = make_sample(estimator, sample, initial_types, self.seed)
        progress("exporting", 0, 3)
        proto, converter_warnings = self._convert(estimator, rows, name)
        with staged_folder(path.absolute().parent) as staging:
            staged = staging / path.name
            _write(proto, staged, name)
            progress("checking", 1, 3)
            model = Model.load(staged)
            try:
                analyse_native(model, self.limits)
            except InvalidModelError as error:
                text = error.message.removeprefix(f"{staged}: not a valid model: ")
                raise ExportError(f"skl2onnx made an invalid model of {name}: {text}", "Try another opset.") from error
            progress("comparing", 2, 3)
            comparison, differences = self._compare(estimator, rows, labels, staged)
            node_types = Counter(
                f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx.ml") else node.op_type
                for node in model.nodes()
            )
            result = SklearnExport(
                path=path,
                estimator=name,
                opset_asked=self.config.opset,
                opset=model.opset,
                node_types=dict(node_types.most_common()),
                operator_count=node_types.total(),
                size_bytes=model.size_bytes,
                inputs=model.inputs,
                outputs=model.outputs,
                comparison=comparison,
                warnings=tuple(text.replace(str(staged), str(path)) for text in (*converter_warnings, *differences)),
            )
        _log(result)
        progress("exported", 3, 3)
        return result

    def _convert(self, estimator: Any, rows: SklearnSample, name: str) -> tuple[onnx.ModelProto, tuple[str, ...]]:
        """The model, and skl2onnx's warnings."""
        skl2onnx = require("skl2onnx", purpose="to export from scikit-learn")
        is_classifier = require("sklearn.base", purpose="to export from scikit-learn").is_classifier
        target = {"": self.config.opset, "ai.onnx.ml": _ML_OPSET}

        def convert(options: dict[int, Any] | None) -> onnx.ModelProto:
            model: onnx.ModelProto = skl2onnx.convert_sklearn(
                estimator, initial_types=list(rows.types), target_opset=target, options=options
            )
            return model

        try:
            with quiet() as heard:
                if is_classifier(estimator):
                    try:
                        proto = convert({id(estimator): {"zipmap": self.config.zipmap}})
                    except NameError:  # a classifier whose probabilities are always a tensor
                        proto = convert(None)
                else:
                    proto = convert(None)
        except Exception as error:
            raise ExportError(
                f"skl2onnx does not convert {name}: {reason(error)}",
                "Replace the step it names by one of skl2onnx.supported_converters(), register a converter for it, "
                "or try another opset.",
            ) from error
        _merge_opsets(proto)
        return proto, tuple(heard.warnings)

    def _compare(
        self, estimator: Any, rows: SklearnSample, labels: Any, path: Path
    ) -> tuple[SklearnComparison | None, tuple[str, ...]]:
        if rows.feeds is None:
            return None, ("no sample was given, so its answers were not compared with scikit-learn's",)
        try:
            (outputs,) = run_model(path, [rows.feeds], level="ORT_DISABLE_ALL", limits=self.limits)
        except RuntimeFailure as error:
            return None, (f"ONNX Runtime cannot run it, so its answers were not compared: {error.message}",)
        try:
            with quiet():
                return compare_predictions(estimator, rows.seen, outputs, labels)
        except Exception as error:  # noqa: BLE001 - an estimator may raise anything
            return None, (f"scikit-learn itself fails on the sample: {reason(error)}",)


def _describe(estimator: Any) -> str:
    """The estimator's class; for a pipeline, its steps."""
    steps = getattr(estimator, "steps", None)
    name = type(estimator).__name__
    return f"{name}({', '.join(_describe(step) for _, step in steps)})" if steps else name


def _check_fitted(estimator: Any, name: str) -> None:
    validation = require("sklearn.utils.validation", purpose="to export from scikit-learn")
    exceptions = require("sklearn.exceptions", purpose="to export from scikit-learn")
    try:
        with quiet():
            validation.check_is_fitted(estimator)
    except exceptions.NotFittedError:
        raise ExportError(f"{name} is not fitted.", "Call its fit() before it is exported.") from None
    except TypeError as error:
        raise ExportError(f"{name} is not a scikit-learn estimator: {reason(error)}") from None


def _merge_opsets(proto: onnx.ModelProto) -> None:
    """skl2onnx may name a domain twice; the format allows it once."""
    versions: dict[str, int] = {}
    for entry in proto.opset_import:
        versions[entry.domain] = max(entry.version, versions.get(entry.domain, 0))
    del proto.opset_import[:]
    proto.opset_import.extend(onnx.helper.make_opsetid(domain, version) for domain, version in versions.items())


def _write(proto: onnx.ModelProto, target: Path, name: str) -> None:
    try:
        data = proto.SerializeToString()
    except (ValueError, google.protobuf.message.EncodeError):
        raise ExportError(f"{name} is over 2 GB as ONNX, and skl2onnx's models cannot have external data.") from None
    target.write_bytes(data)


def _log(result: SklearnExport) -> None:
    logger.info(
        "exported %s to %s: opset %d, %d operators: %s",
        result.estimator, result.path, result.opset, result.operator_count,
        ", ".join(f"{op_type} {count}" for op_type, count in result.node_types.items()),
    )  # fmt: skip
    if result.comparison is not None:
        logger.info("beside scikit-learn: %s", result.comparison)
    for warning in result.warnings:
        logger.warning("%s: %s", result.path, warning)
