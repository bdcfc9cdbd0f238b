"""How much `onnxsmith --help` costs beside importing the two libraries that it prints with."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

ROUNDS = 25
HELP = [sys.executable, "-m", "onnxsmith", "--help"]
IMPORT = [sys.executable, "-c", "import typer, rich"]


def seconds(command):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main():
    pairs = [(seconds(HELP), seconds(IMPORT)) for _ in range(ROUNDS + 1)][1:]
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    print(
        json.dumps(
            {
                "help_s": round(statistics.median(ours for ours, _ in pairs), 4),
                "import_s": round(statistics.median(theirs for _, theirs in pairs), 4),
                "ratio": round(statistics.median(ratios), 2),
                "ratio_p10_p90": [round(ratios[len(ratios) // 10], 2), round(ratios[-1 - len(ratios) // 10], 2)],
                "rounds": ROUNDS,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
