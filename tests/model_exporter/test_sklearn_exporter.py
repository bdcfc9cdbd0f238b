import joblib
import numpy as np
import onnx
import pytest
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn.cluster import DBSCAN, KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, IsolationForest, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from onnxsmith.config import Config
from onnxsmith.errors import ExportError, OutputError
from onnxsmith.model_exporter import export_sklearn_estimator
from onnxsmith.model_exporter import sklearn_exporter as exporter_module
from onnxsmith.model_exporter.sklearn_sample import make_sample

X, Y = make_classification(120, 6, random_state=0)
X = X.astype(np.float32)
Y_TWO = np.stack([Y, (X[:, 0] > 0).astype(int)], axis=1)
CITIES = np.array([["Oslo"], ["Bern"], ["Rome"], ["Bern"]] * 5, dtype=object)
AGES = np.arange(20.0).reshape(-1, 1)


def test_the_example(real_children, sklearn_exporter, tmp_path, caplog):
    path = tmp_path / "models" / "sklearn_pipeline.onnx"
    with caplog.at_level("INFO", logger="onnxsmith"):
        result = sklearn_exporter().export_from_config(path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 17, "ai.onnx.ml": 1}
    assert len(model.opset_import) == 2
    assert (result.path, result.estimator) == (path, "Pipeline(StandardScaler, LogisticRegression)")
    assert (result.opset_asked, result.opset) == (17, 17)
    assert (result.node_types, result.operator_count) == ({"Scaler": 1, "LinearClassifier": 1}, 2)
    assert [(spec.name, spec.dtype, spec.shape) for spec in result.inputs] == [("input", "float32", (None, 20))]
    assert [(spec.name, spec.dtype) for spec in result.outputs] == [("label", "int64"), ("probabilities", "float32")]
    comparison = result.comparison
    assert (comparison.rows, comparison.rows_agree, comparison.labels_equal) == (200, 200, 200)
    assert comparison.max_probability_error < 1e-6
    assert comparison.accuracy == comparison.sklearn_accuracy > 0.85
    assert (result.agrees, result.warnings, result.size_bytes) == (True, (), path.stat().st_size)
    assert "opset 17, 2 operators: Scaler 1, LinearClassifier 1" in caplog.text
    assert "200 of 200 rows agree, 200 labels equal" in caplog.text


def test_the_example_is_a_fitted_pipeline_of_the_configured_size(sklearn_exporter):
    exporter = sklearn_exporter(samples=50, features=2)
    example, again = exporter.example(), exporter.example()
    assert example.x_test.shape == (10, 2)
    assert [name for name, _ in example.estimator.steps] == ["scaler", "classifier"]
    np.testing.assert_array_equal(example.x_test, again.x_test)
    np.testing.assert_array_equal(example.estimator[-1].coef_, again.estimator[-1].coef_)


