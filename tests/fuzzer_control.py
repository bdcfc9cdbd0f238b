"""Steps of the fuzzer that have graphs inside."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from fuzzer_core import Fuzzer, Scope, value_info


def _body(fuzz: Fuzzer, steps: int, dtype: Any = None) -> tuple[Scope, str | None]:
    scope = fuzz.scope = Scope(fuzz.scope)
    for _ in range(steps):
        fuzz.step()
    assert scope.outer is not None
    fuzz.scope = scope.outer
    made = [name for node in scope.nodes if node.op_type != "Constant" for name in node.output]
    fits = [name for name in made if dtype is None or fuzz.env[name].dtype == dtype]
    return scope, fits[-1] if fits else None


def if_step(fuzz: Fuzzer) -> None:
    if fuzz.scope.outer is not None and fuzz.chance(0.7):
        return
    chosen = fuzz.chance(0.5)
    value = fuzz.value()
    if value is None:
        return
    if fuzz.chance(0.4):
        condition = fuzz.constant(np.array(chosen))
    else:
        made = fuzz.add("Size", [value])
        made = made and fuzz.add("Greater", [made[0], fuzz.constant(np.array(int(fuzz.pick([0, 2, 5]))))])
        if not made:
            return
        condition = made[0]
    then, first = _body(fuzz, int(fuzz.rng.integers(1, 4)))
    if first is None:
        return
    other, second = _body(fuzz, int(fuzz.rng.integers(1, 4)), fuzz.env[first].dtype)
    if second is None:
        return
    graphs = {
        key: helper.make_graph(scope.nodes, key, [], [value_info(out, fuzz.env[out].dtype, None)], scope.initializers)
        for key, scope, out in (("then_branch", then, first), ("else_branch", other, second))
    }
    fuzz.add("If", [condition], **graphs)


def loop_step(fuzz: Fuzzer) -> None:
    if fuzz.scope.outer is not None:
        return
    value = fuzz.value(kinds="fi")
    if value is None:
        return
    turn, going, held = fuzz.name(), fuzz.name(), fuzz.name()
    fuzz.env |= {turn: np.array(0), going: np.array(True), held: fuzz.env[value]}
    scope = fuzz.scope = Scope(fuzz.scope)
    scope.own = [held, turn]
    same = fuzz.add("Identity", [going])
    for _ in range(int(fuzz.rng.integers(1, 5))):
        fuzz.step()
    carried = fuzz.add(
        fuzz.pick(["Add", "Mul", "Sub", "Max"]), [held, fuzz.constant(fuzz.array(fuzz.env[value].dtype, ()))]
    )
    fuzz.scope = scope.outer or fuzz.scope
    if not same or not carried:
        return
    made = [name for node in scope.nodes if node.op_type != "Constant" for name in node.output]
    stacked = fuzz.pick(made)
    body = helper.make_graph(
        scope.nodes,
        "body",
        [value_info(turn, np.int64, []), value_info(going, np.bool_, []), value_info(held, fuzz.env[held].dtype, None)],
        [
            value_info(same[0], np.bool_, []),
            value_info(carried[0], fuzz.env[held].dtype, None),
            value_info(stacked, fuzz.env[stacked].dtype, None),
        ],
        scope.initializers,
    )
    count, condition = fuzz.constant(np.array(fuzz.pick([0, 1, 2, 3]))), fuzz.constant(np.array(True))
    fuzz.add("Loop", [count, condition if fuzz.chance(0.7) else None, value], 2, body=body)
