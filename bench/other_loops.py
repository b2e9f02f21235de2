"""Run OpenEvolve's and ShinkaEvolve's own loops with SolKit's evaluators, without a GPU or a model.

    pip install openevolve 'solkit[serve,surrogate]'
    python3 -m venv shinka && shinka/bin/pip install shinka-evolve    # it pins httpx
    python bench/other_loops.py --shinka shinka/bin/python [--iterations 20] [--out DIR]

Candidates come from `made_up_llm`, whose answers were written for the purpose; times come from the
recorded H100. So the figures show that the loops run, and nothing about what they would find.
Prints what became of each candidate, and exits with 1 if a loop fails or a result has no score.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from made_up_llm import Endpoint

from solkit.datasets.store import shipped

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
DIMENSIONS = ("log2_blocks", "registers")
PLACE = "http://127.0.0.1:8123/v1"  # in the examples' settings
VERSION = "import importlib.metadata as m; print(m.version({!r}))"


@dataclass(frozen=True)
class Candidate:
    """What a loop keeps of one candidate.

    Attributes:
        score: its combined score; ``None`` if it has none.
        stage: how far it got.
        verdict: SolKit's.
        time_ms: its recorded time.
        whole: whether it has all that its loop needs: OpenEvolve a number for each dimension,
            ShinkaEvolve a score, and a time if it is correct.
    """

    score: float | None
    stage: str
    verdict: str
    time_ms: float | None
    whole: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--shinka", metavar="PYTHON", help="of ShinkaEvolve's environment")
    parser.add_argument("--only", choices=("openevolve", "shinka"))
    parser.add_argument("--out", type=Path, help="folder of the runs")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="other-loops-"))
    print(f"runs: {out}")
    ok = True
    if options.only != "shinka":
        ok &= openevolve(out / "openevolve", options.iterations)
    if options.only != "openevolve" and options.shinka:
        ok &= shinka(out / "shinka", options.iterations, options.shinka)
    return 0 if ok else 1


# --------------------------------------------------------------------------------------- OpenEvolve


def openevolve(out: Path, iterations: int) -> bool:
    """Run it, and print what happened."""
    example = EXAMPLES / "openevolve"
    out.mkdir(parents=True, exist_ok=True)
    with Endpoint() as endpoint:
        config = (example / "config.yaml").read_text().replace(PLACE, endpoint.url)
        (out / "config.yaml").write_text(
            config
        )  # `--api-base` leaves the file's models as they are
        command = [
            *(sys.executable, "-m", "openevolve.cli"),
            *(str(example / "initial_program.py"), str(example / "evaluator.py")),
            *("--config", str(out / "config.yaml"), "--iterations", str(iterations)),
            *("--output", str(out)),
        ]
        status, seconds = run(command, out, {})
        results = [evolved(line) for line in lines(out / "evolution_trace.jsonl")]
        lost = [line.get("error", "") for line in lines(out / "evolution_trace_failures.jsonl")]
        name = f"OpenEvolve {version(sys.executable, 'openevolve')}"
        report(name, results, lost, endpoint.given, seconds)
    return status == 0 and len(results) + len(lost) == iterations and all_whole(results)


def evolved(line: Mapping[str, object]) -> Candidate:
    """A candidate of OpenEvolve's trace."""
    metrics, artifacts = line["child_metrics"], line.get("artifacts") or {}
    assert isinstance(metrics, dict)
    assert isinstance(artifacts, dict)
    whole = all(isinstance(metrics.get(item), float) for item in ("combined_score", *DIMENSIONS))
    stage, verdict = artifacts.get("stage", ""), artifacts.get("verdict", "")
    return Candidate(metrics.get("combined_score"), stage, verdict, metrics.get("time_ms"), whole)


# ------------------------------------------------------------------------------------- ShinkaEvolve


def shinka(out: Path, iterations: int, python: str) -> bool:
    """Run it with a service that its processes ask, and print what happened."""
    with Endpoint() as endpoint, service(out) as where:
        models = json.dumps([f"local/made-up@{endpoint.url}"])
        command = [
            *(python, "-m", "shinka.cli.run", "--task-dir", str(EXAMPLES / "shinka")),
            *("--config-fname", "config.yaml", "--results_dir", str(out)),
            *("--num_generations", str(iterations + 1)),  # the initial program is one
            *("--set", f"evo.llm_models={models}"),
            *("--set", f"job.python_executable={sys.executable}"),
        ]
        status, seconds = run(command, out, where)
        reported_generations = generations(out)
        lost = [
            f"generation {e}" for e in range(1, iterations + 1) if e not in reported_generations
        ]
        reported_generations.pop(0, None)
        name = f"ShinkaEvolve {version(python, 'shinka-evolve')}"
        report(name, list(reported_generations.values()), lost, endpoint.given, seconds)
    return (
        status == 0
        and len(reported_generations) + len(lost) == iterations
        and all_whole(reported_generations.values())
    )


