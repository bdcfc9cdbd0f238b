from __future__ import annotations

import hashlib
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from analysis_helpers import analysed, weights
from onnx.numpy_helper import from_array

from onnxsmith.errors import InvalidModelError
from onnxsmith.graph_analysis import GraphInspector, ModelReport, ShapeAnalyzer
from onnxsmith.graph_analysis import graph_inspector as inspector_module
from onnxsmith.model import Model, TensorSpec


def inspect(proto: onnx.ModelProto) -> ModelReport:
    model = Model.from_proto(proto)
    return GraphInspector(model, analysis=analysed(model)).inspect()


def only(warning: tuple[str, ...], part: str) -> str:
    found = [line for line in warning if part in line]
    assert len(found) == 1, warning
    return found[0]


def test_a_file_is_described(cnn, write_model):
    cnn.producer_name, cnn.producer_version = "pytorch", "2.6"
    cnn.domain, cnn.model_version, cnn.doc_string = "org.example", 7, "A digit reader."
    onnx.helper.set_model_props(cnn, {"classes": "10"})
    path = write_model(cnn)
    report = GraphInspector(Model.load(path)).inspect()
    data = path.read_bytes()
    assert report.path == str(path)
    assert report.digest == hashlib.sha256(data).hexdigest()
    assert report.size_bytes == len(data)
    assert report.external_files == ()
    assert (report.ir_version, report.opsets) == (10, {"ai.onnx": 21, "custom": 1})
    assert (report.producer_name, report.producer_version) == ("pytorch", "2.6")
    assert (report.domain, report.model_version, report.doc_string) == ("org.example", 7, "A digit reader.")
    assert (report.graph_name, report.metadata) == ("cnn", {"classes": "10"})
    assert report.inputs == (TensorSpec(name="input", kind="tensor", dtype="float32", shape=("batch_size", 1, 8, 8)),)
    assert [str(spec) for spec in report.outputs] == ["float32[batch_size, 10]"]
    assert [(dim.name, dim.places) for dim in report.dynamic_dims] == [("batch_size", ("input[0]", "output[0]"))]
    assert report.warnings == ()
    assert ModelReport.model_validate_json(report.model_dump_json()) == report


def test_parameters_are_counted(cnn):
    report = inspect(cnn)
    assert report.totals.parameters == 288 + 32 + 4 * 32 + 320 + 10 == 778
    assert report.totals.bytes == 778 * 4
    assert report.totals.initializers == 8
    assert report.totals.parameters_by_dtype == {"float32": 778}
    first = report.initializers[0]
    assert (first.name, first.shape, first.elements, first.dtype, first.bytes, first.external, first.graph) == (
        ("w", (32, 1, 3, 3), 288, "float32", 1152, False, "")
    )


def test_nodes_have_readable_attributes(cnn):
    report = inspect(cnn)
    conv, norm, *_, gemm = report.nodes
    assert (conv.index, conv.op_type, conv.domain, conv.name) == (0, "Conv", "", "conv")
    assert (conv.inputs, conv.outputs, conv.graph) == (("input", "w", "b"), ("c",), "")
    assert conv.attributes == {"kernel_shape": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1)}
    assert norm.attributes == {"epsilon": 0.001}
    assert gemm.attributes == {"transB": 1}
    assert (report.node_count, report.main_node_count) == (6, 6)
    assert report.op_counts == dict.fromkeys(
        ("BatchNormalization", "Conv", "Flatten", "Gemm", "GlobalAveragePool", "Relu"), 1
    )


