"""Branches that cannot run, since what follows would not take what they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from onnxsmith.graph_analysis.symbolic import Facts
from onnxsmith.graph_optimizer.editor import Editor
from onnxsmith.graph_optimizer.passes.rules import RulePass
from onnxsmith.graph_optimizer.passes.splicing import splice

_RANKS = {"LSTM": 3, "GRU": 3, "RNN": 3, "Gemm": 2}
_WINDOWS = frozenset(("Conv", "ConvTranspose"))


@dataclass(frozen=True)
class DecideBranches(RulePass):
    """Puts a branch in the place of an If whose other branch would make a later operator fail.

    PyTorch writes `squeeze` of a dimension that may be 1 as an If whose branches differ in rank; a recurrent layer or a
    convolution after it takes one of the two ranks only.
    """

    name: ClassVar[str] = "decide-branches"
    operators: ClassVar[frozenset[str]] = frozenset({"If"})

    def rewrite(self, node: ir.Node, editor: Editor) -> bool:
        """Looks what would follow from each branch."""
        if all(value is None for value in node.inputs):
            return False  # it was in a branch that is gone
        branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        ranks = [[editor.rank(value) for value in branch.outputs] for branch in branches]
        if ranks[0] == ranks[1] or any(rank is None for both in ranks for rank in both):
            return False
        judges = _judges(node, editor)
        fails = [_fails(node, editor, branch, judges) for branch in branches]
        if fails[0] == fails[1]:
            return False
        kept = branches[1] if fails[0] else branches[0]
        for old, new in zip(list(node.outputs), splice(editor, node, kept), strict=True):
            editor.replace(old, new)
        editor.facts.forget()
        return True


def _judges(node: ir.Node, editor: Editor) -> list[ir.Node]:
    """The nodes in an If's own graph that take one rank only, and whose input's rank is not known; these always run."""
    assert node.graph is not None
    return [
        judge
        for judge in node.graph
        if (judge.op_type in _RANKS or judge.op_type in _WINDOWS)
        and editor.is_standard(judge)
        and editor.rank(judge.inputs[0]) is None
    ]


def _fails(node: ir.Node, editor: Editor, branch: ir.Graph, judges: list[ir.Node]) -> bool:
    """Whether one of the nodes gets a rank that it does not take, where the If gives what a branch gives."""
    facts = Facts(editor.model)
    for output, value in zip(node.outputs, branch.outputs, strict=True):
        facts.assume(output, like=value)
    for judge in judges:
        given, wanted = judge.inputs[0], _RANKS.get(judge.op_type)
        if wanted is None and judge.inputs[1] is not None:
            wanted = facts.rank(judge.inputs[1])
        rank = facts.rank(given) if given is not None else None
        if rank is not None and wanted is not None and rank != wanted:
            return True
    return False
