"""`onnxsmith optimize` beside the other optimisers, model by model, in turns: see `benchmarks/README.md`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from inspection import count_nodes, interface_changes, load, size_bytes
from tables import markdown
from tools import TOOLS, filled, versions

HERE = Path(__file__).parent
FIGURES = ("nodes", "time", "memory", "size", "check", "latency")
SAMPLE_S = 0.01


def models_in(paths):
    """Model files by a short label: the name, with as much of the path before it as tells it from the others."""
    files = []
    for path in map(Path, paths):
        files += sorted(path.rglob("*.onnx")) if path.is_dir() else [path]
    files = list(dict.fromkeys(file.resolve() for file in files))
    names = [file.stem for file in files]
    return {f.stem if names.count(f.stem) == 1 else f"{f.parent.name}/{f.stem}": f for f in files}


def launch(command, limit, sample=0.0, cwd=None):
    """The command's cost, from a small process; `error` where it failed."""
    launcher = [sys.executable, "-I", "-S", str(HERE / "launcher.py"), str(limit), str(sample)]
    done = subprocess.run([*launcher, *command], capture_output=True, text=True, errors="replace", cwd=cwd, check=False)
    if done.returncode:
        return {"error": f"not started: {last_line(done.stderr)}"}
    cost = json.loads(done.stdout)
    if cost["timed_out"]:
        cost["error"] = f"over {limit:g} s"
    elif cost["code"]:
        cost["error"] = f"exit {cost['code']}: {last_line(done.stderr)}"
    return cost


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def supervised(script, *arguments, limit):
    """What a script of this folder printed as JSON; or why not."""
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"over {limit:g} s"}
    if done.returncode:
        return {"failed": f"exit {done.returncode}: {last_line(done.stderr)}"}
    return json.loads(last_whole_line(done.stdout))


def last_whole_line(text):
    return text.rstrip().rsplit("\n", 1)[-1]


def measure(source, commands, options, folder):
    """All figures of one model."""
    original = load(source)
    row = {"original": count_nodes(original) | {"bytes": size_bytes(source, original)}, "tools": {}}
    results = {}
    for tool, command in commands.items():
        target = folder / tool / source.name
        target.parent.mkdir()
        cost = launch(filled(command, source, target), options.limit, SAMPLE_S, target.parent)
        if "error" not in cost and not target.exists():
            cost["error"] = "no file written"
        row["tools"][tool] = got = {"error": cost["error"]} if "error" in cost else {}
        if not got:
            results[tool] = target
            got |= {"peak_mb": cost["peak_mb"], "own_mb": cost["own_mb"]} if "memory" in options.only else {}
    for tool, target in list(results.items()):
        got = row["tools"][tool]
        try:
            model = load(target)
        except Exception as error:  # noqa: BLE001 - anything can come out of a foreign model
            got["error"] = f"the file does not load: {str(error)[:200]}"
            del results[tool]
            continue
        got |= count_nodes(model) if "nodes" in options.only else {}
        got |= {"bytes": size_bytes(target, model)} if "size" in options.only else {}
        if "check" in options.only:
            sizes = [f"{name}={size}" for name, size in options.dims.items()]
            got["check"] = supervised("checking.py", source, target, *sizes, limit=options.limit)
            got["interface"] = interface_changes(original, model)
    if "time" in options.only:
        take_times(source, {tool: commands[tool] for tool in results}, row["tools"], options, folder)
    if "latency" in options.only:
        job = folder / "latency.json"
        paths = {"original": source} | results
        job.write_text(
            json.dumps({"dims": options.dims, "models": {label: str(path) for label, path in paths.items()}})
        )
        row["latency"] = supervised("latency.py", options.latency_rounds, job, limit=options.limit * 4)
    return row


def take_times(source, commands, rows, options, folder):
    """Whole-process times in turns; the run for memory was the one that warmed the caches."""
    times = {tool: [] for tool in commands}
    for _ in range(options.rounds):
        for tool, taken in times.items():
            again = folder / "again" / source.name
            again.parent.mkdir(exist_ok=True)
            taken.append(launch(filled(commands[tool], source, again), options.limit, cwd=again.parent).get("seconds"))
            for file in again.parent.iterdir():
                file.unlink()
    for tool, taken in times.items():
        done = sorted(seconds for seconds in taken if seconds is not None)
        if done:
            rows[tool]["seconds"] = {"median": statistics.median(done), "least": done[0], "most": done[-1]}


def parse():
    parser = argparse.ArgumentParser(prog="python benchmarks/peers", description=__doc__)
    parser.add_argument("models", nargs="+", help="ONNX files, and folders of them at any depth")
    parser.add_argument("--only", default=",".join(FIGURES), help=f"of {','.join(FIGURES)}")
    parser.add_argument("--tools", default=",".join(TOOLS), help=f"of {','.join(TOOLS)}")
    parser.add_argument("--tool", action="append", default=[], metavar="NAME=COMMAND", help="with {input} and {output}")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE", help="where a model has it")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each tool")
    parser.add_argument("--latency-rounds", type=int, default=21)
    parser.add_argument("--limit", type=float, default=300, help="seconds a run may take")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    options.only = options.only.split(",")
    options.dims = {name: int(size) for name, size in (item.split("=") for item in options.dim)}
    commands = {name: TOOLS[name] for name in options.tools.split(",")}
    commands |= {name: shlex.split(command) for name, command in (item.split("=", 1) for item in options.tool)}
    if unknown := set(options.only) - set(FIGURES):
        parser.error(f"--only: no figure is called {', '.join(sorted(unknown))}")
    return options, commands


def main():
    options, commands = parse()
    machine = {"cpu": platform.processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    report = {
        "versions": versions(),
        "machine": machine,
        "rounds": options.rounds,
        "latency_rounds": options.latency_rounds,
        "commands": commands,
        "models": {},
    }
    for label, source in models_in(options.models).items():
        print(label, file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                report["models"][label] = measure(source, commands, options, Path(folder))
            except Exception as error:  # noqa: BLE001 - anything can come out of a foreign model
                print(f"  not measured: {error}", file=sys.stderr, flush=True)
                report["models"][label] = {"error": str(error)[:300]}
        if options.json:
            options.json.write_text(json.dumps(report, indent=1))
        if options.markdown:
            options.markdown.write_text(markdown(report))
    print(markdown(report))


if __name__ == "__main__":
    main()
