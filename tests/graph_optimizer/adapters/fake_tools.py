"""Tools that misbehave, each in its own way, and the pass that runs them."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx
from onnx import numpy_helper

from onnxsmith.graph_optimizer.adapters.outside import OutsidePass


@dataclass(frozen=True)
class Fake(OutsidePass):
    """Runs the function here that is called `behaviour`."""

    name: ClassVar[str] = "fake"
    tool: ClassVar[str] = f"{__name__}:misbehave"

    behaviour: str = "nothing_to_do"


def misbehave(source, target, *, behaviour):
    model = onnx.load(source)
    if globals()[behaviour](model, target) is None:
        onnx.save(model, target)


def nothing_to_do(model, target):
    pass


def abort(model, target):
    os.abort()


def end(model, target):
    os._exit(3)


def hang(model, target):
    subprocess.Popen(["sleep", "60"])
    time.sleep(60)


def eat(model, target):
    blocks = [bytearray(1 << 26) for _ in range(1 << 10)]
    return len(blocks)


def raise_something(model, target):
    raise LookupError("no such node\nand more of it")


def need_a_package(model, target):
    import a_package_that_there_is_not  # noqa: F401


def write_nothing(model, target):
    return True


def write_garbage(model, target):
    target.write_bytes(b"\x00garbage" * 10)
    return True


def write_half(model, target):
    data = model.SerializeToString()
    target.write_bytes(data[: len(data) // 2])
    return True


def point_elsewhere(model, target):
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")


def drop_output(model, target):
    del model.graph.output[1]


def swap_outputs(model, target):
    first, second = model.graph.output
    del model.graph.output[:]
    model.graph.output.extend([second, first])


def rename_input(model, target):
    model.graph.input[0].name = "other"
    for node in model.graph.node:
        node.input[:] = ["other" if name == "x" else name for name in node.input]


def change_dtype(model, target):
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE


def fix_batch(model, target):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1


def freeze(model, target):
    """Initializers are no inputs any more."""
    names = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def fold_overridable(model, target):
    """The input stays, and nothing uses it."""
    for tensor in model.graph.initializer:
        if tensor.name == "w":
            model.graph.initializer.add().CopyFrom(tensor)
            model.graph.initializer[-1].name = "w_copy"
            break
    for node in model.graph.node:
        node.input[:] = ["w_copy" if name == "w" else name for name in node.input]


def change_opset(model, target):
    model.opset_import[0].version = 20


def make_invalid(model, target):
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("no_such_attribute", 1))


def leave_a_hole(model, target):
    model.graph.node[0].input[0] = "made_by_nothing"


def multiply(model, target):
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(4 << 20, np.uint8), "ballast"))


def merge_random(model, target):
    for node in list(model.graph.node):
        if node.name == "second":
            model.graph.node.remove(node)
    for node in model.graph.node:
        node.input[:] = ["r1" if name == "r2" else name for name in node.input]


def change_values(model, target):
    for node in model.graph.node:
        if node.op_type == "Relu":
            node.op_type = "Abs"


def forget_what_it_is(model, target):
    """Keeps the graph and nothing else, and makes one node anew."""
    graph = model.graph
    kept = onnx.helper.make_graph(
        [
            onnx.helper.make_node(node.op_type, ["a", "a"] if node.op_type == "Mul" else node.input, node.output)
            for node in graph.node
        ],
        "main",
        [onnx.helper.make_value_info(value.name, value.type) for value in graph.input],
        [onnx.helper.make_value_info(value.name, value.type) for value in graph.output],
        list(graph.initializer),
    )
    onnx.save(onnx.helper.make_model(kept, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=8), target)
    return True


def forget_functions(model, target):
    del model.functions[:]
    del model.opset_import[1:]
    model.graph.node[0].op_type = "Abs"


def move_weights_out(model, target):
    model.graph.node[0].op_type = "Abs"
    array = numpy_helper.to_array(model.graph.initializer[0]) + 1
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, model.graph.initializer[0].name))
    onnx.save(
        model, target, save_as_external_data=True, location="weights.bin", size_threshold=0, convert_attribute=False
    )
    return True


def use_own_operator(model, target):
    model.graph.node[0].op_type = "QuickGelu"
    model.graph.node[0].domain = "com.microsoft"
    model.opset_import.add(domain="com.microsoft", version=1)
    model.opset_import.add(domain="com.nobody.uses", version=1)
