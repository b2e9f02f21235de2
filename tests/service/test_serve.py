"""`solkit serve` on a recording: in this process, and in real servers that are killed."""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("httpx")
pytest.importorskip("fastapi", reason="the service needs solkit[serve]")

from serving import (
    FAST,
    OTHER,
    PROBLEM,
    SHAPE,
    SLOW,
    START_S,
    Served,
    finished,
    finished_job,
    problem,
)

JSON = {"content-type": "application/json"}


@pytest.fixture
def client(service):
    return service()


def test_a_bound_and_its_cached_twin(client):
    first = finished_job(client, "bound", problem=PROBLEM, shapes=[SHAPE])
    (result,) = first["result"]["results"]
    assert first["result"]["schema"] == "solkit.bound/1"
    assert result["bound"]["limiter"] == "dram"
    moved_ms = 2 * 8192 * 4096 * 2 / 3.352e12 * 1e3  # both ways, at the H100's 3.352 TB/s
    assert result["bound"]["time_ms"] == pytest.approx(moved_ms, rel=0.01)
    again = client.post("/v1/bound", json={"problem": PROBLEM, "shapes": [SHAPE]})
    assert again.json()["job"] == first["job"]
    assert again.json()["result"] == first["result"]


def test_kinds_that_need_a_recording_or_none(client):
    result = finished_job(client, "score", source=FAST, problem=PROBLEM, shapes=[SHAPE])
    assert result["result"]["kernel"]["path"] == "candidate.py"
    assert "solkit-lab" not in str(result)  # no private paths
    grades = finished_job(
        client,
        "evaluate",
        problem=PROBLEM,
        shape=SHAPE,
        stage="2",
        candidates=[{"source": FAST}, {"source": SLOW}, {"source": "import os\nos._exit(1)\n"}],
    )["result"]["results"]
    assert [grade["verdict"] for grade in grades] == ["correct", "correct", "crashed"]
    assert grades[0]["time_ms"] < grades[1]["time_ms"]
    rewards = finished_job(
        client,
        "evaluate",
        problem=PROBLEM,
        shape=SHAPE,
        reward=True,
        candidates=[{"source": FAST}, {"source": "def kernel(x):\n    return x\n"}],
    )["result"]["rewards"]
    assert rewards[0]["value"] == grades[0]["sol_score"]
    assert (rewards[1]["value"], rewards[1]["verdict"]) == (0, "not_recorded")
    compared = finished_job(
        client,
        "compare",
        base={"source": FAST},
        candidates=[{"source": SLOW}],
        problem=PROBLEM,
        shape=SHAPE,
    )
    if compared["status"] == "done":  # its own parameters are recorded
        assert compared["result"]["comparisons"][0]["ratio"]["value"] > 1


def test_a_search_is_a_job_that_tells_how_far_it_is(client):
    answer = client.post(
        "/v1/tune",
        json={"source": FAST, "problem": PROBLEM, "shape": SHAPE, "gpu_seconds": 5},
    )
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['job']}"
    job = finished(client, answer.json())
    assert job["result"]["schema"] == "solkit.tune/1"
    assert job["result"]["measured"] > 3


def test_what_is_wrong_is_said_in_json(client, service):
    cases = [
        (client.post("/v1/score", json={"source": "/etc/passwd"}), 422, "has several lines"),
        (client.post("/v1/score", json={"source": "x\n", "nonsense": 1}), 422, "nonsense"),
        (client.post("/v1/score", content=b"{", headers=JSON), 422, "JSON decode error"),
        (client.post("/v1/score", content=b"[1]", headers=JSON), 422, "valid dictionary"),
        (client.post("/v1/bound", json={"problem": "def f(:\n"}), 422, "SyntaxError"),
        (client.post("/v1/bound", json={"problem": PROBLEM, "device": "h1"}), 422, "h1"),
        (client.get("/v1/jobs/nothing"), 404, "no job"),
        (client.get("/nothing"), 404, "Not Found"),
        (client.post("/v1/bound", content=b"x" * 200_001), 413, "larger than 200,000 bytes"),
    ]
    anybody = service(token="")
    cases.append((anybody.get("/v1/queue"), 401, "access token"))
    assert anybody.get("/v1/health").json()["status"] in ("ok", "starting")
    for answer, code, message in cases:
        assert answer.status_code == code, answer.text
        assert message in answer.json()["error"]["message"]