def test_attributes_of_every_kind_are_short():
    node = onnx.helper.make_node("Op", ["x"], ["y"], domain="custom")
    values = {
        "text": "x" * 200,
        "blob": b"\xff\xfe\x00",
        "list": list(range(300)),
        "floats": [0.1, 0.25],
        "strings": ["a", "b"],
        "tensor": from_array(np.zeros((3, 4), np.float32)),
        "tensors": [from_array(np.zeros(2, np.int64)), from_array(np.array(1, np.int8))],
        "type": onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(1, ["n", 3])),
        "graph": onnx.parser.parse_graph("g () => (float[1] z) { z = Constant<value_floats = [1.0]>() }"),
    }
    node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in values.items())
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [info("x", 1, [1])], [info("y", 1, [1])])
    imports = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("custom", 1)]
    report = inspect(onnx.helper.make_model(graph, opset_imports=imports, ir_version=10))
    assert report.nodes[0].attributes == {
        "text": "x" * 120 + "… (200 characters)",
        "blob": "<3 bytes>",
        "list": "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, … (300 in all)]",
        "floats": (0.1, 0.25),
        "strings": ("a", "b"),
        "tensor": "float32[3, 4]",
        "tensors": ("int64[2]", "int8[]"),
        "type": "sequence(float32[n, 3])",
        "graph": "graph(1 node)",
    }


def test_subgraphs_are_counted_with_their_place(build_model):
    report = inspect(
        build_model("""
        g (bool c, float[2] x) => (float[2] y) {
            [choice] y = If(c) <
                then_branch = t () => (float[2] a) <float[2] k = {1, 2}> { a = Add(x, k) },
                else_branch = e () => (float[2] b) { n = Neg(x) b = Neg(n) }
            >
        }""")
    )
    assert (report.node_count, report.main_node_count) == (4, 1)
    assert report.op_counts == {"Neg": 2, "Add": 1, "If": 1}
    assert [(node.graph, node.index, node.op_type) for node in report.nodes] == [
        ("", 0, "If"),
        ("choice/then_branch", 0, "Add"),
        ("choice/else_branch", 0, "Neg"),
        ("choice/else_branch", 1, "Neg"),
    ]
    assert report.nodes[0].attributes == {"then_branch": "graph(1 node)", "else_branch": "graph(2 nodes)"}
    assert [(found.name, found.graph, found.elements) for found in report.initializers] == [
        ("k", "choice/then_branch", 2)
    ]
    assert report.warnings == ()


def test_functions_and_custom_operators(build_model):
    report = inspect(
        build_model("""
        <ir_version: 10, opset_import: ["": 21, "local": 1, "acme": 2, "com.microsoft": 1]>
        g (float[4] x) => (float[4] y) {
            a = local.twice(x)
            b = acme.Blur(a)
            y = com.microsoft.Gelu(b)
        }
        <opset_import: ["": 21], domain: "local">
        twice (x) => (y) { t = Add(x, x) y = Identity(t) }""")
    )
    assert [(found.domain, found.name, found.nodes) for found in report.functions] == [("local", "twice", 2)]
    assert report.custom_operators == ("acme::Blur", "com.microsoft::Gelu")
    assert report.op_counts == {"acme::Blur": 1, "com.microsoft::Gelu": 1, "local::twice": 1}
    assert "'acme::Blur'" in only(report.warnings, "1 operator is defined neither by ONNX nor by ONNX Runtime")


def test_inputs_and_outputs_that_are_no_tensors(build_model):
    report = inspect(
        build_model("""
        <ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]>
        g (float[N, 2] p, string[M] words, seq(float[2]) s, int64 at) =>
          (seq(map(int64, float)) z, string[M] same, float[2] one) {
            z = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1]>(p)
            same = Identity(words)
            one = SequenceAt(s, at)
        }""")
    )
    assert [(spec.name, str(spec)) for spec in report.inputs] == [
        ("p", "float32[N, 2]"),
        ("words", "string[M]"),
        ("s", "sequence(float32[2])"),
        ("at", "int64[]"),
    ]
    assert (report.outputs[0].kind, report.outputs[0].dtype) == ("sequence", "map(int64, float32)")
    assert [dim.name for dim in report.dynamic_dims] == ["N", "M"]
    assert report.custom_operators == ()


