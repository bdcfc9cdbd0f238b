"""Trained models that come inside Python packages."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import onnxsmith

pytestmark = [pytest.mark.zoo, pytest.mark.timeout(600)]

SPEECH = {"dims": {"input.1": 576}, "feeds": {"sr": 16000}}
MODELS = {
    "silero_vad/data/silero_vad.onnx": SPEECH,
    "silero_vad/data/silero_vad_16k_op15.onnx": {"dims": {"sequence": 576}, "feeds": {"sr": 16000}},
    "magika/models/standard_v3_3/model.onnx": {},
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": {},
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": {
        "dims": {"x.2": 48, "p2o.DynamicDimension.1": 320},
    },
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": {"dims": {"x.2": 48, "x.3": 192}},
    "nudenet/320n.onnx": {"dims": {"height": 320, "width": 320}},
}


@pytest.fixture(params=MODELS, ids=lambda name: Path(name).stem)
def model(request):
    package, _, rest = request.param.partition("/")
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed: pip install --no-deps -r tests/zoo/packages.txt")
    return Path(next(iter(found.submodule_search_locations))) / rest, MODELS[request.param]


def test_a_real_model_goes_all_the_way(model, tmp_path):
    path, options = model
    before = path.read_bytes()
    report = onnxsmith.inspect(path)
    assert report.node_count > 10
    levels = onnxsmith.optimize_levels(path, tmp_path, **options)
    assert levels.failures == {}
    for level in levels.levels:
        assert level.agreement.agree, (level.level, level.agreement)
    feeds, dims = options.get("feeds"), options.get("dims")
    result = onnxsmith.infer(path, feeds, dims=dims)
    assert all(output.not_finite == 0 for output in result.report.outputs)
    optimised = onnxsmith.infer(levels.levels[-1].path, feeds, dims=dims)
    for name, value in result.outputs.items():
        np.testing.assert_allclose(optimised.outputs[name], value, rtol=1e-2, atol=1e-3)
    assert onnxsmith.benchmark(path, feeds=feeds, dims=dims, batch_sizes=[1], runs=2).results
    assert onnxsmith.profile(path, feeds, dims=dims, runs=2).slowest_nodes
    assert path.read_bytes() == before
