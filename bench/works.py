"""Work, roofline and hard bound of whole corpora as JSON, and what differs between two of them.

    python bench/works.py dump AFTER.json --micro --torch --zoo --kernelbench CHECKOUT
                                          --folders PATH... [--files FILE...] [--limit 120]
    python bench/works.py compare BEFORE.json AFTER.json
    python bench/works.py operators AFTER.json >tests/ops/emitted.txt

``--micro`` takes the tables of tests/roofline/micro and 150 random programs, ``--torch`` the sample
inputs of torch's own operators, forwards and backwards (``expecttest`` is needed), ``--zoo`` the
zoo and the examples, ``--folders`` SOL-ExecBench's problem folders. A problem is traced for an
H100, at its own shapes (of a folder, its smallest workload); one that fails gives
its message. ``compare`` exits with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kernelbench_suite import find_problems
from problem_folders import definitions_below, shapes_of

import solkit
from solkit.core import Case
from solkit.errors import SolkitError
from solkit.processes import jobs
from solkit.roofline import devices
from solkit.roofline.cases import bound_of_case

ROOT = Path(__file__).parent.parent
MICRO = ROOT / "tests" / "roofline" / "micro"
FUZZED = 150
BATCH = 50  # micro problems to a process
DEVICE = "h100"
MOST_FIELDS = 8  # printed of a problem

Entries = dict[str, Any]
Shapes = Sequence[Mapping[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    dumping = commands.add_parser("dump")
    dumping.add_argument("out", type=Path)
    for flag in ("--micro", "--torch", "--zoo"):
        dumping.add_argument(flag, action="store_true")
    dumping.add_argument("--kernelbench", type=Path, metavar="CHECKOUT")
    dumping.add_argument("--folders", type=Path, nargs="+", default=[], metavar="PATH")
    dumping.add_argument("--files", type=Path, nargs="+", default=[], metavar="FILE")
    dumping.add_argument("--limit", type=float, default=120.0, metavar="SECONDS", help="a file")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    listing = commands.add_parser("operators")
    listing.add_argument("dump", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        return compare(*(json.loads(p.read_text()) for p in (options.before, options.after)))
    if options.command == "operators":
        entries = json.loads(options.dump.read_text()).values()
        print("\n".join(sorted({name for entry in entries for name in entry["operators"]})))
        return 0
    entries: Entries = {}
    for name, record in corpora(options):
        entries[name] = record
        if "error" in record:
            print(f"{name}: {record['error']}", file=sys.stderr)
    options.out.write_text(json.dumps(entries, indent=0, sort_keys=True), encoding="utf-8")
    print(f"{len(entries)} problems, {sum('error' in e for e in entries.values())} with an error")
    return 0


def corpora(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Each problem's name and entry."""
    if options.micro:
        yield from micro_problems(options.limit)
    if options.torch:
        yield from jobs.call("works:operator_samples", timeout_s=30 * options.limit).items()
    files = list(options.files)
    if options.zoo:
        files += sorted((ROOT / "datasets" / "zoo").rglob("problem.py"))
        files += sorted((ROOT / "examples").rglob("*.py"))
    for path in files:
        if path.name != "__init__.py":
            name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
            yield from of_file(str(name), path, options.limit)
    if options.kernelbench:
        for problem in find_problems(options.kernelbench, (1, 2, 3)):
            yield from of_file(f"kernelbench/{problem.label}", problem.path, options.limit)
    for definition in (file for path in options.folders for file in definitions_below(path)):
        try:
            shapes = shapes_of(solkit.load(str(definition)).problem, 1, 64)
        except SolkitError as error:
            yield f"folders/{definition.parent.name}", {"error": str(error), "operators": []}
            continue
        name = f"folders/{definition.parent.name}"
        yield from of_file(name, definition, options.limit, shapes)


def compare(before: Entries, after: Entries) -> int:
    """Print each problem and field that differs; 1 if any does."""
    different = 0
    for name in sorted(before.keys() | after.keys()):
        old, new = (flat(entries.get(name, {})) for entries in (before, after))
        keys = sorted(old.keys() | new.keys())
        fields = [k for k in keys if old.get(k) != new.get(k) and not k.endswith("/line")]
        different += bool(fields)
        errors = [key for key in fields if key == "/error"]
        for key in (errors or fields)[:MOST_FIELDS]:
            print(f"{name}: {key}: {old.get(key)} -> {new.get(key)}")
    print(f"{different} of {len(before.keys() | after.keys())} problems differ")
    return 1 if different else 0


def flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Nested records as paths and leaves."""
    if isinstance(tree, Mapping):
        items = [(str(key), value) for key, value in tree.items()]
    elif isinstance(tree, list):
        items = [(str(number), value) for number, value in enumerate(tree)]
    else:
        return {prefix: tree}
    return {k: v for key, value in items for k, v in flat(value, f"{prefix}/{key}").items()}


# ------------------------------------------------------------------------------------- files


def of_file(
    name: str, path: Path | str, limit_s: float, shapes: Shapes | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a kernel file, a shape each; of given shapes without kernels per op."""
    sizes = None if shapes is None else [dict(shape) for shape in shapes]
    groups = "" if shapes is None else None
    try:
        results = jobs.call("works:cases", str(path), sizes, groups, timeout_s=limit_s)
    except SolkitError as error:
        results = [({}, {"error": str(error).splitlines()[0], "operators": []})]
    for shape, record in results:
        label = ",".join(f"{key}={value}" for key, value in shape.items())
        yield f"{name} {label}".strip(), record