def test_dimensions_without_a_name_go_by_input_and_axis(build_model):
    report = inspect(build_model("g (float[?, 3] x) => (float[?, 3] y) { y = Relu(x) }"))
    assert [(dim.name, dim.places) for dim in report.dynamic_dims] == [("x.0", ("x[0]",))]


def test_a_graph_without_nodes(build_model):
    report = inspect(build_model("g (float[2] x) => (float[2] x, float[3] w) {}", *weights(w=(3,))))
    assert (report.node_count, report.nodes, report.op_counts) == (0, (), {})
    assert report.totals.parameters == 3
    assert report.warnings == ()


def test_small_dtypes_are_measured_in_bits(build_model):
    arrays = {
        "q": np.zeros((3, 3), ml_dtypes.int4),
        "f8": np.zeros(6, ml_dtypes.float8_e4m3fn),
        "bf": np.zeros(5, ml_dtypes.bfloat16),
    }
    tensors = [ir.to_proto(ir.tensor(array, name=name)) for name, array in arrays.items()]
    words = onnx.helper.make_tensor("s", onnx.TensorProto.STRING, [2], ["ab", "cdé"])
    text = "g () => (int4[3,3] q, float8e4m3fn[6] f8, bfloat16[5] bf, string[2] s) {}"
    report = inspect(build_model(text, *tensors, words))
    assert [(found.dtype, found.elements, found.bytes) for found in report.initializers] == [
        ("int4", 9, 5),
        ("float8_e4m3fn", 6, 6),
        ("bfloat16", 5, 10),
        ("string", 2, 6),
    ]
    assert report.totals.parameters == 22
    assert report.totals.parameters_by_dtype == {"int4": 9, "float8_e4m3fn": 6, "bfloat16": 5, "string": 2}


def test_constant_nodes_are_counted_apart(build_model):
    report = inspect(
        build_model("""
        g () => (float[2, 3] a, float[2] b, int64 c, string d) {
            a = Constant<value = float[2, 3] {1, 2, 3, 4, 5, 6}>()
            b = Constant<value_floats = [1.0, 2.0]>()
            c = Constant<value_int = 3>()
            d = Constant<value_string = "word">()
        }""")
    )
    assert report.totals.parameters == 0
    assert report.totals.constants == 4
    assert report.totals.constant_elements == 6 + 2 + 1 + 1
    assert report.totals.constant_bytes == 24 + 8 + 8 + 4


def test_external_data_is_not_read(cnn, write_model, monkeypatch):
    path = write_model(cnn, save_as_external_data=True, location="weights.bin", size_threshold=1024)
    model = Model.load(path)

    def refuse(self: ir.ExternalTensor) -> None:
        raise AssertionError(f"{self.name} was read")

    monkeypatch.setattr(ir.ExternalTensor, "_load", refuse)
    report = GraphInspector(model).inspect()
    assert [(file.name, file.bytes) for file in report.external_files] == [("weights.bin", 1152 + 1280)]
    assert [found.name for found in report.initializers if found.external] == ["w", "fc_w"]
    assert report.totals.parameters == 778
    assert report.size_bytes == path.stat().st_size + 2432


def test_opportunities(cnn):
    found = inspect(cnn).opportunities
    assert [(one.kind, one.nodes, one.graph) for one in found] == [
        ("Conv+BatchNormalization+Relu", ("conv", "norm", "relu"), "")
    ]
    assert "can become one operator" in found[0].text


def test_what_does_nothing_is_an_opportunity(build_model):
    report = inspect(
        build_model("g (float[2] x) => (float[2] y) { a = Dropout(x) b = Identity(a) c = Relu(b) y = Neg(c) }")
    )
    assert [(one.kind, one.nodes) for one in report.opportunities] == [
        ("Dropout", ("Dropout_0",)),
        ("Identity", ("Identity_1",)),
    ]


