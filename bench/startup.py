"""Start-up times of commands beside `import torch`, and `solkit watch`'s time from save to page.

    python bench/startup.py [--repeats 7] [--kernel examples/softmax.py]

Prints medians of alternating runs: (1) wall and CPU time of each command, and their ratios to those
of ``python -c "import torch"``. CPU time is summed over all processes of a command; prefer it if
other programs share the cores. (2) The time from saving an edited kernel to its modelled page under
`solkit watch`, and the time of `solkit score` for a similar edit. Each edit changes a constant, so
the kernel is compiled anew. Caches are temporary folders.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
TARGETS = {"score, cached": 1.6, "bound, cached": 1.3}
"""Of the wall time of `import torch`."""
TARGET_SAVE_S = 1.0
IMPORT = "import torch"
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)

Times = tuple[float, float]
"""Wall and CPU seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--kernel", type=Path, default=ROOT / "examples/softmax.py")
    parser.add_argument("--device", default="h100")
    parser.add_argument("--shape", default="M=4096,N=1024")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(_ADOPT, 1)  # what a command leaves behind is waited for, and counted
    console = Console(width=100)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "SOLKIT_CACHE": f"{folder}/solkit", "TRITON_CACHE_DIR": f"{folder}/triton",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }  # fmt: skip
        kernel = Path(folder) / options.kernel.name
        kernel.write_text(options.kernel.read_text())
        target = [str(kernel), "--device", options.device, "--shape", options.shape]
        reached = print_commands(console, target, options.repeats)
        reached &= print_saves(console, kernel, target, options.repeats)
    return 0 if reached else 1


# ------------------------------------------------------------------------------ commands


def print_commands(console: Console, target: Sequence[str], repeats: int) -> bool:
    """Times of each command; whether the targets are reached."""
    solkit = [sys.executable, "-m", "solkit"]
    commands = {
        IMPORT: [sys.executable, "-c", "import torch"],
        "score, cached": [*solkit, "score", *target],
        "bound, cached": [*solkit, "bound", *target],
        "--help": [*solkit, "--help"],
    }
    for command in commands.values():  # fills the caches
        timed(command)
    results: dict[str, list[Times]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            results[name].append(timed(command))
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("command", "wall s", "CPU s", "wall ratio", "CPU ratio", "target"):
        table.add_column(name, justify="left" if name == "command" else "right")
    base = medians(results[IMPORT])
    ratios = {name: medians(times)[0] / base[0] for name, times in results.items()}
    for name, times in results.items():
        wall, cpu = medians(times)
        target = f"{TARGETS[name]:.1f}" if name in TARGETS else ""
        cells = (f"{wall:.2f}", f"{cpu:.2f}", f"{ratios[name]:.2f}", f"{cpu / base[1]:.2f}", target)
        table.add_row(name, *cells)
    console.print(table)
    return all(ratios[name] <= target for name, target in TARGETS.items())


def medians(times: Sequence[Times]) -> Times:
    walls, cpus = zip(*times, strict=True)
    return statistics.median(walls), statistics.median(cpus)


def timed(command: Sequence[str]) -> Times:
    """Wall seconds until a command ends, and CPU seconds of all that it started."""
    before, start = cpu_s(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return wall, cpu_s() - before


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --------------------------------------------------------------------------------- saves


def print_saves(console: Console, kernel: Path, target: Sequence[str], repeats: int) -> bool:
    """Times from save to page; whether the median reaches the target."""
    text = kernel.read_text()
    edits = iter(range(10**6))

    def save() -> None:
        body = text.replace("tl.exp(", f"tl.exp({1 + next(edits) / 10**6} * ")
        draft = kernel.with_suffix(".draft")
        draft.write_text(body)
        draft.replace(kernel)

    saves, colds = [], []
    score = [sys.executable, "-m", "solkit", "score", *target]
    for _ in range(repeats):
        save()
        colds.append(timed(score)[0])
    with watching(target) as lines:
        page(lines)  # from the cache: torch may still be loading
        for _ in range(repeats + 1):
            save()
            start = time.perf_counter()
            page(lines)
            saves.append(time.perf_counter() - start)
    del saves[0]  # it waited for torch
    console.print(f"\nsave to page: {spread(saves)}, target {TARGET_SAVE_S:g}")
    console.print(f"`solkit score` of the same edit: {spread(colds)}")
    return statistics.median(saves) <= TARGET_SAVE_S


def spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


@contextmanager
def watching(target: Sequence[str]) -> Iterator[Iterator[str]]:
    """The lines that `solkit watch` prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "solkit", "watch", *target], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield iter(process.stdout)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def page(lines: Iterator[str]) -> None:
    """Read to the end of a page: the blank line below the times by line."""
    for line in lines:
        if line.startswith("modelled time by line"):
            break
    for line in lines:
        if not line.strip():
            return


if __name__ == "__main__":
    sys.exit(main())
