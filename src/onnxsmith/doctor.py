"""What this machine has, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from pathlib import Path

from onnxsmith.extras import DISTRIBUTIONS, EXTRAS, installed_version
from onnxsmith.inference_engine.benchmark import cpu_name, describe_machine
from onnxsmith.inference_engine.execution_providers import HOW_TO_GET, ExecutionProviderSelector
from onnxsmith.records import Record

_CORE = ("numpy", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "pydantic", "pyyaml", "rich", "typer")

_FEATURES = {
    "avx2": ("avx2", "vectors of 256 bits"),
    "avx512f": ("AVX-512", "vectors of 512 bits"),
    "avx512_vnni": ("AVX-512 VNNI", "fast int8"),
    "avx_vnni": ("AVX-VNNI", "fast int8"),
    "avx512_bf16": ("AVX-512 BF16", "bfloat16"),
    "avx512_fp16": ("AVX-512 FP16", "float16"),
    "amx_int8": ("AMX int8", "very fast int8"),
    "amx_bf16": ("AMX bfloat16", "very fast bfloat16"),
    "asimd": ("NEON", "vectors of 128 bits"),
    "asimddp": ("Arm dot product", "fast int8"),
    "i8mm": ("Arm int8 matrix multiply", "very fast int8"),
    "sve": ("SVE", "scalable vectors"),
    "bf16": ("Arm bfloat16", "bfloat16"),
}
"""The kernel's flag for each feature that decides which precision is fast, its name, and what it is good for."""


class CpuFeature(Record):
    """A feature of the processor.

    Attributes:
        name: Its name.
        present: Whether the processor has it, as the operating system says.
        good_for: What it makes fast.
    """

    name: str
    present: bool
    good_for: str


class Component(Record):
    """A package or an execution provider.

    Attributes:
        name: Its name.
        version: The installed version; None where it is missing or has none.
        present: Whether it is there.
        group: "core", the extra that brings it, or "provider".
        how_to_get: What to do to get it; None where it is there.
    """

    name: str
    version: str | None
    present: bool
    group: str
    how_to_get: str | None


class DoctorReport(Record):
    """What the machine has.

    Attributes:
        onnxsmith: Our version.
        python: Python's version and where it is.
        system: The operating system.
        cpu: The processor's name.
        cores: Logical processors that this process may use.
        memory_gb: Physical memory in GiB, or None where the system does not say.
        disk_free_gb: Free space in the current folder in GiB.
        cpu_features: Features that decide which precision is fast; empty where the system does not list them.
        components: Packages and execution providers.
        problems: What is wrong, each with what to do; empty where all is well.
    """

    onnxsmith: str
    python: str
    system: str
    cpu: str
    cores: int
    memory_gb: float | None
    disk_free_gb: float
    cpu_features: tuple[CpuFeature, ...]
    components: tuple[Component, ...]
    problems: tuple[str, ...]


def diagnose() -> DoctorReport:
    """Looks at the machine; changes nothing and needs no network."""
    components = (*_core(), *_extras(), *_providers())
    return DoctorReport(
        onnxsmith=importlib.metadata.version("onnxsmith"),
        python=f"{platform.python_version()} ({sys.executable})",
        system=platform.platform(),
        cpu=cpu_name(),
        cores=describe_machine().cores,
        memory_gb=_memory_gb(),
        disk_free_gb=shutil.disk_usage(Path.cwd()).free / 2**30,
        cpu_features=_cpu_features(),
        components=components,
        problems=tuple(_problems(components)),
    )


def _core() -> list[Component]:
    return [
        Component(
            name=name,
            version=version,
            present=version is not None,
            group="core",
            how_to_get=None if version is not None else f"pip install {name}",
        )
        for name in _CORE
        for version in (installed_version(name),)
    ]


def _extras() -> list[Component]:
    return [
        Component(
            name=DISTRIBUTIONS.get(module, module),
            version=version,
            present=version is not None,
            group=extra,
            how_to_get=None if version is not None else f"pip install 'onnxsmith[{extra}]'",
        )
        for extra, modules in EXTRAS.items()
        for module in modules
        for version in (installed_version(module),)
    ]


def _providers() -> list[Component]:
    there = ExecutionProviderSelector.available()
    return [
        Component(
            name=name,
            version=None,
            present=name in there,
            group="provider",
            how_to_get=None if name in there else HOW_TO_GET[name],
        )
        for name in dict.fromkeys((*there, *HOW_TO_GET))
    ]


def _cpu_features() -> tuple[CpuFeature, ...]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    flags = next(
        (set(line.split(":", 1)[1].split()) for line in lines if line.lower().startswith(("flags", "features"))), set()
    )
    arm = platform.machine().lower() in ("aarch64", "arm64")
    arm_flags = {"asimd", "asimddp", "i8mm", "sve", "bf16"}
    return tuple(
        CpuFeature(name=name, present=flag in flags, good_for=good_for)
        for flag, (name, good_for) in _FEATURES.items()
        if (flag in arm_flags) == arm
    )


def _memory_gb() -> float | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError, AttributeError):
        return None


def _problems(components: tuple[Component, ...]) -> list[str]:
    problems = [
        f"{part.name} is missing, and nothing works without it: {part.how_to_get}"
        for part in components
        if part.group == "core" and not part.present
    ]
    runtimes = [
        name
        for name in ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino")
        if installed_version(name) is not None
    ]
    if len(runtimes) > 1:
        problems.append(
            f"{' and '.join(runtimes)} are installed side by side; they overwrite each other's files. "
            "Uninstall all of them, then install the one you want."
        )
    return problems
