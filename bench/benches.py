"""Whether the guarded and the trusted bench say the same of honest kernels, on this machine's GPU.

    python bench/benches.py --out DIR [--seconds 130] [--repeats 3]

Measures the default configuration and one other of six examples and six kernels of the zoo on both
benches. Prints for each its two verdicts, whether the facts are equal, and the guarded median over
the trusted one (the median of ``--repeats``, each in a handful of its own). DIR gets the logs of
both benches and ``benches.json``, which is rewritten after every outcome, so that a run that is cut
keeps what it has. The guarded bench starts nothing new after ``--seconds`` in all. Exits with 1
where a verdict or facts differ or a ratio is further than 3 % from 1, with 2 without a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import solkit
from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan, study
from solkit.core import Configuration, Device, MeasureSettings, Outcome, canonical
from solkit.datasets import outcomelog
from solkit.datasets.kernels import kernel_at_path
from solkit.datasets.outcomelog import OutcomeLog
from solkit.errors import SolkitError
from solkit.measure.benches import Bench
from solkit.measure.benches.guarded import GuardedBench
from solkit.measure.benches.trusted import Ahead, TrustedBench
from solkit.measure.outcomes import PreparedCandidate
from solkit.pipeline.environment import environment
from solkit.roofline.cases import unmeasured
from solkit.roofline.nvml import live_device

ROOT = Path(__file__).parent.parent
ZOO = ("attention_forward/online_softmax", "gemm/grouped_order", "layer_norm/welford")
ZOO += ("row_sum/whole_row", "softmax/whole_row", "transpose/tile_in_registers")
FILES = (
    *sorted((ROOT / "examples").glob("*.py")),
    *(ROOT / "datasets" / "zoo" / f"{name}.py" for name in ZOO),
)
WITHIN = 0.03
SETTINGS = MeasureSettings(time_limit_s=30.0)


@dataclass
class Compared:
    """One configuration on both benches.

    Attributes:
        guarded, trusted: its outcomes.
    """

    configuration: Configuration
    guarded: list[Outcome] = field(default_factory=list)
    trusted: list[Outcome] = field(default_factory=list)

    @property
    def verdicts(self) -> list[str]:
        """What the guarded bench says, then what the trusted one does, each verdict once."""
        values = [[item.verdict.value for item in side] for side in (self.guarded, self.trusted)]
        return ["/".join(dict.fromkeys(side)) for side in values]

    @property
    def ratio(self) -> float | None:
        """The guarded time over the trusted one; ``None`` where one has none."""
        guarded, trusted = _median(self.guarded), _median(self.trusted)
        return guarded / trusted if guarded and trusted else None

    def told(self, facts: Mapping[str, str]) -> dict[str, Any]:
        """All of it for the JSON file."""
        return {
            "file": str(Path(self.configuration.path).relative_to(ROOT)),
            "shape": dict(self.configuration.shape),
            "params": dict(self.configuration.params),
            "verdicts": self.verdicts,
            "messages": [item.message for item in (*self.guarded, *self.trusted) if item.message],
            "ratio": self.ratio,
            "same_facts": self.same_facts(facts),
            "guarded": [_timing(outcome) for outcome in self.guarded],
            "trusted": [_timing(outcome) for outcome in self.trusted],
        }

    def same_facts(self, facts: Mapping[str, str]) -> bool | None:
        """Whether all outcomes have the same facts, under one id; ``None`` while one is missing.

        Args:
            facts: what each bench wrote, by bench and id.
        """
        if not (self.guarded and self.trusted):
            return None
        guarded = {facts.get(f"guarded {outcome.facts_id}") for outcome in self.guarded}
        trusted = {facts.get(f"trusted {outcome.facts_id}") for outcome in self.trusted}
        ids = {item.facts_id for item in (*self.guarded, *self.trusted)}
        return guarded == trusted and len(ids) == 1 and None not in guarded


def _median(outcomes: Sequence[Outcome]) -> float | None:
    times = [outcome.time_ms for outcome in outcomes if outcome.time_ms is not None]
    return statistics.median(times) if times else None


def _timing(outcome: Outcome) -> dict[str, Any]:
    names = ("verdict", "time_ms", "low_ms", "high_ms", "method", "clock_mhz", "facts_id")
    return {name: getattr(outcome, name) for name in names}


def wanted(ahead: Ahead) -> list[Configuration]:
    """Of each file at one shape the default; then of each another valid configuration."""
    surveys = [(path, ahead.space(kernel_at_path(path), build=False)) for path in FILES]
    first, second = [], []
    for path, survey in surveys:
        file, at = solkit.load(path), min(survey.result(), key=_distance)
        assert file.candidate is not None
        params = dict(file.candidate.params)
        default = Configuration(str(path), file.candidate.name, at["shape"], params)
        first.append(default)
        others = [{**params, **item} for item in at["valid"] if {**params, **item} != params]
        second.append(replace(default, params=random.Random(path.stem).choice(others)))
    return [*first, *second]


def _distance(surveyed: Mapping[str, Any]) -> float:
    """How far a shape is from 2^26 elements: small ones time launches, large ones take long."""
    sizes = [item for item in surveyed["shape"].values() if type(item) is int]
    return abs(math.log2(math.prod(sizes)) - 26)


def outcomes_of(
    bench: Bench, configurations: Sequence[Configuration], until_s: float
) -> Iterator[tuple[Configuration, Outcome]]:
    """Drive a bench, whichever it is: it has as much to do as keeps it busy."""
    remaining_configurations = list(configurations)
    while (remaining_configurations or bench.pending) and time.monotonic() < until_s:
        while remaining_configurations and bench.pending < bench.capacity:
            room = bench.capacity - bench.pending
            bench.submit(remaining_configurations[:room])
            del remaining_configurations[:room]
        left_s = max(until_s - time.monotonic(), 0.0)
        for outcome in bench.outcomes(bench.clock.now_s() + left_s):
            yield outcome
            if bench.pending < bench.capacity:
                break


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seconds", type=float, default=130.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    until_s = time.monotonic() + options.seconds
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        device = live_device()
        with Analyser(device) as analyser, Ahead(device) as ahead:
            result = run(analyser, ahead, options, until_s)
    except SolkitError as error:
        print(f"benches: {error}", file=sys.stderr)
        return 2
    return report(device, result, options.out)


def run(
    analyser: Analyser, ahead: Ahead, options: argparse.Namespace, until_s: float
) -> list[Compared]:
    """Measure on the trusted bench, which is quick, then on the guarded one until it is time."""
    device, configurations = ahead.device, wanted(ahead)
    compared_by_name = {
        _name(configuration): Compared(configuration) for configuration in configurations
    }

    def prospect(configuration: Configuration) -> PreparedCandidate:
        known_study = study(
            analyser,
            StudyPlan(configuration.path, None, [configuration.shape], dict(configuration.params)),
        )
        case = unmeasured(known_study.cases[0], device, SETTINGS.precision, "cold")
        return PreparedCandidate(known_study.kernel, case)

    with (
        OutcomeLog(options.out / "trusted.jsonl") as log,
        TrustedBench(ahead, log, tell=print) as trusted,
    ):
        for _ in range(options.repeats):
            for configuration, outcome in outcomes_of(trusted, configurations, until_s):
                compared_by_name[_name(configuration)].trusted.append(outcome)
                write(device, compared_by_name.values(), options.out)
    with (
        OutcomeLog(options.out / "guarded.jsonl") as log,
        GuardedBench(device, prospect, log, SETTINGS, environment()) as guarded,
    ):
        for configuration, outcome in outcomes_of(guarded, configurations, until_s):
            compared_by_name[_name(configuration)].guarded.append(outcome)
            write(device, compared_by_name.values(), options.out)
    return list(compared_by_name.values())


def _name(configuration: Configuration) -> str:
    return f"{configuration.path} {canonical(configuration.params)}"


def facts_in(folder: Path) -> dict[str, str]:
    """The facts that both benches wrote, by bench and id."""
    return {
        f"{name} {items.id}": items.text
        for name in ("guarded", "trusted")
        if (folder / f"{name}.jsonl").exists()
        for items in outcomelog.read(folder / f"{name}.jsonl").facts
    }


def write(device: Device, results: Any, folder: Path) -> None:
    """All that is known so far."""
    facts = facts_in(folder)
    fields = {"device": device.name, "rows": [result.told(facts) for result in results]}
    (folder / "benches.json").write_text(json.dumps(fields, indent=1), encoding="utf-8")


def report(device: Device, results: Sequence[Compared], folder: Path) -> int:
    """Print the table; 1 where something differs."""
    facts = facts_in(folder)
    both = [result for result in results if result.guarded and result.trusted]
    table = Table(title=f"{device.name}: guarded and trusted bench", title_justify="left")
    for head in ("kernel", "guarded", "trusted", "same facts", "trusted ms", "guarded / trusted"):
        table.add_column(head)
    for item in both:
        ms, ratio = _median(item.trusted), item.ratio
        path = Path(item.configuration.path)
        table.add_row(
            f"{path.parent.name}/{path.stem}",
            *item.verdicts,
            "yes" if item.same_facts(facts) else "no",
            "" if ms is None else f"{ms:.5f}",
            "" if ratio is None else f"{ratio:.4f}",
        )
    console = Console(width=130)
    console.print(table)
    ratios = [items.ratio for items in both if items.ratio is not None]
    verdicts = sum(items.verdicts[0] == items.verdicts[1] for items in both)
    equal = sum(bool(items.same_facts(facts)) for items in both)
    within = sum(abs(ratio - 1) <= WITHIN for ratio in ratios)
    console.print(
        f"{len(both)} of {len(results)} configurations on both: {verdicts} with equal verdicts, "
        f"{equal} with equal facts, {within} of {len(ratios)} medians within {WITHIN:.0%}"
    )
    return 0 if both and verdicts == equal == len(both) and within == len(ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
