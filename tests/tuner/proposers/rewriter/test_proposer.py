"""What the rewriter proposes, in what order, and what it leaves out."""

import sys
from dataclasses import replace
from itertools import islice
from textwrap import indent
from types import SimpleNamespace

import pytest
from naive_kernels import BIAS_RELU, LAYER_NORM, MATMUL, SCALAR_SOFTMAX, SCALED, SOFTMAX
from rewriting import HEADER, brief

from solkit.core import Checked, Tried
from solkit.errors import UnsupportedError
from solkit.processes import parallel_calls
from solkit.tuner.proposers.rewriter import Rewriter, _proposer
from solkit.tuner.proposers.rewriter._proposer import undefined_names

EXACT = """
@triton.jit
def double(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * 2)


def kernel(x):
    y = torch.empty_like(x)
    n = x.numel()
    double[(n // 128,)](x, y, BLOCK=128)
    return y
"""
MOST = 12  # of some hundred pairs: each is a tree that is parsed, changed and written


def proposals(source, depth=2, seed=0, most=MOST, **changes):
    changed_brief = replace(brief(source, M=64, N=96), **changes)
    return list(islice(Rewriter(seed, depth, checks=False).propose(changed_brief), most))


def test_each_proposal_can_be_tuned_and_no_text_comes_twice():
    new_proposals = proposals(BIAS_RELU)
    assert all(
        new_proposal.kind.split(" + ")[-1] in ("retile", "constants")
        for new_proposal in new_proposals
    )
    assert all('"num_warps": [' in new_proposal.source for new_proposal in new_proposals)
    texts = [new_proposal.source for new_proposal in new_proposals]
    assert len(set(texts)) == len(texts)
    assert HEADER + BIAS_RELU not in texts


def test_several_that_the_facts_favour_come_together_before_the_others():
    factors = [("wrong pipe", 3.0), ("extra traffic", 2.0), ("latency", 1.19)]
    results = [SimpleNamespace(name=n, factor=f, cause=None) for n, f in factors]
    analysis = SimpleNamespace(own=(), kernels=(), is_whole=True)
    result = SimpleNamespace(gap=SimpleNamespace(factors=results), analysis=analysis, params={})
    firsts = [proposal.kind.split(" + ")[0] for proposal in proposals(MATMUL, result=result)]
    assert firsts[0] == "operands"
    others = {"even sizes", "contiguous hints", "tensor descriptors"}
    assert others <= set(firsts)
    assert firsts.index("retile") < min(firsts.index(item) for item in others)


def test_what_a_rewrite_opens_comes_right_after_it():
    kinds = [proposal.kind.split(" + ") for proposal in proposals(SCALAR_SOFTMAX)]
    assert kinds[0] == ["vectorise", "retile"]
    assert kinds[1][0] == "vectorise"  # with what needs blocks: of the original it makes nothing
    assert kinds[1][1] not in ("vectorise", "retile", "constants")


def test_helpers_write_the_same_in_the_same_order(monkeypatch):
    helped = []

    def process_pool(number, *arguments, **options):
        helped.append(number)
        return parallel_calls.process_pool(number, *arguments, **options)

    monkeypatch.setattr(_proposer, "process_pool", process_pool)
    monkeypatch.setattr(_proposer.threading, "active_count", lambda: 1)
    rewriter = Rewriter(checks=False, helpers=2)
    assert list(islice(rewriter.propose(brief(BIAS_RELU, M=64, N=96)), 6)) == proposals(
        BIAS_RELU, most=6
    )
    assert helped == [2]


def test_every_proposal_is_python_that_keeps_the_problem():
    for proposal in proposals(LAYER_NORM, most=4):
        compile(proposal.source, proposal.kind, "exec")
        assert "def reference(x):" in proposal.source
        assert proposal.intent.endswith(".")
        assert proposal.checked is Checked.UNCHECKED


@pytest.mark.slow
def test_what_was_tried_is_not_proposed_again():
    first = proposals(SOFTMAX, depth=1)[0]
    later = proposals(SOFTMAX, depth=1, tried=(Tried(first.kind, first.intent),))
    assert first.source not in [item.source for item in later]
    assert len(later) == len(proposals(SOFTMAX, depth=1)) - 1


