"""ONNX Runtime's warnings while it optimised, in plain words."""

from __future__ import annotations

import re

from onnxsmith.graph_optimizer.operators import runtime_operators
from onnxsmith.model import Model

_LINE = re.compile(r"\[W:onnxruntime:[^\]]*\] (.*?)(?:\x1b\[m)?\s*$", re.MULTILINE)
_MOST = 10

_PLAIN = (
    (
        re.compile(r"Could not find a CPU kernel and hence can't constant fold (\S+) node '(.*)'"),
        r"\1 '\2' was not folded: the CPU provider has no kernel for it",
    ),
    (
        re.compile(r"Initializer (\S+) appears in graph inputs .*"),
        r"initializer '\1' is an input too, so nothing is folded with it",
    ),
    (
        re.compile(r"Removing initializer '(.*)'\. It is not used by any node.*"),
        r"initializer '\1' is used by nothing and was removed",
    ),
)
_SAID_BY_FILE_WARNINGS = "Serializing optimized model with Graph Optimization level greater than"
"""ONNX Runtime prints this for any model at ORT_ENABLE_ALL; `file_warnings` looks at the file instead."""


def plain_warnings(log: str) -> tuple[str, ...]:
    """The warnings in a child's log, each once."""
    texts = [text for text in _LINE.findall(log) if not text.startswith(_SAID_BY_FILE_WARNINGS)]
    plain = list(dict.fromkeys(_in_plain_words(text) for text in texts))
    more = len(plain) - _MOST
    return (*plain[:_MOST], *([f"and {more} more warnings like these"] if more > 0 else []))


def _in_plain_words(text: str) -> str:
    for pattern, words in _PLAIN:
        if pattern.fullmatch(text):
            return pattern.sub(words, text)
    return text


def file_warnings(written: Model) -> tuple[str, ...]:
    """What ties a file that ONNX Runtime wrote to this runtime or this machine."""
    layout = sum(node.domain == "com.microsoft.nchwc" for node in written.nodes())
    own = runtime_operators(written)
    warnings = []
    if layout:
        warnings.append(
            f"nodes in the blocked NCHWc layout of this machine's CPU: {layout}; ONNX Runtime says to use this file in "
            "the same environment only"
        )
    if own:
        warnings.append(f"nodes of ONNX Runtime's own operators: {own}; no other runtime can load this file")
    return tuple(warnings)
