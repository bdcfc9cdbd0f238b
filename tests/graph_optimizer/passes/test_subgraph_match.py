"""Where a group of operators may be taken for one."""

from __future__ import annotations

import numpy as np
import onnx

from onnxsmith.graph_optimizer.passes.gelu import RecognizeGelu
from onnxsmith.model import Model
from recognition import parse, recognize

GELU = """
    half = Constant<value_float=0.5>() one = Constant<value_float=1.0>() root = Constant<value_float=1.4142135>()
    d = Div(x, root) e = Erf(d) s = Add(e, one) p = Mul(x, s)
"""
X = np.linspace(-3, 3, 7).astype(np.float32)


def test_in_a_branch_with_a_value_from_outside():
    model = parse(
        f"""g (float[N] x, bool c) => (float[N] y) {{
            y = If (c) <
                then_branch = a () => (float[N] t) {{ {GELU} t = Mul(p, half) }},
                else_branch = b () => (float[N] n) {{ n = Neg(x) }}
            > }}""",
        20,
    )
    for condition in (True, False):
        given = onnx.ModelProto.FromString(model.SerializeToString())
        _, result = recognize(RecognizeGelu(), given, {"x": X, "c": np.array(condition)})
        assert result.changes == 1


def test_not_across_the_border_of_a_branch():
    model = parse(
        f"""g (float[N] x, bool c) => (float[N] y) {{ {GELU}
            y = If (c) <
                then_branch = a () => (float[N] t) {{ t = Mul(p, half) }},
                else_branch = b () => (float[N] n) {{ n = Neg(x) }}
            > }}""",
        20,
    )
    assert recognize(RecognizeGelu(), model, {"x": X, "c": np.array(True)})[1].changes == 0


def test_a_function_of_the_same_name_is_another_operator():
    model = parse(f"g (float[N] x) => (float[N] y) {{ {GELU} y = Mul(p, half) }}", 20)
    text = '<domain: "", opset_import: ["": 20]> Erf (x) => (y) { y = Neg(x) }'
    model.functions.append(onnx.parser.parse_function(text))
    assert RecognizeGelu().run(Model.from_proto(model)).changes == 0


def test_it_is_quick_where_nothing_matches():
    nodes = "\n".join(f"v{index + 1} = Mul(v{index}, v{index})" for index in range(2000))
    model = parse(f"g (float[N] v0) => (float[N] v2000) {{ {nodes} }}", 20)
    assert RecognizeGelu().run(Model.from_proto(model)).changes == 0
