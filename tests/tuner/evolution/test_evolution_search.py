"""The loop, in a made-up world: a variant's text says how fast it is."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace

import pytest

from solkit.core import (
    Brief,
    Checked,
    Configuration,
    EvolveSettings,
    Order,
    Proposal,
    Stopped,
    Variant,
    Verdict,
    variant_id,
)
from solkit.errors import UnsupportedError, WorkerError
from solkit.roofline.devices import find
from solkit.tuner.evolution import Point
from solkit.tuner.evolution.evolution_search import EvolutionSearch
from solkit.tuner.evolution.population_archive import Archive
from solkit.tuner.evolution.shared_faults import shared_fault
from solkit.tuner.evolution.variant_evaluator import Ranking, Study, VariantOutcome

SOL_MS = 0.1
COST_S = 1.0


class World:
    """Texts are ``"time WORD..."``; words say what is wrong. A BLOCK of 1 is half as fast as 2."""

    def __init__(self, wrong_forecasts=0.0):
        self.measured, self.ranked, self.briefs = [], [], []
        self.hopeless_ms, self.expected_parents = [], []
        self.checked, self.expected, self.foreseen = [], [], []
        self._wrong = wrong_forecasts

    def _time_ms(self, variant, params):
        return float(variant.source.split()[0]) * 2 / params["BLOCK"]

    def rank(self, variants, otherwise_ms):
        self.ranked.append([item.source for item in variants])
        points, refused = [], {}
        for variant in variants:
            if "unreadable" in variant.source:
                refused[variant.id] = "it is no Python"
                continue
            for block in (1, 2):
                configuration = Configuration(variant.id, "kernel", {}, {"BLOCK": block})
                mean = math.log2(self._time_ms(variant, {"BLOCK": block})) + self._wrong
                points.append(Point(variant.id, configuration, mean, 0.3))
        return Ranking(points, refused)

    def measure(self, point, variant):
        self.hopeless_ms.append(point.configuration.hopeless_ms)
        self.measured.append((variant.source, point.configuration.params["BLOCK"]))
        if "interrupt" in variant.source:
            raise KeyboardInterrupt
        for word, verdict in {"wrong": Verdict.WRONG, "cheats": Verdict.CHEATING}.items():
            if word in variant.source:
                return VariantOutcome(verdict, why=f"it is {word}")
        time_ms = self._time_ms(variant, point.configuration.params)
        return VariantOutcome(Verdict.CORRECT, time_ms, (variant.source.split()[-1],))

    overlaps = False

    def begin(self, work):
        done = Future()
        done.set_result(work())
        return done

    def foresee(self, points):
        self.foreseen += [point.variant for point in points]

    def expect_parent(self, brief):
        self.expected_parents.append(brief.source)

    def expect(self, variants):
        self.expected += [variant.source for variant, _ in variants]

    def studied(self):
        return []

    def is_late(self, point):
        return False

    def is_ready(self, point):
        return True

    def await_any(self, others, timeout_s):
        wait(others, timeout_s, return_when=FIRST_COMPLETED)
        return bool(others)

    def idle_s(self):
        return 0.0

    def checked_late(self):
        return []

    def await_checks(self, variants):
        pass

    def check(self, variant, brief):
        self.checked.append(variant.source)
        word = Checked.WRONG if "broken" in variant.source else Checked.UNCHECKED
        return replace(variant, checked=word, why="its tail is missing")

    def brief(self, bred, result, tried):
        self.briefs.append((bred.variant.source, list(tried)))
        return Brief(bred.variant.source, "k.py", find("h100"), {}, tried=tuple(tried))

    def spent_s(self):
        return COST_S * len(self.measured)


class Proposer:
    """Gives these texts for any parent, each with its last word as its kind."""

    name = "made up"

    def __init__(self, *texts, checked=Checked.RIGHT):
        self.texts, self.checked, self.asked = texts, checked, 0

    def propose(self, brief):
        self.asked += 1
        for text in self.texts:
            yield Proposal(text, text.split()[-1], "why", self.checked)


class Broken:
    name = "broken"

    def propose(self, brief):
        raise UnsupportedError("no key")
        yield


class Faulty(Proposer):
    """Fails behind its last proposal."""

    def propose(self, brief):
        yield from super().propose(brief)
        raise WorkerError("KeyError: 'axis'")


def bred(
    *proposers,
    budget_s=1000.0,
    world=None,
    original="1.0 plain",
    prepare=lambda _: None,
    **settings,
):
    world = world or World()
    variant = Variant(variant_id(original), original)
    first = Point(variant.id, Configuration(variant.id, "kernel", {}, {"BLOCK": 1}), 0.0, 0.0)
    how = EvolveSettings(**{"stop_at": 2.0, **settings})
    breeding = EvolutionSearch(world, proposers, (variant, first), budget_s, how, SOL_MS)
    breeding.prepare_practice = prepare
    return breeding, breeding.run(), world


def test_the_original_is_measured_first_with_the_parameters_in_use():
    breeding, _, world = bred(Proposer("0.5 tile"))
    assert world.measured[0] == ("1.0 plain", 1)
    assert breeding.first_ms == 2.0


def test_the_fastest_is_found_and_its_lineage_known():
    breeding, stopped, _ = bred(Proposer("0.5 tile", "0.4 fuse", "3.0 slow"))
    best = breeding.archive.best
    assert best.variant.source == "0.4 fuse"
    assert (best.time_ms, best.gap) == (0.4, pytest.approx(4.0))
    assert best.params == {"BLOCK": 2}
    assert breeding.archive[best.variant.parent].variant.source == "1.0 plain"
    assert stopped in (Stopped.EXPECTED_GAIN, Stopped.EXHAUSTED)


def test_it_goes_on_while_something_clearly_faster_may_be_left():
    texts = [f"{1.0 + n / 100} tile{n}" for n in range(6)]
    breeding, stopped, world = bred(Proposer(*texts), least_gain=0.9)
    assert stopped in (Stopped.EXPECTED_GAIN, Stopped.EXHAUSTED)
    assert breeding.better_chance() < 0.1
    assert len(world.measured) > 4  # the saving expected of each is below the least gain


def test_an_original_that_fails_ends_it_with_the_reason_and_what_would_fix_it():
    breeding, stopped, world = bred(Proposer("0.5 tile"), original="1.0 wrong")
    assert (stopped, len(world.measured)) == (Stopped.NOTHING_RUNS, 1)
    assert breeding.notes[0].startswith("The original fails: it is wrong. ")
    assert breeding.better_chance() is None


def test_a_parent_is_run_for_the_checks_of_its_variants_before_these_are_written():
    class Watching(Proposer):
        def propose(self, brief):
            expected.append((brief.source, list(world.expected_parents)))
            return super().propose(brief)

    expected, world = [], World()
    bred(Watching("0.5 tile"), world=world)
    assert all(parents[-1] == source for source, parents in expected)
    assert [source for source, _ in expected] == world.expected_parents


def test_what_is_expected_to_be_slow_is_not_measured():
    slow = [f"{n}.0 slow" for n in range(20, 28)]
    _, _, world = bred(Proposer("0.4 fuse", *slow))
    assert ("0.4 fuse", 2) in world.measured[:3]
    explored = {source for source, _ in world.measured if "slow" in source}
    assert len(explored) <= 3 < len(slow)


def test_random_order_measures_everything():
    slow = [f"{n}.0 slow" for n in range(20, 26)]
    _, stopped, world = bred(Proposer("0.4 fuse", *slow), order=Order.RANDOM)
    assert {source for source, _ in world.measured} == {"1.0 plain", "0.4 fuse", *slow}
    assert stopped is Stopped.EXHAUSTED


@pytest.mark.slow
def test_the_surrogates_order_needs_fewer_measurements_than_a_random_one():
    def needed(order, seed):
        texts = [f"{1 + n / 10} v{n}" for n in range(24)]
        texts[17] = "0.3 found"
        world = bred(Proposer(*texts), order=order, seed=seed, proposals=24)[2]
        return [source for source, _ in world.measured].index("0.3 found")

    ours = [needed("surrogate", seed) for seed in range(5)]
    theirs = [needed("random", seed) for seed in range(5)]
    assert sum(ours) * 3 < sum(theirs)


def test_it_stops_at_the_budget():
    _, stopped, world = bred(Proposer(*[f"{1 - n / 100} v{n}" for n in range(30)]), budget_s=5.0)
    assert stopped is Stopped.BUDGET
    assert len(world.measured) == 5


def test_it_stops_at_the_share_of_the_speed_of_light_that_was_asked_for():
    breeding, stopped, _ = bred(Proposer("0.11 fast", "0.9 slow"), stop_at=0.9)
    assert stopped is Stopped.SPEED_OF_LIGHT
    assert breeding.archive.best.time_ms == 0.11


def test_a_wrong_variant_and_a_cheat_are_measured_once_and_are_no_parents():
    breeding, _, world = bred(Proposer("0.2 wrong", "0.1 cheats", "0.9 fine"))
    counts = Counter(source for source, _ in world.measured)
    assert counts["0.2 wrong"] == counts["0.1 cheats"] == 1
    assert not {"0.2 wrong", "0.1 cheats"} & {source for source, _ in world.briefs}
    assert breeding.archive.best.variant.source == "0.9 fine"
    failed = breeding.archive[variant_id("0.1 cheats")]
    assert (failed.verdict, failed.why, failed.time_ms) == (Verdict.CHEATING, "it is cheats", None)


def test_what_is_known_to_be_wrong_costs_no_measurement():
    _, _, world = bred(Proposer("0.2 tile", checked=Checked.WRONG))
    assert {source for source, _ in world.measured} == {"1.0 plain"}
    assert all(ranked == ["1.0 plain"] for ranked in world.ranked)


def test_what_is_measured_next_is_checked_once_and_not_measured_if_it_is_wrong():
    slow = [f"{n}.0 slow" for n in range(20, 28)]
    proposer = Proposer("0.2 broken", "0.4 fuse", *slow, checked=Checked.UNCHECKED)
    breeding, _, world = bred(proposer)
    assert world.checked[:2] == world.expected[:2] == ["0.2 broken", "0.4 fuse"]
    assert set(world.checked) <= set(world.expected)
    assert len(set(world.checked)) == len(world.checked) < len(slow)
    assert "0.2 broken" not in {source for source, _ in world.measured}
    wrong = breeding.archive[variant_id("0.2 broken")]
    assert (wrong.variant.checked, wrong.why) == (Checked.WRONG, "its tail is missing")


def test_what_cannot_be_ranked_says_why():
    breeding, _, world = bred(Proposer("0.2 unreadable"))
    assert breeding.archive[variant_id("0.2 unreadable")].why == "it is no Python"
    assert len(world.measured) == 2


def test_a_search_whose_variants_all_fail_before_they_are_measured_says_so_and_why():
    class Unloadable(World):
        def rank(self, variants, otherwise_ms):
            whys = {v.id: f"/tmp/{v.id}.py:9: no name {v.source[-1]}" for v in variants}
            return Ranking([], {name: why for name, why in whys.items() if name != first})

    first = variant_id("1.0 plain")
    breeding, stopped, _ = bred(Proposer("0.2 a", "0.22 a", "0.4 b"), world=Unloadable())
    assert (stopped, breeding.measured) == (Stopped.EXHAUSTED, 1)
    (note,) = breeding.notes
    shared = "None of 3 proposed variants was measured, 2 of them for one reason: no name a."
    assert note == shared
    assert breeding.better_chance() is None
    other, *_ = bred(Proposer("0.2 a", "0.4 broken"))
    assert not other.notes
    assert other.better_chance() is not None


def test_a_proposer_is_told_what_was_tried_and_what_it_gave():
    class Endless(Proposer):
        def propose(self, brief):
            self.texts = (f"{0.9 + self.asked / 100} tile", "0.2 wrong")
            return super().propose(brief)

    _, _, world = bred(Endless(), budget_s=60.0)
    results = [tried for source, tried in world.briefs if source == "1.0 plain"]
    assert results[0] == []
    again = {item.kind: item for item in results[1]}
    assert again["tile"].gain == pytest.approx(1 / 0.9)
    assert again["tile"].gap == pytest.approx(9.0)
    assert (again["wrong"].verdict, again["wrong"].why) == (Verdict.WRONG, "it is wrong")
    below = next(tried for source, tried in world.briefs if source == "0.9 tile")
    assert below[0].kind == "tile"  # what led to the parent


WRONG_ALIKE = "0.10 wrong rows", "0.11 wrong tile", "0.12 wrong order", "0.13 wrong fuse"


@pytest.mark.parametrize(
    ("texts", "checked", "unmeasured"),
    [
        (("0.14 hoist",), Checked.UNCHECKED, {"0.13 wrong fuse", "0.14 hoist"}),
        (("0.14 hoist",), Checked.RIGHT, set()),
        (("0.09 hoist",), Checked.UNCHECKED, set()),  # right, so the form of all is
    ],
)
def test_variants_that_share_what_was_wrong_three_times_cost_no_gpu_time(
    texts, checked, unmeasured
):
    proposer = Proposer(*WRONG_ALIKE, *texts, checked=checked)
    breeding, _, world = bred(proposer, world=World(), budget_s=8.0)
    measured = {source for source, _ in world.measured}
    assert {*WRONG_ALIKE, *texts} - measured == unmeasured
    whys = {b.why for b in breeding.archive if b.variant.source in unmeasured}
    assert whys <= {"3 variants that share the form of all with it fail alike"}


def test_launchers_that_raise_alike_in_files_of_their_own_share_a_fault():
    archive = Archive(Variant("0", "original"))
    for place, message in enumerate(["unbound; at /tmp/{0}/{0}.py:2{0} in kernel"] * 3):
        archive.add(Variant(f"{place}a", str(place), "0", "rows", proposer="rewriter"))
        why = message.format(f"{place}a")
        archive.note(f"{place}a", verdict=Verdict.CRASHED, measured=1, why=why)
        fault = shared_fault(Variant("x", "x", "0", "tile", proposer="rewriter"), archive)
        assert bool(fault) == (place == 2)


@pytest.mark.parametrize(("name", "named"), [("broken", "broken"), ("", "The model")])
def test_a_proposer_that_cannot_go_on_is_not_asked_again_and_the_others_are(name, named):
    broken = Broken()
    broken.name = name
    breeding, _, _ = bred(broken, Proposer("0.4 fuse"))
    assert breeding.archive.best.variant.source == "0.4 fuse"
    assert breeding.notes == [f"{named} was not asked again: no key"]


def test_what_precedes_a_proposers_fault_is_measured_and_the_fault_is_told_once():
    breeding, _, _ = bred(Faulty("0.4 fuse"))
    assert breeding.archive.best.variant.source == "0.4 fuse"
    assert breeding.notes == ["made up ended early on a variant: KeyError: 'axis'"]


def test_proposals_that_are_there_already_end_the_search():
    proposer = Proposer("1.0 plain")
    _, stopped, world = bred(proposer)
    assert stopped is Stopped.EXHAUSTED
    assert len(world.measured) == 2
    assert proposer.asked == 1


def test_if_the_original_fails_nothing_else_is_measured():
    breeding, stopped, world = bred(Proposer("0.4 fuse"), original="1.0 wrong")
    assert stopped is Stopped.NOTHING_RUNS
    assert len(world.measured) == 1
    assert breeding.archive.best.why == "it is wrong"


def test_an_interrupt_ends_the_search_and_keeps_what_was_measured():
    breeding, stopped, _ = bred(Proposer("0.1 interrupt"))
    assert stopped is Stopped.INTERRUPTED
    assert breeding.archive.best.time_ms == 2.0


def test_the_same_seed_gives_the_same_search():
    texts = [f"{1 + (7 * n) % 13 / 10} v{n}" for n in range(12)]
    runs = [bred(Proposer(*texts), seed=seed)[2].measured for seed in (1, 1)]
    assert runs[0] == runs[1]


def test_what_an_earlier_run_measured_is_not_measured_again():
    world = World()
    variant, child = (Variant(variant_id(t), t) for t in ("1.0 plain", "0.4 fuse"))
    first = Point(variant.id, Configuration(variant.id, "kernel", {}, {"BLOCK": 1}), 0.0, 0.0)
    how = EvolveSettings(stop_at=2.0)
    breeding = EvolutionSearch(world, [Proposer("0.4 fuse")], (variant, first), 100.0, how, SOL_MS)
    breeding.adopt_measurement(variant, first, VariantOutcome(Verdict.CORRECT, 2.0))
    again = Point(child.id, Configuration(child.id, "kernel", {}, {"BLOCK": 2}), 0.0, 0.0)
    breeding.adopt_measurement(child, again, VariantOutcome(Verdict.CORRECT, 0.4))
    breeding.run()
    assert ("1.0 plain", 1) not in world.measured
    assert ("0.4 fuse", 2) not in world.measured
    assert breeding.archive.best.time_ms == 0.4


def kept(*texts, kept_s, budget_s=8.0):
    """What a search spends that leaves some seconds for the practice."""
    world, original = World(), "1.0 plain"
    variant = Variant(variant_id(original), original)
    first = Point(variant.id, Configuration(variant.id, "kernel", {}, {"BLOCK": 2}), 0.0, 0.0)
    how = EvolveSettings(stop_at=2.0, order=Order.RANDOM)
    breeding = EvolutionSearch(world, [Proposer(*texts)], (variant, first), budget_s, how, SOL_MS)
    breeding.kept_s = kept_s
    assert breeding.run() is Stopped.BUDGET
    return world.spent_s()


def test_seconds_are_kept_for_the_practice_of_several_finalists_only():
    fast = [f"0.{n} kind{n}" for n in range(1, 9)]
    slow = [f"{n}.0 kind{n}" for n in range(3, 11)]
    assert kept(*fast, kept_s=0.0) == 8.0
    assert kept(*fast, kept_s=3.0) == 5.0
    assert kept(*slow, kept_s=3.0) == 8.0


def test_what_takes_twice_the_best_time_is_hopeless():
    *_, world = bred(Proposer("0.5 tile", "0.4 fuse"))
    assert world.hopeless_ms[0] is None
    times = [float(text.split()[0]) * 2 / block for text, block in world.measured]
    best = [min(times[: n + 1]) for n in range(len(times) - 1)]
    assert world.hopeless_ms[1:] == [2 * item for item in best]
    assert len(set(best)) > 1


class Overlapping(World):
    """Begins work in a thread, as with a GPU."""

    overlaps = True

    def __init__(self):
        super().__init__()
        self._thread = ThreadPoolExecutor(1)
        self.enough = threading.Event()

    def begin(self, work):
        return self._thread.submit(work)

    def measure(self, point, variant):
        if len(self.measured) >= 12:
            self.enough.set()
        return super().measure(point, variant)


class Persistent(Proposer):
    """Gives four new variants of one speed in each of its first rounds."""

    def __init__(self, time_ms, rounds=6):
        super().__init__()
        self._time_ms, self._rounds = time_ms, rounds

    def propose(self, brief):
        self.asked += 1
        for number in range(4 if self.asked <= self._rounds else 0):
            text = f"{self._time_ms} slow {self.asked} of {number}"
            yield Proposal(text, "slow", "why", Checked.RIGHT)


class Waiting(Overlapping):
    """The GPU has had nothing to do for so long, at any time."""

    def __init__(self, idle_s=31.0):
        super().__init__()
        self._idle_s = idle_s

    def idle_s(self):
        return self._idle_s


@pytest.mark.parametrize("idle_s", [0.0, 31.0])
def test_it_ends_when_the_gpu_waits_while_one_round_after_the_other_promises_nothing(idle_s):
    proposer = Persistent(9.0)
    breeding, stopped, world = bred(proposer, world=Waiting(idle_s), proposals=4)
    assert {source for source, _ in world.measured[:2]} == {"1.0 plain"}
    if idle_s:
        assert (stopped, len(world.measured)) == (Stopped.EXPECTED_GAIN, 2)
        assert proposer.asked <= 3  # the first round may end before the original is measured
        assert breeding.notes[-1] == "The GPU waited 31 s in a row, and 2 rounds promised no gain."
    else:
        assert proposer.asked > 6


def coming(world, *proposals, proposers=()):
    """Run a search to which these come, each once the original was measured."""
    original = Variant(variant_id("1.0 plain"), "1.0 plain")
    first = Point(original.id, Configuration(original.id, "kernel", {}, {"BLOCK": 1}), 0.0, 0.0)
    how = EvolveSettings(stop_at=2.0)
    breeding = EvolutionSearch(world, proposers, (original, first), 1000.0, how, SOL_MS)
    breeding.coming = futures = [Future() for _ in proposals]

    def give(future, proposal):
        while not world.measured:
            time.sleep(0.001)
        future.set_result(proposal)

    with ThreadPoolExecutor(1) as threads:
        for future, proposal in zip(futures, proposals, strict=True):
            threads.submit(give, future, proposal)
        stopped = breeding.run()
    return breeding, stopped


def test_the_search_waits_for_the_first_variant_that_comes_outside_of_rounds():
    written = "compiler", Proposal("0.3 compiled", "compiled", "why")
    breeding, stopped = coming(Overlapping(), written)
    best = breeding.archive.best
    assert (best.variant.proposer, best.time_ms) == ("compiler", 0.3)
    assert best.variant.parent == breeding.archive.original
    assert stopped in (Stopped.EXPECTED_GAIN, Stopped.EXHAUSTED)


def test_what_is_forecast_to_be_hopeless_waits_for_all_that_is_being_proposed():
    class Doubtful(Overlapping):
        """Ranks what is compiled with a wide interval, and proposes 0.1 s later."""

        def begin(self, work):
            return self._thread.submit(lambda: (time.sleep(0.1), work())[1])

        def rank(self, variants, otherwise_ms):
            ranking = super().rank(variants, otherwise_ms)
            if "compiled" not in variants[0].source:
                return ranking
            ranked.set()
            return Ranking([replace(point, sd=3.0) for point in ranking.points])

    class Slow(Proposer):
        def propose(self, brief):
            assert ranked.wait(120)
            return super().propose(brief)

    ranked, written = threading.Event(), ("compiler", Proposal("9.0 compiled", "compiled", "why"))
    world = Doubtful()
    world._thread = ThreadPoolExecutor(2)
    coming(world, written, proposers=[Slow("0.9 tile", "0.8 fuse")])
    sources = [source for source, _ in world.measured]
    assert sources.index("9.0 compiled") > max(map(sources.index, ("0.9 tile", "0.8 fuse")))


def test_a_variant_that_comes_to_nothing_ends_the_wait():
    breeding, stopped = coming(Overlapping(), None)
    assert breeding.archive.best.variant.source == "1.0 plain"
    assert stopped in (Stopped.EXPECTED_GAIN, Stopped.EXHAUSTED)


def test_a_variant_that_comes_again_is_ranked_once():
    written = "compiler", Proposal("0.3 compiled", "compiled", "why")
    world = Overlapping()
    coming(world, written, written)
    assert [texts for texts in world.ranked if "0.3 compiled" in texts] == [["0.3 compiled"]]


def test_what_may_be_faster_all_the_same_is_measured_before_the_wait_ends_the_search():
    proposer = Persistent(0.95, rounds=2)
    breeding, stopped, _ = bred(proposer, world=Waiting(), proposals=4, least_gain=0.9)
    assert breeding.archive.best.time_ms == 0.95
    assert stopped in (Stopped.EXPECTED_GAIN, Stopped.EXHAUSTED)


def test_the_first_proposals_are_made_while_the_original_is_measured():
    class Early(Proposer):
        def propose(self, brief):
            requests.append(len(world.measured))
            assert not requests[1:] or measured.wait(120)
            return super().propose(brief)

    class First(Overlapping):
        def measure(self, point, variant):
            measured.set()
            return super().measure(point, variant)

    requests, measured, world = [], threading.Event(), First()
    breeding, _, _ = bred(Early("0.5 tile", "0.4 fuse"), world=world)
    assert requests[0] == 0
    assert breeding.archive.best.variant.source == "0.4 fuse"
    assert world.measured[0] == ("1.0 plain", 1)


def test_the_first_proposals_are_ranked_while_the_others_are_written():
    class Slow(Proposer):
        def propose(self, brief):
            for number, proposal in enumerate(super().propose(brief)):
                if number == 2 and self.asked == 1:
                    waited.append(ranked.wait(120))
                yield proposal

    class Ranked(Overlapping):
        def __init__(self):
            super().__init__()
            self._thread = ThreadPoolExecutor(2)

        def rank(self, variants, otherwise_ms):
            ranking = super().rank(variants, otherwise_ms)
            if variants[0].source == texts[0]:
                ranked.set()
            return ranking

    texts = [f"{1.0 - n / 10} tile{n}" for n in range(5)]
    waited, ranked, world = [], threading.Event(), Ranked()
    breeding, _, _ = bred(Slow(*texts), world=world, proposals=5)
    assert waited == [True]
    assert texts[:2] in world.ranked  # without the bandit, which knows nothing yet
    assert {bred.variant.source for bred in breeding.archive} == {"1.0 plain", *texts}


@pytest.mark.parametrize("overlaps", [True, False])  # a replay has nothing ready ahead
def test_what_the_practice_needs_is_prepared_while_candidates_are_measured(overlaps):
    world, measured = Overlapping() if overlaps else World(), []
    texts = [f"{1.0 - n / 100} tile{n}" for n in range(12)]

    def prepare(bred):
        measured.append((bred.variant.source, len(world.measured)))

    bred(Proposer(*texts), world=world, prepare=prepare)
    assert [source for source, _ in measured] == ["1.0 plain"] * overlaps
    assert all(0 < number < len(world.measured) for _, number in measured)


def test_the_best_is_prepared_for_the_practice_when_a_fifth_of_the_budget_is_left():
    world, prepared = Overlapping(), []
    texts = [f"{1.0 - n / 100} tile{n}" for n in range(30)]

    def prepare(bred):
        prepared.append((bred.variant.source, len(world.measured)))

    breeding, stopped, _ = bred(
        Proposer(*texts), world=world, prepare=prepare, budget_s=20 * COST_S, proposals=30
    )
    assert stopped is Stopped.BUDGET
    late = dict(prepared[1:])
    assert prepared[0][0] == "1.0 plain"
    assert breeding.archive.best.variant.source in late
    assert all(16 < number <= 20 for number in late.values())


def test_the_gpu_does_not_wait_for_proposals_while_something_promises_a_gain():
    texts = [f"{1.0 - n / 100} tile{n}" for n in range(12)]

    class Slow(Proposer):
        def propose(self, brief):
            if self.asked == 1:
                waited.append(world.enough.wait(120))
            return super().propose(brief)

    waited, world = [], Overlapping()
    breeding, _, _ = bred(Slow(*texts), world=world, proposals=12)
    assert waited == [True]  # more than six were measured while it thought
    assert breeding.archive.best.variant.source == texts[-1]
    assert world.foreseen


class Late(Overlapping):
    """Finds one variant wrong, once the practice is near or so many were measured."""

    def __init__(self, wrong, after=99):
        super().__init__()
        self.wrong, self.after, self.settled = wrong, after, []

    def await_checks(self, variants):
        self.settled += variants
        self.after = 0

    def checked_late(self):
        if not self.wrong or len(self.measured) < self.after:
            return []
        wrong, self.wrong = self.wrong, ""
        variant = Variant(variant_id(wrong), wrong, variant_id("1.0 plain"), wrong.split()[-1])
        return [replace(variant, checked=Checked.WRONG, why="it differs")]


@pytest.mark.parametrize("after", [3, 99])
def test_what_a_late_check_finds_wrong_is_barred_with_all_that_was_made_of_it(after):
    class Building(Proposer):
        """Makes something faster of each, the tile first."""

        def propose(self, brief):
            word = f"{brief.source} more" if "tile" in brief.source else "0.4 tile"
            yield Proposal(word.replace("0.4", "0.3"), word.split()[-1], "why")
            yield Proposal("0.4 tile", "tile", "why")
            yield Proposal("0.8 fuse", "fuse", "why")

    world = Late("0.4 tile", after)
    breeding, _, _ = bred(Building(), world=world)
    assert breeding.settle_checks() is (after == 99)
    tile, best = breeding.archive[variant_id("0.4 tile")], breeding.archive.best
    of_tile = [bred for bred in breeding.archive if bred.variant.parent == tile.variant.id]
    assert best.variant.source in ("0.8 fuse", "0.3 tile")
    assert (tile.time_ms, tile.verdict, tile.why) == (None, Verdict.WRONG, "it differs")
    assert all(bred.time_ms is None for bred in of_tile)
    assert all(progress.best_ms != 0.4 for progress in breeding.trajectory)
    assert (tile.variant.id in world.settled) is (after == 99)


def test_proposals_are_asked_for_while_the_gpu_waits_for_what_is_studied():
    class Starved(Overlapping):
        """Has nothing ready, while what is known still promises a gain."""

        def idle_s(self):
            waited.append(len(waited))
            return float(len(waited))

        def is_ready(self, point):
            return proposer.asked > 2

        def await_any(self, others, timeout_s):
            assert len(waited) < 1000
            return super().await_any(others, 0.01)

    waited, proposer = [], Persistent(0.5, rounds=9)
    breeding, _, _ = bred(proposer, world=Starved(), proposals=4)
    assert proposer.asked > 2
    assert breeding.archive.best.time_ms == 0.5


def test_what_nobody_makes_ready_is_measured_once_nothing_is_under_way():
    class Stuck(Overlapping):
        """Gets nothing ready but the original, and has nothing under way."""

        looks = 0

        def idle_s(self):
            return float(self.looks)

        def is_ready(self, point):
            return not self.measured

        def await_any(self, others, timeout_s):
            self.looks += 1
            assert self.looks < 1000
            return super().await_any(others, 0.01)

    breeding, _, _ = bred(Proposer("0.5 tile"), world=Stuck())
    assert breeding.archive.best.time_ms == 0.5


@pytest.mark.parametrize("idle_s", [0.0, 16.0])
def test_half_of_the_budget_waits_for_variants_that_come(idle_s):
    class Low(Waiting):
        """Has spent more than half of its budget once the original was measured."""

        def spent_s(self):
            return 600.0 if self.measured else 0.0

        def measure(self, point, variant):
            if len(self.measured) > 2:
                tried.set()
            return super().measure(point, variant)

    tried, world = threading.Event(), Low(idle_s)
    texts = [f"{1.0 - n / 500} tile{n}" for n in range(6)]  # none promises a tenth
    original = Variant(variant_id("1.0 plain"), "1.0 plain")
    first = Point(original.id, Configuration(original.id, "kernel", {}, {"BLOCK": 1}), 0.0, 0.0)
    how = EvolveSettings(stop_at=2.0, proposals=6, least_gain=1e-4)
    breeding = EvolutionSearch(world, [Proposer(*texts)], (original, first), 1000.0, how, SOL_MS)
    breeding.coming = [Future()]
    waited = []

    def come():
        waited.append(tried.wait(0.5))
        breeding.coming[0].set_result(("compiler", Proposal("0.3 compiled", "compiled", "why")))

    with ThreadPoolExecutor(1) as threads:
        threads.submit(come)
        breeding.run()
    assert waited == [idle_s > 15]
    assert breeding.archive.best.time_ms == 0.3


@pytest.mark.parametrize("idle_s", [0.0, 4.0])
def test_a_gpu_that_waits_measures_what_is_ready_though_it_promises_hardly_anything(idle_s):
    class Slow(Proposer):
        """Proposes again only once more was measured, or nobody will."""

        def propose(self, brief):
            if self.asked:
                waited.append(world.more.wait(0.3))
            return super().propose(brief)

    class Idle(Waiting):
        more = threading.Event()

        def measure(self, point, variant):
            if "meek" in variant.source:
                self.more.set()
            return super().measure(point, variant)

    waited, world = [], Idle(idle_s)
    bred(Slow("0.5 tile", "0.99 meek"), world=world, proposals=2, least_gain=0.4)
    assert waited[0] is (idle_s > 3)


@pytest.mark.parametrize(("measured", "left"), [(12, 2), (12, 5), (1, 2)])
def test_a_small_rest_of_the_budget_is_not_waited_for_longer_than_twice_its_seconds(measured, left):
    class Dry(Overlapping):
        """Has nothing ready after so many measurements; each look then takes a second."""

        looks = 0

        def idle_s(self):
            return float(self.looks)

        def is_ready(self, point):
            return len(self.measured) < measured or self.looks > 100 * COST_S

        def await_any(self, others, timeout_s):
            self.looks += len(self.measured) == measured
            super().await_any(others, 0.001)
            return True  # something is studied

    budget_s = (measured + left) * COST_S
    breeding, stopped, world = bred(
        Persistent(0.5, rounds=99), world=Dry(), budget_s=budget_s, proposals=4
    )
    is_little = left < 0.2 * (measured + left) and left < 3
    assert stopped is Stopped.BUDGET
    assert (len(world.measured) == measured) is is_little
    if is_little:
        assert 4 * COST_S <= world.looks < 6 * COST_S + 2
        assert breeding.notes == [f"{2 * COST_S:.1f} s were left, and nothing to measure in time."]


class Studying(Overlapping):
    """Studies what the search foresees while it waits, and names what is never done slow."""

    def __init__(self):
        super().__init__()
        self.ready, self.waits_s = set(), []

    def _text(self, point):
        return next(text for text in self.texts if variant_id(text) == point.variant)

    def is_ready(self, point):
        return point.key in self.ready

    def foresee(self, points):
        super().foresee(points)
        self.points = list(points)
        self.next = [p for p in points if p.key not in self.ready and "slow" not in self._text(p)]

    def await_any(self, others, timeout_s):
        self.waits_s.append(timeout_s)
        self.ready.update(point.key for point in self.next)
        if len(self.waits_s) > 20:  # all studies end
            self.ready.update(point.key for point in self.points)
        wait(others, 0.01, return_when=FIRST_COMPLETED)
        return True


def searched_with(world, *texts, **settings):
    world.texts = ("1.0 plain", *texts)
    return bred(Proposer(*texts), world=world, **settings)


def test_the_gpu_takes_what_is_ready_and_waits_a_moment_for_what_promises_far_more():
    breeding, _, world = searched_with(Studying(), "0.10 slow", "0.50 tile", "0.51 fuse")
    sources = [source for source, _ in world.measured]
    assert sources[1] == "0.50 tile"
    assert sources.index("0.10 slow") > 1
    assert 0.5 in world.waits_s
    assert breeding.archive.best.variant.source == "0.10 slow"


@pytest.mark.parametrize(("looks", "waits"), [(40, True), (200, False)])
def test_the_gpu_waits_a_while_for_a_clear_gain_where_all_that_is_ready_promises_hardly_any(
    looks, waits
):
    class Busy(Studying):
        """Studies of what is slow end after so many looks, each of a second."""

        begun = 0

        def idle_s(self):
            return float(len(self.waits_s) - self.begun)

        def measure(self, point, variant):
            self.begun = len(self.waits_s)
            return super().measure(point, variant)

        def await_any(self, others, timeout_s):
            self.waits_s.append(timeout_s)
            is_done = len(self.waits_s) > looks
            self.ready.update(p.key for p in (self.points if is_done else self.next))
            wait(others, 0.001, return_when=FIRST_COMPLETED)
            return True

    _, _, world = searched_with(Busy(), "0.10 slow", "0.97 meek", budget_s=200.0)
    sources = [source for source, _ in world.measured]
    before = sources[: sources.index("0.10 slow")]
    assert (before == ["1.0 plain", "0.97 meek"]) is waits  # what the first is like is not known


def test_the_first_measurement_after_the_original_waits_for_nothing_that_promises_more():
    class Slow(Studying):
        """Studies of what is slow end after ten looks."""

        def measure(self, point, variant):
            looks.append(len(self.waits_s))
            return super().measure(point, variant)

        def await_any(self, others, timeout_s):
            self.waits_s.append(timeout_s)
            is_done = len(self.waits_s) > 10
            self.ready.update(p.key for p in (self.points if is_done else self.next))
            wait(others, 0.001, return_when=FIRST_COMPLETED)
            return True

    looks, world, texts = [], Slow(), ("0.10 slow", "2.2 meek")
    world.texts = ("1.0 slow", *texts)
    bred(Proposer(*texts), world=world, original="1.0 slow", least_gain=1e-4)
    assert world.measured[1] == ("2.2 meek", 2)
    assert looks[1] < 10 <= looks[2]


def test_what_is_late_is_waited_for_only_if_nothing_else_is_left():
    class Late(Studying):
        def is_late(self, point):
            return "slow" in self._text(point)

        def await_any(self, others, timeout_s):
            if not others and len(self.measured) > 4:
                self.ready.update(point.key for point in self.points)
            return super().await_any(others, timeout_s)

    _, _, world = searched_with(Late(), "0.10 slow", "0.50 tile", "0.51 fuse")
    sources = [source for source, _ in world.measured]
    assert sources.index("0.50 tile") < sources.index("0.10 slow")


class Compiling(Studying):
    """Whatever spills takes 9 ms by its forecast, once compiled, with that error in log2."""

    error, done = 0.1, ()

    def studied(self):
        points = [self.by_key[key] for key in self.ready if key not in self.done]
        self.done = {*self.done, *self.ready}
        return [self._compiled(point) for point in points]

    def _compiled(self, point):
        if "spills" not in self._text(point):
            return Study(point, 0.01)
        return Study(replace(point, mean=math.log2(9.0), sd=self.error), 9.0)

    def foresee(self, points):
        super().foresee(points)
        self.by_key = {**getattr(self, "by_key", {}), **{p.key: p for p in points}}


def test_what_is_surely_too_slow_once_it_is_compiled_is_not_measured_and_no_failure():
    breeding, _, world = searched_with(Compiling(), "0.2 spills", "0.5 tile")
    assert "0.2 spills" not in [source for source, _ in world.measured]
    spilling = breeding.archive[variant_id("0.2 spills")]
    assert spilling.why.startswith("Compiled, it takes 9 ms or more by its forecast: over ")
    assert spilling.forecast_ms == pytest.approx(9.0)  # of the parameters named
    assert (spilling.measured, breeding.failed) == (0, 0)
    assert breeding.archive.best.variant.source == "0.5 tile"


def test_what_may_be_fast_by_what_was_measured_is_not_dismissed_by_its_forecast():
    class Unsure(Compiling):
        error = 4.0

    _, _, world = searched_with(Unsure(), "0.2 spills", "0.5 tile")
    assert "0.2 spills" in [source for source, _ in world.measured]


def test_what_cannot_be_used_says_why_and_its_variant_goes_on():
    class Refusing(Studying):
        refused = None

        def studied(self):
            if self.refused is not None or not self.next:
                return []
            self.refused = next((p for p in self.next if "twin" in self._text(p)), None)
            return [Study(self.refused, refused="It is a twin.")] if self.refused else []

    _, _, world = searched_with(Refusing(), "0.4 twin")
    key = world.refused.key
    assert ("0.4 twin", world.refused.configuration.params["BLOCK"]) not in world.measured
    assert key[0] == variant_id("0.4 twin")
    assert "0.4 twin" in [source for source, _ in world.measured]


def test_a_round_goes_on_while_the_gpu_measures():
    class First(Overlapping):
        def measure(self, point, variant):
            if not self.measured:
                assert ranked.wait(120)
            return super().measure(point, variant)

        def rank(self, variants, otherwise_ms):
            ranked.set()
            return super().rank(variants, otherwise_ms)

    ranked = threading.Event()
    breeding, _, _ = bred(Proposer("0.5 tile"), world=First())
    assert breeding.archive.best.variant.source == "0.5 tile"


def test_the_first_two_are_ranked_alone_while_the_gpu_has_nothing_else_to_do():
    texts = ["0.9 a", "0.8 b", "0.7 c", "0.6 d"]
    _, _, world = bred(Proposer(*texts), world=Overlapping())
    assert [ranked for ranked in world.ranked if ranked != ["1.0 plain"]] == [texts[:2], texts[2:]]
    _, _, world = bred(Proposer(*texts))  # a replay
    assert [ranked for ranked in world.ranked if ranked != ["1.0 plain"]] == [texts]


def test_a_search_that_ends_asks_for_no_more_proposals():
    class Endless:
        name = "endless"
        proposed = 0

        def propose(self, brief):
            while True:
                self.proposed += 1
                yield Proposal(f"{1 + self.proposed} tile", "tile", "why", Checked.RIGHT)

    proposer, world = Endless(), Overlapping()
    breeding, stopped, _ = bred(proposer, world=world, original="1.0 wrong", proposals=10**9)
    world._thread.shutdown()
    assert stopped is Stopped.NOTHING_RUNS
    assert breeding.measured == 1


def test_a_random_order_ends_and_waits_for_what_is_under_way():
    class Waiting(Overlapping):
        """Proposes and ranks only once it is waited for; asked in vain, it ends the search."""

        def __init__(self):
            super().__init__()
            self.waited, self.questions = threading.Event(), 0

        def begin(self, work):
            return super().begin(lambda: work() if self.waited.wait(120) else None)

        def await_any(self, others, timeout_s):
            self.waited.set()
            return super().await_any(others, timeout_s)

        def spent_s(self):
            self.questions += 1
            assert self.questions < 1000
            return super().spent_s()

    proposer = Proposer("0.5 tile", "0.4 fuse")
    _, stopped, world = bred(proposer, world=Waiting(), order="random")
    assert stopped is Stopped.EXHAUSTED
    texts = ("1.0 plain", "0.5 tile", "0.4 fuse")
    assert sorted(world.measured) == sorted((text, block) for text in texts for block in (1, 2))


@pytest.mark.parametrize("planned_ms", [0.02, None])
def test_a_time_that_beats_the_algorithm_as_written_is_compared_with_a_better_one(planned_ms):
    class Beating(World):
        def measure(self, point, variant):
            outcome = super().measure(point, variant)
            is_beaten = outcome.time_ms < SOL_MS
            return replace(outcome, verdict=Verdict.BEATS_ALGORITHM) if is_beaten else outcome

    def replan(time_ms):
        beaten.append(time_ms)
        return planned_ms

    beaten, world = [], Beating()
    original = Variant(variant_id("0.04 plain"), "0.04 plain")
    first = Point(original.id, Configuration(original.id, "kernel", {}, {"BLOCK": 1}), -3.6, 0.3)
    proposers = [Proposer("0.03 tile")]
    breeding = EvolutionSearch(world, proposers, (original, first), 1e3, EvolveSettings(), SOL_MS)
    breeding.replan = replan
    assert breeding.run() is not Stopped.SPEED_OF_LIGHT
    assert beaten == [0.08]
    best = breeding.archive.best
    assert (breeding.sol_ms, best.variant.source) == (planned_ms, "0.03 tile")
    assert best.gap == (None if planned_ms is None else pytest.approx(0.03 / 0.02))
