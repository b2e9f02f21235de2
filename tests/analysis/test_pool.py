"""Which file a thread of the pool turns to, and which workers it starts, keeps and ends."""

from __future__ import annotations

import threading
import time

import pytest

from solkit.analysis import pool as pools
from solkit.analysis.dependencies import Stamps
from solkit.analysis.pool import Answer, PendingAnswer, Pool, Request, Source
from solkit.errors import SolkitError

READY_S, TASK_S = 0.12, 0.002
ONE, TWO, THREE = (Source(f"{name}.py", None, ()) for name in ("one", "two", "three"))


class Worker:
    """Is ready after its first answer, which takes long; ``hang`` takes longer."""

    created: list[Worker]

    def __init__(self, source, *_):
        self.source, self.tasks = source, ()
        self.begun_s, self.answered, self.ended = time.monotonic(), False, False
        self.is_ending, self.requests = False, []
        self.created.append(self)

    def is_fit_for(self, source):
        assert not self.ended
        return source == self.source

    def ask(self, requests, options):
        self.requests.append((len(requests), options["jobs"]))
        if not self.answered:
            time.sleep(READY_S)
        time.sleep(
            {"hang": 3 * READY_S, "long": 5 * READY_S, "hold": READY_S / 2}.get(
                requests[0].method, TASK_S
            )
        )
        return [Answer(self.source.path, TASK_S, Stamps({}, {})) for _ in requests]

    def kill(self):
        return 0

    def end(self):
        self.ended = True


@pytest.fixture
def opened(monkeypatch):
    """Opens a pool; closing it ends every worker."""
    monkeypatch.setattr(Worker, "created", [], raising=False)
    monkeypatch.setattr(pools, "_Worker", Worker)
    monkeypatch.setattr(pools, "_LOOK_S", 0.05)
    every = []

    def opened(workers):
        every.append(Pool(None, None, workers))
        return every[-1]

    yield opened
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
        assert ask(pool, source).result() == source.path
    assert sources() == ["one.py", "two.py"]


def test_of_the_file_that_most_are_kept_for_one_goes(opened):
    pool = opened(2)
    both = [ask(pool, ONE), ask(pool, ONE)]  # nothing is known of it, so each gets a worker
    assert [item.result() for item in both] == ["one.py"] * 2
    assert ask(pool, TWO).result() == "two.py"
    time.sleep(0.05)
    assert [(item.source, item.ended) for item in Worker.created].count((ONE, True)) == 1
    for source in (ONE, TWO):
        ask(pool, source).result()
    assert sources() == ["one.py", "one.py", "two.py"]


def test_a_few_tasks_get_no_further_worker_and_many_do(opened):
    pool = opened(4)
    for _ in range(2):
        ask(pool, ONE).result()
    few = [ask(pool, ONE) for _ in range(10)]  # 20 ms of work
    for item in few:
        item.result()
    assert sources() == ["one.py"]
    many = [ask(pool, ONE) for _ in range(400)]
    for item in many:
        item.result()
    assert 2 <= len(sources()) <= 4


def test_what_a_method_takes_is_known_from_other_files(opened):
    pool = opened(4)
    for _ in range(2):
        ask(pool, ONE).result()
    ask(pool, TWO, "describe").result()
    for point in [ask(pool, TWO) for _ in range(10)]:
        point.result()
    assert sources() == ["one.py", "two.py"]


def test_a_task_behind_one_that_hangs_gets_a_worker(opened):
    pool = opened(2)
    for _ in range(2):
        ask(pool, ONE).result()
    hanging = ask(pool, ONE, "hang")
    time.sleep(0.01)
    assert ask(pool, ONE).result() == "one.py"
    assert sources() == ["one.py"] * 2
    assert hanging.result() == "one.py"


def test_many_threads_get_every_answer(opened):
    pool, results = opened(3), []

    def asks(number):
        source = (ONE, TWO, THREE)[number % 3]
        results.append(ask(pool, source).result() == source.path)

    threads = [threading.Thread(target=asks, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert results == [True] * 60


def test_cores_that_no_further_worker_needs_are_spare(opened):
    pool = opened(8)
    for _ in range(2):
        ask(pool, ONE).result()
    held = ask(pool, ONE, "hold")
    several = [ask(pool, ONE, together=4) for _ in range(8)]
    for item in (held, *several):
        item.result()
    assert sources() == ["one.py"]
    # four at a time, though there are as many threads, with all cores
    assert Worker.created[0].requests[3:] == [(4, 8), (4, 8)]


def test_a_long_first_answer_does_not_keep_others_waiting_for_long(opened, monkeypatch):
    monkeypatch.setattr(pools, "_MOST_READY_S", READY_S)
    pool = opened(2)
    ask(pool, ONE, "long").result()
    ask(pool, ONE).result()
    for point in [ask(pool, ONE) for _ in range(400)]:
        point.result()
    assert sources() == ["one.py"] * 2


def test_a_worker_that_is_being_killed_is_not_kept(opened):
    pool = opened(1)
    ask(pool, ONE).result()
    unwanted = ask(pool, ONE, "hang")
    time.sleep(0.05)
    unwanted.cancel()
    assert ask(pool, ONE).result() == "one.py"
    assert sources() == ["one.py"] * 2


@pytest.mark.parametrize("file", [ONE, TWO])
def test_what_a_measurement_waits_for_does_not_wait_for_a_ranking(opened, file):
    pool, ended = opened(1), []
    ask(pool, ONE).result()
    held = ask(pool, ONE, "hold")
    ranked = [ask(pool, ONE) for _ in range(20)]
    studied = [ask(pool, file, "analyse", goes_first=True) for _ in range(2)]
    for name, futures in (("ranked", ranked), ("studied", studied)):
        for future in futures:
            future.add_done_callback(lambda _, name=name: ended.append(name))
    for future in (held, *ranked, *studied):
        future.result()
    assert ended[:2] == ["studied"] * 2


@pytest.mark.parametrize("workers", [1, 2])
def test_a_ranking_goes_on_while_studies_keep_coming(opened, workers):
    pool, ended = opened(workers), []
    studied = [ask(pool, ONE, "hold", goes_first=True) for _ in range(12)]
    ranked = ask(pool, TWO)
    ranked.add_done_callback(lambda _: ended.append(sum(one.done() for one in studied)))
    for future in (ranked, *studied):
        future.result()
    assert ended[0] < 12


def test_a_request_is_given_up_while_its_worker_begins(opened, monkeypatch):
    begins, may_begin = threading.Event(), threading.Event()

    class Slow(Worker):
        def __init__(self, *args):
            begins.set()
            assert may_begin.wait(9.0)
            super().__init__(*args)

    monkeypatch.setattr(pools, "_Worker", Slow)
    pool = opened(1)
    future = ask(pool, ONE, "long")
    assert begins.wait(9.0)
    pool.give_up(["long"])
    may_begin.set()
    with pytest.raises(SolkitError, match="cancelled"):
        future.result(9.0)
    assert future.unwanted
    assert not Worker.created[0].requests


def test_requests_that_are_given_up_end_their_workers_alone(opened):
    pool = opened(2)
    ranked = [ask(pool, ONE, "hang"), ask(pool, ONE, "hang")]
    kept = ask(pool, TWO, "hold")
    while not Worker.created or not Worker.created[0].tasks:
        time.sleep(0.005)
    pool.give_up(["hang"])
    assert kept.result(9.0) == TWO.path
    assert all(future.cancelled() or future.unwanted for future in ranked)
    assert not kept.unwanted
