"""Which file a thread of the pool turns to, and which workers it starts, keeps and ends.

No test waits for time: workers answer at once or when a test lets them, and the clock stands still.
"""

from __future__ import annotations

import pickle
import threading
import time
from concurrent.futures import wait
from types import SimpleNamespace

import pytest

from solkit.analysis import pool as pools
from solkit.analysis.dependencies import Stamps
from solkit.analysis.pool import Answer, PendingAnswer, Pool, Request, Source, await_futures
from solkit.errors import JobDiedError, SolkitError, WorkerError

READY_S, TASK_S = 0.12, 0.002
LIMIT_S = 120.0  # a test that waits for so long has failed
OwnWorker = pools._Worker
ONE, TWO, THREE = (Source(f"{name}.py", None, ()) for name in ("one", "two", "three"))


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        return self.now_s


class Gate:
    """Holds the workers that are asked for a method until it is opened."""

    def __init__(self):
        self._opened, self._entered = threading.Event(), threading.Semaphore(0)

    def enter(self):
        self._entered.release()
        assert self._opened.wait(LIMIT_S)

    def await_workers(self, count=1):
        for _ in range(count):
            assert self._entered.acquire(timeout=LIMIT_S)

    def open(self):
        self._opened.set()


class Worker:
    """Worker whose first answer takes `READY_S` of the clock, ten times that for "long"."""

    created: list[Worker]
    gates: dict[str, Gate]
    clock: Clock

    def __init__(self, source, *_):
        self.source, self.tasks = source, ()
        self.begun_s, self.answered, self.ended = self.clock.monotonic(), False, False
        self.is_ending, self.is_killed, self.requests = False, False, []
        self.created.append(self)

    def is_fit_for(self, source):
        assert not self.ended
        return source == self.source

    def ask(self, requests, options):
        method = requests[0].method
        self.requests.append((len(requests), options["jobs"]))
        if method in self.gates:
            self.gates[method].enter()
        if self.is_killed:
            raise JobDiedError("killed")
        if not self.answered:
            self.clock.now_s += READY_S * (10 if method == "long" else 1)
        return [Answer(self.source.path, TASK_S, Stamps({}, {})) for _ in requests]

    def kill(self):
        self.is_killed = True
        for task in self.tasks:
            if task.request.method in self.gates:
                self.gates[task.request.method].open()

    def end(self):
        self.ended = True


class Looks:
    """Counts how often an idle thread found nothing to do."""

    def __init__(self):
        self._changed, self._count = threading.Condition(), 0

    def note(self):
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def await_more(self, count):
        with self._changed:
            enough = self._count + count
            assert self._changed.wait_for(lambda: self._count >= enough, LIMIT_S)


@pytest.fixture
def looks(monkeypatch):
    counted, choice = Looks(), Pool._choice

    def counted_choice(self, latest):
        chosen = choice(self, latest)
        if chosen is None:
            counted.note()
        return chosen

    monkeypatch.setattr(Pool, "_choice", counted_choice)
    return counted


@pytest.fixture
def gates(monkeypatch):
    """Gates by method: "held" and "hang"."""
    monkeypatch.setattr(Worker, "gates", {"held": Gate(), "hang": Gate()}, raising=False)
    yield SimpleNamespace(**Worker.gates)
    for gate in Worker.gates.values():
        gate.open()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(Worker, "clock", clock, raising=False)
    monkeypatch.setattr(pools, "time", clock)
    return clock


@pytest.fixture
def opened(monkeypatch, clock, gates):  # noqa: ARG001 - the gates open before pools close
    """Opens a pool; closing it ends every worker."""
    monkeypatch.setattr(Worker, "created", [], raising=False)
    monkeypatch.setattr(pools, "_Worker", Worker)
    monkeypatch.setattr(pools, "_LOOK_S", 0.01)
    every = []

    def opened(workers):
        every.append(Pool(None, None, workers))
        return every[-1]

    yield opened
    for gate in Worker.gates.values():
        gate.open()
    for item in every:
        item.close()
    assert all(worker.ended for worker in Worker.created)


def ask(pool, source, method="lower", together=1, goes_first=False):
    future = PendingAnswer()

    def value_of(result):
        if isinstance(result, SolkitError):
            raise result
        return result.value

    request = Request(method, (), 9.0, together, goes_first=goes_first)
    pool.submit(source, request, future, value_of)
    return future


def sources():
    return sorted(item.source.path for item in Worker.created)


def test_idle_workers_are_kept_for_their_files(opened):
    pool = opened(2)
    for source in (ONE, TWO, ONE, TWO, TWO, ONE):
        assert ask(pool, source).result(LIMIT_S) == source.path
    assert sources() == ["one.py", "two.py"]


