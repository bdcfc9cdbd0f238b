"""ONNX Runtime's log, in plain words."""

from __future__ import annotations

from onnxsmith.graph_optimizer.ort_warnings import plain_warnings

STAMP = "\x1b[0;93m2026-01-02 03:04:05.678901234 "
END = "\x1b[m\n"


def test_known_warnings_are_put_in_plain_words_and_said_once():
    kernel = "Could not find a CPU kernel and hence can't constant fold Mul node 'scale'"
    listed = "Initializer w appears in graph inputs and will not be treated as constant value/weight. This may prevent."
    unused = "Removing initializer 'val_7'. It is not used by any node and should be removed from the model."
    log = (
        f"{STAMP}[W:onnxruntime:, constant_folding.cc:589 ApplyImpl] {kernel}{END}"
        f"{STAMP}[W:onnxruntime:, constant_folding.cc:589 ApplyImpl] {kernel}{END}"
        f"{STAMP}[W:onnxruntime:, graph.cc:1492 Graph] {listed}{END}"
        f"{STAMP}[W:onnxruntime:Default, graph.cc:5809 CleanUnused] {unused}{END}"
        "something that is no warning\n"
        "2026-01-02 03:04:05 [I:onnxruntime:, x.cc:1 f] only information\n"
    )
    assert plain_warnings(log) == (
        "Mul 'scale' was not folded: the CPU provider has no kernel for it",
        "initializer 'w' is an input too, so nothing is folded with it",
        "initializer 'val_7' is used by nothing and was removed",
    )


def test_a_warning_that_is_not_known_stays_as_it_is():
    assert plain_warnings(f"{STAMP}[W:onnxruntime:, a.cc:1 f] What a day.{END}") == ("What a day.",)
    assert plain_warnings("") == ()


def test_the_warning_that_every_model_gets_is_left_to_the_file():
    text = "Serializing optimized model with Graph Optimization level greater than ORT_ENABLE_EXTENDED and so on."
    assert plain_warnings(f"{STAMP}[W:onnxruntime:, inference_session.cc:3368 operator()] {text}{END}") == ()


def test_many_warnings_are_cut():
    log = "".join(f"[W:onnxruntime:, a.cc:1 f] number {index}\n" for index in range(13))
    assert plain_warnings(log)[-2:] == ("number 9", "and 3 more warnings like these")
