"""Sessions that search loops share: by a process of their own, or by a service."""

from __future__ import annotations

import json
import multiprocessing
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from solkit.datasets.kernels import ZOO
from solkit.errors import InputError, WorkerError
from solkit.integrations import client as clients
from solkit.integrations import grading_process
from solkit.integrations.client import Client, grade_from_json
from solkit.integrations.grading import FEATURES, Graded, Stage
from solkit.integrations.grading_process import GradingTarget
from solkit.integrations.sessions import METRICS, Session, numbers_of, session, without_markers

PROBLEM = ZOO / "softmax" / "problem.py"
SHAPE = {"M": 8192, "N": 4096, "dtype": "bfloat16"}
TOLD = {
    "verdict": "correct",
    "stage": "measured",
    "combined_score": 0.75,
    "params": {"num_warps": 4},
    "time_ms": 0.05,
    "gap": 1.5,
    "sol_score": 0.5,
    "features": {"registers": 24.0},
    "reasons": ["why"],
    "a_newer_field": 1,
}


@pytest.fixture
def service(monkeypatch):
    """A service that gives the prepared answers, each a status and JSON, and notes requests."""
    monkeypatch.setattr(clients, "_AGAIN_S", 0.01)
    answers, requests = [], []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self):
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            requests.append((self.command, self.path, body, dict(self.headers)))
            status, result = answers.pop(0)
            text = result if isinstance(result, bytes) else json.dumps(result).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self):
            self._answer()

        def do_POST(self):
            self._answer()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", answers, requests
    server.shutdown()
    server.server_close()


def done(*results):
    return {"job": "j1", "status": "done", "result": {"results": list(results)}}


def test_a_client_asks_a_service_and_waits_for_its_job(service):
    url, answers, requests = service
    answers += [
        (429, {"error": {"type": "QueueFull", "message": "later"}}),
        (202, {"job": "j1", "status": "queued", "result": None}),
        (200, {"job": "j1", "status": "running", "result": None}),
        (200, done(TOLD)),
    ]
    (graded,) = Client(url, "secret").evaluate("p\n", ["c\n"], shape={"M": 1}, stage="2")
    assert (graded.stage, graded.time_ms, graded.reasons) == (Stage.MEASURED, 0.05, ("why",))
    assert graded.features == {**dict.fromkeys(FEATURES, 0.0), "registers": 24.0}
    assert [item[:2] for item in requests[:2]] == [("POST", "/v1/evaluate")] * 2
    assert requests[2][1].startswith("/v1/jobs/j1")
    body, headers = requests[1][2:]
    assert body["candidates"] == [{"source": "c\n"}]
    assert (body["shape"], body["stage"]) == ({"M": 1}, "2")
    assert headers["Authorization"] == "Bearer secret"
    assert requests[0][3]["Idempotency-Key"] == headers["Idempotency-Key"]


@pytest.mark.parametrize(
    ("status", "result", "error", "message"),
    [
        (422, {"error": {"type": "InputError", "message": "no problem"}}, InputError, "no problem"),
        (401, {"error": {"type": "Unauthorized", "message": "token"}}, InputError, "401.*token"),
        (500, b"<html>", WorkerError, "HTTP 500"),
        (200, b"nothing", WorkerError, "the job is None"),
        (200, done(), WorkerError, "0 grades"),
        (200, done({"stage": "unheard of"}), WorkerError, "another form"),
        (200, {"job": "j", "status": "cancelled"}, WorkerError, "cancelled"),
    ],
)
def test_a_service_that_fails_is_named(service, status, result, error, message):
    url, answers, _ = service
    answers.append((status, result))
    with pytest.raises(error, match=message):
        Client(url).evaluate("p\n", ["c\n"])


def test_a_service_that_is_gone_is_named(service, monkeypatch):
    url, *_ = service
    monkeypatch.setattr(clients, "_TRIES", 2)
    with pytest.raises(WorkerError, match="cannot be reached"):
        Client("http://127.0.0.1:9").evaluate("p\n", ["c\n"])
    assert url


