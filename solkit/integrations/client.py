"""A client of `solkit serve`: candidates go to its queue, grades come back.

It needs the standard library alone, so it starts fast and fits into any environment.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from solkit.core import Value
from solkit.core.codec import from_json
from solkit.errors import InputError, WorkerError
from solkit.integrations.grading import FEATURES, Graded

Send = Callable[[str, str, "Mapping[str, Any] | None"], Mapping[str, Any]]
"""Takes a method, a path and a body; gives the service's JSON. Replace it to test a loop."""

_AGAIN_S = 1.0
_TRIES = 5  # to reach the service; it may be starting again
_WAIT_S = 30  # the service holds an answer back so long; then it is asked again
_TALK_S = 4 * _WAIT_S
_TOO_MANY = 429


@dataclass(frozen=True)
class Client:
    """Asks a service for grades.

    Attributes:
        url: of the service, such as ``http://127.0.0.1:8000``.
        token: an access token; empty if the service needs none.
        limit_s: seconds after which an answer is given up.
        send: talks to the service; HTTP by default.
    """

    url: str
    token: str = ""
    limit_s: float = 600.0
    send: Send | None = None

    def evaluate(
        self,
        problem: str,
        sources: Sequence[str],
        *,
        shape: Mapping[str, Value] | None = None,
        stage: str = "both",
        search: str = "",
    ) -> list[Graded]:
        """Return the grades of candidates, in the order given.

        Args:
            problem: the text of the file with the reference.
            sources: texts of kernel files.
            shape: sizes to override.
            stage: ``"1"``, ``"2"`` or ``"both"``.
            search: candidates of one search are held against its best.

        Raises:
            InputError: the service refuses the request.
            WorkerError: the service cannot be reached, fails, or is too slow.
        """
        body = {
            "problem": problem,
            "candidates": [{"source": source} for source in sources],
            "shape": dict(shape or {}),
            "stage": stage,
            "search": search,
        }
        answer = self._await_job(self._send_request("POST", "/v1/evaluate", body))
        try:
            grades = [grade_from_json(grade) for grade in answer["result"]["results"]]
        except (KeyError, TypeError, ValueError) as error:
            raise WorkerError(f"{self.url} gave an answer of another form: {error!r}") from error
        if len(grades) != len(sources):
            raise WorkerError(f"{self.url} gave {len(grades)} grades; expected {len(sources)}")
        return grades

    def _send_request(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        return (self.send or self._send_patiently)(method, path, body)

    def _await_job(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the job, once it is over."""
        ends_s = time.monotonic() + self.limit_s
        while job.get("status") in ("queued", "running"):
            if time.monotonic() > ends_s:
                raise WorkerError(f"{self.url} did not answer within {self.limit_s:.0f} s")
            job = self._send_request("GET", f"/v1/jobs/{job['job']}?wait_s={_WAIT_S}", None)
        if job.get("status") != "done":
            raise _error_of_answer(job, f"{self.url}: the job is {job.get('status')!r}")
        return job

    def _send_patiently(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        """Ask by HTTP; again if the connection is lost, or the service has too much to do.

        A repeated request has the same key, so the service does nothing twice.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        address, lost = self.url.rstrip("/") + path, 0
        ends_s = time.monotonic() + self.limit_s
        while True:
            try:
                request = urllib.request.Request(address, data, headers, method=method)
                with urllib.request.urlopen(request, timeout=_TALK_S) as answer:
                    return _answer_object(answer.read())
            except urllib.error.HTTPError as error:
                if error.code != _TOO_MANY or time.monotonic() > ends_s:
                    why = f"{address}: HTTP {error.code}"
                    raise _error_of_answer(_answer_object(error.read()), why, error.code) from error
            except (OSError, ValueError) as error:
                lost += 1
                if lost == _TRIES:
                    raise WorkerError(f"{address} cannot be reached: {error}") from error
            time.sleep(_AGAIN_S)


def grade_from_json(answer: Mapping[str, Any]) -> Graded:
    """Return a grade from the service's JSON; fields of newer services are left out.

    Raises:
        ValueError: it is none.
    """
    graded = from_json(Graded, answer)
    return replace(graded, features={**dict.fromkeys(FEATURES, 0.0), **graded.features})


def _answer_object(answer: bytes) -> Mapping[str, Any]:
    """Return an answer's JSON object; an empty one if it is none."""
    try:
        decoded = json.loads(answer)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _error_of_answer(
    answer: Mapping[str, Any], why: str, status: int = 500
) -> InputError | WorkerError:
    """Return the error that an answer tells of."""
    fault = answer.get("error")
    if isinstance(fault, Mapping):
        why = f"{why}: {fault.get('message', '')}"
        if fault.get("type") == "InputError":
            return InputError(why)
    return InputError(why) if 400 <= status < 500 else WorkerError(why)
