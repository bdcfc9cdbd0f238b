"""The four levels, as the installed ONNX Runtime really makes them."""

from __future__ import annotations

import hashlib
import logging
import os

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array, to_array

from onnxsmith.config import LEVELS, Config
from onnxsmith.errors import OutputError, RuntimeFailure, TensorError
from onnxsmith.graph_optimizer import OptimizationPipeline
from onnxsmith.graph_optimizer import optimization_pipeline as pipeline_module
from onnxsmith.model import Model

EPSILON = 1e-3


def pipeline(*levels: str, **config: object) -> OptimizationPipeline:
    inference = {"intra_op_threads": 1}
    return OptimizationPipeline(Config(optimization={"levels": levels or LEVELS}, inference=inference, **config))


def conv_bn_relu(groups: int = 1, *, bias: bool = True) -> onnx.ModelProto:
    """Conv, BatchNormalization and Relu, with weights that are nothing special."""
    rng = np.random.default_rng(7)
    tensors = {
        "w": rng.normal(size=(4, 4 // groups, 3, 3)),
        "b": rng.normal(size=4),
        "gamma": rng.uniform(0.5, 2, 4),
        "beta": rng.normal(size=4),
        "mean": rng.normal(size=4),
        "var": rng.uniform(0.1, 3, 4),
    }
    if not bias:
        del tensors["b"]
    inputs = "x, w, b" if bias else "x, w"
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[batch,4,6,6] x) => (float[batch,4,4,4] y) {{
        [conv] c = Conv<group = {groups}>({inputs})
        [bn] n = BatchNormalization<epsilon = {EPSILON}>(c, gamma, beta, mean, var)
        [act] y = Relu(n)
    }}""")
    model.graph.initializer.extend(from_array(value.astype(np.float32), name) for name, value in tensors.items())
    return model


def weights_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: to_array(tensor) for tensor in model.graph.initializer}


@pytest.mark.parametrize(("groups", "bias"), [(1, True), (1, False), (2, True)])
def test_batch_normalization_folds_into_the_weights(groups, bias, tmp_path):
    proto = conv_bn_relu(groups, bias=bias)
    w = weights_of(proto)
    scale = w["gamma"] / np.sqrt(w["var"] + EPSILON)
    expected_weight = w["w"] * scale[:, None, None, None]
    expected_bias = w.get("b", 0) * scale + w["beta"] - w["mean"] * scale
    levels = LEVELS[:3]  # the last one stores weights in another layout
    report = pipeline(*levels).run(Model.from_proto(proto), tmp_path)

    level = report.fusion.batch_normalizations_gone_at
    assert level in levels, "the runtime folds it, at whichever level"
    assert report.fusion.gone_at["Conv+BatchNormalization+Relu"] == level
    folded = onnx.load(tmp_path / f"optimized_{level}.onnx")
    (conv,) = [node for node in folded.graph.node if node.op_type == "Conv"]
    got = weights_of(folded)
    np.testing.assert_allclose(got[conv.input[1]], expected_weight, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[conv.input[2]], expected_bias, rtol=1e-5, atol=1e-6)

    before = onnx.load(tmp_path / f"optimized_{levels[0]}.onnx")
    np.testing.assert_array_equal(weights_of(before)["w"], w["w"])
    assert all(result.agreement.agree for result in report.levels)


@pytest.fixture(scope="module")
def four_levels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("levels")
    source = folder / "cnn.onnx"
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[batch,4,6,6] x) => (float[batch,4,4,4] y, float[batch,4,4,4] z, float[batch,4,4,4] last) {{
        c = Conv(x, w, b)
        n = BatchNormalization<epsilon = {EPSILON}>(c, gamma, beta, mean, var)
        y = Relu(n)
        z = Identity(y)
        minus_b = Neg(b)
        folded = Reshape(minus_b, per_channel)
        last = Add(z, folded)
    }}""")
    proto.graph.initializer.extend(conv_bn_relu().graph.initializer)
    proto.graph.initializer.append(from_array(np.array([4, 1, 1]), "per_channel"))
    onnx.save(proto, source)
    steps = []
    log = logging.getLogger("onnxsmith")
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        report = pipeline(dims={"batch": 3}).run(
            Model.load(source), folder / "out", progress=lambda *step: steps.append(step)
        )
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)
    return report, folder / "out", source, steps, "\n".join(messages)


