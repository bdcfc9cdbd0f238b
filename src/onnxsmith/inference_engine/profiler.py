"""The profile: where the time of a run goes, operator by operator, as ONNX Runtime's own profiler saw it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxsmith.config import Config
from onnxsmith.errors import RuntimeFailure
from onnxsmith.inference_engine.execution_providers import ExecutionProviderSelector
from onnxsmith.inference_engine.ort_inference import OrtInference, run_in_child, session_settings
from onnxsmith.model import Model, staged_folder
from onnxsmith.records import Progress, Record, no_progress

SLOWEST = 5

Event = dict[str, Any]


class OperatorTime(Record):
    """The time of one node, or of all nodes of one operator type.

    Attributes:
        name: The node's name, or the operator type.
        op_type: The operator type.
        provider: The provider that ran it; several are joined by a comma.
        calls: Executions a run, on average.
        mean_us: Microseconds a run, time inside subgraphs not counted twice.
        share: Of the time of all operators, between 0 and 1.
        output_shapes: The shapes of its outputs in the last run; empty for an operator type.
    """

    name: str
    op_type: str
    provider: str
    calls: float
    mean_us: float
    share: float
    output_shapes: tuple[str, ...] = ()


class ProfileReport(Record):
    """A profile.

    Attributes:
        model: The model's path.
        runs: The runs that were profiled, the warm-up not among them.
        run_us: Microseconds of a run, on average, with the profiler on.
        operators_us: The part of it inside operators; the rest is the runtime's own work.
        slowest_nodes: The slowest nodes, slowest first.
        slowest_operators: The slowest operator types, slowest first.
        nodes: Every node that ran.
        operators: Every operator type.
        trace: ONNX Runtime's trace, for chrome://tracing or Perfetto, or None if it was not kept.
        notes: What was taken by default.
    """

    model: str
    runs: int
    run_us: float
    operators_us: float
    slowest_nodes: tuple[OperatorTime, ...]
    slowest_operators: tuple[OperatorTime, ...]
    nodes: tuple[OperatorTime, ...]
    operators: tuple[OperatorTime, ...]
    trace: Path | None
    notes: tuple[str, ...]


class Profiler:
    """Profiles one model by the configuration.

    Args:
        model: The model.
        config: `inference`, `benchmark` (warm-up and runs), `limits`, `dims` and `seed` are used.
    """

    def __init__(self, model: Model, config: Config | None = None) -> None:
        self.model = model
        self.config = config or Config()

    def run(
        self,
        feeds: Mapping[str, Any] | None = None,
        *,
        dims: Mapping[str, int] | None = None,
        runs: int | None = None,
        trace: Path | None = None,
        progress: Progress = no_progress,
    ) -> ProfileReport:
        """Runs the model under ONNX Runtime's profiler.

        Args:
            feeds: Values by input name; what is not given is sampled.
            dims: Sizes for dynamic dimensions of sampled inputs.
            runs: Profiled runs; None takes `benchmark.runs`.
            trace: Where to keep the trace (JSON); None does not keep it.
            progress: Told of the runs.

        Raises:
            TensorError: An input does not fit.
            RuntimeFailure: The model does not run.
            OutputError: The trace cannot be written.
        """
        warmup = self.config.benchmark.warmup_runs
        runs = runs or self.config.benchmark.runs
        complete, _, notes = OrtInference(self.model, self.config).complete_feeds(feeds or {}, dims)
        selection = ExecutionProviderSelector.select(self.config.inference.providers)
        with self.model.on_disk() as path, tempfile.TemporaryDirectory(prefix="onnxsmith-") as folder:
            settings = session_settings(self.config.inference, selection, profile_prefix=Path(folder) / "profile")
            answer = run_in_child(
                path, settings, [complete] * (warmup + runs), limits=self.config.limits, progress=progress
            )
            if answer.profile is None:
                raise RuntimeFailure(f"{self.model.name}: ONNX Runtime wrote no profile.")
            events = json.loads(answer.profile.read_text(encoding="utf-8"))
            if trace is not None:
                with staged_folder(trace.absolute().parent) as staging:
                    shutil.copyfile(answer.profile, staging / trace.name)
        return read_profile(events, self.model.name, skip_runs=warmup, trace=trace, notes=notes)


@dataclass
class _Tally:
    op_type: str
    providers: set[str] = field(default_factory=set)
    calls: int = 0
    time_us: float = 0.0
    shapes: tuple[str, ...] = ()

    def add(self, event: Event, self_time: float) -> None:
        self.providers.add(event["args"].get("provider", ""))
        self.calls += 1
        self.time_us += self_time
        self.shapes = _shapes(event["args"].get("output_type_shape") or ())


def read_profile(
    events: Iterable[Event],
    model: str,
    *,
    skip_runs: int = 0,
    trace: Path | None = None,
    notes: tuple[str, ...] = (),
) -> ProfileReport:
    """Reads the events that ONNX Runtime's profiler wrote.

    Args:
        events: The trace's events.
        model: What the model is called.
        skip_runs: Runs at the start to leave out.
        trace: The trace's file.
        notes: Kept in the report.
    """
    timed = [event for event in events if event.get("ph") == "X"]
    model_runs = sorted((event for event in timed if event["name"] == "model_run"), key=lambda event: event["ts"])
    counted = model_runs[skip_runs:]
    runs = max(len(counted), 1)
    start = counted[0]["ts"] if counted else 0
    kernels = [
        event
        for event in timed
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time") and event["ts"] >= start
    ]
    by_node: dict[str, _Tally] = {}
    by_type: dict[str, _Tally] = {}
    for event, self_time in self_times(kernels):
        op_type = event["args"].get("op_name", "?")
        name = event["name"].removesuffix("_kernel_time")
        by_node.setdefault(name, _Tally(op_type)).add(event, self_time)
        by_type.setdefault(op_type, _Tally(op_type)).add(event, self_time)
    total = sum(tally.time_us for tally in by_type.values())
    nodes, operators = _rows(by_node, runs, total), _rows(by_type, runs, total, shapes=False)
    return ProfileReport(
        model=model,
        runs=len(counted),
        run_us=sum(event["dur"] for event in counted) / runs,
        operators_us=total / runs,
        slowest_nodes=nodes[:SLOWEST],
        slowest_operators=operators[:SLOWEST],
        nodes=nodes,
        operators=operators,
        trace=trace,
        notes=notes,
    )


def self_times(events: Iterable[Event]) -> list[tuple[Event, float]]:
    """Each event with the time that is its own: an If or Loop without the nodes inside it.

    Events nest by time within a thread.
    """
    ordered = sorted(events, key=lambda event: (event["tid"], event["ts"], -event["dur"]))
    own = [float(event["dur"]) for event in ordered]
    stack: list[int] = []
    for index, event in enumerate(ordered):
        while stack and not _inside(event, ordered[stack[-1]]):
            stack.pop()
        if stack:
            own[stack[-1]] -= event["dur"]
        stack.append(index)
    return [(event, max(time, 0.0)) for event, time in zip(ordered, own, strict=True)]


def _inside(event: Event, parent: Event) -> bool:
    # Times are whole microseconds: only control flow has nodes inside, neighbours may touch.
    return bool(
        event["tid"] == parent["tid"]
        and event["ts"] + event["dur"] <= parent["ts"] + parent["dur"]
        and parent["args"].get("op_name") in ("If", "Loop", "Scan")
    )


def _rows(tallies: Mapping[str, _Tally], runs: int, total: float, *, shapes: bool = True) -> tuple[OperatorTime, ...]:
    rows = [
        OperatorTime(
            name=name,
            op_type=tally.op_type,
            provider=", ".join(sorted(tally.providers)),
            calls=tally.calls / runs,
            mean_us=tally.time_us / runs,
            share=tally.time_us / total if total else 0.0,
            output_shapes=tally.shapes if shapes else (),
        )
        for name, tally in tallies.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.mean_us, row.name)))


def _shapes(entries: Iterable[Mapping[str, list[int]]]) -> tuple[str, ...]:
    return tuple(f"{dtype}{list(dims)}" for entry in entries for dtype, dims in entry.items())
