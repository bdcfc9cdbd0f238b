import functools
import math
import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from onnxsmith.config import Config
from onnxsmith.errors import ExportError, MissingExtraError, OutputError, RuntimeFailure
from onnxsmith.model_exporter import (
    batch_comparison,
    entry,
    export_pytorch_module,
    pytorch_exporter,
    torch_exporters,
)
from onnxsmith.model_exporter.pytorch_exporter import SimpleCNN

BOTH = pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])


class Scale(nn.Module):
    """Multiplies by a weight and adds a bias."""

    def __init__(self, features=3):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1.0, features + 1))

    def forward(self, x):
        return x * self.weight


def dims(value):
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def shapes(specs):
    return {spec.name: (spec.dtype, spec.shape) for spec in specs}


def test_simple_cnn_with_the_defaults(real_children, trained, torch_exporter, tmp_path, caplog):
    path = tmp_path / "new" / "cnn_model.onnx"
    steps = []
    with caplog.at_level("INFO", logger="onnxsmith"):
        result = torch_exporter().export(trained.module, path, progress=lambda *step: steps.append(step))
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert [node.op_type for node in model.graph.node] == [
        "Conv", "Relu", "Conv", "Relu", "AveragePool", "Flatten", "Gemm", "Gemm",
    ]  # fmt: skip
    assert (dims(model.graph.input[0]), dims(model.graph.output[0])) == (["batch_size", 1, 8, 8], ["batch_size", 10])
    assert shapes(result.inputs) == {"input": ("float32", ("batch_size", 1, 8, 8))}
    assert shapes(result.outputs) == {"output": ("float32", ("batch_size", 10))}
    assert (result.path, result.module, result.exporter) == (path, "SimpleCNN", "torchscript")
    assert (result.opset_asked, result.opset, result.node_count) == (17, 17, 8)
    assert result.parameter_count == 320 + 64 + 18_496 + 128 + 131_200 + 1_290
    assert result.size_bytes == path.stat().st_size
    assert result.dynamic_dims == ("batch_size",)
    assert [(row.batch_size, row.input_shapes, row.agree) for row in result.comparison] == [
        (batch, ((batch, 1, 8, 8),), True) for batch in (1, 2, 8)
    ]
    assert all(row.max_rel_error < 1e-5 for row in result.comparison)
    assert (result.agrees, result.warnings) == (True, ())
    assert list(path.parent.iterdir()) == [path]
    assert steps == [("exporting", 0, 3), ("checking", 1, 3), ("comparing", 2, 3), ("exported", 3, 3)]
    assert "opset 17, 8 nodes, inputs input: float32[batch_size, 1, 8, 8]" in caplog.text


@BOTH
def test_the_digits_are_classed_as_pytorch_classes_them(trained, torch_exporter, tmp_path, exporter, run_here):
    result = torch_exporter(exporter=exporter).export(trained.module, tmp_path / "m.onnx")
    answer = run_here(result.path, {"input": trained.images})
    with torch.no_grad():
        expected = trained.module(torch.from_numpy(trained.images)).numpy()
    np.testing.assert_allclose(answer["output"], expected, atol=1e-4)
    np.testing.assert_array_equal(answer["output"].argmax(1), expected.argmax(1))


@BOTH
def test_without_folding_the_batch_norms_stay(torch_exporter, tmp_path, exporter):
    def operators(folding):
        config = torch_exporter(exporter=exporter, constant_folding=folding)
        result = config.export(SimpleCNN(), tmp_path / f"{folding}.onnx")
        assert result.agrees
        return [node.op_type for node in onnx.load(result.path).graph.node]

    assert operators(False).count("BatchNormalization") == 2
    assert "BatchNormalization" not in operators(True)


def test_a_fixed_shape(torch_exporter, tmp_path):
    result = torch_exporter(dynamic="none", input_shapes=[(4, 1, 8, 8)]).export(SimpleCNN(), tmp_path / "m.onnx")
    assert shapes(result.inputs) == {"input": ("float32", (4, 1, 8, 8))}
    assert result.dynamic_dims == ()
    assert [(row.batch_size, row.agree) for row in result.comparison] == [(4, True)]
    assert result.warnings == ("the batch is fixed at 4, so the outputs were compared at that size only",)