def test_the_four_files(four_levels):
    report, folder, *_ = four_levels
    names = [f"optimized_{level}.onnx" for level in LEVELS]
    assert sorted(file.name for file in folder.iterdir()) == sorted(names)
    assert [result.level for result in report.levels] == list(LEVELS)
    assert [result.path for result in report.levels] == [folder / name for name in names]
    assert report.failures == {}


def test_what_is_said_of_each_file_is_true(four_levels):
    report, *_ = four_levels
    for result in report.levels:
        data = result.path.read_bytes()
        model = onnx.load_model_from_string(data)
        assert result.nodes_before == 7
        assert result.nodes_after == len(model.graph.node) == sum(result.op_counts.values())
        assert result.size_bytes == len(data)
        assert result.sha256 == hashlib.sha256(data).hexdigest()
        assert result.seconds > 0
        assert result.loads_again
        assert (result.interface_unchanged, result.interface_differences) == (True, ())
        assert [value.name for value in model.graph.input] == ["x"]
        assert [value.name for value in model.graph.output] == ["y", "z", "last"]


def test_the_levels_grow_smaller(four_levels):
    report, *_ = four_levels
    totals = report.counts.totals
    assert totals["original"] == 7
    assert totals["ORT_DISABLE_ALL"] >= totals["ORT_ENABLE_BASIC"] >= totals["ORT_ENABLE_EXTENDED"]
    assert totals["ORT_ENABLE_BASIC"] < 7
    assert report.counts.labels == ("original", *LEVELS)
    assert report.reference == "original"


def test_what_was_there_before(four_levels):
    report, *_ = four_levels
    assert report.fusion_before.counts == {"Conv+BatchNormalization+Relu": 1, "Identity": 1}
    assert [node.op_type for node in report.folding_before.foldable] == ["Neg", "Reshape"]
    assert report.folding.foldable == 2
    assert report.folding.levels["original"].gone == 0
    assert report.folding.levels["ORT_ENABLE_BASIC"].gone == 2
    assert report.fusion.batch_normalizations["original"] == 1
    assert report.fusion.batch_normalizations["ORT_ENABLE_BASIC"] == 0


def test_the_numbers_are_compared(four_levels):
    report, *_ = four_levels
    for result in report.levels:
        assert result.agreement.agree is True
        assert result.agreement.max_abs_error < 1e-4
    assert report.levels[0].agreement.max_abs_error == 0.0


def test_progress_and_log(four_levels):
    _, _, source, steps, log = four_levels
    assert [done for _, done, _ in steps] == list(range(7))
    assert {total for _, _, total in steps} == {6}
    assert [label for label, _, _ in steps[2:6]] == list(LEVELS)
    assert f"Optimisation of {source}" in log
    assert "BatchNorm" in log
    for level in LEVELS:
        assert level in log


def test_reports_go_to_json(four_levels):
    report, *_ = four_levels
    assert report.to_dict()["levels"][1]["level"] == "ORT_ENABLE_BASIC"


@pytest.fixture
def saved(write_model):
    """A model whose weights are large enough to be external."""
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,32] x) => (float[N,32] y) {
        t = Transpose(w)
        a = MatMul(x, t)
        b = Add(a, bias)
        y = Relu(b)
    }""")
    model.graph.initializer.extend(
        [
            from_array(rng.normal(size=(32, 32)).astype(np.float32), "w"),
            from_array(rng.normal(size=32).astype(np.float32), "bias"),
        ]
    )
    return write_model(model, save_as_external_data=True, location="weights.bin", size_threshold=256)


def test_external_data_stays_external_and_beside_the_result(saved, tmp_path):
    before = saved.read_bytes(), (tmp_path / "weights.bin").read_bytes()
    out = tmp_path / "elsewhere" / "small.onnx"
    result = pipeline().optimize(Model.load(saved), out, "ORT_ENABLE_BASIC")
    assert sorted(file.name for file in out.parent.iterdir()) == ["small.onnx", "small.onnx.data"]
    assert result.size_bytes == out.stat().st_size + (out.parent / "small.onnx.data").stat().st_size
    assert (saved.read_bytes(), (tmp_path / "weights.bin").read_bytes()) == before
    written = onnx.load(out)
    (weight,) = [value for value in weights_of(written).values() if value.shape == (32, 32)]
    original = weights_of(onnx.load(saved))["w"]
    assert any(np.array_equal(weight, candidate) for candidate in (original, original.T))
    assert out.stat().st_size < 32 * 32 * 4 < (out.parent / "small.onnx.data").stat().st_size + 1
    assert result.agreement.agree is True
    assert result.agreement.max_abs_error < 1e-4


def test_small_initializers_leave_no_empty_file(write_model, tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x) => (float[4] y) { y = Add(x, w) }""")
    model.graph.initializer.append(from_array(np.ones(4, np.float32), "w"))
    path = write_model(model, save_as_external_data=True, location="weights.bin", size_threshold=0)
    out = tmp_path / "out" / "small.onnx"
    pipeline().optimize(Model.load(path), out)
    assert [file.name for file in out.parent.iterdir()] == ["small.onnx"]


