"""Fixtures of the analysis tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
from analysis_helpers import weights

CNN = """
cnn (float[batch_size, 1, 8, 8] input) => (float[batch_size, 10] output) {
    [conv] c = Conv<kernel_shape = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1]>(input, w, b)
    [norm] n = BatchNormalization<epsilon = 0.001>(c, gamma, beta, mean, var)
    [relu] r = Relu(n)
    [pool] p = GlobalAveragePool(r)
    [flat] f = Flatten(p)
    output = Gemm<transB = 1>(f, fc_w, fc_b)
}
"""


@pytest.fixture
def cnn(build_model: Callable[..., onnx.ModelProto]) -> onnx.ModelProto:
    """Conv → BatchNormalization → Relu → GlobalAveragePool → Flatten → Gemm: 288 + 32 + 4·32 + 320 + 10 parameters."""
    channels = dict.fromkeys(("b", "gamma", "beta", "mean", "var"), (32,))
    return build_model(CNN, *weights(w=(32, 1, 3, 3), **channels, fc_w=(10, 32), fc_b=(10,)))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are saved during the test, as matplotlib has them."""
    from matplotlib.figure import Figure

    figures: list[Any] = []
    save = Figure.savefig

    def keep(self: Any, *args: Any, **kwargs: Any) -> None:
        save(self, *args, **kwargs)
        figures.append(self)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures
