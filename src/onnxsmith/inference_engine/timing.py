"""The child's side of the benchmark: sessions side by side, their timed runs interleaved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxsmith.errors import RuntimeFailure
from onnxsmith.inference_engine.ort_session import SessionSettings, make_runner, open_session
from onnxsmith.records import Progress, no_progress


@dataclass(frozen=True)
class Timing:
    """What was measured of one model.

    Attributes:
        latencies_ms: Each timed run.
        load_ms: Time to open the session.
        first_run_ms: The first run.
        providers: The session's providers.
    """

    latencies_ms: list[float]
    load_ms: float
    first_run_ms: float
    providers: tuple[str, ...]


def time_models(
    jobs: list[tuple[str, Path, dict[str, Any]]],
    settings: SessionSettings,
    warmup_runs: int,
    runs: int,
    *,
    label: str = "",
    progress: Progress = no_progress,
) -> dict[str, Timing | RuntimeFailure]:
    """Times each model; the timed runs take turns, model by model.

    Args:
        jobs: (label, file, feeds) for each model.
        settings: The sessions' settings.
        warmup_runs: Runs before the clock counts.
        runs: Timed runs of each model.
        label: What the progress is called.
        progress: Told of the rounds.

    Returns:
        For each label its timing, or why it could not be measured.
    """
    answers: dict[str, Timing | RuntimeFailure] = {}
    opened: dict[str, _Opened] = {}
    for name, path, feed in jobs:
        try:
            start = time.perf_counter()
            session = open_session(path, settings)
            load_ms = (time.perf_counter() - start) * 1000
            run = make_runner(session, feed, path)
            warmup = [_timed(run) for _ in range(warmup_runs)]
        except RuntimeFailure as failure:
            answers[name] = failure
        else:
            opened[name] = _Opened(run, load_ms, warmup, tuple(session.get_providers()))
    for index in range(runs):
        for model in opened.values():
            model.latencies_ms.append(_timed(model.run))
        progress(label, index + 1, runs)
    for name, model in opened.items():
        first = (model.warmup or model.latencies_ms)[0]
        answers[name] = Timing(model.latencies_ms, model.load_ms, first, model.providers)
    return answers


@dataclass
class _Opened:
    run: Callable[[], object]
    load_ms: float
    warmup: list[float]
    providers: tuple[str, ...]
    latencies_ms: list[float] = field(default_factory=list)


def _timed(run: Callable[[], object]) -> float:
    """Runs once and returns the milliseconds that it took."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1000