def test_of_the_file_that_most_are_kept_for_one_goes(opened, gates):
    pool = opened(2)
    both = [ask(pool, ONE, "held"), ask(pool, ONE, "held")]  # nothing is known: a worker for each
    gates.held.await_workers(2)
    gates.held.open()
    assert [item.result(LIMIT_S) for item in both] == ["one.py"] * 2
    assert ask(pool, TWO).result(LIMIT_S) == "two.py"
    assert [(item.source, item.ended) for item in Worker.created].count((ONE, True)) == 1
    for source in (ONE, TWO):
        ask(pool, source).result(LIMIT_S)
    assert sources() == ["one.py", "one.py", "two.py"]


def test_a_few_tasks_get_no_further_worker(opened, gates, looks):
    pool = opened(4)
    for _ in range(2):
        ask(pool, ONE).result(LIMIT_S)
    few = [ask(pool, ONE, "held"), *(ask(pool, ONE) for _ in range(9))]  # 20 ms of work
    looks.await_more(12)
    gates.held.open()
    for item in few:
        item.result(LIMIT_S)
    assert sources() == ["one.py"]


def test_many_tasks_get_further_workers(opened):
    pool = opened(4)
    for _ in range(2):
        ask(pool, ONE).result(LIMIT_S)
    gate = Worker.gates["lower"] = Gate()
    with pool.filling():
        many = [ask(pool, ONE) for _ in range(400)]
    gate.await_workers(4)
    gate.open()
    for item in many:
        item.result(LIMIT_S)
    assert sources() == ["one.py"] * 4


def test_what_a_method_takes_is_known_from_other_files(opened, gates, looks):
    pool = opened(4)
    for _ in range(2):
        ask(pool, ONE).result(LIMIT_S)
    ask(pool, TWO, "describe").result(LIMIT_S)
    points = [ask(pool, TWO, "held"), *(ask(pool, TWO) for _ in range(9))]
    looks.await_more(12)
    gates.held.open()
    for point in points:
        point.result(LIMIT_S)
    assert sources() == ["one.py", "two.py"]


def test_a_task_behind_one_that_hangs_gets_a_worker(opened, gates, looks, clock):
    pool = opened(2)
    for _ in range(2):
        ask(pool, ONE).result(LIMIT_S)
    hanging = ask(pool, ONE, "hang")
    gates.hang.await_workers()
    behind = ask(pool, ONE)
    looks.await_more(2)
    assert not behind.done()
    clock.now_s += 1.01 * READY_S
    assert behind.result(LIMIT_S) == "one.py"
    assert sources() == ["one.py"] * 2
    gates.hang.open()
    assert hanging.result(LIMIT_S) == "one.py"