CLASSIFIERS = {
    "logistic": LogisticRegression(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": RandomForestClassifier(5, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=5, random_state=0),
    "neighbours": KNeighborsClassifier(),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(sklearn_exporter, tmp_path, name, run_here):
    estimator = CLASSIFIERS[name].fit(X, Y)
    result = sklearn_exporter().export(estimator, tmp_path / "m.onnx", sample=X, labels=Y)
    answer = run_here(result.path, {"input": X})
    np.testing.assert_array_equal(answer["label"], estimator.predict(X))
    np.testing.assert_allclose(answer["probabilities"], estimator.predict_proba(X), atol=1e-5)
    assert result.comparison.labels_equal == result.comparison.rows == 120
    assert result.comparison.max_probability_error < 1e-5
    assert result.comparison.accuracy == estimator.score(X, Y)
    assert result.comparison.compared_with == ("predict", "predict_proba")
    assert result.agrees


@pytest.mark.filterwarnings("ignore:The `probability` parameter:FutureWarning", "ignore:.*probability:FutureWarning")
def test_a_support_vector_classifier_with_probabilities(sklearn_exporter, tmp_path):
    estimator = SVC(probability=True, random_state=0).fit(X, Y)
    result = sklearn_exporter().export(estimator, tmp_path / "m.onnx", sample=X)
    assert result.comparison.labels_equal == 120
    assert result.comparison.max_probability_error < 1e-4
    assert result.comparison.accuracy is None


OTHERS = {
    "scaler": (StandardScaler(), ("transform",)),
    "pca": (PCA(2), ("transform",)),
    "linear": (LinearRegression(), ("predict",)),
    "neighbours": (KNeighborsRegressor(), ("predict",)),
    "decision": (LinearSVC(), ("predict", "decision_function")),
    "clusters": (KMeans(3, n_init=1, random_state=0), ("predict", "transform")),
    "outliers": (IsolationForest(n_estimators=5, random_state=0), ("predict", "decision_function")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_regressors_transformers_clusterers_and_detectors(sklearn_exporter, tmp_path, name, run_here):
    estimator, methods = OTHERS[name]
    estimator.fit(X, Y)
    result = sklearn_exporter().export(estimator, tmp_path / "m.onnx", sample=X)
    expected = getattr(estimator, methods[0])(X)
    answer = run_here(result.path, {"input": X})
    np.testing.assert_allclose(next(iter(answer.values())).reshape(expected.shape), expected, rtol=1e-3, atol=1e-4)
    assert result.comparison.compared_with == methods
    assert result.comparison.max_probability_error is None
    assert result.comparison.max_value_error < 1e-3
    assert (result.comparison.labels_equal is None) == (name in ("scaler", "pca", "linear", "neighbours"))
    assert (result.agrees, result.warnings) == (True, ())


@pytest.mark.parametrize(
    "estimator", [MultiOutputClassifier(LogisticRegression()), RandomForestClassifier(3, random_state=0)]
)
def test_several_outputs_at_once(sklearn_exporter, tmp_path, estimator):
    result = sklearn_exporter().export(estimator.fit(X, Y_TWO), tmp_path / "m.onnx", sample=X, labels=Y_TWO)
    assert result.comparison.labels_equal == 120
    assert result.comparison.max_probability_error < 1e-5
    assert result.comparison.accuracy == (estimator.predict(X) == Y_TWO).all(axis=1).mean()
    assert result.agrees


def test_a_multi_output_regression(sklearn_exporter, tmp_path):
    result = sklearn_exporter().export(LinearRegression().fit(X, X[:, :3] * 2), tmp_path / "m.onnx", sample=X)
    assert result.outputs[0].shape == (None, 3)
    assert result.agrees


def test_string_labels_and_probabilities_as_maps(sklearn_exporter, tmp_path):
    estimator = LogisticRegression().fit(X, np.where(Y == 1, "yes", "no"))
    result = sklearn_exporter(zipmap=True).export(estimator, tmp_path / "m.onnx", sample=X)
    assert result.node_types["ZipMap"] == 1
    assert result.outputs[1].kind == "sequence"
    assert result.comparison.labels_equal == 120
    assert result.comparison.max_probability_error < 1e-6
    assert sklearn_exporter().export(estimator, tmp_path / "n.onnx", sample=X).node_types == {"LinearClassifier": 1}


COLUMNS = ColumnTransformer(
    [("city", OneHotEncoder(handle_unknown="ignore"), [0]), ("age", StandardScaler(), [1])], sparse_threshold=0
)


def test_columns_of_strings_by_given_types(sklearn_exporter, tmp_path):
    rows = np.hstack([CITIES, AGES.astype(object)])
    estimator = make_pipeline(COLUMNS, LogisticRegression()).fit(rows, AGES[:, 0] > 9)
    types = [("city", StringTensorType([None, 1])), ("age", FloatTensorType([None, 1]))]
    result = sklearn_exporter().export(estimator, tmp_path / "m.onnx", sample=rows, initial_types=types)
    assert [(spec.name, spec.dtype) for spec in result.inputs] == [("city", "string"), ("age", "float32")]
    assert (result.comparison.labels_equal, result.agrees) == (20, True)


class Frame:
    """As much of a data frame as is used."""

    def __init__(self, **columns):
        self.columns = list(columns)
        self._values = columns

    def __getitem__(self, name):
        return self._values[name]


def test_a_data_frame_has_an_input_for_each_column():
    frame = Frame(city=CITIES[:, 0], age=AGES[:, 0], count=np.arange(20))
    sample = make_sample(LogisticRegression(), frame, None, 0)
    assert [(name, type(kind)) for name, kind in sample.types] == [
        ("city", StringTensorType), ("age", FloatTensorType), ("count", Int64TensorType),
    ]  # fmt: skip
    assert {name: (feed.dtype.kind, feed.shape) for name, feed in sample.feeds.items()} == {
        "city": ("O", (20, 1)), "age": ("f", (20, 1)), "count": ("i", (20, 1)),
    }  # fmt: skip
    with pytest.raises(ExportError, match="the sample has no column 'height'; it has: city, age, count"):
        make_sample(LogisticRegression(), frame, [("height", FloatTensorType([None, 1]))], 0)


def test_a_pandas_frame(sklearn_exporter, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"city": CITIES[:, 0], "age": AGES[:, 0]})
    columns = ColumnTransformer([("c", OneHotEncoder(), ["city"]), ("a", StandardScaler(), ["age"])])
    estimator = make_pipeline(columns, LogisticRegression()).fit(frame, AGES[:, 0] > 9)
    result = sklearn_exporter().export(estimator, tmp_path / "m.onnx", sample=frame)
    assert [(spec.name, spec.dtype) for spec in result.inputs] == [("city", "string"), ("age", "float32")]
    assert result.agrees


def test_a_sample_of_strings(sklearn_exporter, tmp_path):
    encoder = OneHotEncoder(sparse_output=False).fit(CITIES)
    result = sklearn_exporter().export(encoder, tmp_path / "m.onnx", sample=CITIES)
    assert (result.inputs[0].dtype, result.agrees) == ("string", True)


def test_a_sample_of_texts_names_the_input_where_the_estimator_does_not(sklearn_exporter, tmp_path):
    texts = ["a good day", "a bad day", "good, good"]
    estimator = make_pipeline(CountVectorizer(lowercase=False), LogisticRegression()).fit(texts, [1, 0, 1])
    with pytest.raises(ExportError, match=r"does not say how many features it takes(.|\n)*Give a sample"):
        sklearn_exporter().export(estimator, tmp_path / "m.onnx")
    result = sklearn_exporter().export(estimator, tmp_path / "m.onnx", sample=texts)
    assert (result.inputs[0].dtype, result.inputs[0].shape) == ("string", (None,))
    assert result.node_types["com.microsoft::Tokenizer"] == 1
    assert (result.comparison.labels_equal, result.agrees) == (3, True)


def test_without_a_sample_numbers_are_made_up_and_strings_are_not(sklearn_exporter, tmp_path):
    result = sklearn_exporter().export(LogisticRegression().fit(X, Y), tmp_path / "m.onnx")
    assert (result.comparison.rows, result.comparison.labels_equal) == (256, 256)
    types = [("city", StringTensorType([None, 1]))]
    result = sklearn_exporter().export(OneHotEncoder().fit(CITIES), tmp_path / "n.onnx", initial_types=types)
    assert (result.comparison, result.agrees) == (None, False)
    assert result.warnings == ("no sample was given, so its answers were not compared with scikit-learn's",)


def test_both_sides_get_the_same_rounded_numbers(sklearn_exporter, tmp_path):
    """A tree whose threshold lies between a number and its float32: scikit-learn must not see the unrounded one."""
    rows = np.random.default_rng(0).random((200, 6))
    forest = RandomForestClassifier(20, random_state=0).fit(rows, (rows[:, 0] > 0.5).astype(int))
    result = sklearn_exporter().export(forest, tmp_path / "m.onnx", sample=rows)
    assert result.comparison.labels_equal == 200
    assert result.agrees


def test_a_wrong_model_is_found_out_and_its_rows_are_counted(sklearn_exporter, tmp_path, monkeypatch, run_here):
    estimator = LogisticRegression().fit(X, Y)
    original = exporter_module._merge_opsets

    def wrong(proto):
        original(proto)
        for attribute in proto.graph.node[0].attribute:
            if attribute.name == "intercepts":
                attribute.floats[:] = [
                    value + 0.3 * sign for value, sign in zip(attribute.floats, (-1, 1), strict=True)
                ]

    monkeypatch.setattr(exporter_module, "_merge_opsets", wrong)
    result = sklearn_exporter().export(estimator, tmp_path / "m.onnx", sample=X)
    answer = run_here(result.path, {"input": X})
    error = np.abs(answer["probabilities"] - estimator.predict_proba(X)).max()
    assert result.comparison.max_probability_error == pytest.approx(error, abs=1e-6)
    assert result.comparison.labels_equal == (answer["label"] == estimator.predict(X)).sum() < 120
    assert not result.agrees
    assert f"{120 - result.comparison.rows_agree} of 120 rows differ from scikit-learn's answers" in result.warnings[0]


def test_what_scikit_learn_itself_refuses_is_no_failure_of_the_export(sklearn_exporter, tmp_path):
    class Picky(LogisticRegression):
        def predict(self, x):
            raise ValueError("not today")

    estimator = LogisticRegression().fit(X, Y)
    estimator.predict = Picky().predict
    result = sklearn_exporter().export(estimator, tmp_path / "m.onnx", sample=X)
    assert result.comparison is None
    assert result.warnings == ("scikit-learn itself fails on the sample: not today",)


def test_the_opset(sklearn_exporter, tmp_path):
    result = sklearn_exporter(opset=13).export(LogisticRegression().fit(X, Y), tmp_path / "m.onnx", sample=X)
    assert (result.opset_asked, result.opset) == (13, 13)
    result = sklearn_exporter().export(PCA(2).fit(X), tmp_path / "n.onnx", sample=X)
    assert (result.opset_asked, result.opset) == (17, 13)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression(), "LogisticRegression is not fitted"),
        (make_pipeline(StandardScaler(), KMeans(2)), r"Pipeline\(StandardScaler, KMeans\) is not fitted"),
        (DBSCAN().fit(X), "skl2onnx does not convert DBSCAN: Unable to find a shape calculator"),
        (
            make_pipeline(FunctionTransformer(np.abs), LinearRegression()).fit(X, Y),
            r"does not convert Pipeline\(FunctionTransformer, LinearRegression\): FunctionTransformer is not supported",
        ),
        ("text", "str is not a scikit-learn estimator"),
    ],
)
def test_estimators_that_do_not_export(sklearn_exporter, tmp_path, estimator, message):
    with pytest.raises(ExportError, match=message) as caught:
        sklearn_exporter().export(estimator, tmp_path / "new" / "m.onnx", sample=X)
    assert caught.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_an_opset_that_is_too_new(sklearn_exporter, tmp_path):
    with pytest.raises(ExportError, match=r"skl2onnx does not convert LogisticRegression: .*target_opset 99"):
        sklearn_exporter(opset=99).export(LogisticRegression().fit(X, Y), tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (X[:, :4], "the sample has 4 features, and the estimator takes 6"),
        (X[:0], "one row at least"),
        (X[0], "the sample is one row of numbers"),
        (np.array([["a", 1.0, 2, 3, 4, 5]], dtype=object), "mixes strings with other values"),
    ],
)
def test_samples_that_do_not_fit(sklearn_exporter, tmp_path, sample, message):
    with pytest.raises(ExportError, match=message):
        sklearn_exporter().export(LogisticRegression().fit(X, Y), tmp_path / "m.onnx", sample=sample)


