from __future__ import annotations

import subprocess
import sys

import pytest


def run(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_model_with_symbolic_dimensions_is_loaded_and_saved_without_sympy(write_model, build_model, tmp_path):
    proto = build_model("g (float[batch, 3, n] x) => (float[batch, 3, n] y) { y = Relu(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "2*(n + 1)"
    path = write_model(proto)
    assert run(
        "import sys, onnxsmith\n"
        f"model = onnxsmith.load({str(path)!r})\n"
        f"model.save({str(tmp_path / 'saved.onnx')!r})\n"
        "print('sympy' in sys.modules, 'onnx_ir._symbolic_shapes' in sys.modules, len(model.inputs[0].shape))"
    ) == ["False", "False", "3"]


def test_arithmetic_on_dimensions_brings_it():
    assert run(
        "import sys, onnxsmith, onnx_ir as ir\n"
        "dim = (ir.SymbolicDim('a') + 1) * 2\n"
        "print(dim.evaluate({'a': 4}), ir.SymbolicDim('max(a, 3)').evaluate({'a': 2}), 'sympy' in sys.modules)\n"
        "import sympy\n"
        "print(ir.SymbolicDim(sympy.Symbol('x') + 1) == 'x + 1', ir.__spec__.loader.__class__.__name__)"
    ) == ["10", "3", "True", "True", "SourceFileLoader"]


@pytest.mark.parametrize("first", ["import sympy, onnxsmith", "import onnx_ir, onnxsmith, sympy"])
def test_where_sympy_is_there_already_nothing_is_done(first):
    assert run(f"{first}\nimport onnx_ir\nprint(onnx_ir._core.sympy is sympy)") == ["True"]


def test_the_users_own_import_is_the_real_one():
    assert run(
        "import onnxsmith, onnx_ir, sympy, sympy.core, onnx_ir._symbolic_shapes as shapes\n"
        "print(sympy.simplify('x + x'), sympy.__file__ is not None, shapes.__file__ is not None)"
    ) == ["2*x", "True", "True"]


def test_threads_that_need_it_at_once():
    assert run(
        "import threading, onnxsmith, onnx_ir as ir\n"
        "found, barrier = [], threading.Barrier(8)\n"
        "def add(number):\n"
        "    barrier.wait()\n"
        "    found.append((ir.SymbolicDim('a') + number).evaluate({'a': 1}))\n"
        "threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "print(*sorted(found))"
    ) == [str(number + 1) for number in range(8)]