def test_the_input_is_never_overwritten(saved):
    before = saved.read_bytes()
    with pytest.raises(OutputError, match="never overwritten"):
        pipeline().optimize(Model.load(saved), saved)
    level_file = saved.rename(saved.with_name("optimized_ORT_ENABLE_ALL.onnx"))
    with pytest.raises(OutputError, match="never overwritten"):
        pipeline().run(Model.load(level_file), level_file.parent)
    assert level_file.read_bytes() == before
    assert sorted(file.name for file in level_file.parent.iterdir()) == [level_file.name, "weights.bin"]


def test_a_custom_operator_is_a_clear_error_and_leaves_nothing(build_model, tmp_path):
    model = Model.from_proto(build_model("g (float[2] x) => (float[2] y) { y = custom.Frobnicate(x) }"))
    with pytest.raises(RuntimeFailure, match="Frobnicate") as caught:
        pipeline("ORT_DISABLE_ALL").run(model, tmp_path / "out")
    assert "operator that this build of ONNX Runtime does not have" in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made(build_model, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    model = Model.from_proto(build_model("g (float[2] x) => (float[2] y) { y = Neg(x) }"))
    with pytest.raises(OutputError, match="cannot be written"):
        pipeline("ORT_ENABLE_ALL").run(model, tmp_path / "file" / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_read_only_folder_stays_empty(build_model, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write anywhere")
    model = Model.from_proto(build_model("g (float[2] x) => (float[2] y) { y = Neg(x) }"))
    with pytest.raises(OutputError, match="cannot be written"):
        pipeline("ORT_ENABLE_ALL").run(model, folder)
    assert list(folder.iterdir()) == []


def test_random_models_are_not_comparable(build_model, tmp_path):
    model = Model.from_proto(build_model("g (float[64] x) => (float[64] y) { r = RandomNormalLike(x) y = Add(x, r) }"))
    result = pipeline().optimize(model, tmp_path / "random.onnx", "ORT_ENABLE_BASIC")
    assert result.agreement.agree is None
    assert result.agreement.reason == "two runs of the original differ: it has random operators (RandomNormalLike)"
    assert result.loads_again


def test_inputs_that_cannot_be_made_are_no_failure(build_model, tmp_path):
    model = Model.from_proto(build_model("g (float[2,3] x, float[K,3] k) => (float[M,3] y) { y = Add(x, k) }"))
    result = pipeline(dims={"K": 5}).optimize(model, tmp_path / "m.onnx")
    assert result.agreement.agree is None
    assert result.agreement.reason.startswith("the original does not run on these inputs: ")
    feeds = {"k": np.ones((2, 3), np.float32)}
    assert pipeline(dims={"K": 5}).optimize(model, tmp_path / "m.onnx", feeds=feeds).agreement.agree is True
    with pytest.raises(TensorError, match="'k'"):
        pipeline().optimize(model, tmp_path / "m.onnx", feeds={"k": np.ones((2, 4), np.float32)})


def test_a_subgraph_model(build_model, tmp_path):
    model = Model.from_proto(
        build_model("""g (float[2] x, bool c) => (float[2] y) {
            s = Identity(x)
            y = If(c) <then_branch = a () => (float[2] p) { q = Identity(s) p = Neg(q) },
                       else_branch = b () => (float[2] p) { p = Abs(s) }>
        }""")
    )
    report = pipeline("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC").run(model, tmp_path)
    assert report.counts.totals == {"original": 5, "ORT_DISABLE_ALL": 5, "ORT_ENABLE_BASIC": 3}
    assert report.fusion.gone_at == {"Identity": "ORT_ENABLE_BASIC"}
    assert all(result.agreement.agree for result in report.levels)


def test_strings_and_sequences(build_model, tmp_path):
    model = Model.from_proto(
        build_model(
            """g (string[2] s, float[4] x) => (string[2] t, seq(float[2]) parts) {
            t = Identity(s) parts = SplitToSequence<axis = 0>(x, two) }""",
            from_array(np.array(2), "two"),
        )
    )
    assert pipeline().optimize(model, tmp_path / "m.onnx").agreement.agree is True


def test_a_level_whose_numbers_are_wrong_is_said_to_disagree(build_model, tmp_path, monkeypatch):
    model = Model.from_proto(build_model("g (float[3] x) => (float[3] y) { y = Neg(x) }"))
    run = pipeline_module.run_in_child

    def off_by_one(file, *args, **options):
        answer = run(file, *args, **options)
        if file.name == "m.onnx":
            answer.outputs[0]["y"] = answer.outputs[0]["y"] + np.float32(1)
        return answer

    monkeypatch.setattr(pipeline_module, "run_in_child", off_by_one)
    agreement = pipeline().optimize(model, tmp_path / "out" / "m.onnx").agreement
    assert agreement.agree is False
    assert agreement.max_abs_error == pytest.approx(1.0)


def test_a_file_that_the_runtime_cannot_load_again_is_reported(build_model, tmp_path, monkeypatch):
    model = Model.from_proto(build_model("g (float[3] x) => (float[3] y) { y = Neg(x) }"))
    run = pipeline_module.run_in_child

    def refuse(file, *args, **options):
        if file.name == "m.onnx":
            raise RuntimeFailure(f"{file}: ONNX Runtime cannot load it: no")
        return run(file, *args, **options)

    monkeypatch.setattr(pipeline_module, "run_in_child", refuse)
    result = pipeline().optimize(model, tmp_path / "out" / "m.onnx")
    assert not result.loads_again
    assert result.agreement.agree is None
    assert result.agreement.reason == "ONNX Runtime cannot load what it wrote: m.onnx: ONNX Runtime cannot load it: no"


def test_a_level_that_fails_leaves_the_others(build_model, tmp_path, monkeypatch):
    model = Model.from_proto(build_model("g (float[3] x) => (float[3] y) { y = Neg(x) }"))
    supervised = pipeline_module.run_supervised

    def fail_at_basic(function, source, settings, *args, **options):
        if settings.level == "ORT_ENABLE_BASIC":
            raise RuntimeFailure("boom")
        return supervised(function, source, settings, *args, **options)

    monkeypatch.setattr(pipeline_module, "run_supervised", fail_at_basic)
    report = pipeline("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC").run(model, tmp_path)
    assert report.failures == {"ORT_ENABLE_BASIC": "boom"}
    assert [result.level for result in report.levels] == ["ORT_DISABLE_ALL"]
    assert [file.name for file in tmp_path.iterdir()] == ["optimized_ORT_DISABLE_ALL.onnx"]


def test_what_ties_a_file_to_the_runtime_is_said(four_levels):
    report, *_ = four_levels
    by_level = {result.level: result for result in report.levels}
    assert by_level["ORT_DISABLE_ALL"].warnings == ()
    own = sum(count for op, count in by_level["ORT_ENABLE_ALL"].op_counts.items() if op.startswith("com.microsoft"))
    said = any("no other runtime can load this file" in warning for warning in by_level["ORT_ENABLE_ALL"].warnings)
    assert said == (own > 0)
    assert "same environment only" in by_level["ORT_ENABLE_ALL"].warnings[0]


@pytest.mark.large
def test_more_than_two_gigabytes(tmp_path):
    rows = 17_000
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,{rows}] x) => (float[1,{rows}] y) {{ a = MatMul(x, w) i = Identity(a) y = MatMul(i, v) }}""")
    for name in ("w", "v"):
        tensor = proto.graph.initializer.add(name=name, dims=[rows, rows], data_type=onnx.TensorProto.FLOAT)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        with (tmp_path / f"{name}.bin").open("wb") as stream:
            for _ in range(rows):
                stream.write(np.full(rows, 1 / rows, np.float32).tobytes())
        tensor.external_data.add(key="location", value=f"{name}.bin")
    onnx.save(proto, tmp_path / "large.onnx")
    result = pipeline().optimize(Model.load(tmp_path / "large.onnx"), tmp_path / "out" / "o.onnx", "ORT_ENABLE_BASIC")
    assert result.size_bytes > 2 * rows * rows * 4 > 2**31
    assert result.nodes_after == 2
    assert result.agreement.agree is True
