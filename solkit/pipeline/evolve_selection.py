"""Choice among the variants of a search: the practice, then the gate.

The winner of the practice meets the original in new processes, on inputs and at shapes that were
never used. Where it is slower, the original's launches run; one that does not hold gives way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from solkit.core import (
    Bred,
    Configuration,
    Difference,
    Final,
    Finalist,
    Gate,
    HeldOut,
    MeasureSettings,
    Value,
    canonical,
)
from solkit.core.quantities import settings_text
from solkit.errors import MemoryLimitError, SolkitError, WorkerError
from solkit.measure.benches import Bench, RecordedBench
from solkit.pipeline.compiling import write_compile_peer
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.kernel_evaluator import KernelEvaluator
from solkit.pipeline.practice import SIZE_GUARD, Practice
from solkit.pipeline.studying import Shape
from solkit.pipeline.tuning import guarded_final

if TYPE_CHECKING:
    from solkit.tuner.evolution.evolution_search import EvolutionSearch

_PEER_S = 240.0
"""Seconds for a candidate at the gate where `torch.compile` compiles: that takes up to a minute."""
_MOST_JUDGED = 3
"""Finalists that meet the original at the gate, each after the one before did not hold."""
_MOST_GATES = 3
"""Times that a winner is judged at the gate, each with more left to the original."""
_NOISE = 1.1
"""Ratio up to which two processes that run the same launches may differ: 1.077 and 1.040 were seen
(decisions 83 and 99)."""
_TIMED = (Difference.SLOWER, Difference.NOT_SHOWN, Difference.FASTER)
"""Differences that a comparison shows if both outputs are right and conditions were stable."""
_MOST_SMALLER = 3
"""Sizes of a held-out shape that are tried where the GPU's memory is too small for it."""
_SMALLER_SHARE = 1 / 8
"""Share of the memory that these may take: filling all of it takes minutes."""
_LEFT = "Its file leaves this shape to the original: processes differ by noise."
_NO_ROOM = "Held out {} does not fit into the GPU's memory:"


