"""Errors of forecasts that the variants of one search have in common: no GPU.

    python bench/errors_in_common.py REPORT ...      # of `solkit evolve FILE --json REPORT`

Each variant that was timed is predicted from the others of its search, with the kernel of
`solkit.tuner.evolution.acquisition`. The figures are the errors that remain, in log2, next to those
of the forecasts as they are and of a kernel in which only equal parameters make variants alike.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from solkit.core import Configuration
from solkit.tuner.evolution import Point, Shares
from solkit.tuner.evolution.acquisition import likeness

LEAST = 4  # variants that a search has timed
SD, NOISE, MOST = 0.6, 0.03, 3.0  # log2: of a forecast's error, of a time, and what counts at most

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Search = tuple[list[Point], Array]
    Matrix = Callable[[Sequence[Point]], Array]


def main() -> None:
    """Print the errors that remain."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="+", type=Path)
    searches = [s for path in parser.parse_args().reports if (s := search_of(path)) is not None]
    print(f"{len(searches)} searches, {sum(len(points) for points, _ in searches)} variants")
    shares = Shares()
    kernels: dict[str, Matrix] = {
        "forecasts as they are": lambda points: SD**2 * np.eye(len(points)),
        "by equal parameters": lambda points: with_equal_parameters(points, shares),
        "by forecasts": lambda points: likeness(points, points, shares),
    }
    for name, matrix in kernels.items():
        remaining = np.concatenate([remaining_errors(matrix(points), e) for points, e in searches])
        rms = math.sqrt(np.mean(remaining**2))
        print(f"{name:24} median {np.median(np.abs(remaining)):.3f}  root mean square {rms:.3f}")


def search_of(path: Path) -> Search | None:
    """Return the timed variants of a report and the errors of their forecasts, in log2."""
    variants = json.loads(path.read_text())["variants"]
    timed = [v for v in variants if v["measured"] and v["forecast_ms"] and v["time_ms"]]
    if len(timed) < LEAST:
        return None
    points = [
        Point(
            variant["id"],
            Configuration("kernel.py", "kernel", {}, variant["params"] or {}),
            math.log2(variant["forecast_ms"]),
            SD,
        )
        for variant in timed
    ]
    errors = np.array([math.log2(v["time_ms"] / v["forecast_ms"]) for v in timed])
    return points, np.clip(errors, -MOST, MOST)


def with_equal_parameters(points: Sequence[Point], shares: Shares) -> Array:
    """Return a kernel in which variants with other parameters share the problem's error alone."""
    same = np.array([[a.key[1] == b.key[1] for b in points] for a in points])
    apart = SD**2 * shares.problem
    return np.where(same, likeness(points, points, shares), apart)


def remaining_errors(kernel: Array, errors: Array) -> Array:
    """Return each error less its forecast from the others, of a kernel of (variants, variants).

    Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), equation 5.12.
    """
    inverse = np.linalg.inv(kernel + NOISE**2 * np.eye(len(errors)))
    return np.asarray((inverse @ errors) / np.diag(inverse))


if __name__ == "__main__":
    main()
