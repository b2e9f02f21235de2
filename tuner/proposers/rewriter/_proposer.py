"""Choice of rewrites to propose, and their order."""

from __future__ import annotations

import builtins
import contextlib
import functools
import itertools
import random
import re
import symtable
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from solkit.core import Brief, Checked, Proposal, Value
from solkit.core.parsing import syntax_tree
from solkit.extras import check
from solkit.processes.parallel_calls import process_pool
from solkit.tuner.interpreter_check import Checker
from solkit.tuner.proposers.rewriter.unbound_names import unbound_names

if TYPE_CHECKING:  # they need libcst
    from solkit.tuner.proposers.rewriter._mutation import Facts, Rewrite, Variant
    from solkit.tuner.proposers.rewriter._parse import KernelText

_FAVOURED = 1.2
"""A rewrite is favoured if a factor of the gap that it lessens is at least so large."""
_LAST = ("retile", "constants")
"""Rewrites that end a proposal of several: without them nothing of the rest could be tuned."""
_SPLIT = "split reduction"
_FUSED, _ONE_PASS = "fuse programs", "one pass"
_MOST_OPENED = 4
"""Files whose new rewrites are tried at once: those that the original does not admit."""
_TIE = 1e-3  # seeds decide between rewrites that the facts favour equally
_TASKS_AHEAD = 2  # for each helper: what is written ahead may not be asked for

T = TypeVar("T")


@dataclass(frozen=True)
class _Step:
    """A file that some rewrites led to.

    Attributes:
        source: the text.
        kinds: of the rewrites.
        intents: of the rewrites.
        promise: what the facts say of them; the larger, the earlier.
    """

    source: str
    kinds: tuple[str, ...]
    intents: tuple[str, ...]
    promise: float


_Space = dict[str, list[Value]]
_Form = tuple[str, _Space]
"""A file without the defaults of its parameters, and their values."""


class _TunedFiles:
    """Files whose sizes are parameters, without their defaults, which tuning replaces."""

    def __init__(self) -> None:
        self._spaces: dict[str, list[_Space]] = {}

    def repeats(self, form: _Form) -> bool:
        """Tell whether a file is one before it with other defaults, and note it if not."""
        code, space = form
        before = self._spaces.setdefault(code, [])
        if space and any(_covers(other, space) for other in before):
            return True
        before.append(space)
        return False


def _form_of(source: str) -> _Form:
    """Return a file without the defaults of its parameters; no space where nothing can be tuned."""
    from solkit.tuner.proposers.rewriter._edit import listed_space, with_defaults
    from solkit.tuner.proposers.rewriter._nodes import render_code
    from solkit.tuner.proposers.rewriter._parse import parse_kernel

    text = parse_kernel(source)
    space = {} if text is None else listed_space(text)
    literal = None if text is None else text.constant("SPACE")
    if text is None or not space or literal is None:
        return source, {}
    return with_defaults(text, dict.fromkeys(space, 0)).replace(render_code(literal), ""), space


def _covers(space: _Space, other: _Space) -> bool:
    """Tell whether all that one space has is in another."""
    return space.keys() == other.keys() and all(
        set(values) <= set(space[name]) for name, values in other.items()
    )


class Rewriter:
    """Proposes rewrites of a Triton kernel, first those that help most.

    What a rewrite makes possible comes right after it, since it may gain nothing alone; then pairs
    of others. Proposals of several end with sizes as parameters, so that each can be tuned.

    Args:
        seed: decides between rewrites that the brief's facts favour equally.
        depth: how many rewrites one proposal may join, besides the sizes; 1 for each alone.
        checker: checks each proposal before it is yielded; one of its own if not given.
        checks: whether to check at all; without, proposals are `Checked.UNCHECKED`.
        wrong: whether to yield also those that are found wrong.
        helpers: forks of this process that write ahead, the same files in the same order; none
            where this process has several threads.

    Raises:
        UnsupportedError: libcst is not installed; by `propose`.
    """

    name = "rewriter"

    def __init__(
        self,
        seed: int = 0,
        depth: int = 2,
        *,
        checker: Checker | None = None,
        checks: bool = True,
        wrong: bool = False,
        helpers: int = 0,
    ) -> None:
        self._seed, self._depth, self._helpers = seed, depth, helpers
        self._checker, self._checks, self._wrong = checker, checks, wrong

    def close(self) -> None:
        """End the processes of its checker."""
        if self._checker is not None:
            self._checker.close()

    def propose(self, brief: Brief) -> Iterator[Proposal]:
        """See `Proposer.propose`."""
        check("libcst")
        return self._propose_rewrites(brief)

    def _propose_rewrites(self, brief: Brief) -> Iterator[Proposal]:
        tried = {(attempt.kind, attempt.intent) for attempt in brief.tried}
        for step in self._rewritten_files(brief):
            proposal = Proposal(step.source, " + ".join(step.kinds), " ".join(step.intents))
            if (proposal.kind, proposal.intent) in tried:
                continue
            proposal = self._check_proposal(proposal, brief)
            if proposal.checked is not Checked.WRONG or self._wrong:
                yield proposal

    def _check_proposal(self, proposal: Proposal, brief: Brief) -> Proposal:
        if not self._checks:
            return proposal
        if self._checker is None:
            self._checker = Checker()
        checked, why = self._checker.check(proposal.source, brief)
        return replace(proposal, checked=checked, why=why)

    def _rewritten_files(self, brief: Brief) -> Iterator[_Step]:
        """Yield all files: first those of rewrites that the facts favour, alone and together.

        A kernel that is slow for several reasons needs several rewrites before it is much faster.
        """
        from solkit.tuner.proposers.rewriter._mutation import Facts

        start = _Step(_source_as_measured(brief), (), (), 0.0)
        facts = Facts(brief, start.source)
        favoured = [
            rewrite for rewrite in _load_rewrites() if facts.factor(*rewrite.helps) >= _FAVOURED
        ]
        seen, tuned = {brief.source, start.source}, _TunedFiles()
        structural = [rewrite for rewrite in favoured if rewrite.kind in _load_structural()]
        lists = structural, favoured, _load_rewrites()
        helpers = self._helpers if threading.active_count() == 1 else 0
        with _written_by(facts, helpers) as writer:
            steps = (
                step
                for rewrites in lists
                for step in self._combined_rewrites(start, rewrites, facts, writer)
            )
            sized = (
                ((step, None) for step in steps) if self._depth < 2 else writer.with_sizes(steps)
            )
            for step, form in sized:
                if step.source not in seen and not (form is not None and tuned.repeats(form)):
                    seen.add(step.source)
                    yield step

    def _combined_rewrites(
        self,
        start: _Step,
        rewrites: Sequence[Rewrite],
        facts: Facts,
        writer: _Writer,
    ) -> Iterator[_Step]:
        """Yield files of one rewrite, with those that it opens, then of two, and so on.

        No text comes twice.

        Args:
            start: what they are applied to.
            rewrites: to apply.
            facts: decide the order.
            writer: applies them.
        """
        seen, level = {start.source}, [start]
        for depth in range(self._depth):
            following: list[_Step] = []
            for extensions in writer.applied(self._extend_level(level, rewrites, facts)):
                for extended in extensions:
                    if extended.source in seen:
                        continue
                    seen.add(extended.source)
                    following.append(extended)
                    yield extended
                    if depth == 0 and self._depth > 1 and len(following) <= _MOST_OPENED:
                        for opened in _opened_steps(start, extended, facts, writer):
                            if opened.source not in seen:
                                seen.add(opened.source)
                                yield opened
            level = [step for step in following if not set(step.kinds) & set(_LAST)]
            rewrites = [rewrite for rewrite in rewrites if rewrite.kind not in _LAST]

    def _extend_level(
        self, level: Sequence[_Step], rewrites: Sequence[Rewrite], facts: Facts
    ) -> list[tuple[_Step, Rewrite, float]]:
        """Return files with one rewrite more, the most promising first."""
        draw = random.Random(self._seed)
        pairs = [
            (step, rewrite, step.promise + _expected_promise(rewrite, facts) + draw.random() * _TIE)
            for step in level
            for rewrite in rewrites
            if rewrite.kind not in step.kinds
        ]
        return sorted(pairs, key=lambda pair: -pair[2])


