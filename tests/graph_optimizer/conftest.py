from __future__ import annotations

import pytest
from core_helpers import PASSES

from onnxsmith.graph_optimizer.passes.table import BUILT_IN


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the passes of `core_helpers` into the table."""
    for name, kind in PASSES.items():
        monkeypatch.setitem(BUILT_IN, name, f"{kind.__module__}:{kind.__name__}")
