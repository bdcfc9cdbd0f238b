"""The whole lifecycle from Python."""

import argparse
import tempfile
from pathlib import Path

import onnxsmith


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=None, help="a temporary folder by default")
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()
    folder = arguments.output or Path(tempfile.mkdtemp(prefix="onnxsmith-"))
    config = onnxsmith.Config(
        paths={"outputs": folder, "models": folder / "models", "log": folder / "run.log"},
        benchmark={"batch_sizes": [1, 8], "runs": arguments.runs},
    )
    report = onnxsmith.run(config)
    for subject in report.subjects:
        print(f"{subject.label}: {subject.title}")
        for row in subject.accuracy.rows:
            print(f"  {row.label}: accuracy {row.accuracy:.4f}, {row.same} of {subject.accuracy.samples} the same")
        gone = subject.optimization.fusion.batch_normalizations_gone_at
        if gone:
            print(f"  BatchNorm folded at {gone}")
    print(f"report: {report.report}")


if __name__ == "__main__":
    main()
