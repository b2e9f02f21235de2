from __future__ import annotations

import time

import kernelbench_times as times
import pytest
from kernelbench_suite import VARIANTS, Failure, Job, Problem, find_problems

from solkit.core import Verdict

GPU = "GPU A"
FAKE_WORKER = """
import os, time
from kernelbench_suite import Failure
from solkit.core import Verdict

def row(variant, status="ok"):
    return "row", {"variant": variant, "status": status, "median_ms": 1.0}

def work(pipe, lock):
    pipe.send(("ready", {"device": "GPU A"}))
    while True:
        job = pipe.recv()
        name = job.problem.name
        if name == "1_dies":
            os._exit(7)
        if name == "2_dies_compiling" and job.compile_failure is None:
            pipe.send(row(job.variants[0]))
            pipe.send(("ended", Failure(Verdict.CRASHED, "poisoned")))
            os._exit(0)
        if name == "3_large" and not job.alone or name == "4_too_large":
            pipe.send(("failed", Failure(Verdict.OUT_OF_MEMORY, "no memory")))
            continue
        for variant in job.variants:
            pipe.send(row(variant))
        pipe.send(("done", None))
"""


def problem(number, name="softmax"):
    stem = f"{number}_{name}"
    return Problem(1, number, stem, f"{stem}.py", f"hash of {stem}")


def line(problem, variant, status="ok", device=GPU):
    return {
        "kind": "time",
        "device": device,
        "sha256": problem.sha256,
        "variant": variant,
        "status": status,
    }


def test_problems_are_found_in_order_and_known_by_their_bytes(tmp_path):
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for name in ("10_b.py", "2_a.py", "notes.py"):
        (level / name).write_text("same")
    found = find_problems(tmp_path, [1])
    assert [p.label for p in found] == ["1/2_a", "1/10_b"]
    # sha256sum of the four bytes
    assert found[0].sha256.startswith("0967115f2813a3541eaef77de9d9d577")
    assert find_problems(tmp_path / "KernelBench", [1]) == [
        Problem(p.level, p.number, p.name, p.path, p.sha256) for p in found
    ]
    with pytest.raises(FileNotFoundError, match="level 2"):
        find_problems(tmp_path, [2])


def test_a_journal_survives_being_cut_in_the_middle_of_a_line(tmp_path):
    path = tmp_path / "out" / times.FILE
    times.Journal(path).append({"kind": "run", "run": "1"})
    with path.open("a") as torn:
        torn.write('{"kind": "time", "sha')
    journal = times.Journal(path)
    journal.append({"kind": "run", "run": "2"})
    assert [entry["run"] for entry in times.read_lines(path)] == ["1", "2"]
    assert journal.lines == times.read_lines(path)


def test_what_has_a_row_on_this_device_is_not_done_again():
    a, b, c = problem(1), problem(2), problem(3)
    lines = [
        {"kind": "run", "run": "now"},
        *(line(a, variant) for variant in VARIANTS),
        line(b, "eager"),
        line(b, "compiled", "does_not_compile"),
        *(line(c, variant, device="GPU B") for variant in VARIANTS),
    ]
    left = times.jobs_left([a, b, c], lines, GPU, again=False)
    assert left == [Job(b, ("eager_tf32", "compiled_tf32")), Job(c, VARIANTS)]


def test_failures_are_done_again_when_asked_for():
    a = problem(1)
    statuses = ("ok", "out_of_memory", "same_as_default", "crashed")
    lines = [line(a, variant, status) for variant, status in zip(VARIANTS, statuses)]
    assert times.jobs_left([a], lines, GPU, again=False) == []
    assert times.jobs_left([a], lines, GPU, again=True) == [Job(a, ("compiled", "compiled_tf32"))]


def test_a_failed_job_gets_the_one_more_try_that_may_help():
    job = Job(problem(1), VARIANTS)
    crash = Failure(Verdict.CRASHED, "x")
    short = Failure(Verdict.OUT_OF_MEMORY, "x")
    without_compiling = times.after_failure(job, crash)
    assert without_compiling == Job(problem(1), VARIANTS, compile_failure=crash)
    assert times.after_failure(without_compiling, crash) is None
    alone = times.after_failure(job, short)
    assert alone == Job(problem(1), VARIANTS, alone=True)
    assert times.after_failure(alone, short) is None


def test_a_run_outlives_its_workers_and_writes_a_row_for_everything(tmp_path, monkeypatch):
    (tmp_path / "kernelbench_fake_worker.py").write_text(FAKE_WORKER)
    monkeypatch.syspath_prepend(tmp_path)
    import kernelbench_fake_worker

    names = ("dies", "dies_compiling", "large", "too_large", "good")
    problems = [problem(number, name) for number, name in enumerate(names, 1)]
    journal = times.Journal(tmp_path / times.FILE)
    deadline = time.monotonic() + 600
    lock = tmp_path / "turn"
    times.Run(journal, problems, 2, deadline, False, lock, kernelbench_fake_worker.work)()

    assert time.monotonic() < deadline
    on_disk = times.read_lines(tmp_path / times.FILE)
    assert on_disk[0]["kind"] == "run"
    assert times.jobs_left(problems, on_disk, GPU, again=False) == []
    rows = [(r["name"], r["variant"]) for r in on_disk[1:]]
    assert len(rows) == len(set(rows)) == len(problems) * len(VARIANTS)
    statuses = {
        r["name"]: {x["status"] for x in on_disk[1:] if x["name"] == r["name"]} for r in on_disk[1:]
    }
    assert statuses == {
        "1_dies": {"crashed"},
        "2_dies_compiling": {"ok"},
        "3_large": {"ok"},
        "4_too_large": {"out_of_memory"},
        "5_good": {"ok"},
    }
    assert next(r for r in on_disk[1:] if r["name"] == "1_dies")["message"] == "exit code 7"


def test_a_run_whose_time_is_up_hands_out_nothing(tmp_path, monkeypatch):
    (tmp_path / "kernelbench_fake_worker.py").write_text(FAKE_WORKER)
    monkeypatch.syspath_prepend(tmp_path)
    import kernelbench_fake_worker

    journal = times.Journal(tmp_path / times.FILE)
    monkeypatch.setattr(times, "_NO_NEW_JOB_S", 1e4)
    soon = time.monotonic() + 600
    run = times.Run(
        journal, [problem(1)], 1, soon, False, tmp_path / "turn", kernelbench_fake_worker.work
    )
    run()
    assert [entry["kind"] for entry in journal.lines] == ["run"]
    assert time.monotonic() < soon
