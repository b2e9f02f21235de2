"""What the surrogate reaches on rows that it has not learned from, beside what it should reach.

    python bench/evaluation.py                 # the figures of bench/data/evaluation.json
    python bench/evaluation.py --run           # evaluate the shipped sets again: an hour
    python bench/evaluation.py FILE...         # of files that `solkit evaluate --json` wrote
    python bench/evaluation.py --table         # as a table for docs/lab/surrogate.md

Families and kinds are forecast by the ensemble, other splits by a single model (``--members 1``). A
figure that reaches its target has a tick; the rest say how far off they are, as a ratio of what is
lost.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "evaluation.json"
RUNS = {
    "compiled": {
        5: ("families", "kinds"),
        1: ("configurations", "problems", "devices", "transfer"),
    },
    "lowered": {5: ("families", "kinds")},
    "captured": {5: ("families", "kinds")},
}
"""The splits of each depth, by how many models the ensemble has."""
POOLS = ("problem", "kernel")
REGRETS = (1, 3, 5, 8)

# Of a split at a depth: Spearman's median and tenth percentile and the regrets of problem pools,
# the same of kernel pools, and the time error. Regrets and errors in per cent; None: no target.
TARGETS: dict[tuple[str, str], tuple[Any, Any, float]] = {
    ("compiled", "configurations"): ((0.97, 0.90, 2, 0.6, 0.3, 0.12), (0.95, 0.78, 3, 0.5, 0.2, 0.06), 3.5),  # noqa: E501
    ("compiled", "problems"): ((0.95, 0.85, 5, 1.8, 1, 0.5), (0.93, 0.72, 4, 1.1, 0.5, 0.2), 7),
    ("compiled", "families"): ((0.93, 0.76, 8, 3.5, 2, 1), (0.91, 0.65, 6, 1.8, 0.9, 0.4), 11),
    ("compiled", "kinds"): ((0.91, 0.72, 10, 4, 2.5, 1.4), (0.89, 0.60, 7, 2.2, 1.1, 0.5), 12.5),
    ("lowered", "families"): ((0.90, 0.70, 11, 5, 3, 1.8), (0.88, 0.58, 9, 3, 1.5, 0.6), 14),
    ("captured", "families"): ((0.80, 0.50, 20, 9, 6, 4), (0.75, 0.30, 18, 8, 5, 3), 30),
    ("compiled", "devices"): ((0.95, 0.83, 5, 1.8, 1, 0.5), None, 8.5),
    ("compiled", "transfer"): ((0.99, 0.94, 0.8, 0.12, 0.03, 0.01), None, 2.2),
}  # fmt: skip
"""What SolKit's surrogate was asked to reach."""

# Of what else a split tells: the field, the target, and whether more is better.
OTHER = {
    ("compiled", "kinds"): (
        ("pairs_right.over_1.2", 0.93, True),
        ("pairs_right.1.2_to_1.5", 0.86, True),
    ),
    ("captured", "kinds"): (("pairs_right.over_1.2", 0.78, True),),
    ("compiled", "families"): (
        ("coverage_90", 0.88, True),
        ("coverage_90", 0.92, False),
        ("coverage_90_families_p10", 0.78, True),
        ("abstains", 0.20, False),
        ("abstains_error_ratio", 2.2, True),
        ("pools.kernel.k_90", 8, False),
        ("after_update.coverage_90_families_p10", 0.84, True),
        ("after_update.coverage_90_families_worst", 0.72, True),
    ),
}


def main(arguments: list[str]) -> None:
    if "--run" in arguments:
        DATA.write_text(packed({depth: evaluated(depth) for depth in RUNS}))
    files = [argument for argument in arguments if not argument.startswith("--")]
    result = joined(files) if files else json.loads(DATA.read_text())
    as_table = "--table" in arguments
    for (depth, split), target in TARGETS.items():
        if split in result.get(depth, {}).get("splits", {}):
            shown = cells if as_table else lines
            print("\n".join(shown(result[depth], depth, split, target)))
    if as_table:
        print("\n".join(others(result)))


def evaluated(depth: str) -> dict[str, Any]:
    """What `solkit evaluate` says of the shipped sets."""
    results: dict[str, Any] = {}
    for members, names in RUNS[depth].items():
        splits = [part for split in names for part in ("--split", split)]
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            options = ["--depth", depth, "--members", str(members), "--json", file.name]
            options += ["--update", "10"] if "families" in names else []
            subprocess.run(
                [sys.executable, "-m", "solkit", "evaluate", *splits, *options], check=True
            )
            merge(results, json.loads(Path(file.name).read_text()))
    return results


def joined(files: list[str]) -> dict[str, Any]:
    """Files of `solkit evaluate`, by depth; splits of one depth may lie in several."""
    results: dict[str, Any] = {}
    for file in files:
        data = json.loads(Path(file).read_text())
        merge(results.setdefault(data["depth"], {}), data)
    return results


