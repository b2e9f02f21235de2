"""What a Triton release changes about the zoo: one configuration and shape of every Triton file.

    python -m bench.triton_versions FOLDER --json versions.json
    python -m bench.triton_versions --from versions.json > docs/lab/triton_versions.md

FOLDER is made by ``pip install --no-deps --target FOLDER triton==3.9.0``, or is an interpreter. The
other side is this environment's Triton. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from solkit.datasets.kernels import select_kernels
from solkit.pipeline.diff_sides import DiffAxes
from solkit.pipeline.diffing import DiffSettings, diff
from solkit.processes.jobs import shared_jobs
from solkit.report.side_diff import DiffView, as_json
from solkit.roofline.kernel.changes import CHANGES

_THRESHOLD = 0.05
_SHOWN = 25


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.saved is not None:
        print("\n".join(_page(json.loads(Path(options.saved).read_text(encoding="utf-8")))))
        return 0
    document = _compare(options)
    text = json.dumps(document, indent=1)
    if options.json:
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    print("\n".join(_page(document)))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="the other Triton")
    parser.add_argument("--device", default="h100", help="targets, with commas")
    parser.add_argument("--json", metavar="FILE", help="write what was found")
    parser.add_argument("--from", dest="saved", metavar="FILE", help="make the page of this file")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th file alone")
    parser.add_argument("--fresh", action="store_true", help="use no analyses of earlier runs")
    options = parser.parse_args(arguments)
    if options.folder is None and options.saved is None:
        parser.error("name a folder or an interpreter with another Triton")
    return options


def _compare(options: argparse.Namespace) -> dict[str, Any]:
    kernels = [kernel for kernel in select_kernels(["zoo"]) if not kernel.builds_extension]
    files = [str(kernel.path) for kernel in kernels][:: options.every]
    own = _own_triton()
    axes = DiffAxes(triton=(own, options.folder), devices=options.device.split(","))
    start = time.monotonic()
    settings = DiffSettings(first=True, cache=not options.fresh)
    diffs = diff(files, axes, settings=settings)
    seconds = time.monotonic() - start
    shared_jobs().close()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = used.ru_utime + used.ru_stime + own.ru_utime + own.ru_stime
    document = as_json(diffs, _THRESHOLD)
    names = {str(kernel.path): kernel.name for kernel in kernels}
    for result in document["diffs"]:
        for row in result["candidates"]:
            row["kernel"] = names[row["path"]]
            row["path"] = f"{names[row['path']]}.py"
        result["failed"] = {names[path]: why for path, why in result["failed"].items()}
    return {**document, "seconds": round(seconds, 1), "cpu_s": round(cpu_s, 1), "files": len(files)}


def _own_triton() -> str:
    from importlib.metadata import version

    return version("triton")


def _page(document: Mapping[str, Any]) -> Iterator[str]:
    first = document["diffs"][0]
    versions = first["before"]["triton"], first["after"]["triton"]
    yield f"# Triton {versions[0]} and {versions[1]}"
    yield ""
    took = f"{document['seconds']:,.0f} s ({document['cpu_s']:,.0f} s of CPU time)"
    share = f"{100 * document['threshold']:g} %"
    yield (
        f"`python -m bench.triton_versions` compared one configuration (the file's own) at the "
        f"first shape of {document['files']:,} Triton files of the zoo, without a GPU, in {took}. "
        f"A figure counts if it is worse by over {share}. Times are the kernel model's, not "
        "measured ones."
    )
    for comparison in document["diffs"]:
        yield from _section(comparison, document["threshold"])


def _section(result: Mapping[str, Any], threshold: float) -> Iterator[str]:
    view = DiffView.from_json(result, threshold)
    yield from ("", f"## {result['after']['device']}", "")
    yield from (f"{line}." for line in view.summary)
    yield from ("", "| change | worse | better | |", "|---|---|---|---|")
    yield from _counted(result["candidates"], threshold)
    ratios = sorted(row["ratio"] for row in result["candidates"] if row["ratio"] is not None)
    if ratios:
        middle = ratios[len(ratios) // 2]
        yield from (
            "",
            f"Modelled time, after over before: {ratios[0]:.2f} to {ratios[-1]:.2f}, median "
            f"{middle:.3f}; {sum(r > 1.05 for r in ratios)} over 1.05, "
            f"{sum(r < 1 / 1.05 for r in ratios)} under 0.95.",
        )
    yield from _reasons(result["candidates"])
    yield from (
        "",
        f"### The worst {_SHOWN}",
        "",
        "| kernel | time | what got worse |",
        "|---|---|---|",
    )
    for row in [row for row in view.rows if row.losses and row.after != "does not run"][:_SHOWN]:
        yield f"| `{row.kernel}` | {row.ratio} | {'; '.join(row.losses)} |"
    if view.failed:
        yield from ("", *(f"Not compared: `{path}`: {why}" for path, why in view.failed))


def _counted(rows: Sequence[Mapping[str, Any]], threshold: float) -> Iterator[str]:
    worse: Counter[str] = Counter()
    better: Counter[str] = Counter()
    for row in rows:
        worse.update({c["name"] for c in row["changes"] if c["exceeds"]})
        better.update({c["name"] for c in row["changes"] if _is_gain(c, threshold)})
    for name, meaning in CHANGES.items():
        if worse[name] or better[name]:
            yield f"| {name.replace('_', ' ')} | {worse[name]:,} | {better[name]:,} | {meaning} |"


def _is_gain(change: Mapping[str, Any], threshold: float) -> bool:
    factor = change["factor"]
    return not change["is_worse"] and (factor is None or factor < 1 / (1 + threshold))


def _reasons(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say why kernels no longer run, each reason once."""
    reasons: Counter[str] = Counter()
    for row in rows:
        if row["after"]["error"] and not row["before"]["error"]:
            reasons[row["after"]["error"].partition(": ")[2] or row["after"]["error"]] += 1
    if reasons:
        yield from ("", "Kernels that no longer run:", "")
        yield from (f"- {count:,}: {why}" for why, count in reasons.most_common())


if __name__ == "__main__":
    sys.exit(main())