def test_what_was_analysed_before_is_not_analysed_again(cnn, monkeypatch):
    model = Model.from_proto(cnn)
    analysis = analysed(model)
    monkeypatch.setattr(inspector_module, "analyse_native", None)
    assert GraphInspector(model, analysis=analysis).inspect().node_count == 6


def test_an_invalid_model_is_refused(write_model):
    path = write_model("g (float[2] x) => (float[2] y) { y = Relu(missing) }")
    with pytest.raises(InvalidModelError, match="missing"):
        GraphInspector(Model.load(path)).inspect()


class TestWarnings:
    def test_an_old_opset(self, build_model):
        text = '<ir_version: 8, opset_import: ["": 9]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
        assert "older than 11" in only(inspect(build_model(text)).warnings, "opset 9")

    def test_versions_that_the_runtime_does_not_know(self, cnn):
        model = Model.from_proto(cnn)
        analysis = analysed(model)
        model.ir.ir_version = 99
        model.ir.opset_imports[""] = 999
        model.ir.opset_imports["acme"] = 999
        found = GraphInspector(model, analysis=analysis).inspect().warnings
        assert "IR version 99 is newer than ONNX Runtime" in only(found, "IR version")
        assert "opset 999 of ai.onnx is newer than ONNX Runtime" in only(found, "opset")

    def test_inputs_and_initializers_that_nobody_uses(self, build_model):
        text = "g (float[2] x, float[2] left) => (float[2] y) { y = Relu(x) }"
        found = inspect(build_model(text, *weights(a=(4,), b=(2,)))).warnings
        assert only(found, "input is not used") == "1 input is not used: 'left'."
        assert only(found, "initializers") == "2 initializers are not used, 24 bytes: 'a', 'b'."

    def test_an_input_that_only_a_subgraph_uses_is_used(self, build_model):
        text = """
        g (bool c, float[2] x, float[2] z) => (float[2] y) {
            y = If(c) <then_branch = t () => (float[2] a) { a = Neg(x) },
                       else_branch = e () => (float[2] b) { b = Neg(z) }>
        }"""
        assert inspect(build_model(text)).warnings == ()

    def test_an_overridable_initializer(self, build_model):
        text = "g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }"
        report = inspect(build_model(text, *weights(w=(2,))))
        assert report.overridable_initializers == ("w",)
        assert [spec.name for spec in report.inputs] == ["x"]
        assert "'w'" in only(report.warnings, "1 initializer may be overridden")

    def test_an_ir_version_without_constants(self, build_model):
        text = '<ir_version: 3, opset_import: ["": 11]> g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }'
        only(inspect(build_model(text, *weights(w=(2,)))).warnings, "IR version 3 makes every initializer an input")

    def test_float64(self, build_model):
        found = inspect(build_model("g (double[2] x) => (double[2] y) { y = Relu(x) }")).warnings
        assert "'x', 'y'" in only(found, "2 tensors are float64")

    @pytest.mark.parametrize(
        ("flag", "trains"), [("true_", True), ("false_", False), ("asked", True)], ids=["true", "false", "an input"]
    )
    def test_dropout_in_training_mode(self, build_model, flag, trains):
        text = f"""
        g (float[2] x, bool asked) => (float[2] y, bool z) <bool true_ = {{1}}, bool false_ = {{0}}, float r = {{0.5}}>
        {{ y = Dropout(x, r, {flag}) z = Identity(asked) }}"""
        found = [line for line in inspect(build_model(text)).warnings if "training mode" in line]
        assert bool(found) is trains
        assert not found or "'Dropout_0'" in found[0]

    def test_batch_norm_in_training_mode(self, build_model):
        text = """
        g (float[2, 3, 4] x) => (float[2, 3, 4] y) {
            y, m, v = BatchNormalization<training_mode = 1>(x, k, k, k, k)
        }"""
        assert "'BatchNormalization_0'" in only(
            inspect(build_model(text, *weights(k=(3,)))).warnings, "1 node is in training mode"
        )

    def test_what_shape_inference_said(self, build_model):
        model = Model.from_proto(build_model("g (float[2] x) => (float[2] y) { y = Relu(x) }"))
        conflicts = tuple(f"'a{number}' is declared [2] and inferred [3]" for number in range(8))
        analysis = replace(analysed(model), conflicts=conflicts, inference_error="no rule for Relu")
        found = GraphInspector(model, analysis=analysis).inspect().warnings
        assert found[0] == "shape inference gave up: no rule for Relu"
        assert found[1].startswith("'a0' is declared [2] and inferred [3]: the declared shape is wrong")
        assert len(found) == 1 + 5 + 1
        assert found[-1].startswith("3 more tensors")

    def test_a_sparse_initializer(self, write_model, build_model):
        proto = build_model("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
        values = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [2], [1.0, 2.0])
        indices = onnx.helper.make_tensor("at", onnx.TensorProto.INT64, [2], [0, 3])
        proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [4]))
        report = GraphInspector(Model.load(write_model(proto))).inspect()
        assert [(found.name, found.shape, found.dtype) for found in report.initializers] == [("w", (4,), "float32")]
        assert report.totals.parameters == 4
        assert report.warnings == ()


