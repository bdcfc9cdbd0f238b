import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnxsmith
from onnxsmith import api
from onnxsmith.errors import ConfigError


def test_every_public_name_is_there_and_documented():
    assert sorted(onnxsmith.__all__) == sorted(set(onnxsmith.__all__))
    for name in onnxsmith.__all__:
        assert getattr(onnxsmith, name).__doc__, name
    assert set(onnxsmith.__all__) <= set(dir(onnxsmith))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        onnxsmith.nothing  # noqa: B018 - looking it up is the test


def test_importing_the_package_or_the_command_line_imports_nothing_heavy():
    code = (
        "import sys, onnxsmith, onnxsmith.cli; "
        "heavy = {'numpy', 'onnx', 'onnx_ir', 'onnxruntime', 'torch', 'sklearn', 'matplotlib', 'pydantic', 'rich'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_core_works_without_the_extras(write_model, tmp_path):
    """With every optional module hidden, a model is inspected, optimised, run, measured and profiled."""
    path = write_model("g (float[b, 4] x) => (float[b, 4] y) { a = Identity(x) y = Relu(a) }")
    code = f"""
import sys
for name in ("torch", "sklearn", "skl2onnx", "matplotlib", "jinja2", "PIL"):
    sys.modules[name] = None
import onnxsmith
print(onnxsmith.inspect({str(path)!r}).node_count)
print(onnxsmith.optimize({str(path)!r}, {str(tmp_path / "o.onnx")!r}, level="ORT_ENABLE_BASIC").nodes_after)
print(onnxsmith.infer({str(path)!r}, dims={{"b": 2}}).outputs["y"].shape)
print(len(onnxsmith.benchmark({str(path)!r}, batch_sizes=[1], runs=3).results))
print(onnxsmith.profile({str(path)!r}, runs=2).runs)
for call in (onnxsmith.run, onnxsmith.export_pytorch, onnxsmith.export_sklearn):
    try:
        call(*(() if call is onnxsmith.run else (None, "x.onnx")))
    except onnxsmith.UserError as error:
        print(type(error).__name__, "pip install" in error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.splitlines() == ["2", "1", "(2, 4)", "1", "2", *["MissingExtraError True"] * 3], done.stderr


def test_models_are_taken_in_every_form(build_model, write_model):
    text = "g (float[2] x) => (float[2] y) { y = Neg(x) }"
    path, proto = write_model(text), build_model(text)
    before = proto.SerializeToString()
    for form in (path, str(path), proto, ir.from_proto(build_model(text)), onnxsmith.load(path)):
        outputs = onnxsmith.infer(form, {"x": np.array([1, 2], np.float32)}).outputs
        np.testing.assert_array_equal(outputs["y"], [-1, -2])
    assert proto.SerializeToString() == before


def test_labels_are_file_names_where_they_differ(write_model):
    text = "g (float[2] x) => (float[2] y) { y = Neg(x) }"
    one, other, again = write_model(text, "a.onnx"), write_model(text, "b.onnx"), write_model(text, "sub/a.onnx")
    assert list(api.load_labelled(one)) == ["a"]
    assert list(api.load_labelled([one, other])) == ["a", "b"]
    assert list(api.load_labelled([one, other, again])) == [str(one), "b", str(again)]
    assert list(api.load_labelled({"mine": one})) == ["mine"]


def test_options_are_checked_like_the_configuration(write_model):
    path = write_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    with pytest.raises(ConfigError, match=r"benchmark\.runs"):
        onnxsmith.benchmark(path, runs=0)
    with pytest.raises(ConfigError, match=r"unknown key 'opsett'.*Did you mean 'opset'\?"):
        onnxsmith.export_pytorch(None, "x.onnx", opsett=17)
    assert not Path("x.onnx").exists()


def test_the_shapes_that_flow_through(write_model):
    report = api.analyze_shapes(write_model("g (float[n, 2] x) => (float[n, 2] y) { a = Neg(x) y = Neg(a) }"))
    assert report.shapes["a"] == ("n", 2)


def test_optimised_models_load_in_the_runtime(write_model, tmp_path):
    path = write_model("g (float[2] x) => (float[2] y) { a = Identity(x) y = Neg(a) }")
    onnxsmith.optimize_levels(path, tmp_path / "levels")
    for file in (tmp_path / "levels").glob("*.onnx"):
        assert onnx.load(file).graph.output[0].name == "y"
        np.testing.assert_array_equal(onnxsmith.infer(file, {"x": np.ones(2, np.float32)}).outputs["y"], [-1, -1])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"level": "ORT_ENABLE_SOME"}, "there is no level 'ORT_ENABLE_SOME'"),
        ({"level": "ORT_ENABLE_ALL", "passes": ["eliminate-noops"]}, "runs none of our passes"),
        ({"level": "ORT_ENABLE_ALL", "dump": "steps"}, "runs none of our passes"),
    ],
)
def test_a_level_is_known_and_alone(write_model, tmp_path, options, expected):
    path = write_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    with pytest.raises(onnxsmith.UserError, match=expected):
        onnxsmith.optimize(path, tmp_path / "o.onnx", **options)
    assert not (tmp_path / "o.onnx").exists()
