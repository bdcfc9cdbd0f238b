"""Execution providers: what was asked for, what is there, and where each node ran."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from onnxsmith.errors import ConfigError
from onnxsmith.records import Record, did_you_mean

logger = logging.getLogger(__name__)

CPU = "CPUExecutionProvider"
_SUFFIX = "ExecutionProvider"
_ALIASES = {"dml": "DirectML", "trt": "Tensorrt", "amd": "MIGraphX", "qualcomm": "QNN", "intel": "OpenVINO"}
_FULL_NAMES = {"DirectML": "DmlExecutionProvider"}

HOW_TO_GET = {
    "CUDAExecutionProvider": "it comes with the package onnxruntime-gpu, on a machine with an NVIDIA GPU",
    "TensorrtExecutionProvider": "it comes with the package onnxruntime-gpu, with TensorRT and an NVIDIA GPU",
    "NvTensorRTRTXExecutionProvider": "it comes with the package onnxruntime-ep-tensorrt-rtx, for an NVIDIA RTX GPU",
    "OpenVINOExecutionProvider": "it comes with the package onnxruntime-ep-openvino",
    "QNNExecutionProvider": "it comes with the package onnxruntime-qnn",
    "DmlExecutionProvider": "it comes with the package onnxruntime-directml, on Windows",
    "CoreMLExecutionProvider": "it comes with onnxruntime on macOS",
    "MIGraphXExecutionProvider": "it comes with AMD's build of onnxruntime, on ROCm",
}


class LeftOutProvider(Record):
    """A provider that was asked for and is not used.

    Attributes:
        provider: Its full name.
        reason: Why, and how to get it.
    """

    provider: str
    reason: str


class ProviderSelection(Record):
    """The providers for a session.

    Attributes:
        providers: Full names in order of preference, CPU last.
        left_out: What was asked for and is not there.
    """

    providers: tuple[str, ...]
    left_out: tuple[LeftOutProvider, ...]


class ExecutionProviderSelector:
    """Chooses among the providers that the installed ONNX Runtime has."""

    @staticmethod
    def available() -> list[str]:
        """The full names of the providers that this build of ONNX Runtime has."""
        import onnxruntime

        return list(onnxruntime.get_available_providers())

    @staticmethod
    def build_provider_list(names: Sequence[str], *, available: Sequence[str] | None = None) -> list[str]:
        """The full names of the providers that are there, in the order asked for, CPU always last.

        Args:
            names: Short (`CUDA`) or full (`CUDAExecutionProvider`) names, in any case.
            available: What is there; None asks ONNX Runtime.

        Returns:
            `['CUDAExecutionProvider', 'CPUExecutionProiver']` for `['CUDA', 'CPU']` on a machine with CUDA, and
            `['CPUExecutionProvider']` without; what is left out is logged with the reason.

        Raises:
            ConfigError: A name that ONNX Runtime does not know.
        """
        selection = ExecutionProviderSelector.select(names, available=available)
        return list(selection.providers)

    @staticmethod
    def select(names: Sequence[str], *, available: Sequence[str] | None = None) -> ProviderSelection:
        """Like `build_provider_list`, with what was left out and why.

        Raises:
            ConfigError: A name that ONNX Runtime does not know.
        """
        there = list(available) if available is not None else ExecutionProviderSelector.available()
        chosen: list[str] = []
        left_out: list[LeftOutProvider] = []
        for name in names:
            full = _full_name(name, there)
            if full == CPU or full in chosen:
                continue
            if full in there:
                chosen.append(full)
            else:
                how = HOW_TO_GET.get(full, "another build of onnxruntime has it")
                left_out.append(LeftOutProvider(provider=full, reason=f"not in this build of ONNX Runtime; {how}"))
        for missing in left_out:
            logger.warning("%s is left out: %s.", missing.provider, missing.reason)
        return ProviderSelection(providers=(*chosen, CPU), left_out=tuple(left_out))


def _full_name(name: str, available: Iterable[str]) -> str:
    import onnxruntime

    known = [*onnxruntime.get_all_providers(), *available, *HOW_TO_GET]
    short = name.strip().removesuffix(_SUFFIX)
    short = _ALIASES.get(short.lower(), short)
    wanted = _FULL_NAMES.get(short, short + _SUFFIX).lower()
    for full in known:
        if full.lower() == wanted:
            return str(full)
    shorts = {full.removesuffix(_SUFFIX): full for full in known}
    raise ConfigError(
        f"ONNX Runtime knows no execution provider '{name}'.{did_you_mean(short, shorts)}",
        f"It knows: {', '.join(sorted(shorts))}.",
    )


class NodePlacement(Record):
    """Where one node of the optimised graph runs.

    Attributes:
        node: Its name.
        op_type: Its operator, with the domain where it is not the default one.
        provider: The provider that ONNX Runtime assigned it to.
        fallback: True where it fell back to the CPU although another provider was to be used.
    """

    node: str
    op_type: str
    provider: str
    fallback: bool


class Placement(Record):
    """Where the nodes run, as ONNX Runtime itself reports it, of the graph as its optimiser left it.

    Attributes:
        nodes: A row a node.
        counts: Nodes by provider.
    """

    nodes: tuple[NodePlacement, ...]
    counts: dict[str, int]

    @property
    def fallbacks(self) -> tuple[NodePlacement, ...]:
        """The nodes that fell back to the CPU."""
        return tuple(node for node in self.nodes if node.fallback)


def build_placement(rows: Iterable[tuple[str, str, str, str]], providers: Sequence[str]) -> Placement:
    """Makes the placement of what the session reported.

    Args:
        rows: (node, op_type, domain, provider) for each node.
        providers: The session's providers in order of preference.
    """
    accelerated = any(provider != CPU for provider in providers)
    nodes = tuple(
        NodePlacement(
            node=node,
            op_type=f"{domain}::{op_type}" if domain not in ("", "ai.onnx") else op_type,
            provider=provider,
            fallback=accelerated and provider == CPU,
        )
        for node, op_type, domain, provider in rows
    )
    counts: dict[str, int] = {}
    for placed in nodes:
        counts[placed.provider] = counts.get(placed.provider, 0) + 1
    return Placement(nodes=nodes, counts=counts)