@BOTH
def test_a_dynamic_image_size_is_compared_at_another_one(torch_exporter, tmp_path, exporter):
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    config = {"dynamic": "batch_and_image", "input_shapes": [(1, 3, 16, 20)], "verify_batch_sizes": [2]}
    result = torch_exporter(exporter=exporter, opset=18, **config).export(module, tmp_path / "m.onnx")
    assert shapes(result.inputs) == {"input": ("float32", ("batch_size", 3, "height", "width"))}
    assert result.dynamic_dims == ("batch_size", "height", "width")
    assert [row.input_shapes for row in result.comparison] == [((2, 3, 16, 20),), ((2, 3, 48, 52),)]
    assert (result.agrees, result.warnings) == (True, ())


def test_a_module_that_takes_one_image_size_only_is_told_of(torch_exporter, tmp_path):
    result = torch_exporter(dynamic="batch_and_image").export(SimpleCNN(), tmp_path / "m.onnx")
    assert [row.agree for row in result.comparison] == [True, True, True]
    assert result.warnings[0].startswith("SimpleCNN itself fails on [1, 1, 40, 40]: mat1 and mat2 shapes")
    config = {"dynamic": "batch_and_image", "exporter": "dynamo", "opset": 18}
    result = torch_exporter(**config).export(SimpleCNN(), tmp_path / "n.onnx")
    assert [row.agree for row in result.comparison] == [True, True, True]
    assert result.warnings[0].startswith("SimpleCNN itself fails on [1, 1, 40, 40]: mat1 and mat2 shapes")


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2, 4)

    def forward(self, ids, attention_mask):
        return {"pooled": (self.table(ids) * attention_mask.unsqueeze(-1)).sum(1), "ids": ids + 1, "nothing": None}


@BOTH
def test_integer_inputs_a_mask_and_a_dict_of_outputs(torch_exporter, tmp_path, exporter):
    config = {"input_shapes": [(1, 5), (1, 5)], "input_dtypes": ["int64", "bool"]}
    result = torch_exporter(exporter=exporter, **config).export(Bag(), tmp_path / "m.onnx")
    assert shapes(result.inputs) == {
        "ids": ("int64", ("batch_size", 5)),
        "attention_mask": ("bool", ("batch_size", 5)),
    }
    assert shapes(result.outputs) == {
        "pooled": ("float32", ("batch_size", 4)),
        "output_ids": ("int64", ("batch_size", 5)),
    }
    assert (result.agrees, result.warnings) == (True, ())


class Two(nn.Module):
    def forward(self, a, b):
        return a + b, (a - b, a * b)


def test_names_that_are_asked_for(torch_exporter, tmp_path, run_here):
    config = {
        "input_shapes": [(2, 3), (2, 3)],
        "input_names": ["left", "right"],
        "output_names": ["sum", "rest", "product"],
    }
    result = torch_exporter(**config).export(Two(), tmp_path / "m.onnx")
    left, right = np.array([[1.0, 2, 3]], np.float32), np.array([[4.0, 5, 6]], np.float32)
    answer = run_here(result.path, {"right": right, "left": left})
    assert list(answer) == ["sum", "rest", "product"]
    np.testing.assert_array_equal(answer["rest"], [[-3, -3, -3]])
    np.testing.assert_array_equal(answer["product"], [[4, 10, 18]])


def test_outputs_without_names_are_numbered(torch_exporter, tmp_path):
    result = torch_exporter().export(Two(), tmp_path / "m.onnx", (torch.ones(2, 3), torch.ones(2, 3)))
    assert [spec.name for spec in result.inputs] == ["a", "b"]
    assert [spec.name for spec in result.outputs] == ["output_0", "output_1_0", "output_1_1"]


class Optional(nn.Module):
    def forward(self, x, shift=None, factor=None, use_cache=None, **options):
        return x if factor is None else 2 * x * factor + options.get("extra", 0)


