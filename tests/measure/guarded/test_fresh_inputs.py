"""Timed calls get inputs that no call has seen before: on the CPU, by a fake machine's timers."""

from __future__ import annotations

import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from simulated import HEAD, FakeMachine, FakeTimer, Machine

from solkit.core import Verdict
from solkit.measure.guarded.fresh_inputs import Redraws

TIMED = 70  # calls: ten pairs to warm up, sixty that count
RIGHT = "def kernel(x): return x + x"


class Seen:
    """What the candidate and the reference of a file got, in the order of their calls."""

    def __init__(self):
        self.calls, self.timing = [], False

    def note(self, who, *tensors):
        if self.timing:
            values = tuple(t.double().sum().item() for t in tensors)
            self.calls.append((who, tensors[0].data_ptr(), values))

    def values(self, who):
        return [values for by, _, values in self.calls if by == who]

    def addresses(self, who):
        return {address for by, address, _ in self.calls if by == who}


class WatchedTimer(FakeTimer):
    """Says when a timed call runs."""

    def __init__(self, seen, **options):
        super().__init__(**options)
        self.seen = seen

    def time(self, subject):
        call = subject.prepare()
        self.seen.timing = True
        super().time(SimpleNamespace(name=subject.name, prepare=lambda: call))
        self.seen.timing = False


@pytest.fixture
def seen(monkeypatch):
    seen = Seen()
    monkeypatch.setitem(sys.modules, "seen", seen)
    return seen


@pytest.fixture
def watched(run, seen):
    """Examine a kernel whose calls, and whose reference's, tell their inputs to `seen`."""

    def watched(kernel, **changes):
        mine = FakeMachine(WatchedTimer(seen, tells=300.0))
        return run(kernel, mine=mine, theirs=FakeMachine(WatchedTimer(seen)), **changes)

    return watched


WATCHED = HEAD.replace("return x * 2", "import seen; seen.note('reference', x); return x * 2")
KERNEL = "import seen\ndef kernel(x): seen.note('kernel', x); return x + x"


def test_every_timed_call_gets_new_values_and_the_reference_the_same(watched, seen):
    outcome = watched(KERNEL, head=WATCHED)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    assert outcome.protocol.timed_inputs == "drawn"
    values = seen.values("kernel")
    assert len(values) == len(set(values)) == TIMED
    assert seen.values("reference") == values
    assert len(seen.addresses("kernel")) > 1  # of each call new objects, at two places


@pytest.mark.slow
def test_the_same_seed_of_a_measurement_does_not_give_the_same_timed_inputs(watched, seen):
    for _ in range(2):
        watched(KERNEL, head=WATCHED, seed=7)
    values = seen.values("kernel")
    assert len(set(values)) == len(values) == 2 * TIMED


@pytest.mark.slow
def test_graphs_get_new_values_at_the_addresses_that_they_know(run, monkeypatch):
    sets = []
    monkeypatch.setattr("solkit.measure.guarded.examination._LOOKS", 1000)  # at every call
    begin = Redraws.begin_turn

    def noted(self):
        drawn = begin(self)
        sets.append((self.current.trial.name, self.current.block))
        return drawn

    monkeypatch.setattr(Redraws, "begin_turn", noted)
    outcome = run(RIGHT, protocol="cold-graph")
    assert outcome.verdict is Verdict.CORRECT
    assert len({id(block) for _, block in sets}) == len({name for name, _ in sets}) == 2


class RecordingTimer(FakeTimer):
    """Says when a profiler would record what this process launches."""

    def __init__(self, seen, **options):
        super().__init__(**options)
        self.seen = seen

    def start(self):
        super().start()
        self.seen.timing = True

    def stop(self):
        self.seen.timing = False
        return super().stop()


@pytest.mark.parametrize(("free", "recorded"), [(1e12, 0), (100.0, TIMED)])
def test_slow_draws_come_before_the_timer_where_memory_suffices(
    run, seen, monkeypatch, free, recorded
):
    monkeypatch.setattr("solkit.measure.guarded.fresh_inputs.COSTLY_DRAW_S", 0.0)
    head = HEAD.replace("return (", "import seen; seen.note('inputs', torch.zeros(1)); return (")
    mine = FakeMachine(RecordingTimer(seen, tells=300.0), free=free)
    outcome = run(RIGHT, head=head, mine=mine)
    assert outcome.verdict is Verdict.CORRECT
    assert len(seen.values("inputs")) == recorded


STALE = """
    import torch
    answers = {}
    def kernel(x):
        key = x.data_ptr(), len(answers.setdefault(x.data_ptr(), []))
        if key[1] < 2:
            answers[x.data_ptr()].append(x * 2)
        return answers[x.data_ptr()][-1].clone()
"""