def test_twenty_thousand_nodes_take_seconds():
    length = 20_000
    nodes = [onnx.helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(length)]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "chain", [info("v0", 1, ["n"])], [info(f"v{length}", 1, ["n"])])
    model = Model.from_proto(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    )
    analysis = analysed(model)
    start = time.perf_counter()
    report = GraphInspector(model, analysis=analysis).inspect()
    shapes = ShapeAnalyzer(model, analysis=analysis).analyze()
    assert time.perf_counter() - start < 30
    assert report.op_counts == {"Relu": length}
    assert shapes.lines[-1] == "[19999] Relu in=[v19999:[n]] → out=[v20000:[n]]"
    assert shapes.known_after == shapes.total == length + 1


def test_onnx_own_node_tests_are_described():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = [case for case in collect_testcases(None) if case.model is not None]
    assert len(cases) > 1000
    for case in cases[::40]:
        model = Model.from_proto(case.model)
        analysis = analysed(model)
        report = GraphInspector(model, analysis=analysis).inspect()
        shapes = ShapeAnalyzer(model, analysis=analysis).analyze()
        assert report.node_count == len(report.nodes) == len(shapes.lines) == sum(report.op_counts.values()), case.name
        assert shapes.known_after + len(shapes.partly_known) + len(shapes.unknown) == shapes.total, case.name


@pytest.mark.large
def test_external_weights_of_1500_mb_are_inspected_below_300_mb(tmp_path):
    size, count = 100 << 20, 15
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(size * count)
    nodes, initializers = [], []
    for number in range(count):
        tensor = onnx.TensorProto(name=f"w{number}", data_type=1, dims=[5120, 5120], data_location=1)
        for key, value in (("location", "weights.bin"), ("offset", number * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        initializers.append(tensor)
        nodes.append(onnx.helper.make_node("MatMul", [f"x{number}", f"w{number}"], [f"x{number + 1}"]))
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "g", [info("x0", 1, ["b", 5120])], [info(f"x{count}", 1, ["b", 5120])], initializers
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    (tmp_path / "big.onnx").write_bytes(model.SerializeToString())
    script = (
        "import pathlib, resource, sys\n"
        "from onnxsmith.graph_analysis import GraphInspector\n"
        "from onnxsmith.model import Model\n"
        "report = GraphInspector(Model.load(sys.argv[1])).inspect()\n"
        # What resource says of this process is inherited from the one that tests.
        "status = dict(line.split(':', 1) for line in pathlib.Path('/proc/self/status').read_text().splitlines())\n"
        "own = int(status['VmHWM'].split()[0])\n"
        "children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "print(report.totals.parameters, max(own, children) / 1024)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "big.onnx")]
    parameters, peak_mb = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(parameters) == count * 5120 * 5120
    assert float(peak_mb) < 300
