import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

from onnxsmith.config import Config
from onnxsmith.errors import OutputError, RuntimeFailure, TensorError
from onnxsmith.inference_engine.ort_inference import OrtInference, run_model
from onnxsmith.model import Model

TWO_INPUTS = "g (float[n, 2] x, int64[n] i) => (float[n, 2] y, int64[n] j) { y = Add(x, x) j = Neg(i) }"


def load(path):
    return Model.load(path)


def infer(path, feeds=None, config=None, **options):
    return OrtInference(Model.load(path), config).run(feeds, **options)


def test_given_inputs_give_the_right_outputs(write_model):
    x, i = np.array([[1.0, 2.0]], np.float32), np.array([7])
    result = infer(write_model(TWO_INPUTS), {"x": x, "i": i})
    np.testing.assert_array_equal(result.outputs["y"], [[2.0, 4.0]])
    np.testing.assert_array_equal(result.outputs["j"], [-7])
    assert result.report.notes == ()
    assert [tensor.sampled for tensor in result.report.inputs] == [False, False]


def test_a_sample_takes_the_size_that_a_given_input_decides(write_model):
    result = infer(write_model(TWO_INPUTS), {"x": np.ones((5, 2), np.float32)})
    assert result.outputs["j"].shape == (5,)
    assert {tensor.name: tensor.sampled for tensor in result.report.inputs} == {"x": False, "i": True}


def test_dimensions_asked_for_and_by_default(write_model):
    path = write_model(TWO_INPUTS)
    assert infer(path, dims={"n": 3}).outputs["y"].shape == (3, 2)
    assert infer(path, dims={"batch": 4}).outputs["y"].shape == (4, 2)
    assert infer(path).report.notes == ("taken by default: n=1",)
    assert infer(path, config=Config(dims={"n": 6})).outputs["y"].shape == (6, 2)


def test_the_same_seed_gives_the_same_outputs(write_model):
    path = write_model(TWO_INPUTS)
    first, second = infer(path).outputs["y"], infer(path).outputs["y"]
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, infer(path, config=Config(seed=1)).outputs["y"])


def test_strings(write_model):
    path = write_model("g (string[n] s) => (string[n] t) { t = Identity(s) }")
    result = infer(path, {"s": np.array(["a", "ß"], object)})
    assert list(result.outputs["t"]) == ["a", "ß"]
    assert result.report.outputs[0].dtype == "string"


def test_sequences_and_maps(write_model):
    path = write_model("g (seq(float[2]) s) => (float[n] y) { y = ConcatFromSequence<axis=0>(s) }")
    assert infer(path).outputs["y"].shape == (4,)
    given = infer(path, {"s": [np.array([1, 2], np.float32), np.array([3, 4], np.float32)]})
    np.testing.assert_array_equal(given.outputs["y"], [1, 2, 3, 4])


@pytest.mark.parametrize("dtype", ["bfloat16", "float8e4m3fn", "float16", "double", "uint8", "bool", "int32"])
def test_every_dtype_that_the_runtime_has(write_model, dtype):
    names = {"float8e4m3fn": "float8_e4m3fn", "double": "float64"}
    path = write_model(
        f"g ({dtype}[2, 3] x) => ({dtype}[2, 3] y) {{ y = Reshape(x, s) }}".replace("{ y", "<int64[2] s = {2, 3}> { y")
    )
    result = infer(path)
    sampled = result.report.inputs[0]
    assert sampled.dtype == names.get(dtype, dtype)
    assert result.outputs["y"].dtype == np.dtype(getattr(ml_dtypes, sampled.dtype, sampled.dtype))
    assert result.report.outputs[0].mean == sampled.mean


def test_values_of_bfloat16_come_back_exactly(write_model):
    path = write_model("g (bfloat16[2] x) => (bfloat16[2] y) { y = Identity(x) }")
    x = np.array([1.5, -3.0], ml_dtypes.bfloat16)
    np.testing.assert_array_equal(infer(path, {"x": x}).outputs["y"].astype(np.float32), [1.5, -3.0])


def test_not_finite_numbers_are_counted(write_model):
    path = write_model("g (float[3] x) => (float[3] y) { y = Identity(x) }")
    (output,) = infer(path, {"x": np.array([np.nan, np.inf, 2.0], np.float32)}).report.outputs
    assert (output.not_finite, output.minimum, output.maximum, output.mean) == (2, 2.0, 2.0, 2.0)


def test_placement_is_what_the_session_reports(write_model):
    placement = infer(write_model(TWO_INPUTS)).report.placement
    assert placement.counts == {"CPUExecutionProvider": 2}
    assert sorted(node.op_type for node in placement.nodes) == ["Add", "Neg"]
    assert placement.fallbacks == ()


def test_a_provider_that_is_not_there_is_left_out_with_the_reason(write_model):
    report = infer(
        write_model(TWO_INPUTS),
        config=Config(inference={"providers": ["ROCMExecutionProvider".replace("ROCM", "MIGraphX")]}),
    ).report
    assert report.providers == ("CPUExecutionProvider",)
    assert [left.provider for left in report.selection.left_out] == ["MIGraphXExecutionProvider"]


