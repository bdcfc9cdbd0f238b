"""Everything on one ONNX file, from Python."""

import argparse
import tempfile
from pathlib import Path

import onnx

import onnxsmith

SMALL = """
<ir_version: 8, opset_import: ["": 17]>
small (float[batch, 4] x) => (float[batch, 4] y)
<float[4] scale = {1, 2, 3, 4}>
{ same = Identity(x)  scaled = Mul(same, scale)  y = Relu(scaled) }
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, nargs="?", help="an ONNX file; a small one is made by default")
    parser.add_argument("--output", type=Path, default=None, help="a temporary folder by default")
    arguments = parser.parse_args()
    folder = arguments.output or Path(tempfile.mkdtemp(prefix="onnxsmith-"))
    folder.mkdir(parents=True, exist_ok=True)
    path = arguments.model
    if path is None:
        path = folder / "small.onnx"
        onnx.save(onnx.parser.parse_model(SMALL), path)

    model = onnxsmith.load(path)
    report = onnxsmith.inspect(model)
    print(f"{report.node_count} nodes: {report.op_counts}")
    for opportunity in report.opportunities:
        print(f"  {opportunity.kind}: {', '.join(opportunity.nodes)}")

    optimised = onnxsmith.optimize(model, folder / "optimised.onnx")
    print(f"optimised: {optimised.nodes_after} nodes, outputs agree: {optimised.verification.agree}")
    for total in optimised.passes:
        if total.nodes_removed:
            print(f"  {total.name}: {total.nodes_removed} nodes fewer")

    levels = onnxsmith.optimize_levels(model, folder / "levels").levels
    for level in levels:
        print(f"{level.level}: {level.nodes_after} nodes, outputs agree: {level.agreement.agree}")

    result = onnxsmith.infer(model)
    for output in result.report.outputs:
        print(f"{output.name}: {output.dtype} {list(output.shape)}; {', '.join(result.report.notes)}")

    for row in onnxsmith.benchmark({"original": path, "optimised": optimised.output}, runs=20).results:
        print(f"{row.model}, batch {row.batch_size}: p50 {row.p50_latency_ms:.4f} ms, p99 {row.p99_latency_ms:.4f} ms")

    for row in onnxsmith.profile(model, runs=10).slowest_nodes:
        print(f"{row.name}: {row.share:.0%}")


if __name__ == "__main__":
    main()
