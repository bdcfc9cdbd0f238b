"""The benchmark: latency and throughput of one or more models, batch size by batch size.

Models are measured side by side: for each batch size one child process opens a session for each, and the timed runs
take turns, so that a machine that slows down slows all of them.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from onnxsmith.config import Config, Level
from onnxsmith.errors import RuntimeFailure
from onnxsmith.inference_engine.execution_providers import ExecutionProviderSelector
from onnxsmith.inference_engine.ort_inference import session_settings
from onnxsmith.inference_engine.ort_session import SessionSettings
from onnxsmith.inference_engine.timing import Timing
from onnxsmith.model import Model, ResolvedDims, check_feeds, resolve_dims, sample_inputs
from onnxsmith.process import run_supervised
from onnxsmith.records import Progress, Record, no_progress

logger = logging.getLogger(__name__)


class BenchmarkResult(Record):
    """One model at one batch size.

    Attributes:
        model: Its label.
        batch_size: Samples a run.
        mean_latency_ms: The mean of `latencies_ms`: always worth a look.
        std_latency_ms: Their standard deviation (of the population, as `numpy.std`).
        p50_latency_ms: Their median: what a steady load sees.
        p95_latency_ms: Their 95th percentile: what an SLA is written in.
        p99_latency_ms: Their 99th percentile: what latency-sensitive APIs watch. Percentiles interpolate linearly.
        throughput_samples_per_s: batch_size / (mean_latency_ms / 1000): what batch work wants.
        load_ms: Time to open the session.
        first_run_ms: The first run, before the warm-up went on.
        warmup_runs: Runs before the clock counted.
        optimization_level: The session's level.
        providers: The session's providers.
        latencies_ms: Each timed run.
    """

    model: str
    batch_size: int
    mean_latency_ms: float
    std_latency_ms: float
    p50_latency_ms: float
    p95_latency_ms: float
    p99_latency_ms: float
    throughput_samples_per_s: float
    load_ms: float
    first_run_ms: float
    warmup_runs: int
    optimization_level: Level
    providers: tuple[str, ...]
    latencies_ms: tuple[float, ...]

    @classmethod
    def from_latencies(
        cls,
        model: str,
        batch_size: int,
        latencies_ms: Sequence[float],
        *,
        load_ms: float = 0.0,
        first_run_ms: float = 0.0,
        warmup_runs: int = 0,
        optimization_level: Level = "ORT_ENABLE_ALL",
        providers: Sequence[str] = (),
    ) -> BenchmarkResult:
        """Computes the figures of a list of latencies in milliseconds; there must be one at least."""
        samples = np.asarray(latencies_ms, np.float64)
        mean = float(samples.mean())
        p50, p95, p99 = (float(value) for value in np.percentile(samples, (50, 95, 99)))
        return cls(
            model=model,
            batch_size=batch_size,
            mean_latency_ms=mean,
            std_latency_ms=float(samples.std()),
            p50_latency_ms=p50,
            p95_latency_ms=p95,
            p99_latency_ms=p99,
            throughput_samples_per_s=batch_size / (mean / 1000) if mean else float("inf"),
            load_ms=load_ms,
            first_run_ms=first_run_ms,
            warmup_runs=warmup_runs,
            optimization_level=optimization_level,
            providers=tuple(providers),
            latencies_ms=tuple(latencies_ms),
        )

    @property
    def runs(self) -> int:
        """How many runs were timed."""
        return len(self.latencies_ms)


class Machine(Record):
    """Where it was measured.

    Attributes:
        cpu: The processor's name.
        cores: Logical processors that this process may use.
        system: The operating system.
        python: Python's version.
        onnxruntime: ONNX Runtime's version.
    """

    cpu: str
    cores: int
    system: str
    python: str
    onnxruntime: str


class BenchmarkReport(Record):
    """A benchmark.

    Attributes:
        results: A row a model and batch size, in the order asked for.
        machine: Where it was measured.
        notes: Dimensions taken by default, batch sizes that a model does not take, and why.
    """

    results: tuple[BenchmarkResult, ...]
    machine: Machine
    notes: tuple[str, ...]


class Benchmark:
    """Measures models by the configuration.

    Args:
        config: `benchmark`, `inference`, `limits`, `dims` and `seed` are used.
    """

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()

    def run(
        self,
        models: Mapping[str, Model],
        *,
        dims: Mapping[str, int] | None = None,
        feeds: Mapping[str, Any] | None = None,
        progress: Progress = no_progress,
    ) -> BenchmarkReport:
        """Measures each model at each batch size; a model whose batch is fixed at that one.

        Args:
            models: Models by label.
            dims: Sizes for dynamic dimensions other than the batch.
            feeds: Values for inputs that must not be sampled (a sample rate, say), the same at every batch size.
            progress: Told of each run.

        Raises:
            TensorError: An input cannot be made, or a dimension does not exist.
            RuntimeFailure: No model ran at any batch size; one that fails at some is in the notes.
        """
        notes: list[str] = []
        plan = self._plan(models, dims or {}, notes)
        selection = ExecutionProviderSelector.select(self.config.inference.providers)
        # Idle threads that spin after one session's run would slow the next session's.
        entries = {"session.force_spinning_stop": "1"} if len(models) > 1 else {}
        settings = session_settings(self.config.inference, selection, config_entries=entries)
        results: dict[tuple[str, int], BenchmarkResult] = {}
        failures: list[RuntimeFailure] = []
        total = sum(map(len, plan.values()))
        for batch_size, jobs in plan.items():
            tasks = [
                (label, models[label], self._feeds(models[label], resolved, feeds or {}, alone=len(models) == 1))
                for label, resolved in jobs.items()
            ]
            for label, timing in self._measure(tasks, settings, batch_size, progress).items():
                if isinstance(timing, RuntimeFailure):
                    failures.append(timing)
                    notes.append(f"{label} at batch {batch_size} was not measured: {timing.message}")
                    continue
                results[label, batch_size] = BenchmarkResult.from_latencies(
                    label,
                    batch_size,
                    timing.latencies_ms,
                    load_ms=timing.load_ms,
                    first_run_ms=timing.first_run_ms,
                    warmup_runs=self.config.benchmark.warmup_runs,
                    optimization_level=self.config.inference.optimization_level,
                    providers=timing.providers,
                )
                logger.info(
                    "%s batch %d: mean %.3f ms, p50 %.3f, p95 %.3f, p99 %.3f, %.1f samples/s",
                    label,
                    batch_size,
                    *_figures(results[label, batch_size]),
                )
        if not results and total:
            raise failures[0]
        ordered = [results[label, batch] for label in models for batch in plan if (label, batch) in results]
        return BenchmarkReport(results=tuple(ordered), machine=describe_machine(), notes=tuple(dict.fromkeys(notes)))

    def _plan(
        self, models: Mapping[str, Model], dims: Mapping[str, int], notes: list[str]
    ) -> dict[int, dict[str, ResolvedDims]]:
        """For each batch size, the models that take it and the sizes of their dimensions."""
        plan: dict[int, dict[str, ResolvedDims]] = {}
        for label, model in models.items():
            resolved = resolve_dims(model.inputs, dims, self.config.dims)
            asked = [key for key in resolved.batch if key not in resolved.defaulted]
            if not resolved.batch or asked:
                batch = resolved.sizes[asked[0]] if asked else fixed_batch(model)
                how = "was asked for" if asked else "is fixed"
                wanted = [size for size in self.config.benchmark.batch_sizes if size != batch]
                if wanted:
                    notes.append(f"{label}: its batch {how}: {batch}; {', '.join(map(str, wanted))} were not measured")
                plan.setdefault(batch, {})[label] = resolved
                continue
            others = [key for key in resolved.defaulted if key not in resolved.batch]
            if others:
                notes.append(
                    f"{label}: taken by default: {', '.join(f'{key}={resolved.sizes[key]}' for key in others)}"
                )
            for batch in self.config.benchmark.batch_sizes:
                sizes = {**dims, **dict.fromkeys(resolved.batch, batch)}
                plan.setdefault(batch, {})[label] = resolve_dims(model.inputs, sizes, self.config.dims)
        return plan

    def _feeds(self, model: Model, resolved: ResolvedDims, given: Mapping[str, Any], *, alone: bool) -> dict[str, Any]:
        """The inputs of one model; of those given, it takes the ones it has where other models are measured too."""
        names = {spec.name for spec in model.inputs}
        mine = {name: value for name, value in given.items() if alone or name in names}
        samples = sample_inputs(model, resolved, self.config.seed, only=names - set(mine))
        return check_feeds(model.inputs, {**samples, **mine})

    def _measure(
        self,
        tasks: list[tuple[str, Model, dict[str, Any]]],
        settings: SessionSettings,
        batch_size: int,
        progress: Progress,
    ) -> dict[str, Timing | RuntimeFailure]:
        benchmark = self.config.benchmark
        try:
            with ExitStack() as stack:
                jobs = [(label, stack.enter_context(model.on_disk()), feeds) for label, model, feeds in tasks]
                answer: dict[str, Timing | RuntimeFailure] = run_supervised(
                    "onnxsmith.inference_engine.timing:time_models",
                    jobs,
                    settings,
                    benchmark.warmup_runs,
                    benchmark.runs,
                    limits=self.config.limits,
                    what=f"measuring {', '.join(label for label, _, _ in tasks)} at batch {batch_size}",
                    label=f"batch {batch_size}",
                    progress=progress,
                ).value
            return answer
        except RuntimeFailure as failure:
            if len(tasks) == 1:
                return {tasks[0][0]: failure}
            # One of them took the child down: alone, the others can still be measured.
            alone = [self._measure([task], settings, batch_size, progress) for task in tasks]
            return {label: timing for each in alone for label, timing in each.items()}


def fixed_batch(model: Model) -> int:
    """The first axis of the first input that has one, or 1."""
    sizes = [spec.shape[0] for spec in model.inputs if spec.shape]
    first = sizes[0] if sizes else 1
    return first if isinstance(first, int) and first > 0 else 1


def _figures(result: BenchmarkResult) -> tuple[float, ...]:
    return (
        result.mean_latency_ms,
        result.p50_latency_ms,
        result.p95_latency_ms,
        result.p99_latency_ms,
        result.throughput_samples_per_s,
    )


def describe_machine() -> Machine:
    """This machine, as far as it matters for a latency."""
    import onnxruntime

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(
        cpu=cpu_name(),
        cores=cores,
        system=platform.platform(),
        python=platform.python_version(),
        onnxruntime=onnxruntime.__version__,
    )


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), None) or platform.processor() or platform.machine()