def test_top_classes_are_shown_for_an_image_classifier(write_model):
    text = "g (float[n, 3, 2, 2] image) => (float[n, k] y) <int64[2] shape = {0, 12}> { y = Reshape(image, shape) }"
    image = np.zeros((1, 3, 2, 2), np.float32)
    image[0, 1, 0, 1] = 9
    (row,) = infer(write_model(text), {"image": image}).report.top_classes
    assert len(row) == 5
    assert row[0].index == 5
    assert row[0].probability == pytest.approx(np.exp(9) / (np.exp(9) + 11))


def test_top_classes_of_other_models_on_request(write_model):
    path = write_model("g (float[1, 3] x) => (float[1, 3] y) { y = Identity(x) }")
    feeds = {"x": np.array([[0.0, 2.0, 1.0]], np.float32)}
    assert infer(path, feeds).report.top_classes == ()
    assert [score.index for score in infer(path, feeds, top_k=2).report.top_classes[0]] == [1, 2]


def test_the_optimised_model_is_saved(write_model, tmp_path):
    target = tmp_path / "sub" / "optimised.onnx"
    text = "g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }"
    infer(write_model(text), config=Config(inference={"optimized_model_path": target}))
    assert [node.op_type for node in onnx.load(target).graph.node] == ["Relu"]
    assert [file.name for file in target.parent.iterdir()] == ["optimised.onnx"]


def test_the_input_is_never_overwritten_by_the_optimised_model(write_model):
    path = write_model(TWO_INPUTS)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="is the input itself"):
        infer(path, config=Config(inference={"optimized_model_path": path}))
    assert path.read_bytes() == before


def test_profiling_writes_where_the_log_is(write_model, tmp_path):
    config = Config(inference={"enable_profiling": True}, paths={"log": tmp_path / "logs" / "run.log"})
    profile = infer(write_model(TWO_INPUTS), config=config).report.profile
    assert profile is not None
    assert profile.parent == tmp_path / "logs"
    assert "Add" in profile.read_text()


def test_threads_reach_the_session(write_model):
    config = Config(inference={"intra_op_threads": 1, "inter_op_threads": 1})
    assert infer(write_model(TWO_INPUTS), config=config).outputs["y"].shape == (1, 2)


def test_a_wrong_shape_is_refused_before_anything_runs(write_model):
    with pytest.raises(TensorError, match=r"'x' has shape \[1, 3\].*axis 1 is 3 and must be 2"):
        infer(write_model(TWO_INPUTS), {"x": np.ones((1, 3), np.float32)})


def test_a_batch_of_zero_is_refused(write_model):
    with pytest.raises(TensorError, match="is zero"):
        infer(write_model(TWO_INPUTS), {"x": np.ones((0, 2), np.float32)})
    with pytest.raises(TensorError, match="must be at least 1"):
        infer(write_model(TWO_INPUTS), dims={"n": 0})


def test_an_operator_that_the_runtime_lacks(write_model):
    path = write_model("g (float[2] x) => (float[2] y) { y = custom.Nope(x) }")
    with pytest.raises(RuntimeFailure, match="Nope") as caught:
        infer(path)
    assert "does not have" in str(caught.value.hint)
    assert caught.value.exit_code == 1


def test_a_run_that_fails_says_which_sizes_were_taken(write_model):
    text = "g (float[n] x) => (float[3] y) <int64[1] s = {3}> { y = Reshape(x, s) }"
    with pytest.raises(RuntimeFailure, match="Reshape") as caught:
        infer(write_model(text))
    assert "taken by default: n=1" in str(caught.value.hint)
    assert infer(write_model(text), dims={"n": 3}).outputs["y"].shape == (3,)


def test_a_model_that_is_not_on_disk(build_model):
    model = Model.from_proto(build_model("g (float[2] x) => (float[2] y) { y = Neg(x) }"))
    outputs = OrtInference(model).run({"x": np.array([1, 2], np.float32)}).outputs
    np.testing.assert_array_equal(outputs["y"], [-1, -2])


def test_run_model_runs_each_feed_at_the_level(write_model):
    path = write_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    feeds = [{"x": np.full(2, value, np.float32)} for value in (1, 2)]
    outputs = run_model(path, feeds, level="ORT_DISABLE_ALL")
    assert [list(output["y"]) for output in outputs] == [[-1, -1], [-2, -2]]


def test_external_data_is_found_beside_the_model(write_model):
    weights = onnx.numpy_helper.from_array(np.arange(512, dtype=np.float32), "w")
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[512] x) => (float[512] y) { y = Add(x, w) }'
    )
    model.graph.initializer.append(weights)
    path = write_model(model, save_as_external_data=True, location="weights.bin", size_threshold=0)
    outputs = infer(path, {"x": np.zeros(512, np.float32)}).outputs
    np.testing.assert_array_equal(outputs["y"], np.arange(512))


def test_our_answer_is_the_runtime_s_own(write_model):
    path = write_model("g (float[4, 8] x) => (float[4, 8] y) { y = Softmax(x) }")
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    own = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    np.testing.assert_array_equal(infer(path, {"x": x}).outputs["y"], own)