@dataclass(frozen=True)
class _Begun(Generic[T]):
    """A call that a helper makes, or this process once its result is asked for."""

    here: Callable[[], T]
    future: Future[T] | None = None

    @property
    def is_done(self) -> bool:
        """True if the result is there."""
        return self.future is not None and self.future.done()

    def result(self) -> T:
        """Return the result; waits for it."""
        if self.future is not None:
            with contextlib.suppress(BrokenProcessPool):  # a helper was killed
                return self.future.result()
        return self.here()


@dataclass
class _Writer:
    """Applies rewrites to files, each to a file once; helpers write ahead what comes next.

    Attributes:
        facts: what rewrites ask.
        helpers: processes that write; ``None`` for this one alone, when it is asked.
        ahead: how many files are asked for ahead.
    """

    facts: Facts
    helpers: Executor | None = None
    ahead: int = 1
    _begun: dict[tuple[str, str], _Begun[list[_Step]]] = field(default_factory=dict)
    _written: dict[tuple[str, str], list[_Step]] = field(default_factory=dict)

    def applied(self, pairs: Iterable[tuple[_Step, Rewrite, float]]) -> Iterator[list[_Step]]:
        """Yield what each rewrite makes of each file, with the promise of all that comes of it."""
        waiting: deque[tuple[_Step, Rewrite, float]] = deque()
        for step, rewrite, promise in pairs:
            self._expect(step, rewrite)
            waiting.append((step, rewrite, promise))
            if len(waiting) >= self.ahead:
                yield self.apply(*waiting.popleft())
        while waiting:
            yield self.apply(*waiting.popleft())

    def apply(self, step: _Step, rewrite: Rewrite, promise: float) -> list[_Step]:
        """Return what a rewrite makes of a file, with the promise of the first who asked."""
        key = step.source, rewrite.kind
        if key not in self._written:
            self._expect(step, rewrite)
            steps = self._begun.pop(key).result()
            self._written[key] = [replace(extended, promise=promise) for extended in steps]
        return self._written[key]

    def _expect(self, step: _Step, rewrite: Rewrite) -> None:
        key = step.source, rewrite.kind
        if key not in self._written and key not in self._begun:
            self._begun[key] = self._begin(_apply_kind, step, rewrite.kind)

    def with_sizes(self, steps: Iterable[_Step]) -> Iterator[tuple[_Step, _Form]]:
        """Yield files whose block sizes, warps and stages are parameters."""
        sized: deque[_Begun[tuple[_Step, _Form]]] = deque()
        for step in steps:
            sized.append(self._begin(_with_sizes, step))
            while sized and (len(sized) >= self.ahead or sized[0].is_done):
                yield sized.popleft().result()
        while sized:
            yield sized.popleft().result()

    def _begin(self, function: Callable[..., T], *args: Any) -> _Begun[T]:
        """Begin a call that gets the facts last."""
        here = functools.partial(function, *args, self.facts)
        if self.helpers is None:
            return _Begun(here)
        try:
            return _Begun(here, self.helpers.submit(_call_with_facts, function, *args))
        except BrokenProcessPool:
            return _Begun(here)


@contextlib.contextmanager
def _written_by(facts: Facts, helpers: int) -> Iterator[_Writer]:
    """Yield what applies rewrites, with so many helpers, which end with the block."""
    if not helpers:
        yield _Writer(facts)
        return
    with process_pool(helpers, _adopt_facts, (facts,), forks=True) as executor:
        yield _Writer(facts, executor, _TASKS_AHEAD * helpers)


_adopted: list[Facts] = []
"""The facts of a helper."""


def _adopt_facts(facts: Facts) -> None:
    _adopted[:] = [facts]


def _call_with_facts(function: Callable[..., T], *args: Any) -> T:
    return function(*args, *_adopted)


def _with_sizes(step: _Step, facts: Facts) -> tuple[_Step, _Form]:
    """Return a file whose block sizes, warps and stages are parameters, and its form."""
    sized = _sized(step, facts)
    return sized, _form_of(sized.source)