class Decorated(Optional):
    """Its forward gives one of its own parameters a value, as those of transformers do."""

    @functools.wraps(Optional.forward)
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs, use_cache=False)


@BOTH
@pytest.mark.parametrize("module", [Optional(), Decorated()])
def test_keyword_inputs_in_any_order(torch_exporter, tmp_path, run_here, exporter, module):
    inputs = {"factor": torch.rand(1, 3), "x": torch.rand(1, 3)}
    result = torch_exporter(exporter=exporter).export(module, tmp_path / "m.onnx", inputs)
    assert [spec.name for spec in result.inputs] == ["x", "factor"]
    x, factor = np.array([[1, 2, 3]], np.float32), np.array([[5, 7, 9]], np.float32)
    np.testing.assert_array_equal(run_here(result.path, {"factor": factor, "x": x})["output"], [[10, 28, 54]])
    assert result.agrees


def test_an_input_whose_first_dimension_is_not_the_batch_stays_fixed(torch_exporter, tmp_path):
    class Table(nn.Module):
        def forward(self, x, table):
            return x @ table

    result = torch_exporter().export(Table(), tmp_path / "m.onnx", (torch.rand(2, 3), torch.rand(3, 4)))
    assert shapes(result.inputs) == {"x": ("float32", ("batch_size", 3)), "table": ("float32", (3, 4))}
    assert result.warnings == ("input 'table' stays fixed at [3, 4]: its first dimension is not the batch",)
    assert result.agrees


def test_an_input_that_is_not_used_is_told_of(torch_exporter, tmp_path):
    class First(nn.Module):
        def forward(self, x, unused):
            return x + 1

    result = torch_exporter().export(First(), tmp_path / "m.onnx", (torch.rand(2, 3), torch.rand(2, 3)))
    assert [spec.name for spec in result.inputs] == ["x"]
    assert result.warnings == ("input 'unused' is not used, and the exported model does not have it",)
    assert result.agrees


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_float_types(torch_exporter, tmp_path, dtype):
    module = nn.Linear(3, 2).to(getattr(torch, dtype))
    result = torch_exporter(input_shapes=[(1, 3)], input_dtypes=[dtype]).export(module, tmp_path / "m.onnx")
    assert shapes(result.outputs) == {"output": (dtype, ("batch_size", 2))}
    assert result.agrees


def test_a_model_that_the_runtime_cannot_run_is_exported_and_not_called_right(torch_exporter, tmp_path):
    module = nn.Linear(3, 2).bfloat16()
    result = torch_exporter(input_shapes=[(1, 3)], input_dtypes=["bfloat16"]).export(module, tmp_path / "m.onnx")
    assert result.path.exists()
    assert (result.comparison, result.agrees) == ((), False)
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith(f"ONNX Runtime cannot run it, so its outputs were not compared: {result.path}")


@pytest.mark.parametrize(
    ("opset", "warning"), [(9, "opset 9 is below 11: it lacks Resize and Range"), (21, "opset 21 is above 20: check")]
)
def test_opsets_that_are_warned_of(torch_exporter, tmp_path, opset, warning):
    result = torch_exporter(opset=opset, input_shapes=[(1, 3)]).export(Scale(), tmp_path / "m.onnx")
    assert (result.opset, result.agrees) == (opset, True)
    assert result.warnings[0].startswith(warning)


def test_the_opset_in_the_file_is_told_where_it_is_not_the_one_asked_for(torch_exporter, tmp_path):
    exporter = torch_exporter(exporter="dynamo", opset=9, input_shapes=[(1, 3)])
    result = exporter.export(nn.Linear(3, 2), tmp_path / "m.onnx")
    assert (result.opset_asked, result.opset) == (9, 18)
    assert onnx.load(result.path).opset_import[0].version == 18
    assert "opset 9 was asked for, and the dynamo exporter made opset 18" in result.warnings