def test_the_parameters_that_the_parent_runs_with_become_its_defaults():
    new_proposals = proposals(LAYER_NORM, depth=1, params={"BLOCK": 256, "num_warps": 2})
    whole = next(new_proposal for new_proposal in new_proposals if new_proposal.kind == "whole row")
    assert "BLOCK=256" in whole.source


def test_the_same_seed_gives_the_same_proposals():
    first, again = (proposals(SCALAR_SOFTMAX, depth=1, seed=3) for _ in range(2))
    assert first == again != []


def test_proposals_are_checked(checker):
    requested_brief = brief(SCALAR_SOFTMAX, M=2, N=40)
    proposal = next(iter(Rewriter(checker=checker).propose(requested_brief)))
    assert proposal.checked is Checked.RIGHT


def test_files_that_differ_in_defaults_alone_come_once():
    single, both = (proposals(SCALED, depth=depth, most=10) for depth in (1, 2))
    sizes = [{p.kind for p in new} & {"retile", "constants"} for new in (single, both)]
    assert sizes == [{"retile", "constants"}, {"retile"}]


@pytest.mark.parametrize("source", ["def kernel(x:", "x = 1", "def kernel(x):\n    return x\n"])
def test_files_without_triton_kernels_get_none(source):
    assert not proposals(source)


def test_without_libcst_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "libcst", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'solkit\[evolve\]'"):
        Rewriter().propose(brief(SOFTMAX))


@pytest.mark.parametrize(
    ("body", "unbound"),
    [
        ("if n:\n    size = n\nelse:\n    return size\nreturn size", {"size"}),
        ("if size:\n    n = 1\nsize = n", {"size"}),
        ("if n:\n    size = n\nreturn size", set()),  # on one path it is
        ("for i in n:\n    if i:\n        use(size)\n    size = i", set()),
        ("try:\n    size = n\nexcept ValueError as error:\n    raise size from error", set()),
        ("with n as (size, *rest):\n    return lambda: late, size\nlate = 1", set()),
        ("size = n\ndel size\nreturn [size for size in n], size", {"size"}),
        ("global size\nuse(size)\nsize = 1", set()),
        ("match n:\n    case [size, *_]:\n        pass\nsize += [k := 1, k]", set()),
        ("size += 1", {"size"}),
    ],
)
def test_names_that_no_path_has_bound_are_found(body, unbound):
    source = "use = size = print\n\n\ndef kernel(n):\n" + indent(body, "    ") + "\n"
    assert undefined_names(source) == unbound


def test_sizes_are_compared_within_the_branch_that_knows_them():
    """Blocks without masks must divide a size that only one branch of the launcher has."""
    source = EXACT.replace("    n = x.numel()\n", "    if x.dim() == 1:\n        n = x.numel()\n")
    source = source.replace("    double[", "        double[")
    sources = [p.source for p in proposals(source, depth=1) if "% BLOCK != 0" in p.source]
    assert sources
    assert not any(undefined_names(source) for source in sources)


def test_parameters_reach_a_launcher_whose_call_is_on_the_line_of_its_def():
    launcher = BIAS_RELU.replace("def kernel(", "def launched(")
    outer = "\ndef kernel(*args): return launched(*args)\n"
    assert "def launched(" in launcher
    for proposal in proposals(launcher + outer, depth=1):
        assert not undefined_names(proposal.source), proposal.kind
    assert proposals(launcher + "\ndef kernel(x, b): return launched(x, b)\n", most=1)


@pytest.mark.slow
def test_a_rewrite_that_writes_no_python_is_left_out(monkeypatch):
    from solkit.tuner.proposers.rewriter import compiler_hints

    def broken(_self, _text, _facts):
        yield from ()
        compiler_hints.parse_expression("f(x=1, 2)")

    before = [proposal.kind for proposal in proposals(LAYER_NORM, depth=1)]
    monkeypatch.setattr(compiler_hints.Eviction, "variants", broken)
    after = [proposal.kind for proposal in proposals(LAYER_NORM, depth=1)]
    assert after == [item for item in before if item != "eviction"] != before