def merge(into: dict[str, Any], result: dict[str, Any]) -> None:
    for name, value in result.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            merge(into[name], value)
        else:
            into[name] = value


def packed(result: Any) -> str:
    """JSON in few bytes: four digits."""

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: short(item) for name, item in value.items()}
        return float(f"{value:.4g}") if isinstance(value, float) else value

    return json.dumps(short(result), separators=(",", ":")) + "\n"


def lines(
    result: dict[str, Any], depth: str, split: str, target: tuple[Any, Any, float]
) -> Iterator[str]:
    results = result["splits"][split]
    bare = result["baselines"].get("kernel_model", {}).get(split)
    yield f"{split}, {depth}: {results['rows']:,} configurations"
    for kind, expected in zip(POOLS, target, strict=False):
        for name, value, want, more in ranks(results["pools"][kind], expected):
            beside = {n: v for n, v, _, _ in ranks(bare["pools"][kind], None)} if bare else {}
            yield row(f"{kind} {name}", value, want, more, beside.get(name))
    error = bare["time_error_median"] if bare else None
    yield row("time error", results["time_error_median"], target[2] / 100, False, error)
    for name, want, more in OTHER.get((depth, split), ()):
        yield row(name, field(result, split, name), want, more, None)


def cells(
    result: dict[str, Any], depth: str, split: str, target: tuple[Any, Any, float]
) -> Iterator[str]:
    """Three rows of a Markdown table: the surrogate, its targets, the kernel model."""
    results = result["splits"][split]
    expected = [
        item and (item[0], item[1], *(part / 100 for part in item[2:])) for item in target[:2]
    ]
    yield markdown(f"**{split}, {depth}**", results)
    texts = [f"{_of(*item[:2])} | {_percents(item[2:])}" if item else " | " for item in expected]
    yield f"| asked for | {' | '.join(texts)} | {target[2]:g} % |"
    for name in ("kernel_model", "lookup"):
        if split in result["baselines"].get(name, {}):
            yield markdown(name.replace("_", " "), result["baselines"][name][split])


def others(result: dict[str, Any]) -> Iterator[str]:
    """Rows of a second table: what else the splits tell, and what was asked for."""
    for (depth, split), figures in OTHER.items():
        if split not in result.get(depth, {}).get("splits", {}):
            continue
        for name, want, more in figures:
            if (value := field(result[depth], split, name)) is not None:
                side = "at least" if more else "at most"
                reached = value >= want if more else value <= want
                verdict = "met" if reached else "missed"
                yield f"| {split}, {depth} | `{name}` | {value:.3g} | {side} {want:g} | {verdict} |"


def markdown(name: str, result: dict[str, Any]) -> str:
    parts = []
    for kind in POOLS:
        pool = result["pools"][kind]
        regrets = [pool[f"regret_top{n}_mean"] for n in REGRETS]
        if pool["problems"]:
            parts += [_of(pool["spearman_median"], pool["spearman_p10"]), _percents(regrets)]
        else:
            parts += ["", ""]
    return f"| {name} | {' | '.join(parts)} | {100 * result['time_error_median']:.3g} % |"


def _of(median: float, p10: float) -> str:
    return f"{median:.3f}/{p10:.2f}".replace("0.", ".")


def _percents(values: Any) -> str:
    return "/".join(f"{100 * value:.2g}" for value in values)


def ranks(pool: dict[str, Any], expected: Any) -> Iterator[tuple[str, float, float | None, bool]]:
    names = ["spearman_median", "spearman_p10", *(f"regret_top{n}_mean" for n in REGRETS)]
    for place, name in enumerate(names):
        want = None if expected is None else expected[place] / (1 if place < 2 else 100)
        yield name, pool[name], want, place < 2


def row(
    name: str, value: float | None, want: float | None, more: bool, beside: float | None
) -> str:
    if value is None:
        return f"  {name:42} unknown"
    text = f"  {name:42} {value:8.4g}"
    if want is not None:
        reached = value >= want if more else value <= want
        text += f"  {'at least' if more else 'at most':8} {want:<7.4g} {'✓' if reached else '✗'}"
        if not reached:
            lost = (1 - value) / (1 - want) if more and want < 1 else value / want
            text += f" {lost:.2f} times"
    return text + (f"  kernel model {beside:.4g}" if beside is not None else "")


def field(result: dict[str, Any], split: str, name: str) -> float | None:
    if name.startswith("after_update."):
        results = result.get("after_update", {}).get("splits", {}).get(split, {})
        name = name.removeprefix("after_update.")
    else:
        results = result["splits"][split]
    first, _, rest = name.partition(".")
    if first == "pools":
        kind, _, what = rest.partition(".")
        return results["pools"][kind][what]
    return results.get(first, {}).get(rest) if rest else results.get(first)


if __name__ == "__main__":
    main(sys.argv[1:])