def test_given_types_that_do_not_fit_the_sample(sklearn_exporter, tmp_path):
    estimator = LogisticRegression().fit(X, Y)
    wide = [("a", FloatTensorType([None, 2])), ("b", FloatTensorType([None, 2]))]
    with pytest.raises(ExportError, match="initial_types have 4 columns in all"):
        sklearn_exporter().export(estimator, tmp_path / "m.onnx", sample=X, initial_types=wide)
    with pytest.raises(ExportError, match="values for 'input' do not fit Int64TensorType"):
        sklearn_exporter().export(
            OneHotEncoder().fit(CITIES),
            tmp_path / "m.onnx",
            sample=CITIES,
            initial_types=[("input", Int64TensorType([None, 1]))],
        )


def test_a_folder_in_the_way(sklearn_exporter, tmp_path):
    with pytest.raises(OutputError, match="is a folder"):
        sklearn_exporter().export(LogisticRegression().fit(X, Y), tmp_path)


def test_one_way_in_for_an_estimator_a_name_a_pickle_and_the_default(written_module, tmp_path):
    config = Config(export={"sklearn": {"samples": 50, "features": 4}})
    estimator = LinearRegression().fit(X, Y)
    assert (
        export_sklearn_estimator(estimator, tmp_path / "a.onnx", sample=X, config=config).estimator
        == "LinearRegression"
    )
    assert export_sklearn_estimator(None, tmp_path / "b.onnx", config=config).comparison.rows == 10
    written_module("from sklearn.linear_model import Ridge\nmodel = Ridge().fit([[1.0], [2.0]], [1.0, 2.0])")
    assert export_sklearn_estimator("user_nets:model", tmp_path / "c.onnx", config=config).estimator == "Ridge"
    joblib.dump(estimator, tmp_path / "model.joblib")
    with pytest.raises(ExportError, match="trusted input only"):
        export_sklearn_estimator(tmp_path / "model.joblib", tmp_path / "d.onnx", config=config)
    source = str(tmp_path / "model.joblib")
    result = export_sklearn_estimator(source, tmp_path / "d.onnx", sample=X[:7], trust_pickle=True, config=config)
    assert (result.estimator, result.comparison.rows, result.agrees) == ("LinearRegression", 7, True)