def test_many_threads_get_every_answer(opened):
    pool, results = opened(3), []

    def asks(number):
        source = (ONE, TWO, THREE)[number % 3]
        results.append(ask(pool, source).result(LIMIT_S) == source.path)

    threads = [threading.Thread(target=asks, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert results == [True] * 60


def test_cores_that_no_further_worker_needs_are_spare(opened):
    pool = opened(8)
    for _ in range(2):
        ask(pool, ONE).result(LIMIT_S)
    while pool._served:  # a thread is free a little later than its answer is heard
        time.sleep(0.001)
    with pool.filling():
        several = [ask(pool, ONE, together=4) for _ in range(8)]
    for item in several:
        item.result(LIMIT_S)
    assert sources() == ["one.py"]
    # four at a time, though there are as many threads, with all cores
    assert Worker.created[0].requests[2] == (4, 8)
    assert Worker.created[0].requests[3][0] == 4


def test_a_long_first_answer_does_not_keep_others_waiting_for_long(opened, gates, monkeypatch):
    monkeypatch.setattr(pools, "_MOST_READY_S", READY_S)
    pool = opened(2)
    ask(pool, ONE, "long").result(LIMIT_S)
    ask(pool, ONE).result(LIMIT_S)
    points = [ask(pool, ONE, "held"), *(ask(pool, ONE) for _ in range(399))]
    for point in points[1:]:
        point.result(LIMIT_S)  # the other thread answers all
    gates.held.open()
    points[0].result(LIMIT_S)
    assert sources() == ["one.py"] * 2


def test_a_worker_that_is_being_killed_is_not_kept(opened, gates):
    pool = opened(1)
    ask(pool, ONE).result(LIMIT_S)
    unwanted = ask(pool, ONE, "held")
    gates.held.await_workers()
    Worker.created[0].kill = gates.held.open  # it answers all the same
    unwanted.cancel()
    assert ask(pool, ONE).result(LIMIT_S) == "one.py"
    assert sources() == ["one.py"] * 2


@pytest.mark.parametrize("file", [ONE, TWO])
def test_what_a_measurement_waits_for_does_not_wait_for_a_ranking(opened, gates, file):
    pool, ended = opened(1), []
    ask(pool, ONE).result(LIMIT_S)
    held = ask(pool, ONE, "held")
    ranked = [ask(pool, ONE) for _ in range(20)]
    studied = [ask(pool, file, "analyse", goes_first=True) for _ in range(2)]
    for name, futures in (("ranked", ranked), ("studied", studied)):
        for future in futures:
            future.add_done_callback(lambda _, name=name: ended.append(name))
    gates.held.open()
    for future in (held, *ranked, *studied):
        future.result(LIMIT_S)
    assert ended[:2] == ["studied"] * 2


def test_a_ranking_goes_on_while_a_study_is_answered(opened, gates):
    pool = opened(2)
    with pool.filling():
        studied = [ask(pool, ONE, "held", goes_first=True) for _ in range(12)]
        ranked = ask(pool, TWO)
    assert ranked.result(LIMIT_S) == TWO.path
    gates.held.open()
    for future in studied:
        future.result(LIMIT_S)


def test_a_ranking_goes_on_while_studies_keep_coming(opened):
    pool, ended = opened(1), []
    with pool.filling():
        studied = [ask(pool, ONE, goes_first=True) for _ in range(12)]
        ranked = ask(pool, TWO)
        ranked.add_done_callback(lambda _: ended.append(sum(one.done() for one in studied)))
    for future in (ranked, *studied):
        future.result(LIMIT_S)
    assert ended == [4]


def test_a_request_is_given_up_while_its_worker_begins(opened, monkeypatch):
    begins, may_begin = threading.Event(), threading.Event()

    class Slow(Worker):
        def __init__(self, *args):
            begins.set()
            assert may_begin.wait(LIMIT_S)
            super().__init__(*args)

    monkeypatch.setattr(pools, "_Worker", Slow)
    pool = opened(1)
    future = ask(pool, ONE)
    assert begins.wait(LIMIT_S)
    pool.give_up(["lower"])
    may_begin.set()
    with pytest.raises(SolkitError, match="cancelled"):
        future.result(LIMIT_S)
    assert future.unwanted
    assert not Worker.created[0].requests


def test_requests_that_are_given_up_end_their_workers_alone(opened, gates):
    pool = opened(2)
    with pool.filling():
        ranked = [ask(pool, ONE, "hang"), ask(pool, ONE, "hang")]
        kept = ask(pool, TWO, "held")
    gates.hang.await_workers()
    gates.held.await_workers()
    pool.give_up(["hang"])
    with pytest.raises(JobDiedError):
        ranked[0].result(LIMIT_S)
    assert ranked[0].unwanted
    assert ranked[1].cancelled()
    gates.held.open()
    assert kept.result(LIMIT_S) == TWO.path
    assert not kept.unwanted


def test_closing_tells_whoever_waits_for_a_request_in_the_queue(opened, gates):
    pool = opened(1)
    held, queued = ask(pool, ONE, "held"), ask(pool, ONE)
    gates.held.await_workers()
    waiting = threading.Thread(target=wait, args=([queued],))
    waiting.start()
    pool.close()
    waiting.join(LIMIT_S)
    assert queued.cancelled()
    assert not waiting.is_alive()
    with pytest.raises(JobDiedError):
        held.result(LIMIT_S)


def test_the_end_of_a_request_that_is_cancelled_in_the_queue_is_heard(opened, gates):
    pool = opened(1)
    held, queued = ask(pool, ONE, "held"), ask(pool, ONE)
    gates.held.await_workers()
    queued.cancel()
    assert await_futures([queued], LIMIT_S) == ([queued], [])
    assert await_futures([held, queued], 0.0) == ([queued], [held])


def test_a_worker_that_outlives_being_killed_keeps_no_answer_back(opened, monkeypatch):
    class Endless(Worker):
        def ask(self, requests, options):
            super().ask(requests, options)
            raise JobDiedError("it hangs")

        def end(self):
            super().end()
            raise WorkerError("it still exists")

    monkeypatch.setattr(pools, "_Worker", Endless)
    pool = opened(1)
    for _ in range(2):
        with pytest.raises(JobDiedError, match="hangs"):
            ask(pool, ONE).result(LIMIT_S)


def test_a_wrong_number_of_answers_is_an_error(monkeypatch):
    """A kernel that has taken over its sandbox may send any."""

    payload = pickle.dumps(([1, 2], 0.1, Stamps({}, {})))
    host = SimpleNamespace(
        is_alive=True,
        call=lambda *_, **__: SimpleNamespace(payload=payload),
        end=lambda: 0,
        close=lambda: 0,
    )
    monkeypatch.setattr(pools, "Host", lambda *_: host)
    monkeypatch.setattr(pools, "_Worker", OwnWorker)
    pool = Pool(None, SimpleNamespace(read=pickle.loads), 1)
    for _ in range(2):
        with pytest.raises(WorkerError, match="2 answers to 1"):
            ask(pool, ONE).result(LIMIT_S)
    pool.close()
