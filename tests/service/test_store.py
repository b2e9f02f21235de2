"""Jobs on disk: each is done by one worker at a time, and answered once."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from solkit.errors import InputError, StorageError
from solkit.service.store import (
    ConflictError,
    JobStore,
    Point,
    QueueFullError,
    Status,
    new_job,
)

LIMITS = 100, 100


@pytest.fixture
def store(tmp_path):
    store = JobStore(tmp_path / "state")
    yield store
    store.close()


def submitted(store, request="{}", key=None, reuses=False, limits=LIMITS, owner="me"):
    job = new_job(owner, "bound", "cpu", f"digest of {request}", request)
    return store.submit(job, key, limits, reuses)


def test_jobs_are_done_in_the_order_of_arrival(store):
    first, second = submitted(store), submitted(store)
    assert [store.claim("cpu").id, store.claim("cpu").id] == [first.id, second.id]
    assert store.claim("cpu") is None
    assert store.claim("cuda:0") is None


def test_a_request_id_gives_the_same_job(store):
    first = submitted(store, key="one")
    assert submitted(store, key="one").id == first.id
    assert submitted(store, key="two").id != first.id
    assert submitted(store, key="one", owner="you").id != first.id
    with pytest.raises(ConflictError, match="'one' was used for another request"):
        submitted(store, '{"other": 1}', key="one")


def test_equal_requests_share_a_job_where_the_answer_is_the_same(store):
    first = submitted(store, reuses=True)
    assert submitted(store, reuses=True).id == first.id
    assert submitted(store, reuses=True, owner="you").id != first.id
    assert submitted(store, reuses=False).id != first.id
    store.cancel(first.id)
    assert submitted(store, reuses=True).id != first.id


def test_only_the_latest_claim_answers(store):
    submitted(store)
    slow = store.claim("cpu")
    assert store.release("cpu", died=True) == []  # it was taken for dead
    other = store.claim("cpu")
    assert (other.id, other.attempt) == (slow.id, 2)
    assert not store.tell(slow, "still here")
    assert not store.finish(slow, '"late"')
    assert store.finish(other, '"right"')
    assert not store.fail(other, "WorkerError", "twice")
    results = store.get(slow.id)
    assert (results.status, results.result) == (Status.DONE, '"right"')


def test_a_job_that_kills_its_workers_is_given_up(store):
    job = submitted(store)
    for _ in range(4):
        store.claim("cpu")
        assert store.release("cpu", died=True) == []
    store.claim("cpu")
    assert store.release("cpu", died=True) == [job.id]
    result = store.get(job.id)
    assert result.status is Status.FAILED
    assert "died 5 times" in result.error


def test_a_restarted_server_queues_what_was_running(tmp_path):
    store = JobStore(tmp_path)
    done, running, waiting = (submitted(store) for _ in range(3))
    store.finish(store.claim("cpu"), "1")
    store.claim("cpu")
    store.close()
    again = JobStore(tmp_path)
    again.recover(["cpu"])
    assert again.get(done.id).result == "1"
    assert [again.claim("cpu").id, again.claim("cpu").id] == [running.id, waiting.id]
    again.recover(["other"])
    assert again.claim("other").id == running.id  # its queue is gone
    again.close()


def test_cancelled_jobs_get_no_answer(store):
    queued, running = submitted(store), submitted(store)
    store.claim("cpu")
    job = store.claim("cpu")
    store.cancel(running.id)
    assert not store.tell(job, "?")
    assert not store.finish(job, "1")
    assert store.cancel(queued.id).status is Status.CANCELLED
    with pytest.raises(InputError, match="no job"):
        store.cancel(queued.id, owner="you")
    assert store.counts() == {("cpu", "cancelled"): 2}


def test_too_many_jobs_are_refused(store):
    submitted(store, limits=(2, 1))
    with pytest.raises(QueueFullError, match="1 jobs of yours"):
        submitted(store, limits=(2, 1))
    submitted(store, limits=(2, 1), owner="you")
    with pytest.raises(QueueFullError, match="the queue is full"):
        submitted(store, limits=(2, 1), owner="they")


def test_old_jobs_are_forgotten_with_their_request_ids(store):
    old = submitted(store, key="one")
    store.finish(store.claim("cpu"), "1")
    store.prune(older_s=3600)
    assert store.get(old.id).result == "1"
    waiting = submitted(store)
    store.prune(older_s=-1)
    with pytest.raises(InputError):
        store.get(old.id)
    assert store.get(waiting.id).status is Status.QUEUED
    assert submitted(store, key="one").id != old.id


def test_threads_and_connections_claim_each_job_once(store, tmp_path):
    jobs = {submitted(store).id for _ in range(60)}
    others = [JobStore(tmp_path / "state") for _ in range(3)]

    def work(own):
        results = []
        while (job := own.claim("cpu")) is not None:
            results.append(job.id)
            own.finish(job, "1")
        return results

    with ThreadPoolExecutor(4) as pool:
        taken = [name for result in pool.map(work, [store, *others]) for name in result]
    assert sorted(taken) == sorted(jobs)
    for item in others:
        item.close()


def test_what_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "jobs.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError, match="cannot open the jobs"):
        JobStore(tmp_path)
    assert issubclass(sqlite3.DatabaseError, sqlite3.Error)


def test_a_failed_write_leaves_no_transaction(store):
    job = replace(new_job("me", "bound", "cpu", "d", "{}"), kind=None)
    with pytest.raises(sqlite3.IntegrityError):
        store.submit(job, None, LIMITS, False)
    assert submitted(store).status is Status.QUEUED


def test_the_points_of_a_search_are_where_its_best_time_changes(store):
    submitted(store)
    job = store.claim("cpu")
    results = [(0.0, None), (1.0, 5.0), (2.0, 5.0), (3.0, 5.0), (4.0, 3.0), (5.0, 3.0), (6.0, 3.0)]
    for gpu_s, best_ms in results:
        assert store.tell(job, "searching", Point(gpu_s, 10.0, best_ms, 2.0))
    points = [(point.gpu_s, point.best_ms) for point in store.points(job)]
    assert points == [(0.0, None), (1.0, 5.0), (3.0, 5.0), (4.0, 3.0), (6.0, 3.0)]
    store.release("cpu", died=True)
    again = store.claim("cpu")
    assert store.points(again) == []  # the dead worker's are not this one's
    assert not store.tell(job, "late", Point(7.0))
    assert store.points(again) == []


def test_points_go_with_their_job(store):
    submitted(store)
    job = store.claim("cpu")
    store.tell(job, "searching", Point(1.0, 10.0, 5.0))
    assert store.finish(job, "{}")
    assert not store.finish(job, "{}")
    assert store.points(job)
    store.prune(-1.0)
    assert store.points(job) == []