def test_a_session_of_a_service_grades_and_never_raises(service, tmp_path, monkeypatch):
    url, answers, requests = service
    monkeypatch.setenv("SOLKIT_TOKEN", "from the environment")
    by = session(PROBLEM, shape=SHAPE, url=url, search="mine")
    assert by is session(PROBLEM, shape=SHAPE, url=url, search="mine")
    path = tmp_path / "candidate.py"
    path.write_text("# EVOLVE-BLOCK-START\ndef kernel(x):\n    return x\n# EVOLVE-BLOCK-END")
    answers += [(200, done(TOLD)), (500, {}), (500, {}), (500, {})]
    assert by.evaluate(path).time_ms == 0.05
    body = requests[0][2]
    assert body["problem"] == PROBLEM.read_text()
    assert (body["shape"], body["stage"], body["search"]) == (SHAPE, "both", "mine")
    assert body["candidates"] == [{"source": "def kernel(x):\n    return x\n"}]
    assert requests[0][3]["Authorization"] == "Bearer from the environment"
    for graded, score in ((by.stage1(path), 0), (by.stage2(path), 0.5), (by.evaluate(path), 0)):
        assert (graded.verdict, graded.combined_score) == ("not_measured", score)
        assert "HTTP 500" in graded.reasons[0]
    assert by.stage1(tmp_path / "missing.py").combined_score == 0
    path.write_bytes(b"\xff\xfe")
    assert "UnicodeDecodeError" in by.evaluate(path).reasons[0]


def test_wrong_places_are_named():
    with pytest.raises(InputError, match="cannot read nothing"):
        session("nothing.py")
    with pytest.raises(InputError, match="no JSON"):
        GradingTarget(str(PROBLEM), "{")
    with pytest.raises(InputError, match="expected a JSON object"):
        GradingTarget(str(PROBLEM), "[1]")
    with pytest.raises(InputError, match="the service has its own"):
        session(PROBLEM, url="http://127.0.0.1:9", recorded="h100")


def test_a_text_is_plain_and_never_a_path():
    assert without_markers("# EVOLVE-BLOCK-START\nx = 1\n#  EVOLVE-BLOCK-END\n") == "x = 1\n"
    assert without_markers("/etc/passwd") == "/etc/passwd\n"
    assert without_markers("") == "\n"
    assert without_markers('s = "EVOLVE-BLOCK-START"\n') == 's = "EVOLVE-BLOCK-START"\n'


def test_every_grade_has_every_number():
    graded = Graded("wrong", Stage.MEASURED, 0.0)
    result = numbers_of(graded)
    assert result.keys() == {*METRICS, *FEATURES}
    assert all(type(item) is float for item in result.values())
    assert numbers_of(grade_from_json(TOLD))["sol_score"] == 0.5


def in_a_fork(call):
    """What a call gives in a forked process, as OpenEvolve's workers are."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=lambda: theirs.send([item.__dict__ for item in call()]))
    process.start()
    assert ours.poll(120)
    results = [Graded(**item) for item in ours.recv()]
    process.join(30)
    return results


@pytest.mark.slow
def test_forks_share_the_process_of_a_session(tmp_path):
    pytest.importorskip("xgboost", reason="the surrogate needs solkit[surrogate]")
    by = Session(GradingTarget(str(PROBLEM), json.dumps(SHAPE), recorded="h100"))
    fast, slow, bad = (tmp_path / f"{name}.py" for name in ("fast", "slow", "bad"))
    fast.write_text((ZOO / "softmax" / "whole_row.py").read_text().rstrip())
    slow.write_text((ZOO / "softmax" / "four_kernels.py").read_text())
    bad.write_text("import os\nprint('x' * 100_000)\nos._exit(3)\n")
    try:
        best = by.stage2(fast)
        assert (best.stage, best.verdict) == (Stage.MEASURED, "correct")
        assert best.combined_score == pytest.approx(0.5 + best.sol_score / 2)
        rejected, refused = in_a_fork(lambda: [by.evaluate(slow), by.evaluate(bad)])
        assert rejected.stage is Stage.REJECTED  # it knows the best of the other process
        assert 0 < rejected.combined_score < 0.5
        assert (refused.verdict, refused.combined_score) == ("crashed", 0)
        assert by.evaluate(fast).time_ms == best.time_ms
    finally:
        by.close()


@pytest.mark.slow
def test_a_process_that_cannot_open_its_recording_says_why(tmp_path):
    by = Session(GradingTarget(str(PROBLEM), "{}", recorded=str(tmp_path)))
    path = tmp_path / "candidate.py"
    path.write_text("x = 1\n")
    try:
        graded = by.evaluate(path)
        assert (graded.verdict, graded.combined_score) == ("not_measured", 0)
        assert str(tmp_path) in graded.reasons[0]
    finally:
        by.close()


def test_a_process_that_prints_something_else_first_has_failed(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho hello\ncat > /dev/null\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(grading_process, "sys", SimpleNamespace(executable=str(program)))
    with pytest.raises(WorkerError, match="ended with status 3"):
        grading_process._start_process(GradingTarget(str(PROBLEM)))