@dataclass
class Selection:
    """Choice of the variant that takes the original's place.

    Attributes:
        evaluator: measures, and has the original.
        breeding: the search, which has ended.
        practice: of its finalists.
        finalists: as the practice left them; empty if there was nothing to choose.
        notes: what limits the result, each a sentence.
    """

    evaluator: KernelEvaluator
    breeding: EvolutionSearch
    practice: Practice
    finalists: tuple[Finalist, ...] = ()
    notes: list[str] = field(default_factory=list)
    _joined: str = ""  # the file that goes to the gate instead of the finalist that was taken
    _judged: set[str] = field(default_factory=set)

    @property
    def _original(self) -> Original:
        return self.evaluator.original

    @property
    def winner(self) -> Bred:
        """The variant that meets the original at the gate."""
        taken = [finalist.id for finalist in self.finalists if finalist.taken]
        taken = [self._joined] if self._joined else taken
        archive = self.breeding.archive
        return archive[taken[0]] if taken else archive.best

    def practise(self) -> None:
        """Choose the finalist that holds at further shapes, and what it leaves to the original."""
        self.finalists = self.practice.run(self.breeding)
        if self.breeding.settle_checks():
            self.finalists = self.practice.run(self.breeding)  # without what is wrong
        self._joined = self._leave_small_inputs()

    def _leave_small_inputs(self) -> str:
        """Return the id of the file that goes to the gate; empty if the winner goes as it is."""
        joined = self._join_winner()
        least = self.finalists if joined else self.practice.give_way(self.breeding, self.finalists)
        if least == self.finalists:
            return joined
        self.finalists = least
        return self._join_winner()

    def _join_winner(self) -> str:
        """Return the id of the winner's file joined with the original's; empty if it is not."""
        best, practice = self.winner, self.practice
        if self._is_original(best):
            return ""
        try:
            joined = practice.leave_small_inputs(self.breeding, best, self.finalists).variant.id
        except KeyboardInterrupt:
            return ""
        except SolkitError as error:
            self.notes.append(f"Small inputs could not be left to the original: {error}")
            return ""
        return "" if joined == best.variant.id else joined

    def _is_original(self, bred: Bred) -> bool:
        """Tell whether a variant is the original, with the parameters in use."""
        is_its_file = bred.variant.id == self._original.variant.id
        return is_its_file and canonical(bred.params) == canonical(self._original.params)

    def gate(self, bench: Bench | None, limits: MeasureSettings) -> Gate | None:
        """Judge whether the winner holds; ``None`` if the original is the best, or nothing runs."""
        best = self.winner
        if best.time_ms is None or self._is_original(best):
            return None
        self.breeding.tell("gate")
        rival = self._original.of(self.evaluator.path(best.variant), best.params, "tuned")
        meets_peer = self._original.compiled is not None and bench is None
        if meets_peer:
            limits = replace(limits, time_limit_s=_PEER_S)
        judge = partial(guarded_final, self.evaluator.device, limits)
        if bench is not None:
            from solkit.tuner.head_to_head import head_to_head

            judge = partial(
                head_to_head, bench, how="recorded" if isinstance(bench, RecordedBench) else "turns"
            )
        try:
            base = self._compile_peer() if meets_peer else self._original.configuration
            judge_rival = partial(self._judge_at_gate, partial(_judge_anew, judge), base)
            gate = self._gate_again(judge_rival(rival), judge_rival)
            return self._gate_others(gate, judge_rival)
        except KeyboardInterrupt:
            return Gate(False, None, why="The gate was interrupted.")
        except (SolkitError, OSError) as error:  # e.g. the reference was moved meanwhile
            return Gate(False, None, why=f"The gate could not be run: {error}")

    def _gate_again(self, gate: Gate, judge: Callable[[Configuration], Gate]) -> Gate:
        """Return the gate of a winner that leaves to the original where it was slower.

        Which variant wins was not chosen by these shapes, and is not now: there the original's
        launches run. What is judged anew is the whole file, at all shapes.
        """
        slower: list[Shape] = []
        for _ in range(_MOST_GATES - 1):
            failed = [held for held in gate.held_out if not held.passed]
            if not failed or any(held.difference not in _TIMED for held in failed):
                return gate  # it holds, or is wrong somewhere
            slower += [held.shape for held in failed]
            taken = self.breeding, self.winner, self.finalists
            narrower = self.practice.leave_slower_shapes(*taken, slower)
            if narrower is None:
                return gate
            self._joined = narrower.variant.id
            path = self.evaluator.path(narrower.variant)
            gate = judge(self._original.of(path, narrower.params, "tuned"))
        return gate

    def _gate_others(self, gate: Gate, judge: Callable[[Configuration], Gate]) -> Gate:
        """Return the gate of the first finalist that holds, if the winner is wrong or does not.

        One that is right and not faster where it was searched gives way to none: others are slower.
        """
        for _ in range(_MOST_JUDGED - 1):
            if not _may_give_way(gate) or (other := self._next_finalist()) is None:
                break
            lost = self.breeding.archive[self.practice.winner_of(self.winner)].variant
            self.notes.append(f"{lost.kind} did not pass the gate: {gate.why}")
            self._joined = other.variant.id
            path = self.evaluator.path(other.variant)
            first = judge(self._original.of(path, other.params, "tuned"))
            gate = self._gate_again(first, judge)
        return gate

    def _next_finalist(self) -> Bred | None:
        """Return the fastest finalist that was neither at the gate nor slower in practice.

        Sizes below those of the search are left to the original: it was tried nowhere else.
        """
        from solkit.tuner.evolution.practising import finalists, is_slower

        self._judged.add(self.practice.winner_of(self.winner))
        barred = self._judged | {f.id for f in self.finalists if is_slower(f.loss)}
        for rival in finalists(self.breeding.archive, self.breeding.first_ms):
            if rival.variant.kind != SIZE_GUARD and rival.variant.id not in barred:
                if not self._original.others(self.evaluator.how):
                    return rival
                return self.practice.join_unmeasured(self.breeding, rival, self.finalists) or rival
        return None

    def _compile_peer(self) -> Configuration:
        """Return what `torch.compile` itself runs: it chooses configurations by timing them.

        A file that calls compiled code delegates its work, which a custom kernel may not: then the
        program that the search started from stays the one to beat.
        """
        own, reference = self._original, self._original.compiled
        if self.evaluator.how.custom_kernel or reference is None:
            return own.configuration
        path = self.evaluator.prepared.path(write_compile_peer(reference, own.file.problem.format))
        file = self.evaluator.prepared.analyser.describe(path, reference).result()
        assert file.candidate is not None
        return Configuration(path, file.candidate.name, own.shape, {}, reference, "default")

    def _judge_at_gate(
        self,
        judge: Callable[[Configuration, Configuration], Final],
        base: Configuration,
        rival: Configuration,
    ) -> Gate:
        others = self._original.others(self.evaluator.how)
        self.evaluator.look_at_launches([base, rival], others)
        last = judge(base, rival)
        if last.difference is not Difference.FASTER:
            why = " ".join(last.evidence) or "It was not shown to be faster on fresh inputs."
            return Gate(False, last, (), not others, why)
        checks = [self._judge_held_out(judge, base, rival, other) for other in others]
        held = tuple(check for check in checks if check is not None)
        alone = not held
        failed = [check for check in held if not check.passed]
        if failed:
            at = settings_text(failed[0].shape)
            return Gate(False, last, held, alone, f"At {at}: {failed[0].why}")
        why = f"It is faster on fresh inputs; {_where_it_held(held)}."
        return Gate(True, last, held, alone, why)

    def _judge_held_out(
        self,
        judge: Callable[[Configuration, Configuration], Final],
        base: Configuration,
        rival: Configuration,
        shape: Mapping[str, Value],
    ) -> HeldOut | None:
        """Compare the two at a held-out shape, or at the next smaller one that fits the GPU.

        Nothing is timed where the winner's file makes the original's launches. ``None`` where
        nothing can be compared: it does not fit, or a recording lacks it.
        """
        from solkit.tuner.holdout import held_where_same, pass_gate, smaller_shapes

        tries = 0
        for at in (shape, *smaller_shapes(shape)):
            if canonical(at) == canonical(self._original.whole_shape) or tries == _MOST_SMALLER:
                break
            pair = replace(base, shape=at), replace(rival, shape=at)
            if not self.evaluator.holds(*pair):
                return None
            if self.evaluator.are_same(*pair):
                return held_where_same(at)
            if not self.evaluator.may_fit(at, 1.0 if at is shape else _SMALLER_SHARE):
                continue
            tries += 1
            try:
                (held,) = pass_gate(base, rival, [(at, True)], judge)
            except MemoryLimitError:
                continue
            if self._is_noise(held):
                held = replace(held, passed=True, why=f"{held.why} {_LEFT}")
            if at is not shape:
                self.notes.append(
                    f"{_NO_ROOM.format(settings_text(shape))} it met {settings_text(at)} instead."
                )
            return held
        self.notes.append(f"{_NO_ROOM.format(settings_text(shape))} it was left out.")
        return None

    def _is_noise(self, held: HeldOut) -> bool:
        """Tell whether processes differ by noise: the winner's file leaves the shape as it was.

        Its launches are not all seen, or it would not have been timed.
        """
        if held.passed or held.ratio is None or held.ratio.value > _NOISE:
            return False
        return self.practice.leaves_to_original(self.winner, held.shape)


def _judge_anew(
    judge: Callable[[Configuration, Configuration], Final],
    base: Configuration,
    rival: Configuration,
) -> Final:
    """Return a comparison, in new processes where the first ones failed: that is nobody's fault."""
    try:
        return judge(base, rival)
    except WorkerError:
        return judge(base, rival)


def _where_it_held(held: Sequence[HeldOut]) -> str:
    """Return at how many shapes a winner holds, and at how many of them the original runs."""
    from solkit.tuner.holdout import SAME

    if not held:
        return "no other shape is held out"
    same = sum(check.why == SAME for check in held)
    own = f", the original's launches at {same} of them" if same else ""
    return f"and at {len(held)} shapes it never saw{own}"


def _may_give_way(gate: Gate) -> bool:
    """Tell whether another finalist may pass: the winner was wrong, or lost at held-out shapes."""
    final = None if gate.final is None else gate.final.difference
    shown = final, *(held.difference for held in gate.held_out)
    return Difference.NOT_COMPARED in shown or (final is Difference.FASTER and not gate.passed)