def _sized(step: _Step, facts: Facts) -> _Step:
    if set(step.kinds) & set(_LAST):
        return step
    from solkit.tuner.proposers.rewriter._parse import parse_kernel
    from solkit.tuner.proposers.rewriter.tile_constants import lifted_constants

    text = parse_kernel(step.source)
    source = "" if text is None else lifted_constants(text, facts)
    if source and not undefined_names(source) <= undefined_names(step.source):
        return step
    return replace(step, source=source, kinds=(*step.kinds, _LAST[0])) if source else step


def _opened_steps(start: _Step, step: _Step, facts: Facts, writer: _Writer) -> Iterator[_Step]:
    """Yield what a file admits that the original does not, most promising first.

    So it is with a split where programs that take more each are fewer than the device runs at once,
    and with one pass over what several launches read.
    """
    if set(step.kinds) & set(_LAST):
        return
    rewrites = [
        rewrite for rewrite in _load_rewrites() if rewrite.kind not in (*step.kinds, *_LAST)
    ]
    rewrites.sort(key=lambda rewrite: -_expected_promise(rewrite, facts))
    needed = {_SPLIT} if _leaves_idle(step, facts) else set[str]()
    needed |= {_ONE_PASS} if _FUSED in step.kinds else set()
    of_start = writer.applied((start, r, start.promise) for r in rewrites if r.kind not in needed)
    pairs = (
        (step, rewrite, step.promise + _expected_promise(rewrite, facts))
        for rewrite in rewrites
        if rewrite.kind in needed or not next(of_start)
    )
    yield from itertools.chain.from_iterable(writer.applied(pairs))


def _leaves_idle(step: _Step, facts: Facts) -> bool:
    """Tell whether a launch of a file starts fewer programs than there are multiprocessors."""
    from solkit.tuner.proposers.rewriter._parse import parse_kernel

    text = parse_kernel(step.source)
    programs = [facts.programs(launch) for launch in text.single] if text is not None else []
    return any(count is not None and count < facts.sms for count in programs)


def _apply_kind(step: _Step, kind: str, facts: Facts) -> list[_Step]:
    """Return what a rewrite makes of a file."""
    rewrite = next(rewrite for rewrite in _load_rewrites() if rewrite.kind == kind)
    return list(_apply_rewrite(step, rewrite, facts))


def _apply_rewrite(step: _Step, rewrite: Rewrite, facts: Facts) -> Iterator[_Step]:
    """Yield what a rewrite makes of a file; nothing more once it writes what is no Python.

    What reads a name that nothing defines is left out: a launcher that `kernel` only calls does not
    see the parameters of `kernel`.
    """
    from libcst import CSTValidationError, ParserSyntaxError

    from solkit.tuner.proposers.rewriter._parse import parse_kernel
    from solkit.tuner.proposers.rewriter.operands import with_fewest_passes

    text = parse_kernel(step.source)
    if text is None:
        return
    kinds = (*step.kinds, rewrite.kind)
    try:
        for variant in _variants_of_alike(rewrite, text, facts):
            if undefined_names(variant.source) <= undefined_names(step.source):
                source = variant.source
                if '"ieee"' not in step.source:  # so exact products are sums that became products
                    source = with_fewest_passes(source, facts)
                intents = (*step.intents, variant.intent)
                yield replace(step, source=source, kinds=kinds, intents=intents)
    except (ParserSyntaxError, CSTValidationError, SyntaxError):
        return  # the text is written in a way that this rewrite does not know
    except Exception:  # a fault of this rewrite, which leaves the others
        print(f"solkit: the rewrite {rewrite.kind!r} failed:", file=sys.stderr)
        traceback.print_exc()


