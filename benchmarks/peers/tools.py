"""The tools: for each, the command line that reads {input} and writes {output}."""

from __future__ import annotations

import importlib.metadata
import sys

ONNXSCRIPT = """
import sys, onnx_ir, onnxscript.optimizer
model = onnx_ir.load(sys.argv[1])
onnxscript.optimizer.optimize(model)
onnx_ir.save(model, sys.argv[2])
"""

ONNXRUNTIME = """
import sys, onnxruntime as ort
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
options.optimized_model_filepath = sys.argv[2]
options.log_severity_level = 3
ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""

PYTHON = sys.executable
OURS = "onnxsmith"
TOOLS = {
    OURS: [PYTHON, "-m", "onnxsmith", "optimize", "{input}", "-o", "{output}", "--no-verify"],
    "onnxsim": [PYTHON, "-c", "import onnxsim; onnxsim.main()", "{input}", "{output}"],
    "onnxslim": [PYTHON, "-c", "import onnxslim.cli; onnxslim.cli.main()", "{input}", "{output}"],
    "onnxoptimizer": [PYTHON, "-m", "onnxoptimizer", "{input}", "{output}"],
    "onnxscript": [PYTHON, "-c", ONNXSCRIPT, "{input}", "{output}"],
    "onnxruntime": [PYTHON, "-c", ONNXRUNTIME, "{input}", "{output}"],
}
"""`onnxruntime` is its basic level, whose result other runtimes can read too."""


def filled(command, source, target):
    """The command for one model."""
    return [part.replace("{input}", str(source)).replace("{output}", str(target)) for part in command]


def versions():
    """The installed version of each package here."""
    found = {}
    for name in (*TOOLS, "onnx", "onnx-ir"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found