def test_an_answer_kept_by_address_and_count_is_wrong(run):
    assert run(STALE).verdict is Verdict.WRONG


def test_what_is_right_on_the_checked_inputs_alone_is_wrong_when_timed(run, seen, monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.examination._LOOKS", 12)
    kernel = """
        known = {}
        def kernel(x):
            import seen
            key = x.sum().item()
            if not seen.timing:
                known[key] = x * 2
            return known.get(key, x * 0 + 1).clone()
    """
    theirs = FakeMachine(WatchedTimer(seen))
    outcome = run(kernel, theirs=theirs)
    assert outcome.verdict is Verdict.WRONG
    assert outcome.errors[0].endswith("(a timed call)")


@pytest.mark.slow
def test_what_is_judged_is_judged_with_the_seed_of_its_call(run, monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.examination._LOOKS", 1000)
    head = HEAD.replace("return x * 2", "return x + torch.rand_like(x)")
    assert run("def kernel(x): return torch.rand_like(x) + x", head=head).verdict is Verdict.CORRECT
    kept = """
        drawn = []
        def kernel(x):
            fresh = torch.rand_like(x)
            drawn.append(fresh)
            return x + (drawn[12] if len(drawn) > 30 else fresh)
    """
    assert run(kept, head=head).verdict is Verdict.WRONG


@pytest.mark.slow
def test_calls_are_judged_as_long_as_there_is_time_and_at_least_one(run, seen, monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.examination._LOOKS", 1000)
    monkeypatch.setattr("solkit.measure.guarded.correctness._JUDGING_SHARE", 0.0)
    outcome = run(RIGHT)
    assert outcome.verdict is Verdict.CORRECT
    assert f"{TIMED - 1} of {TIMED} looked-at calls were not judged: no time." in outcome.errors
    kernel = "import seen\ndef kernel(x): return x * (3 if seen.timing else 2)"
    assert run(kernel, theirs=FakeMachine(WatchedTimer(seen))).verdict is Verdict.WRONG


# ------------------------------------------------------------------------- what inputs keep

INTEGERS = """
    import torch
    def inputs(N=32, device="cuda"):
        starts = torch.randint(0, 5, (N,), device=device).cumsum(0)
        return torch.randn(N, device=device), torch.randperm(N, device=device), starts
    def reference(x, places, starts):
        import seen
        seen.note("reference", places * torch.arange(len(places)), starts, x)
        return x[places] * 2 + starts
"""


@pytest.mark.slow
def test_integers_come_from_draws_that_are_never_used_again(watched, seen):
    kernel = """
        import seen, torch
        def kernel(x, places, starts):
            seen.note("kernel", places * torch.arange(len(places)), starts, x)
            assert bool((starts[1:] >= starts[:-1]).all())
            assert places.sort().values.tolist() == list(range(len(places)))
            return x[places] * 2 + starts
    """
    outcome = watched(kernel, head=INTEGERS)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    values = seen.values("kernel")
    assert len({value[0] for value in values}) > 0.9 * TIMED  # of the integers: few sums coincide
    assert len(set(values)) == TIMED
    assert seen.values("reference") == values


STRUCTURED = """
    import torch
    def inputs(N=24, device="cuda"):
        square = torch.randn(N, N, device=device)
        limits = torch.rand(2 * N, device=device).sort().values
        rows = torch.randn(N, N, device=device).sort(-1, descending=True).values
        mask = torch.arange(N, device=device) < 3
        return square.tril(), square + square.T, limits, rows, mask
    def reference(lower, even, limits, rows, mask):
        import seen
        seen.note("reference", lower)
        return lower @ even, torch.bucketize(even, limits), rows * mask
"""
RELIES = """
    import seen, torch
    def kernel(lower, even, limits, rows, mask):
        seen.note("kernel", lower)
        below = torch.tril(lower)
        assert torch.equal(below, lower) and torch.equal(even, even.T)
        assert bool((limits[1:] >= limits[:-1]).all())
        assert bool((rows[:, 1:] <= rows[:, :-1]).all()) and int(mask.sum()) == 3
        return below @ even.T, torch.searchsorted(limits, even), rows * mask
"""


@pytest.mark.slow
@pytest.mark.parametrize(("slow_s", "kind"), [(60.0, "drawn"), (-1.0, "mixed")])
def test_structure_stays_however_inputs_are_drawn(watched, seen, monkeypatch, slow_s, kind):
    monkeypatch.setattr("solkit.measure.checking.redrawing.SLOW_S", slow_s)
    head = STRUCTURED
    if kind == "mixed":  # drawing takes long, or moving the values would not pay
        head = STRUCTURED.replace("square =", "__import__('time').sleep(0.02)\n        square =")
    outcome = watched(RELIES, head=head)
    assert outcome.verdict is Verdict.CORRECT, outcome.errors
    assert outcome.protocol.timed_inputs == kind
    values = seen.values("kernel")
    assert len(set(values)) == len(values) == TIMED
    assert seen.values("reference") == values


FIXED = """
    import torch
    def inputs(N=64, device="cuda"):
        own = torch.Generator(device).manual_seed(0)
        return (torch.randn(N, generator=own, device=device),)
    def reference(x):
        import seen
        seen.note("reference", x, x * torch.arange(len(x)))
        return x * 2
"""


@pytest.mark.slow
def test_inputs_that_ignore_the_seed_have_their_values_moved(watched, seen):
    kernel = """
        import seen, torch
        def kernel(x):
            seen.note("kernel", x, x * torch.arange(len(x)))
            return x * 2
    """
    outcome = watched(kernel, head=FIXED)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    assert outcome.protocol.timed_inputs == "mixed"
    assert len(set(seen.values("kernel"))) == TIMED


@pytest.mark.quick("torch.ones(N, device=device),", "torch.arange(N, device=device),")
@pytest.mark.parametrize(
    "result",
    [
        "torch.ones(N, device=device),",  # nothing to move
        "torch.arange(N, device=device),",  # whole numbers never move
        "torch.randn(1, device=device, generator=torch.Generator(device).manual_seed(1)),",
    ],
)
def test_inputs_that_cannot_change_stay(run, result):
    head = HEAD.replace("torch.randn(N, device=device),", result)
    outcome = run("def kernel(x): return x * 2", head=head)
    assert (outcome.verdict, outcome.protocol.timed_inputs) == (Verdict.CORRECT, "same")


@pytest.mark.slow
def test_slow_inputs_that_may_not_move_are_drawn_for_fewer_calls(run, monkeypatch):
    monkeypatch.setattr("solkit.measure.checking.redrawing.SLOW_S", -1.0)
    monkeypatch.setattr("solkit.measure.timing.sampling._DRAWING_S", 0.0)
    head = HEAD.replace("randn(N, device=device)", "randperm(N, device=device)")
    outcome = run("def kernel(x): return x * 2", head=head)
    assert (outcome.verdict, outcome.protocol.timed_inputs) == (Verdict.CORRECT, "drawn")
    assert outcome.measurement.samples == 8


# ------------------------------------------------------------------------- forms of inputs

RAGGED = """
    import torch
    def inputs(N=16, device="cuda"):
        lengths = torch.randint(1, 9, (N,), device=device)
        total = int(lengths.sum())
        return torch.randn(total, device=device), lengths, total
    def reference(x, lengths, total):
        import seen
        seen.note("reference", x)
        return torch.segment_reduce(x, "sum", lengths=lengths), x[:total] * 2
"""


@pytest.mark.quick("cold")
@pytest.mark.parametrize("protocol", ["cold", "warm", "cold-graph"])
def test_sizes_and_scalars_may_differ_from_draw_to_draw(watched, seen, protocol):
    kernel = """
        import seen, torch
        def kernel(x, lengths, total):
            assert int(lengths.sum()) == total == len(x)
            seen.note("kernel", x)
            return torch.segment_reduce(x, "sum", lengths=lengths), x + x
    """
    outcome = watched(kernel, head=RAGGED, protocol=protocol)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    if protocol == "cold":
        assert seen.values("kernel") == seen.values("reference")
        assert len(set(seen.values("kernel"))) == TIMED


@pytest.mark.slow
def test_inputs_that_no_seed_repeats(run):
    head = HEAD.replace(
        "torch.randn(N, device=device)",
        "torch.tensor([__import__('os').urandom(1)[0] / 64 for _ in range(N)], device=device)",
    )
    outcome = run("def kernel(x): return x * 2", head=head, hard_ms=1000.0)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
    assert outcome.needed is None  # the inputs at hand are gone


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["cold", "warm", "warm-graph"])
def test_kernels_that_write_their_inputs_as_the_reference_does(run, monkeypatch, protocol):
    monkeypatch.setattr("solkit.measure.guarded.examination._LOOKS", 1000)
    head = """
        import torch
        OUTPUTS = ("x",)
        def inputs(N=16, device="cuda"):
            return (torch.randn(N, device=device),)
        def reference(x):
            x.mul_(2)
    """
    outcome = run("def kernel(x): x.add_(x.clone())", head=head, protocol=protocol)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())


@pytest.mark.slow
def test_a_workspace_and_constants_of_the_shape_may_be_kept(run, monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.examination._LOOKS", 1000)
    kernel = """
        kept = {}
        def kernel(x):
            if len(x) not in kept:
                kept[len(x)] = torch.empty_like(x), torch.full_like(x, 2.0)
            room, two = kept[len(x)]
            torch.mul(x, two, out=room)
            return room + 0
    """
    assert run(kernel).verdict is Verdict.CORRECT


# ------------------------------------------------------------------------------------ graphs


class Graphs(Machine):
    def __init__(self, many_ms, alone_ms):
        many, alone = FakeTimer("many", tells=many_ms), FakeTimer("alone", tells=alone_ms)
        super().__init__(many)
        self.by = {20: (many,), 1: (alone,)}

    def timers(self, protocol):
        return self.by[protocol.calls], "not at all"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alone_ms", "verdict"), [(300.0, Verdict.CHEATING), (110.0, Verdict.CORRECT)]
)
def test_a_graph_of_many_calls_may_not_be_much_faster_than_one_on_new_inputs(
    run, alone_ms, verdict
):
    machines = [Graphs(100.0, alone_ms) for _ in range(2)]
    outcome = run(RIGHT, mine=machines[0], theirs=machines[1], protocol="replay")
    assert outcome.verdict is verdict, outcome.errors
    if verdict is Verdict.CHEATING:
        assert "graphs of 20 calls on the same inputs" in outcome.errors[0]


@pytest.mark.slow
def test_a_warm_call_follows_one_on_other_inputs(run, seen):
    order = []

    class Warm(WatchedTimer):
        def time(self, subject):
            before = subject.warming()
            order.append("warm")
            before()
            super().time(subject)

    kernel = """
        import seen
        def kernel(x):
            seen.order.append(x.sum().item())
            return x + x
    """
    seen.order = order
    outcome = run(kernel, theirs=FakeMachine(Warm(seen)), protocol="warm")
    assert outcome.verdict is Verdict.CORRECT
    marks = [place for place, item in enumerate(order) if item == "warm"]
    pairs = [(order[place + 1], order[place + 2]) for place in marks]
    assert len(pairs) == TIMED
    assert all(warming != timed for warming, timed in pairs)
    assert max(Counter(timed for _, timed in pairs).values()) == 1
    earlier = set()
    for warming, timed in pairs:
        assert timed not in earlier
        earlier |= {warming, timed}


def left_out(outcome):
    """How many calls were not judged, by the note."""
    (note,) = [error for error in outcome.errors if "were not judged" in error]
    return int(note.split()[0])


@pytest.mark.slow
def test_large_calls_share_the_time_for_judging_and_some_are_judged_after_it(run, monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.examination._LOOKS", 1000)
    monkeypatch.setattr("solkit.measure.guarded.correctness._MOST_KEPT_BYTES", 0)
    monkeypatch.setattr("solkit.measure.guarded.correctness._LATE_SHARE", 0.0)
    assert left_out(run(RIGHT, checks_limit_s=0.0)) == TIMED - 1
    assert not [error for error in run(RIGHT).errors if "were not judged" in error]
    monkeypatch.setattr("solkit.measure.guarded.correctness._LATE_SHARE", 0.5)
    assert 5 < left_out(run(RIGHT, checks_limit_s=0.0)) < TIMED - 6  # one in 10^9 runs is outside


def test_a_large_call_that_is_wrong_late_may_be_found_though_time_is_over(run, seen, monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.examination._LOOKS", 1000)
    monkeypatch.setattr("solkit.measure.guarded.correctness._MOST_KEPT_BYTES", 0)
    monkeypatch.setattr("solkit.measure.guarded.correctness._LATE_SHARE", 0.5)
    kernel = """
        import seen
        calls = []
        def kernel(x):
            calls.extend([1] * seen.timing)
            return x * (3 if len(calls) > 10 else 2)
    """
    theirs = FakeMachine(WatchedTimer(seen))
    assert run(kernel, theirs=theirs, checks_limit_s=0.0).verdict is Verdict.WRONG


def test_distributions_end_with_the_time_for_checks(run):
    result = run(RIGHT, checks_limit_s=0.0)
    assert result.verdict is Verdict.CORRECT
    assert [error for error in result.errors if error.endswith("and what follows: no time.")]
    assert not [error for error in run(RIGHT).errors if "what follows" in error]


SIZES = """
    import torch
    HELD_OUT_SHAPES = [{"N": 600}]
    def inputs(N=40, device="cpu"): return (torch.randn(N, device=device),)
    def reference(x): return x * 2
"""


def test_outputs_may_be_large_at_one_shape_and_small_at_the_next(run, monkeypatch):
    monkeypatch.setattr("solkit.measure.guarded.correctness._MOST_IDLE_BYTES", 1000)
    outcome = run(RIGHT, head=SIZES)
    assert (outcome.verdict, outcome.errors) == (Verdict.CORRECT, ())