@functools.lru_cache(256)
def undefined_names(source: str) -> frozenset[str]:
    """Return the names that a file's functions read and nothing defines, or not until later.

    Raises:
        SyntaxError: the file is no Python.
    """
    module = symtable.symtable(source, "kernel.py", "exec")
    defined = {
        symbol.get_name()
        for symbol in module.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    tables, read = list(module.get_children()), set[str]()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        read |= {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    unbound = unbound_names(syntax_tree(source))
    return frozenset(read - defined - set(dir(builtins))) | unbound


def _variants_of_alike(rewrite: Rewrite, text: KernelText, facts: Facts) -> Iterator[Variant]:
    """Yield a rewrite's variants; what it does to one of several alike functions, to all of them.

    These are copies of one function, and slow for the same reason.
    """
    from solkit.tuner.proposers.rewriter.launch_copies import alike_functions

    groups, seen = alike_functions(text), set[str]()
    for variant in rewrite.variants(text, facts):
        group, name = next(
            ((group, name) for group in groups for name in group if _says(variant.intent, name)),
            ((), ""),
        )
        intent = _renamed(variant.intent, name, group[0]) if group else variant.intent
        if not group:
            yield variant
        elif intent not in seen:
            seen.add(intent)
            others = [other for other in group if other != name]
            yield _with_others(rewrite, variant, name, others, facts)


def _with_others(
    rewrite: Rewrite, variant: Variant, name: str, others: Sequence[str], facts: Facts
) -> Variant:
    """Return a variant that does to other functions what it does to one, where that is possible."""
    from solkit.tuner.proposers.rewriter._parse import parse_kernel

    source = variant.source
    for other in others:
        intent, text = _renamed(variant.intent, name, other), parse_kernel(source)
        following = rewrite.variants(text, facts) if text is not None else iter(())
        source = next((v.source for v in following if v.intent == intent), source)
    return replace(variant, source=source)


def _says(intent: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", intent) is not None


def _renamed(intent: str, name: str, other: str) -> str:
    return re.sub(rf"\b{re.escape(name)}\b", other, intent)


def _expected_promise(rewrite: Rewrite, facts: Facts) -> float:
    """Return by how much the factors that a rewrite lessens exceed 1; an early place adds a little.

    Without facts the order of the list decides.
    """
    order = [rewrite.kind for rewrite in _load_rewrites()]
    return facts.factor(*rewrite.helps) - 1.0 + 1.0 - order.index(rewrite.kind) / len(order)


def _load_rewrites() -> tuple[Rewrite, ...]:
    from solkit.tuner.proposers.rewriter._all import REWRITES

    return REWRITES


def _load_structural() -> frozenset[str]:
    from solkit.tuner.proposers.rewriter._all import STRUCTURAL

    return STRUCTURAL


def _source_as_measured(brief: Brief) -> str:
    """Return the source in canonical form, with the parent's parameters as its defaults."""
    from solkit.tuner.proposers.rewriter._edit import with_defaults
    from solkit.tuner.proposers.rewriter._parse import parse_kernel
    from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
    from solkit.tuner.proposers.rewriter.host_paths import with_measured_path

    text = parse_kernel(brief.source)
    source = brief.source
    if text is not None and brief.params:
        source = with_defaults(text, brief.params)
    recorded = _recorded_ranks(brief), _recorded_constants(brief)
    source = canonical_form(source, *recorded)
    if brief.result is None or not brief.result.analysis.is_whole:
        return source
    names = {kernel.launch.name for kernel in brief.result.analysis.own}
    followed = with_measured_path(source, names)
    return source if followed == source else canonical_form(followed, *recorded)


def _recorded_ranks(brief: Brief) -> tuple[tuple[tuple[str, str], int], ...]:
    """Return the numbers of axes of the tensors that launches got, where these are always as many.

    They are pairs of `solkit.tuner.proposers.rewriter.star_arguments.Ranks`.
    """
    ranks: dict[tuple[str, str], set[int]] = {}
    for kernel in brief.result.analysis.own if brief.result is not None else ():
        for param, binding in kernel.launch.arguments.items():
            if binding.tensor is not None:
                axes = ranks.setdefault((kernel.launch.name, param), set())
                axes.add(len(binding.tensor.shape))
    return tuple((place, min(axes)) for place, axes in ranks.items() if len(axes) == 1)


def _recorded_constants(brief: Brief) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return the constants and options that the first launch of each function got, as code.

    They are pairs of `solkit.tuner.proposers.rewriter.decorated_arguments.Constants`.
    """
    constants: dict[str, tuple[tuple[str, str], ...]] = {}
    for launch in (k.launch for k in (brief.result.analysis.own if brief.result else ())):
        options = {"num_warps": launch.num_warps, "num_stages": launch.num_stages}
        values = {**launch.constants, **options}.items()
        constants.setdefault(launch.name, tuple((name, repr(value)) for name, value in values))
    return tuple(constants.items())