def test_the_training_mode_of_each_part_is_restored(torch_exporter, tmp_path):
    module = SimpleCNN().train()
    module.bn2.eval()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    torch_exporter().export(module, tmp_path / "m.onnx")
    assert (module.training, module.bn1.training, module.bn2.training) == (True, True, False)
    torch.testing.assert_close(dict(module.state_dict()), before, rtol=0, atol=0)
    with pytest.raises(ExportError):
        torch_exporter(input_shapes=[(1, 2)]).export(module, tmp_path / "m.onnx")
    assert module.bn1.training


def test_dropout_does_nothing_in_the_exported_model(torch_exporter, tmp_path):
    module = nn.Sequential(Scale(), nn.Dropout(0.9)).train()
    result = torch_exporter(input_shapes=[(1, 3)]).export(module, tmp_path / "m.onnx")
    assert result.agrees
    assert [node.op_type for node in onnx.load(result.path).graph.node] == ["Mul"]


def test_a_wrong_model_is_found_out(torch_exporter, tmp_path, monkeypatch):
    def wrong(module, inputs, output_names, config, target):
        torch_exporters.write_onnx(module, inputs, output_names, config, target)
        model = onnx.load(target)
        weights = onnx.numpy_helper.to_array(model.graph.initializer[0]) * np.float32(1.1)
        model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, model.graph.initializer[0].name))
        onnx.save(model, target)

    monkeypatch.setattr(pytorch_exporter, "write_onnx", wrong)
    x = torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 2.0]])
    exporter = torch_exporter(verify_batch_sizes=[1, 2])
    result = exporter.export(Scale(), tmp_path / "m.onnx", x)
    assert [row.agree for row in result.comparison] == [False, False]
    assert [row.max_abs_error for row in result.comparison] == pytest.approx([0.3, 0.6], rel=1e-5)
    assert [row.max_rel_error for row in result.comparison] == pytest.approx([0.1, 0.1], rel=1e-5)
    assert not result.agrees
    assert result.warnings[1] == (
        "the outputs differ from PyTorch's on [2, 3]: the largest error is 0.6, 0.1 of the largest output"
    )


def test_a_batch_that_was_traced_into_the_model_is_found_out(torch_exporter, tmp_path):
    class Remembers(nn.Module):
        def forward(self, x):
            return x + torch.ones(int(x.shape[0]), 1)

    result = torch_exporter(input_shapes=[(1, 3)]).export(Remembers(), tmp_path / "m.onnx")
    assert [(row.batch_size, row.agree) for row in result.comparison] == [(1, False), (2, True), (8, False)]
    assert math.isinf(result.comparison[2].max_abs_error)
    tracer, shape, failure = result.warnings
    assert tracer.startswith("Converting a tensor to a Python integer might cause the trace to be incorrect. (test_")
    assert shape.startswith("the outputs differ from PyTorch's on [1, 3]: in their number, their shapes")
    assert failure.startswith("ONNX Runtime fails on [8, 3]:")
    assert '"max_abs_error":null' in result.model_dump_json()


class Branches(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


class Unsupported(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x)


@pytest.mark.parametrize(
    ("module", "exporter", "shape", "message"),
    [
        (
            Branches(),
            "dynamo",
            (2, 3),
            "Branches does not export with PyTorch's dynamo exporter: Could not guard on data",
        ),
        (
            Unsupported(),
            "torchscript",
            (2, 3, 3),
            "torchscript exporter: Exporting the operator 'aten::linalg_eigvals'",
        ),
        (Unsupported(), "dynamo", (2, 3, 3), "dynamo exporter: No ONNX function found for .*linalg_eig"),
        (nn.Linear(4, 2), "torchscript", (1, 3), "Linear fails on its example inputs, before any export: mat1"),
    ],
)
def test_modules_that_do_not_export(torch_exporter, tmp_path, capfd, module, exporter, shape, message):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"what was there")
    with pytest.raises(ExportError, match=message) as caught:
        torch_exporter(exporter=exporter, input_shapes=[shape]).export(module, path)
    assert caught.value.exit_code == 1
    assert "Try the other exporter" in caught.value.hint or "It was called with input[2, 3]" in caught.value.hint
    assert (list(tmp_path.iterdir()), path.read_bytes()) == ([path], b"what was there")
    assert capfd.readouterr() == ("", "")


