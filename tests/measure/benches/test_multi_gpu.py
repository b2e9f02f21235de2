"""A bench of benches: all GPUs work, none twice, none lost; in virtual and in real time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace

import pytest
from recordings import outcome

from solkit.core import Configuration, Verdict
from solkit.datasets.outcomelog import OutcomeLog, read
from solkit.errors import (
    GpuBusyError,
    InputError,
    NotRecordedError,
    TraceError,
    UnknownDeviceError,
    WorkerError,
)
from solkit.measure.benches import RecordedBench, WallClock, multi_gpu
from solkit.measure.benches.multi_gpu import BLAMED_AFTER, ManyBench
from solkit.roofline.devices import find

KERNEL = "k" * 16


def at(block):
    return Configuration(KERNEL, "kernel", {"M": 64, "N": 32}, {"BLOCK": block})


def rows(device="h100-sxm", count=40, **fields):
    return [outcome(n, device=device, **fields) for n in range(count)]


def drained(bench, configurations):
    """The outcomes with the virtual times at which they came."""
    bench.submit(configurations)
    return [(config, got, bench.clock.now_s()) for config, got in bench.outcomes()]


# --------------------------------------------------------------------------------- virtual time


def test_two_gpus_take_half_the_time_of_one():
    costs = {"compile_s": 0.0}
    requested = [at(n) for n in range(32)]
    one = RecordedBench(rows(**costs))
    alone = drained(one, requested)
    many = ManyBench([RecordedBench(rows(**costs)) for _ in range(2)])
    both = drained(many, requested)
    assert Counter(id(config) for config, _, _ in both) == Counter(map(id, requested))
    assert alone[-1][2] == pytest.approx(16.0)  # 32 of 0.5 s
    assert both[-1][2] == pytest.approx(8.0)
    assert many.clock.gpu_s() == pytest.approx(16.0)  # of two GPUs


def test_outcomes_come_in_the_order_of_one_time_and_always_the_same_one():
    def run():
        slow = RecordedBench(rows("a100-sxm-80gb", compile_s=1.0, first_call_s=2.95))
        quick = RecordedBench(rows(compile_s=1.0))
        bench, left = ManyBench([slow, quick]), [at(n) for n in range(40)]
        bench.submit([left.pop() for _ in range(12)])
        measured = []
        for config, got in bench.outcomes():
            measured.append((config.params["BLOCK"], got.device, bench.clock.now_s()))
            if left:
                bench.submit([left.pop()])
        return measured

    measured = run()
    times = [when for _, _, when in measured]
    assert times == sorted(times)
    assert len(measured) == 40
    assert {device for _, device, _ in measured} == {"h100-sxm", "a100-sxm-80gb"}
    assert run() == run() == measured


def test_what_is_submitted_while_another_gpu_times_starts_at_that_time():
    long = RecordedBench([outcome(0, compile_s=1.0, first_call_s=99.95)])
    short = RecordedBench([outcome(0, compile_s=1.0), outcome(1, compile_s=1.0)])
    bench = ManyBench([long, short])

    both = [at(0)]
    bench.submit(both)
    bench.submit([at(0)])
    ends = []
    for _ in bench.outcomes():
        ends.append(bench.clock.now_s())
        if len(ends) == 1:
            bench.submit([at(0)])  # at 1.5 s
    assert ends == pytest.approx([1.5, 3.0, 101.0])


def test_nothing_begins_after_the_time_given_and_all_gpus_stop_at_it():
    bench = ManyBench([RecordedBench(rows(compile_s=0.0)) for _ in range(2)])
    bench.submit([at(n) for n in range(32)])
    early = list(bench.outcomes(until_s=3.0))  # each GPU ends a handful of 4 s
    assert (len(early), bench.pending) == (16, 16)
    assert bench.clock.now_s() == pytest.approx(4.0)
    assert list(bench.outcomes(until_s=3.5)) == []
    assert len(list(bench.outcomes())) == 16


def test_after_discarding_nothing_is_pending_and_the_same_may_be_submitted_again():
    bench = ManyBench([RecordedBench(rows(compile_s=0.0, first_call_s=t)) for t in (0.45, 3.0)])
    requested = [at(n) for n in range(32)]
    bench.submit(requested)
    next(bench.outcomes())
    bench.discard()
    assert bench.pending == 0
    assert list(bench.outcomes()) == []
    bench.submit(requested[:16])
    measured = [config for config, _ in bench.outcomes()]
    assert Counter(map(id, measured)) == Counter(map(id, requested[:16]))
    assert bench.pending == 0


def test_what_is_submitted_together_is_timed_on_one_gpu_and_single_ones_on_all():
    def gpus(submitted):
        members = [RecordedBench(rows(compile_s=0.0, device_uuid=f"GPU-{n}")) for n in range(2)]
        bench = ManyBench(members)
        for group in submitted:
            bench.submit(group)
        return [got.device_uuid for _, got in bench.outcomes()]

    pairs = [[at(2 * n), at(2 * n + 1)] for n in range(4)]
    gpus_used = gpus(pairs)
    assert all(gpus_used.count(gpu) == 4 for gpu in ("GPU-0", "GPU-1"))
    assert gpus_used[::2] == gpus_used[1::2]
    assert sorted(gpus([[at(0)], [at(1)]])) == ["GPU-0", "GPU-1"]


def test_models_keep_their_results_apart():
    both = RecordedBench(rows()), RecordedBench(rows("a100-sxm-80gb"))
    bench = ManyBench(both)
    assert [device.key for device in bench.devices] == ["h100-sxm", "a100-sxm-80gb"]
    bench.submit([at(n) for n in range(9)], on="a100-sxm-80gb")
    assert {got.device for _, got in bench.outcomes()} == {"a100-sxm-80gb"}
    with pytest.raises(UnknownDeviceError, match="no member has a GPU 'l4'; they have: h10"):
        bench.submit([at(0)], on="l4")


def test_what_is_not_recorded_is_refused_and_nothing_is_queued():
    bench = ManyBench([RecordedBench(rows()), RecordedBench(rows(count=4))])
    with pytest.raises(NotRecordedError, match="BLOCK=7"):
        bench.submit([at(1), at(7)])
    assert bench.pending == 0


def test_members_with_different_clocks_are_refused():
    with pytest.raises(InputError, match="got 0, 0"):
        ManyBench([])
    with pytest.raises(InputError, match="got 2, 1 of them virtual"):
        ManyBench([RecordedBench(rows()), Timed()])


class Dying(RecordedBench):
    """Ends before an outcome, as often as told; then its replacement takes over."""

    def __init__(self, recorded, after, lives=0):
        super().__init__(recorded)
        self.left, self.lives, self.recorded = after, lives, recorded

    def outcomes(self, until_s=None):
        for result in super().outcomes(until_s):
            if self.left == 0:
                raise WorkerError("its worker was killed")
            self.left -= 1
            yield result

    def reopened(self):
        if not self.lives:
            raise WorkerError("its node is gone")
        return Dying(self.recorded, self.left or 3, self.lives - 1)


def test_a_member_that_ends_gives_the_rest_to_others():
    messages = []
    dying = Dying(rows(compile_s=0.0), 3)
    bench = ManyBench([dying, RecordedBench(rows(compile_s=0.0))], tell=messages.append)
    requested = [at(n) for n in range(40)]
    measured = drained(bench, requested)
    assert Counter(id(config) for config, _, _ in measured) == Counter(map(id, requested))
    gpu = "NVIDIA H100 SXM5 80GB"  # it had three handfuls
    assert messages == [f"{gpu}: its worker was killed; 21 configurations are given away"]
    assert bench.benches != ()
    # the ended GPU was held for 4 s, the other one until the end
    assert bench.clock.gpu_s() == pytest.approx(4.0 + bench.clock.now_s())


def test_a_member_is_replaced_while_it_has_lives():
    messages = []
    bench = ManyBench([Dying(rows(compile_s=0.0), 3, lives=9)], tell=messages.append)
    requested = [at(n) for n in range(20)]
    measured = drained(bench, requested)
    assert Counter(id(config) for config, _, _ in measured) == Counter(map(id, requested))
    assert sum("is back" in message for message in messages) == 6  # after 3, 6, 9, 12, 15 and 18
    assert bench.clock.gpu_s() == pytest.approx(bench.clock.now_s())


def test_with_no_member_left_the_rest_stays_pending_and_the_error_says_why():
    bench = ManyBench([Dying(rows(), 3), Dying(rows(), 5)])
    bench.submit([at(n) for n in range(20)])
    outcomes = bench.outcomes()
    assert len([next(outcomes) for _ in range(8)]) == 8
    with pytest.raises(WorkerError, match=r"no GPU is left for 12 .*80GB: its node is gone"):
        next(outcomes)
    assert bench.pending == 12


def test_a_configuration_that_ends_every_member_is_blamed_and_no_other(tmp_path):
    class Poisoned(Dying):
        def outcomes(self, until_s=None):
            if any(
                config.params == {"BLOCK": 5} for h in self._waiting for config in h.configurations
            ):
                raise WorkerError("its worker was killed")
            yield from super().outcomes(until_s)

        def reopened(self):
            return Poisoned(self.recorded, -1, 9)

    with OutcomeLog(tmp_path / "log.jsonl") as log:
        bench = ManyBench([Poisoned(rows(), -1, 9), Poisoned(rows(), -1, 9)], log=log)
        measured = drained(bench, [at(n) for n in range(30)])
    verdicts = {config.params["BLOCK"]: got.verdict for config, got, _ in measured}
    assert len(measured) == len(verdicts) == 30
    assert {n for n, verdict in verdicts.items() if verdict is not Verdict.CORRECT} == {5}
    (blamed,) = read(tmp_path / "log.jsonl").rows
    assert (blamed.verdict, blamed.params) == (Verdict.NOT_MEASURED, {"BLOCK": 5})
    assert (
        blamed.message == f"{BLAMED_AFTER} benches ended while they had it: its worker was killed"
    )


def test_what_cannot_be_logged_of_a_blamed_one_reaches_the_driver():
    class Full:
        def append(self, *_):
            raise TraceError("disk full")

    class Poisoned(Dying):
        def outcomes(self, until_s=None):  # noqa: ARG002
            raise WorkerError("its worker was killed")

        def reopened(self):
            return Poisoned(self.recorded, -1, 9)

    bench = ManyBench([Poisoned(rows(), -1, 9) for _ in range(2)], log=Full())
    bench.submit([at(5)])
    outcomes = bench.outcomes()
    assert next(outcomes)[1].verdict is Verdict.NOT_MEASURED
    with pytest.raises(TraceError, match="disk full"):
        next(outcomes)


# ------------------------------------------------------------------------------------ real time


class Timed:
    """Takes real time for each configuration; `fails` says what happens before the n-th."""

    def __init__(self, takes_s=0.01, fails=None, device="h100-sxm", before=lambda _: None):
        self.takes_s, self.fails, self.device = takes_s, fails or {}, find(device)
        self.before = before  # called with the number of each
        self.clock, self.queue, self.count, self.capacity = WallClock(), [], 0, 8
        self.closed, self.threads = False, set()

    @property
    def pending(self):
        return len(self.queue)

    def submit(self, configurations):
        if any(config.params["BLOCK"] < 0 for config in configurations):
            raise InputError("no such file")
        self.queue.extend(configurations)

    def outcomes(self, until_s=None):
        self.clock.hold_gpu()
        while self.queue and (until_s is None or self.clock.now_s() < until_s):
            self.threads.add(threading.get_ident())
            self.count += 1
            if self.count in self.fails:
                raise self.fails.pop(self.count)
            self.before(self.count)
            time.sleep(self.takes_s)
            config = self.queue.pop(0)
            yield config, outcome(config.params["BLOCK"], device=self.device.key)

    def discard(self):
        self.queue.clear()

    def close(self):
        self.closed = True
        self.queue.clear()


@pytest.mark.slow
def test_real_benches_work_at_the_same_time():
    met_s = []
    all_begun = threading.Barrier(3, lambda: met_s.append(time.monotonic()), timeout=60.0)
    members = [Timed(before=lambda n: n == 1 and all_begun.wait()) for _ in range(3)]
    requested = [at(n) for n in range(30)]
    with ManyBench(members) as bench:
        assert bench.capacity == 24
        bench.submit(requested)
        measured = list(bench.outcomes())
        held_s = time.monotonic() - met_s[0]  # each was held by then
        assert bench.clock.gpu_s() > 3 * held_s
    assert Counter(id(config) for config, _ in measured) == Counter(map(id, requested))
    assert all(got.params == config.params for config, got in measured)
    assert all(member.closed for member in members)
    assert len({thread for member in members for thread in member.threads}) == 3


def test_nothing_is_begun_before_the_driver_waits_and_after_its_time():
    member = Timed()
    with ManyBench([member]) as bench:
        bench.submit([at(n) for n in range(6)])
        assert list(bench.outcomes(until_s=bench.clock.now_s())) == []
        time.sleep(0.05)
        assert (member.count, bench.pending) == (0, 6)
        early = list(bench.outcomes(until_s=bench.clock.now_s() + 0.025))
        time.sleep(0.05)
        begun = member.count
        assert len(early) < begun + 1 < 6
        assert len(early) + len(list(bench.outcomes())) == 6


def test_members_go_on_while_the_driver_thinks():
    member = Timed(0.001)
    with ManyBench([member]) as bench:
        bench.submit([at(n) for n in range(6)])
        next(bench.outcomes())
        deadline = time.monotonic() + 60
        while member.count < 6 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert member.count == 6
        assert bench.pending == 5


@pytest.mark.quick("error0", "error1")
@pytest.mark.parametrize("error", [WorkerError("killed"), GpuBusyError("busy"), OSError("no file")])
def test_a_real_member_that_ends_gives_the_rest_to_others(error):
    members = [Timed(fails={3: error}), Timed(0.02)]
    requested = [at(n) for n in range(12)]
    with ManyBench(members) as bench:
        bench.submit(requested)
        measured = list(bench.outcomes())
        assert bench.benches == (members[1],)
    assert Counter(id(config) for config, _ in measured) == Counter(map(id, requested))
    assert members[0].closed


def test_a_full_disk_reaches_the_driver_and_nothing_is_lost():
    member = Timed(fails={4: TraceError("disk full")})
    with ManyBench([member]) as bench:
        bench.submit([at(n) for n in range(8)])
        outcomes = bench.outcomes()
        measured = [next(outcomes) for _ in range(3)]
        with pytest.raises(TraceError, match="disk full"):
            next(outcomes)
        assert bench.benches == (member,)
        measured += bench.outcomes()
    assert sorted(configuration.params["BLOCK"] for configuration, _ in measured) == list(range(8))


def test_a_fault_of_the_code_reaches_the_driver():
    with ManyBench([Timed(fails={1: KeyError("a bug")})]) as bench:
        bench.submit([at(0)])
        with pytest.raises(KeyError, match="a bug"):
            list(bench.outcomes())


def test_what_a_member_does_not_take_is_dropped_and_the_driver_hears_why():
    with ManyBench([Timed()]) as bench:
        bench.submit([replace(at(-1), path="missing.py")])
        bench.submit([at(1)])
        measured = []
        with pytest.raises(InputError, match="no such file"):
            measured.extend(bench.outcomes())
        measured += bench.outcomes()
        assert bench.pending == 0
    assert [configuration.params["BLOCK"] for configuration, _ in measured] in ([1], [])


def test_after_discarding_what_is_being_timed_is_not_heard_of():
    begun, may_end = threading.Event(), threading.Event()

    def hold_second(number):
        if number == 2:
            begun.set()
            assert may_end.wait(60.0)

    member = Timed(before=hold_second)
    requested = [at(n) for n in range(8)]
    with ManyBench([member]) as bench:
        bench.submit(requested)
        next(bench.outcomes())
        assert begun.wait(60.0)
        bench.discard()
        assert bench.pending == 0
        may_end.set()
        bench.submit(requested[5:])
        measured = [configuration for configuration, _ in bench.outcomes()]
        assert sorted(map(id, measured)) == sorted(map(id, requested[5:]))
        assert member.count <= 2 + 3


class Lost(Timed):
    """Ends at its first configuration; what takes its place is up to `reopen`."""

    def __init__(self, reopen):
        super().__init__(fails={1: WorkerError("its node is gone")})
        self.reopen = reopen

    def reopened(self):
        return self.reopen()


def test_a_member_that_is_back_after_the_bench_was_closed_is_closed(monkeypatch):
    monkeypatch.setattr(multi_gpu, "_REOPEN_S", 0.0)
    monkeypatch.setattr(multi_gpu, "_END_S", 0.0)
    opens, may_open, other = threading.Event(), threading.Event(), Timed()
    closed = threading.Event()
    other.close = closed.set

    def reopen():
        opens.set()
        assert may_open.wait(60.0)
        return other

    bench = ManyBench([Lost(reopen)])
    bench.submit([at(0)])
    while not opens.is_set():
        bench.poll(0.01)
    bench.close()
    may_open.set()
    assert closed.wait(60.0)


def test_a_member_whose_link_fails_in_an_unknown_way_is_gone_in_the_end(monkeypatch):
    monkeypatch.setattr(multi_gpu, "_REOPEN_S", 0.0)

    def reopen():
        raise RuntimeError("no such actor")

    with ManyBench([Lost(reopen)]) as bench:
        bench.submit([at(0)])
        with pytest.raises(WorkerError, match=r"no GPU is left for 1 .*no such actor"):
            list(bench.outcomes())
