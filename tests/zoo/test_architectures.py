"""Well-known architectures with random weights, from the export to the profile."""

import dataclasses
from collections.abc import Callable

import pytest

import onnxsmith
from onnxsmith import api

pytestmark = [pytest.mark.zoo, pytest.mark.timeout(900), pytest.mark.filterwarnings("default")]

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
transformers = pytest.importorskip("transformers", reason="pip install -r tests/zoo/requirements.txt")

QUICK = onnxsmith.Config(benchmark={"batch_sizes": [1, 2], "runs": 3, "warmup_runs": 1})


class Pick(torch.nn.Module):
    """Calls a transformers model with positional inputs and returns one field of its output."""

    def __init__(self, model, names, field):
        super().__init__()
        self.model, self.names, self.field = model, names, field

    def forward(self, *values):
        return self.model(**dict(zip(self.names, values, strict=True)), return_dict=True)[self.field]


@dataclasses.dataclass
class Architecture:
    build: Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]
    inputs: tuple[str, ...]
    patterns: tuple[str, ...]


def vision(model, size=224):
    return lambda: (Pick(model(), ["pixel_values"], "logits"), (torch.randn(1, 3, size, size),))


def bert():
    names = ["input_ids", "attention_mask"]
    ids = (torch.randint(0, 1000, (1, 32)), torch.ones(1, 32, dtype=torch.long))
    config = transformers.DistilBertConfig(n_layers=2, dim=96, n_heads=4, hidden_dim=192, vocab_size=2000)
    return Pick(transformers.DistilBertModel(config), names, "last_hidden_state"), ids


def lstm():
    class Last(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True)

        def forward(self, x):
            return self.lstm(x)[0]

    return Last(), (torch.randn(1, 20, 16),)


tf = transformers
PIXELS = ("pixel_values",)
ARCHITECTURES = {
    "resnet50": Architecture(
        vision(lambda: tf.ResNetForImageClassification(tf.ResNetConfig(num_labels=1000))), PIXELS, ("Conv+Relu",)
    ),
    "mobilenetv2": Architecture(
        vision(lambda: tf.MobileNetV2ForImageClassification(tf.MobileNetV2Config(num_labels=10)), 96), PIXELS, ()
    ),
    "vit": Architecture(
        vision(
            lambda: tf.ViTForImageClassification(
                tf.ViTConfig(
                    hidden_size=96,
                    num_hidden_layers=3,
                    num_attention_heads=3,
                    intermediate_size=192,
                    num_labels=10,
                    attn_implementation="eager",
                )
            )
        ),
        PIXELS,
        ("MatMul+Add",),
    ),
    "swin": Architecture(
        vision(
            lambda: tf.SwinForImageClassification(
                tf.SwinConfig(embed_dim=24, depths=[1, 1], num_heads=[2, 4], image_size=112, num_labels=10)
            ),
            112,
        ),
        PIXELS,
        ("MatMul+Add",),
    ),
    "segformer": Architecture(
        vision(lambda: tf.SegformerForSemanticSegmentation(tf.SegformerConfig(num_labels=5)), 64), PIXELS, ()
    ),
    "distilbert": Architecture(bert, ("input_ids", "attention_mask"), ("MatMul+Add",)),
    "lstm": Architecture(lstm, ("x",), ()),
}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def exported(request, tmp_path_factory):
    architecture = ARCHITECTURES[request.param]
    torch.manual_seed(0)
    module, inputs = architecture.build()
    path = tmp_path_factory.mktemp("zoo") / f"{request.param}.onnx"
    result = onnxsmith.export_pytorch(
        module.eval(), path, inputs, input_names=list(architecture.inputs), verify_batch_sizes=[1, 3]
    )
    return path, result, architecture


def test_the_export_agrees_with_pytorch_at_each_batch(exported):
    _, result, architecture = exported
    assert [spec.name for spec in result.inputs] == list(architecture.inputs)
    assert [row.batch_size for row in result.comparison] == [1, 3]
    assert result.agrees, result.comparison


def test_it_is_described(exported):
    path, result, architecture = exported
    report = onnxsmith.inspect(path)
    assert report.node_count == result.node_count
    assert report.totals.parameters > 1000
    kinds = {found.kind for found in report.opportunities}
    assert set(architecture.patterns) <= kinds
    shapes = api.analyze_shapes(path)
    assert shapes.known_after > shapes.known_before
    assert len(shapes.lines) == report.node_count


def test_every_level_computes_the_same(exported, tmp_path):
    path, result, _ = exported
    report = onnxsmith.optimize_levels(path, tmp_path, dims={"batch": 2})
    assert report.failures == {}
    assert len(report.levels) == 4
    for level in report.levels:
        assert level.agreement.agree, (level.level, level.agreement)
        assert level.interface_unchanged, level.interface_differences
    assert min(level.nodes_after for level in report.levels) < result.node_count


@pytest.mark.parametrize(
    "options", [{}, {"pipeline": "aggressive"}, {"pipeline": "exact"}, {"target": "ort-cpu"}], ids=str
)
def test_it_is_optimised_and_stays_right(exported, tmp_path, options):
    path, _, architecture = exported
    report = onnxsmith.optimize(path, tmp_path / "out.onnx", **options)
    assert report.rolled_back == ()
    assert report.verification.agree is True, report.verification
    assert report.unchanged is None
    assert report.nodes_after < report.nodes_before
    assert report.size_after <= 1.02 * report.size_before
    before, after = onnxsmith.load(path), onnxsmith.load(report.output)
    assert [spec.name for spec in after.inputs] == list(architecture.inputs)
    assert after.inputs == before.inputs
    assert [(spec.name, spec.dtype) for spec in after.outputs] == [(spec.name, spec.dtype) for spec in before.outputs]


def test_it_runs_is_measured_and_profiled(exported):
    path, *_ = exported
    result = onnxsmith.infer(path, dims={"batch": 2})
    assert all(output.not_finite == 0 and output.shape[0] == 2 for output in result.report.outputs)
    measured = onnxsmith.benchmark(path, config=QUICK).results
    assert [row.batch_size for row in measured] == [1, 2]
    profile = onnxsmith.profile(path, runs=2)
    assert len(profile.slowest_nodes) == 5
    assert profile.operators_us <= profile.run_us
