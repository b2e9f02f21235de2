"""Golden outputs: what the commands print and write, of one tree and of another.

    python -m tools.goldens dump FOLDER         # runs the commands, some 8 minutes on two cores
    python -m tools.goldens compare BEFORE AFTER    # exit code 1 if an output differs

Terminal, JSON and HTML of the examples, help pages, JSON schemas, ranks, and the trajectories of
searches by seed on shipped recordings. Times of day, versions of this machine and the folder of the
checkout are left out; so are the seconds that a command took. Run `dump` in a worktree of each
commit, with that worktree on PYTHONPATH. A refactoring keeps all of them, or says which and why.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_DEVICE = "--device h100"
_SEARCHES = {
    "softmax/two_pass_lanes": "M=521,N=50257,dtype=bfloat16",
    "softmax/rows_tile": "M=32768,N=127,dtype=bfloat16",
}
_HELP = (
    "batch", "bound", "calibrate", "compare", "data", "devices", "emit", "evaluate", "evolve",
    "init", "mcp", "profile", "rank", "replay", "report", "score", "serve", "train", "tune",
)  # fmt: skip
_VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z| UTC)?"), "<time>"),
    (re.compile(r'("(compile_s|wall_s|final_s|created|seconds)": )[\d.e-]+'), r"\1<s>"),
    (re.compile(r'"platform": "[^"]*"'), '"platform": <platform>'),
    (re.compile(r"/tmp/[\w./-]+"), "<path>"),
)


def commands() -> Iterator[tuple[str, str]]:
    """Yield a name and the words of each command; ``{}`` stands for a file that it writes."""
    for name in _HELP:
        yield f"help.{name}", f"{name} --help"
    yield "devices", "devices"
    for path in sorted((_ROOT / "examples").glob("*.py")):
        about = f"{shlex.quote(str(path))} {_DEVICE}"
        yield f"bound.{path.stem}", f"bound {about}"
        yield f"score.{path.stem}", f"score {about} --explain --json {{}}.json --html {{}}.html"
    kernelbench = _ROOT / "examples" / "kernelbench"
    pair = f"{kernelbench / 'candidate.py'} --reference {kernelbench / 'reference.py'}"
    yield "score.kernelbench", f"score {pair} {_DEVICE} --explain --json {{}}.json"
    yield "rank.softmax", f"rank {_ROOT / 'examples/softmax.py'} {_DEVICE} --json {{}}.json"
    for kernel, shape in _SEARCHES.items():
        for seed in (0, 1, 2):
            name = f"tune.{kernel.replace('/', '.')}.{seed}"
            yield (
                name,
                f"tune {kernel} --recorded h100 --shape {shape} --seed {seed} "
                "--gpu-seconds 3 --json {}.json",
            )


def dump(folder: Path) -> None:
    """Run all commands and write their outputs, without what differs from run to run."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {
            "COLUMNS": "100", "SOLKIT_HINTS": "0", "SOLKIT_CACHE": cache, "XDG_DATA_HOME": cache,
            "XDG_CACHE_HOME": cache,
        }  # fmt: skip
        for name, words in commands():
            command = shlex.split(words.replace("{}", str(folder / name)))
            done = subprocess.run(
                [sys.executable, "-m", "solkit", *command],
                capture_output=True, text=True, env=environment, cwd=cache,
            )  # fmt: skip
            text = f"exit code {done.returncode}\n{done.stdout}\n-- errors\n{done.stderr}"
            (folder / f"{name}.txt").write_text(text, "utf-8")
            print(name, done.returncode, flush=True)
    for path in folder.iterdir():
        path.write_text(stable(path.read_text("utf-8"), folder), "utf-8")


def stable(text: str, folder: Path) -> str:
    """Replace what differs between two runs of one tree, or between two places of it."""
    text = text.replace(str(folder), "<folder>").replace(str(_ROOT), "<root>")
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return text


def compare(before: Path, after: Path) -> int:
    """Print the differences; the number of outputs that differ."""
    names = sorted({path.name for folder in (before, after) for path in folder.iterdir()})
    differing = 0
    for name in names:
        old, new = (
            (folder / name).read_text("utf-8").splitlines() if (folder / name).exists() else []
            for folder in (before, after)
        )
        lines = list(difflib.unified_diff(old, new, f"before/{name}", f"after/{name}", "", "", 0))
        differing += bool(lines)
        for line in lines[:40]:
            print(line[:200])
    print(f"{differing} of {len(names)} outputs differ")
    return differing


def main() -> None:
    """Dump or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("dump", "compare"))
    parser.add_argument("folders", nargs="+", type=Path)
    options = parser.parse_args()
    if options.what == "dump":
        dump(options.folders[0].resolve())
    else:
        sys.exit(1 if compare(*options.folders) else 0)


if __name__ == "__main__":
    main()
