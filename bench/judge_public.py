"""Judge public timings, and write a table of them: ``solkit judge`` on what others report.

    python bench/judge_public.py OUT [--kernelbench REPOSITORY] [--kernelbench-com REPOSITORY]
        [--cuda-l1 REPOSITORY] [--aiter REPOSITORY] [--liger REPOSITORY] [--most ROWS] [--shipped]

Each option names a checkout of a public repository (docs/lab/judging.md says which); `--shipped`
judges the rows of the shipped sets by the hard bounds that are stored with them. OUT gets a report
of each set, ``solkit.judge/1``, and the table is printed. Needs no GPU.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from solkit.core.judging import JudgeReport, Plausibility
from solkit.datasets.store import shipped
from solkit.pipeline.judging import judge
from solkit.report.judging import ORDER, counts, dumps, worst_first


@dataclass(frozen=True)
class PublicSet:
    """Files of one source with what judging them takes."""

    name: str
    files: tuple[Path, ...]
    problems: Path | None
    device: str | None = None
    baseline: Path | None = None


def kernelbench(repository: Path) -> Iterator[PublicSet]:
    """Timings of KernelBench's references on H100s, eager and compiled."""
    for folder in sorted((repository / "results" / "timing").glob("H100*")):
        files = tuple(sorted(folder.glob("*.json")))
        yield PublicSet(f"KernelBench, {folder.name}", files, repository / "KernelBench")


def kernelbench_com(repository: Path) -> Iterator[PublicSet]:
    """Runs of kernelbench.com's hard board on an H100 PCIe."""
    runs = sorted((repository / "public" / "data" / "rundetail").rglob("*.json"))
    on = {path: json.loads(path.read_text("utf-8")) for path in runs}
    files = tuple(p for p, run in on.items() if (run["gpu"], run["bench"]) == ("h100", "hard"))
    problems = repository / "benchmarks" / "hard" / "problems-h100"
    yield PublicSet("kernelbench.com, H100", files, problems, "h100-pcie")


def cuda_l1(repository: Path) -> Iterator[PublicSet]:
    """CUDA-L1's speed-ups, which have no times."""
    file = repository / "optimized_cuda_code" / "h100.json"
    yield PublicSet("CUDA-L1, H100", (file,), None, "h100-sxm")


def aiter_kernels(repository: Path) -> Iterator[PublicSet]:
    """AITER's tuned kernels on AMD's GPUs: products are judged, mixtures of experts are listed."""
    configs = repository / "aiter" / "configs"
    for name, place in (("general shapes", configs), ("models", configs / "model_configs")):
        files = tuple(sorted(place.glob("*.csv")))
        yield PublicSet(f"AITER, {name}", files, None)


def liger_kernel(repository: Path) -> Iterator[PublicSet]:
    """Liger-Kernel's times: of its kernels and of what they replace."""
    for name in ("", "_cutile", "_cutedsl"):
        file = repository / "benchmark" / "data" / f"all_benchmark_data{name}.csv"
        yield PublicSet(f"Liger-Kernel, {file.name}", (file,), None)


def judge_set(public: PublicSet, most: int) -> JudgeReport:
    """Judge the files of a set."""
    return judge(
        public.files,
        problems=public.problems,
        device=public.device,
        baseline=public.baseline,
        most_rows=most,
    )


def table_row(name: str, report: JudgeReport) -> str:
    """Return a set's row: rows, the share that was judged, and the number of each verdict."""
    number = counts(report)
    total = len(report.judgements)
    judged = total - number.get(Plausibility.NOT_JUDGED, 0)
    cells = [str(number.get(verdict, 0)) for verdict in ORDER[:-1]]
    odd = sum(bool(judgement.suspicions) for judgement in report.judgements)
    return f"| {name} | {total} | {judged / max(total, 1):.0%} | {' | '.join(cells)} | {odd} |"


def remarks(report: JudgeReport) -> Iterator[str]:
    """Yield the rows below a bound, and why rows were not judged."""
    reasons: Counter[str] = Counter()
    for judgement in worst_first(report.judgements):
        if judgement.plausibility is Plausibility.NOT_JUDGED:
            reasons.update(reason[:120] for reason in judgement.reasons)
        elif judgement.plausibility in ORDER[:2]:
            yield f"  {judgement.row.family} {dict(judgement.row.shape)}: {judgement.reasons[0]}"
    for reason, number in reasons.most_common(8):
        yield f"  not judged ({number}): {reason}"


def shipped_rows() -> Iterator[str]:
    """Yield a line for each shipped set: correct rows, and those under their own hard bound."""
    import polars

    for name in ("h100", "h200", "h100_triton371"):
        rows = shipped(name).scan()
        timed = rows.filter(polars.col("time_ms").is_not_null() & polars.col("hard_bound_ms").gt(0))
        under = timed.filter(polars.col("time_ms") < 0.99 * polars.col("hard_bound_ms"))
        total, below = (frame.select(polars.len()).collect().item() for frame in (timed, under))
        yield f"shipped {name}: {total} timed rows, {below} under their hard bound"


def main(out: Path, sets: Iterable[PublicSet], most: int) -> None:
    """Judge all sets; print the table and what is odd."""
    heads = " | ".join(verdict.value.replace("_", " ") for verdict in ORDER[:-1])
    lines = [f"| set | rows | judged | {heads} | suspicious |", "|---|" + "---:|" * 8]
    notes: list[str] = []
    for public in sets:
        report = judge_set(public, most)
        name = "".join(c if c.isalnum() else "_" for c in public.name)
        (out / f"{name}.json").write_text(dumps(report), encoding="utf-8")
        lines.append(table_row(public.name, report))
        notes += [public.name, *remarks(report)]
        print(lines[-1], flush=True)
    print("\n".join([*lines, *notes]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    for option in ("--kernelbench", "--kernelbench-com", "--cuda-l1", "--aiter", "--liger"):
        parser.add_argument(option, type=Path, metavar="REPOSITORY")
    parser.add_argument("--most", type=int, default=0, help="rows of a file, drawn at random")
    parser.add_argument("--shipped", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [
        *(kernelbench(options.kernelbench) if options.kernelbench else ()),
        *(kernelbench_com(options.kernelbench_com) if options.kernelbench_com else ()),
        *(cuda_l1(options.cuda_l1) if options.cuda_l1 else ()),
        *(liger_kernel(options.liger) if options.liger else ()),
        *(aiter_kernels(options.aiter) if options.aiter else ()),
    ]
    main(options.out, chosen, options.most)
    if options.shipped:
        print("\n".join(shipped_rows()))
