"""onnxsmith: any trained model in, the best deployable ONNX artifact out, proven faster and proven right.

    import onnxsmith

    model = onnxsmith.load("model.onnx")
    print(onnxsmith.inspect(model).node_count)
    onnxsmith.optimize(model, "optimized.onnx")
    result = onnxsmith.infer(model, dims={"batch": 4})
    report = onnxsmith.benchmark("model.onnx")

Names are resolved when they are first used, so that `import onnxsmith` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnxsmith import lazy_sympy
from onnxsmith.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxsmith.api import (
        benchmark,
        bisect,
        export_pytorch,
        export_sklearn,
        infer,
        inspect,
        load,
        optimize,
        optimize_levels,
        profile,
        run,
    )
    from onnxsmith.config import Config
    from onnxsmith.config_loading import load_config
    from onnxsmith.doctor import diagnose
    from onnxsmith.errors import OnnxsmithError, UserError
    from onnxsmith.graph_optimizer import Editor, GraphPass, Pass, PassResult, RulePass
    from onnxsmith.model import Model, TensorSpec

_HOMES = {
    "benchmark": "api",
    "bisect": "api",
    "export_pytorch": "api",
    "export_sklearn": "api",
    "infer": "api",
    "inspect": "api",
    "load": "api",
    "optimize": "api",
    "optimize_levels": "api",
    "profile": "api",
    "run": "api",
    "Config": "config",
    "load_config": "config_loading",
    "diagnose": "doctor",
    "OnnxsmithError": "errors",
    "UserError": "errors",
    "Editor": "graph_optimizer",
    "GraphPass": "graph_optimizer",
    "Pass": "graph_optimizer",
    "PassResult": "graph_optimizer",
    "RulePass": "graph_optimizer",
    "Model": "model",
    "TensorSpec": "model",
}

__all__ = [
    "Config",
    "Editor",
    "GraphPass",
    "Model",
    "OnnxsmithError",
    "Pass",
    "PassResult",
    "RulePass",
    "TensorSpec",
    "UserError",
    "benchmark",
    "bisect",
    "diagnose",
    "export_pytorch",
    "export_sklearn",
    "infer",
    "inspect",
    "load",
    "load_config",
    "optimize",
    "optimize_levels",
    "profile",
    "run",
]


lazy_sympy.install()


_resolve = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("onnxsmith")
    return _resolve(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
