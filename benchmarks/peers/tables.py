"""The report as Markdown: a table a figure, and geometric means."""

from __future__ import annotations

import math

from tools import OURS


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def markdown(report):
    """All tables that there are figures for."""
    models = {label: row for label, row in report["models"].items() if "tools" in row}
    tools = list(report["commands"])
    parts = [
        figure("Nodes left", "Without Constant; in brackets those of non-standard domains.", models, tools, NODES),
        figure("File size", "MB.", models, tools, SIZE),
        figure("Time", "Seconds of the whole process: median (least to most).", models, tools, TIME),
        figure("Peak memory", "MB, the largest process.", models, tools, PEAK),
        figure("Peak of own memory", "MB that no file stands behind, the largest process.", models, tools, OWN),
        latency(models, tools),
        checks(models, tools),
    ]
    return "\n".join(part for part in parts if part)


def _get(row, tool, *keys):
    value = row["original"] if tool == "original" else row["tools"].get(tool, {})
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _nodes(row, tool):
    foreign = _get(row, tool, "foreign")
    return f"{_get(row, tool, 'nodes')}" + (f" ({foreign})" if foreign else "")


def _seconds(row, tool):
    taken = _get(row, tool, "seconds")
    return f"{taken['median']:.2f} ({taken['least']:.2f} to {taken['most']:.2f})"


# The keys of the figure, how it is written, and whether the original has it too.
NODES = (("nodes",), _nodes, True)
SIZE = (("bytes",), lambda row, tool: f"{_get(row, tool, 'bytes') / 1e6:.2f}", True)
TIME = (("seconds", "median"), _seconds, False)
PEAK = (("peak_mb",), lambda row, tool: f"{_get(row, tool, 'peak_mb'):.0f}", False)
OWN = (("own_mb",), lambda row, tool: f"{_get(row, tool, 'own_mb'):.0f}", False)


def table(header, rows):
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


def figure(title, note, models, tools, kind):
    keys, written, has_original = kind
    if not any(_get(row, tool, *keys) for row in models.values() for tool in tools):
        return ""
    columns = ["original", *tools] if has_original else tools
    rows = [
        [label, *("-" if _get(row, tool, *keys) is None else written(row, tool) for tool in columns)]
        for label, row in models.items()
    ]
    if has_original:
        rows.append(["geometric mean over the original", *(_ratio(models, c, "original", keys)[0] for c in columns)])
    if OURS in tools:
        pairs = [_ratio(models, OURS, column, keys) for column in columns]
        rows.append([f"{OURS} over it: geometric mean", *(mean for mean, _ in pairs)])
        rows.append([f"{OURS} over it: worst", *(worst for _, worst in pairs)])
    return f"## {title}\n\n{note}\n\n{table(['model', *columns], rows)}"


def _ratio(models, ours, theirs, keys):
    """Geometric mean and worst of the ratios, over the models where both have the figure, none of them zero."""
    ratios = {}
    for label, row in models.items():
        a, b = _get(row, ours, *keys), _get(row, theirs, *keys)
        if a and b:
            ratios[label] = a / b
    if not ratios:
        return "-", "-"
    worst = max(ratios, key=ratios.get)
    return f"{geometric_mean(list(ratios.values())):.3f} (of {len(ratios)})", f"{ratios[worst]:.2f} ({worst})"


def latency(models, tools):
    taken = {label: row["latency"] for label, row in models.items() if "latency" in row}
    if not taken:
        return ""
    rows = []
    for label, row in taken.items():
        cells = [f"{row['original']['ms']:.3f}" if "original" in row else row.get("failed", "-")[:60]]
        for tool in tools:
            got = row.get(tool, {})
            low, high = got.get("interval_95", (0, 0))
            cells.append(f"{got['ratio']:.3f} ({low:.3f} to {high:.3f})" if "ratio" in got else "-")
        rows.append([label, *cells])
    means = []
    for tool in tools:
        ratios = [row[tool]["ratio"] for row in taken.values() if "ratio" in row.get(tool, {})]
        means.append(f"{geometric_mean(ratios):.3f} (of {len(ratios)})" if ratios else "-")
    rows.append(["geometric mean", "", *means])
    note = (
        "ONNX Runtime, default session: median over rounds of the ratio to the original (95% interval of the median)."
    )
    return f"## Latency\n\n{note}\n\n{table(['model', 'original, ms', *tools], rows)}"


def checks(models, tools):
    rows, checked = [], False
    for label, row in models.items():
        cells = []
        for tool in tools:
            got = row["tools"].get(tool, {})
            checked = checked or "check" in got or "error" in got
            cells.append(_verdict(got).replace("|", "\\|").replace("\n", " "))
        rows.append([label, *cells])
    note = "Outputs in ONNX Runtime with optimisation off against the original's; names, types and shapes compared."
    return f"## Correctness\n\n{note}\n\n{table(['model', *tools], rows)}" if checked else ""


def _verdict(got):
    if "error" in got:
        return f"FAILED: {got['error'][:100]}"
    if "check" not in got:
        return "-"
    check, notes = got["check"], [f"interface: {change}" for change in got.get("interface", ())]
    if "failed" in check:
        notes.insert(0, f"CRASHED: {check['failed'][:100]}")
    elif check["ok"] is False:
        notes.insert(0, f"WRONG: {check['why'][:100]}")
    elif check["ok"] is None:
        notes.insert(0, check["why"])
    else:
        notes.insert(0, f"ok, {check['error']:.0e}")
    return "; ".join(notes)[:300]