def cases(path: str, shapes: Shapes | None, groups: str | None) -> list[tuple[dict[str, Any], Any]]:
    """Trace a kernel file at shapes; runs in a job, whose torch it patches."""
    from solkit import kernelfiles
    from solkit.adapters import fake_cuda
    from solkit.analysis.problem import problem_case

    names = prepare()
    results = []
    with fake_cuda.fake_tensors():
        for shape in shapes or kernelfiles.load(path).description.problem.shapes:
            loaded = kernelfiles.load(path)
            names.clear()
            trace = functools.partial(problem_case, loaded, shape, {}, groups)
            results.append((dict(shape), entry(trace, names)))
    return results


def prepare() -> set[str]:
    """Fake the device. Returns the set that gets the operators of each trace."""
    from solkit.analysis.worker import fake_device
    from solkit.roofline.work.program import Recorder

    fake_device(devices.find(DEVICE))
    names: set[str] = set()
    traced, add = Recorder.traced, Recorder.add

    def tracing(self: Recorder, func: Any, before: Any, out: Any) -> Any:
        op = traced(self, func, before, out)
        names.update([op.name] if op is not None else [])
        return op

    def adding(self: Recorder, name: str, *rest: Any) -> None:
        names.add(name)
        add(self, name, *rest)

    Recorder.traced, Recorder.add = tracing, adding  # type: ignore[method-assign]
    return names


def entry(trace: Callable[[], Case], names: set[str]) -> Any:
    """What is dumped of a case."""
    try:
        case = trace()
    except BaseException as error:
        return {
            "error": f"{type(error).__name__}: {str(error).splitlines()[:1]}",
            "operators": sorted(names),
        }
    bound = bound_of_case(case, devices.find(DEVICE), "tolerance", "cold")
    return {
        "work": plain(asdict(case.work)),
        "roofline_ms": bound.time_ms,
        "hard_ms": bound.at.hard_ms,
        "parts": [plain(asdict(part.work)) for part in case.unfused],
        "operators": sorted(names),
    }


def plain(tree: Any) -> Any:
    """A record as JSON has it, without lines of code."""
    if isinstance(tree, Mapping):
        return {str(key): plain(value) for key, value in tree.items() if key != "line"}
    if isinstance(tree, str):
        return re.sub(r"(/[^/ ]+)+/", "", tree)  # folders of temporary files
    return [plain(item) for item in tree] if isinstance(tree, (list, tuple)) else tree


# ------------------------------------------------------------------------------- in batches


def micro_problems(limit_s: float) -> Iterator[tuple[str, Any]]:
    """The tables of tests/roofline/micro, and random programs."""
    sys.path.insert(0, str(MICRO))
    import micro_fuzz
    from micro_trace import Micro

    sources: dict[str, str] = {}
    for path in sorted(MICRO.glob("test_*.py")):
        for table, rows in vars(__import__(path.stem)).items():
            for name, row in rows.items() if isinstance(rows, dict) else ():
                if isinstance(row, tuple) and [type(part) for part in row[:2]] == [str, str]:
                    source = Micro(*row[:2]).source
                    sources[f"micro/{path.stem}/{table}/{name}"] = source
    for seed in range(FUZZED):
        sources[f"micro/fuzz/{seed}"] = micro_fuzz.program(seed).source
    names = list(sources)
    for first in range(0, len(names), BATCH):
        batch = {name: sources[name] for name in names[first : first + BATCH]}
        yield from jobs.call("works:of_sources", batch, timeout_s=5 * limit_s).items()


def of_sources(sources: Mapping[str, str]) -> Entries:
    """The entries of kernel files' texts; runs in a job."""
    from solkit import kernelfiles
    from solkit.adapters import fake_cuda
    from solkit.analysis.problem import problem_case

    names, entries = prepare(), {}
    with tempfile.TemporaryDirectory() as folder, fake_cuda.fake_tensors():
        for number, (name, source) in enumerate(sources.items()):
            path = Path(folder) / f"micro_{number}.py"
            path.write_text(source, encoding="utf-8")
            names.clear()
            loaded = kernelfiles.load(str(path))
            entries[name] = entry(functools.partial(problem_case, loaded, {}, {}, ""), names)
    return entries


def operator_samples() -> Entries:
    """The entries of torch's own sample inputs; runs in a job."""
    import op_coverage
    import torch

    from solkit.core import Analysis, AnalysisStatus, Tolerance
    from solkit.roofline.work import work_of

    every = [*op_coverage.modules(), *op_coverage.operators()]  # before torch is patched
    with torch.backends.__allow_nonbracketed_mutation():
        names = prepare()
    skipped = re.compile("|".join(op_coverage.NOT_TRACED))
    entries: Entries = {}
    works: list[Any] = []
    op_coverage.work_of = lambda run: works.append(work_of(run)) or works[-1]
    for name, make in every:
        if skipped.search(name):
            continue
        torch.manual_seed(0)
        try:
            samples = make()
        except Exception:  # torch cannot make its own samples
            continue
        for number, (function, args, kwargs) in enumerate(samples):
            works.clear()
            names.clear()
            with contextlib.suppress(Exception):
                op_coverage.traced(function, args, kwargs)
            for direction, work in enumerate(works):
                analysis = Analysis(AnalysisStatus.NOT_CAPTURED)
                case = Case({}, {}, work, Tolerance(1e-3, 1e-3), analysis)
                label = f"torch/{name}/{number}/{direction}"
                entries[label] = entry(functools.partial(replace, case), names)
    return entries


if __name__ == "__main__":
    sys.exit(main())