def test_a_request_id_gives_one_job_and_jobs_belong_to_their_token(client, service):
    headers = {"idempotency-key": "mine"}
    request = {"source": FAST, "problem": PROBLEM, "shapes": [SHAPE]}
    answers = [client.post("/v1/score", json=request, headers=headers) for _ in range(3)]
    assert len({answer.json()["job"] for answer in answers}) == 1
    other = client.post("/v1/score", json={**request, "source": SLOW}, headers=headers)
    assert other.status_code == 409
    stranger = service(OTHER)
    assert stranger.get(f"/v1/jobs/{answers[0].json()['job']}").status_code == 404
    assert stranger.get("/v1/queue").json()["jobs"] == []


def test_a_cancelled_job_is_not_answered(client):
    # a worker has four threads, so some of these wait
    request = {"source": FAST, "problem": PROBLEM, "shape": SHAPE, "gpu_seconds": 3000}
    jobs = [client.post("/v1/tune", json={**request, "seed": n}).json()["job"] for n in range(6)]
    for job in jobs:
        data = client.delete(f"/v1/jobs/{job}").json()
        assert data["status"] in ("cancelled", "done")
    assert (
        finished_job(client, "score", source=FAST, problem=PROBLEM, shapes=[SHAPE])["status"]
        == "done"
    )


def test_the_openapi_description_names_every_endpoint(client):
    data = client.get("/openapi.json").json()
    paths = {f"/v1/{kind}" for kind in ("bound", "analyse", "score", "rank", "compare")}
    paths |= {f"/v1/{kind}" for kind in ("evaluate", "tune", "evolve", "queue", "health")}
    assert data["paths"].keys() == paths | {"/v1/jobs/{name}"}
    body = data["paths"]["/v1/bound"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"]["$ref"].endswith("/Bound")


@pytest.mark.slow
def test_many_clients_while_workers_are_killed_lose_nothing(served):
    """8 clients, 40 requests, each sent twice with its id; every worker is killed once."""
    problems = [problem(number) for number in range(5)]

    def ask(number):
        key = f"request-{number}"
        with served.client() as client:
            if number % 2:
                request = {"problem": problems[number // 2 % 5]}
                return key, [finished_job(client, "bound", key, **request) for _ in range(2)]
            request = {"source": FAST, "problem": PROBLEM, "shapes": [SHAPE]}
            return key, [finished_job(client, "score", key, **request) for _ in range(2)]

    with ThreadPoolExecutor(8) as pool:
        running = pool.map(ask, range(40))
        killed = [served.kill_worker(queue) for queue in ("cpu", "recorded")]
        fields = dict(running)
    assert len(fields) == 40
    for first, second in fields.values():
        assert first["status"] == second["status"] == "done"
        assert (first["job"], first["finished"]) == (second["job"], second["finished"])
    scores = [jobs[0] for jobs in fields.values() if jobs[0]["kind"] == "score"]
    assert len({score["job"] for score in scores}) == 20  # measurements are never shared
    for count in Counter(str(score["result"]["results"]) for score in scores).items():
        assert count[1] == 20  # and all replay the same
    assert not set(killed) & set(served.workers().values())


@pytest.mark.slow
def test_a_killed_server_loses_nothing(recording, tmp_path):
    state = tmp_path / "state"
    jobs = {}
    with Served(state, "--recorded", str(recording)) as server:
        with server.client() as client:
            jobs["done"] = finished_job(client, "bound", problem=problem(1))
            for number in range(8):
                answer = client.post(
                    "/v1/bound",
                    params={"wait_s": 0},
                    headers={"idempotency-key": f"{number}"},
                    json={"problem": problem(100 + number)},
                )
                jobs[f"{number}"] = answer.json()
        workers = server.workers()
        server.kill()
    deadline = time.monotonic() + START_S
    while any(map(_lives, workers.values())):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    with Served(state, "--recorded", str(recording)) as server, server.client() as client:
        for key, job in jobs.items():
            result = finished(client, client.get(f"/v1/jobs/{job['job']}").json())
            assert (result["job"], result["status"]) == (job["job"], "done")
            if key == "done":
                assert result["finished"] == job["finished"]
        again = finished_job(client, "bound", "3", problem=problem(103))
        assert again["job"] == jobs["3"]["job"]


def _lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