def test_a_traced_branch_is_warned_of(torch_exporter, tmp_path):
    result = torch_exporter(input_shapes=[(1, 3)]).export(Branches(), tmp_path / "m.onnx")
    assert result.warnings[0].startswith(
        "Converting a tensor to a Python boolean might cause the trace to be incorrect."
    )


def test_an_interrupt_leaves_nothing(torch_exporter, tmp_path, monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(batch_comparison, "run_model", interrupted)
    with pytest.raises(KeyboardInterrupt):
        torch_exporter().export(SimpleCNN(), tmp_path / "new" / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_model_is_an_error_and_leaves_nothing(torch_exporter, tmp_path, monkeypatch):
    def invalid(module, inputs, output_names, config, target):
        node = onnx.helper.make_node("NoSuchOperator", ["x"], ["y"])
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph([node], "g", [value("x", 1, [1])], [value("y", 1, [1])])
        onnx.save(onnx.helper.make_model(graph), target)

    monkeypatch.setattr(pytorch_exporter, "write_onnx", invalid)
    with pytest.raises(ExportError, match=r"torchscript exporter made an invalid model of SimpleCNN: .*NoSuchOperator"):
        torch_exporter().export(SimpleCNN(), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("config", "given", "message"),
    [
        ({}, None, "the shapes of Two's inputs are not known"),
        (
            {"input_shapes": [(1, 3)] * 2, "input_dtypes": ["float", "float"]},
            None,
            "which is unknown. Did you mean 'float",
        ),
        ({"input_shapes": [(1, 3)] * 2, "input_dtypes": ["int64"]}, None, "2 input shapes and 1 dtypes"),
        ({"input_names": ["a", "b", "c"]}, (torch.ones(1, 3),) * 2, "there are 2 inputs and 3 input names: a, b, c"),
        ({"input_names": ["a", "a"]}, (torch.ones(1, 3),) * 2, "input names are not all different"),
        ({"output_names": ["p", "q"]}, (torch.ones(1, 3),) * 2, "Two has 3 outputs, and there are 2 output names"),
        ({"output_names": ["a", "q", "r"]}, (torch.ones(1, 3),) * 2, "inputs and outputs are not all different"),
        ({}, (torch.ones(1, 3), 2.0), "an example input is a float, and must be a tensor"),
    ],
)
def test_inputs_and_names_that_do_not_fit(torch_exporter, tmp_path, config, given, message):
    with pytest.raises(ExportError, match=message):
        torch_exporter(**config).export(Two(), tmp_path / "m.onnx", given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("value", "message"), [("text", "forward returned a str"), ([], "returns no tensor")])
def test_outputs_that_are_no_tensors(torch_exporter, tmp_path, value, message):
    class Odd(nn.Module):
        def forward(self, x):
            return value

    with pytest.raises(ExportError, match=message):
        torch_exporter(input_shapes=[(1, 3)]).export(Odd(), tmp_path / "m.onnx")


def test_a_folder_and_a_file_in_the_way(torch_exporter, tmp_path):
    with pytest.raises(OutputError, match="is a folder; name a file in it"):
        torch_exporter().export(SimpleCNN(), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        torch_exporter().export(SimpleCNN(), tmp_path / "file" / "m.onnx")


def test_weights_in_many_files_are_gathered_in_one(torch_exporter, tmp_path, monkeypatch):
    original = torch.onnx.export

    def above_2_gb(module, args, file, **options):
        original(module, args, file, **options)
        onnx.save(onnx.load(file), file, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=64)

    monkeypatch.setattr(torch.onnx, "export", above_2_gb)
    result = torch_exporter().export(SimpleCNN(), tmp_path / "m.onnx")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert result.agrees
    assert result.size_bytes == sum(file.stat().st_size for file in tmp_path.iterdir())


@pytest.mark.large
@BOTH
def test_weights_over_2_gb(real_children, torch_exporter, tmp_path, exporter):
    module = nn.Sequential(nn.Linear(16_400, 16_400), nn.Linear(16_400, 16_400))
    result = torch_exporter(exporter=exporter, opset=18, input_shapes=[(1, 16_400)]).export(module, tmp_path / "m.onnx")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert result.size_bytes > 2**31
    assert result.agrees


def test_the_module_that_the_configuration_names(torch_exporter, written_module, tmp_path, run_here):
    written_module("import torch\ndef make(): return torch.nn.Linear(3, 2)")
    weights = {"weight": torch.ones(2, 3), "bias": torch.tensor([0.0, 10.0])}
    torch.save(weights, tmp_path / "weights.pt")
    exporter = torch_exporter(
        module="user_nets:make", state_dict=tmp_path / "weights.pt", input_shapes=[(1, 3)], output_names=["logits"]
    )
    result = exporter.export_from_config(tmp_path / "m.onnx")
    assert (result.module, result.parameter_count, result.agrees) == ("Linear", 8, True)
    answer = run_here(result.path, {"input": np.array([[1, 2, 3]], np.float32)})
    np.testing.assert_allclose(answer["logits"], [[6.0, 16.0]])
    with pytest.raises(ExportError, match=r"export.pytorch.module names no module"):
        torch_exporter().export_from_config(tmp_path / "m.onnx")


def test_one_way_in_for_a_module_a_name_and_the_default(trained, written_module, tmp_path, monkeypatch):
    config = Config(export={"pytorch": {"input_shapes": [(1, 3)]}})
    assert export_pytorch_module(Scale(), tmp_path / "a.onnx", config=config).module == "Scale"
    name = written_module("import torch\nclass Net(torch.nn.Linear):\n    def __init__(self): super().__init__(3, 2)")
    assert export_pytorch_module(f"{name}:Net", tmp_path / "b.onnx", config=config).module == "Net"
    given = export_pytorch_module(f"{name}:Net", tmp_path / "b.onnx", torch.rand(2, 5, 3), config=Config())
    assert given.inputs[0].shape == ("batch_size", 5, 3)
    asked = []
    monkeypatch.setattr(entry, "train_simple_cnn", lambda *args: asked.append(args[1]) or trained)
    result = export_pytorch_module(None, tmp_path / "c.onnx", config=Config(seed=4))
    assert (result.module, result.agrees) == ("SimpleCNN", True)
    assert asked == [4]


def test_a_run_past_its_limit_is_an_error(real_children, tmp_path):
    config = Config(limits={"timeout_s": 0.01})
    with pytest.raises(RuntimeFailure, match="ran past its limit"):
        export_pytorch_module(SimpleCNN(), tmp_path / "m.onnx", config=config)
    assert list(tmp_path.iterdir()) == []


def test_the_package_imports_without_pytorch_and_scikit_learn():
    code = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('torch', 'sklearn', 'skl2onnx'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Missing())
import onnxsmith.model_exporter.training
from onnxsmith.config import LimitsConfig, PyTorchConfig, SklearnConfig
from onnxsmith.errors import MissingExtraError
from onnxsmith.model_exporter import PyTorchExporter, SklearnExporter
for call in (
    lambda: PyTorchExporter(PyTorchConfig(), limits=LimitsConfig()).export(None, 'm.onnx'),
    lambda: SklearnExporter(SklearnConfig(), limits=LimitsConfig()).export(None, 'm.onnx'),
    lambda: getattr(onnxsmith.model_exporter.pytorch_exporter, 'SimpleCNN'),
):
    try:
        call()
    except MissingExtraError as error:
        print(error)
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == [
        "torch is needed to export from PyTorch, and it is not installed.",
        "Install it with: pip install 'onnxsmith[torch]'",
        "scikit-learn is needed to export from scikit-learn, and it is not installed.",
        "Install it with: pip install 'onnxsmith[sklearn]'",
        "torch is needed for SimpleCNN, and it is not installed.",
        "Install it with: pip install 'onnxsmith[torch]'",
    ]
    assert issubclass(MissingExtraError, Exception)