def generations(out: Path) -> dict[int, Candidate]:
    """The candidates in ShinkaEvolve's database, by generation."""
    (path,) = out.glob("*.sqlite")
    query = (
        "select generation, combined_score, correct, public_metrics, private_metrics from programs"
    )
    with contextlib.closing(sqlite3.connect(path)) as database:
        return {item[0]: generation(*item[1:]) for item in database.execute(query)}


def generation(score: float | None, correct: int, public: str, private: str) -> Candidate:
    """A candidate of ShinkaEvolve's database; only what has a time may be correct."""
    shown, hidden = json.loads(public or "{}"), json.loads(private or "{}")
    stage = "measured" if hidden.get("measured") else stage_of(score)
    whole = score is not None and bool(correct) == ("time_ms" in shown)
    return Candidate(score, stage, shown.get("verdict", ""), shown.get("time_ms"), whole)


def all_whole(candidates: Iterable[Candidate]) -> bool:
    return all(candidate.whole for candidate in candidates)


def stage_of(score: float | None) -> str:
    """How far a candidate got that was not measured."""
    if not score:
        return "refused"
    return "rejected by forecast" if score < 0.5 else "passed stage 1"


@contextlib.contextmanager
def service(out: Path) -> Iterator[dict[str, str]]:
    """A `solkit serve` that replays the recorded H100: the variables that name it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    where = {"SOLKIT_URL": f"http://127.0.0.1:{port}", "SOLKIT_TOKEN": secrets.token_urlsafe(24)}
    out.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "solkit", "serve", "--port", str(port)),
        *("--recorded", str(shipped("h100").folder), "--token-env", "SOLKIT_TOKEN"),
        *("--state", str(out / "jobs")),
    ]
    with (out / "service.log").open("w") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **where}, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            await_health(where["SOLKIT_URL"])
            yield where
        finally:
            process.terminate()
            process.wait(30)


def await_health(url: str) -> None:
    for _ in range(240):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/v1/health", timeout=5):
            return
        time.sleep(0.5)
    raise SystemExit(f"{url} does not answer")


# ------------------------------------------------------------------------------------------- shared


def run(command: Sequence[str], out: Path, variables: Mapping[str, str]) -> tuple[int, float]:
    """Run a loop; its status, and the seconds that it took."""
    out.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    with (out / "loop.log").open("w") as log:
        done = subprocess.run(
            command,
            env={**os.environ, **variables},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode, time.monotonic() - began_s


def lines(path: Path) -> list[dict[str, object]]:
    """The records of a file of JSON lines; none if it is missing."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def version(python: str, package: str) -> str:
    code = VERSION.format(package)
    return subprocess.check_output([python, "-c", code], text=True).strip()


def report(
    name: str,
    candidates: Sequence[Candidate],
    lost: Sequence[object],
    inputs: Sequence[str],
    seconds: float,
) -> None:
    """Print what became of the candidates."""
    stages = Counter(candidate.stage for candidate in candidates)
    verdicts = Counter(candidate.verdict for candidate in candidates)
    times_ms = [candidate.time_ms for candidate in candidates if candidate.time_ms is not None]
    print(f"\n{name}: {len(candidates)} candidates, {seconds:.0f} s")
    print(f"  answers given: {len(inputs)}, of which hostile or senseless: {bad(inputs)}")
    print("  " + ", ".join(f"{count} {stage}" for stage, count in sorted(stages.items())))
    print(
        "  verdicts: "
        + ", ".join(f"{count} {outcome}" for outcome, count in sorted(verdicts.items()))
    )
    best = max((candidate.score or 0.0 for candidate in candidates), default=0.0)
    print(f"  best score: {best:.4f}")
    print(f"  best time: {min(times_ms, default=float('nan')):.4g} ms")
    print(f"  results that are not whole: {sum(not candidate.whole for candidate in candidates)}")
    for item in lost:
        print(f"  the loop itself dropped: {item}")


def bad(inputs: Sequence[str]) -> int:
    """How many of the answers must earn nothing."""
    from made_up_llm import SOFTMAX

    return sum(not (SOFTMAX / f"{item}.py").exists() for item in inputs)


if __name__ == "__main__":
    sys.exit(main())
