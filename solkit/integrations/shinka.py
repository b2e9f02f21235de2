"""SolKit as an evaluator of ShinkaEvolve (https://pypi.org/project/shinka-evolve).

ShinkaEvolve starts one process a candidate, which leaves two files in its results folder::

    python -m solkit.integrations.shinka --problem problem.py --url http://127.0.0.1:8000 \
        --program_path gen_3/main.py --results_dir gen_3/results

``metrics.json`` holds the score and what the model may read, ``correct.json`` whether the score
counts. ShinkaEvolve's own runner is not used: it executes candidates unguarded.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from solkit.errors import SolkitError
from solkit.integrations.grading import Graded
from solkit.integrations.sessions import TOKEN, describe_grade, numbers_of, session
from solkit.userdata import write_atomically

_PUBLIC = ("time_ms", "gap", "sol_score", "forecast_ms", "sol_ms")


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade one candidate; the two files are there when this returns.

    Args:
        arguments: of the command line.

    Returns:
        The exit status: 1 if the candidate could not be graded and is not to blame.
    """
    options = _argument_parser().parse_args(arguments)
    try:
        where = session(
            options.problem,
            shape=json.loads(options.shape),
            device=options.device,
            recorded=options.recorded,
            url=options.url,
            search=options.search,
        )
    except (SolkitError, ValueError) as error:
        _write_failure(options.results_dir, error)
        return 1
    graded = where.evaluate(options.program_path)
    where.close()
    write_results(options.results_dir, graded)
    print(f"{graded.verdict}, {graded.stage.value}: {graded.combined_score:.4f}")
    return 0


def write_results(results_dir: str | os.PathLike[str], graded: Graded) -> None:
    """Write ``metrics.json`` and ``correct.json``."""
    folder = Path(results_dir)
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "metrics.json", metrics_of(graded))
    _write_json(folder / "correct.json", correct_of(graded))


def metrics_of(graded: Graded) -> dict[str, Any]:
    """Return the content of ``metrics.json``: the model sees ``public``, but not ``private``."""
    times = {name: getattr(graded, name) for name in _PUBLIC}
    public = {name: value for name, value in times.items() if value is not None}
    facts = describe_grade(graded)
    return {
        "combined_score": float(graded.combined_score),
        "public": {"verdict": graded.verdict, **public},
        "private": {**numbers_of(graded), "params": dict(graded.params)},
        "text_feedback": "\n".join(f"{name}: {text}" for name, text in facts.items()),
    }


def correct_of(graded: Graded) -> dict[str, Any]:
    """Return the content of ``correct.json``: only what was checked and timed is correct."""
    if graded.is_right:
        return {"correct": True, "error": None}
    why = " ".join(graded.reasons) or "No reason is known."
    if graded.verdict == "not_measured":
        return {"correct": False, "error": f"not measured: {graded.stage.value}. {why}"}
    return {"correct": False, "error": f"{graded.verdict}: {why}"}


def _write_failure(results_dir: str, error: Exception) -> None:
    """Leave files that say why nothing was graded."""
    from solkit.core import Verdict
    from solkit.integrations.candidates import refused_grade

    write_results(results_dir, refused_grade(Verdict.NOT_MEASURED, f"SolKit cannot grade: {error}"))
    print(f"error: {error}", file=sys.stderr)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON at once: a killed process leaves a whole file or none."""
    write_atomically(path, json.dumps(content, indent=2, allow_nan=False).encode())


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("solkit.integrations.shinka", description="Grade a candidate.")
    parser.add_argument("--program_path", required=True, help="the candidate")
    parser.add_argument("--results_dir", required=True, help="folder for the two files")
    parser.add_argument("--problem", required=True, help="the file with the reference")
    parser.add_argument("--shape", default="{}", help="sizes to override, as a JSON object")
    parser.add_argument("--url", help=f"a `solkit serve` that grades; ${TOKEN} is its token")
    parser.add_argument("--search", default="", help="a name; the service keeps the search's best")
    parser.add_argument("--recorded", help="a store that answers instead of a GPU: folder or name")
    parser.add_argument("--device", help="the target; this machine's GPU, else an H100")
    return parser


if __name__ == "__main__":
    sys.exit(main())
