"""Python blocks of the documentation, and commands of two pages, run as a reader would run them.

::

    python -m tools.blocks README.md docs/*.md docs/lab/*.md

The ``python`` blocks of a page run in their order in one process, in a folder that holds a file for
each placeholder (`tools.placeholders.files`). ``tools/placeholders/PAGE.py`` runs first: it
defines the names that the page leaves to the reader, such as an objective. The ``solkit``
commands in the ``bash`` blocks of the `COMMAND_PAGES` run as well. `NOT_RUN` and `COMMANDS` list
what does not run, and why; of such a block the imports run.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_PLACEHOLDERS = Path(__file__).parent / "placeholders"
_BLOCK = re.compile(r"^```(?P<kind>python|bash)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
_LIMIT_S = 600  # of a page, or of a command

_GPU = "it times on a GPU"
NOT_RUN = {
    "docs/integrations.md": {'solkit.apply("tuned/")': "a batch on a GPU writes the folder"},
    "docs/recording.md": {"train_step(batch)": "the program is the reader's"},
    "docs/evolving.md": {"evolved = solkit.evolve(": _GPU},
    "docs/measuring.md": {"lab.measure(path": _GPU, "solkit.compare(": _GPU},
    "docs/lab/surrogate.md": {
        'LanguageRegressor(backbone="folder"': "a backbone comes from a network",
        "PromptedForecaster(chat)": "it asks a language model behind an endpoint",
    },
    "docs/tuning.md": {
        "solkit.tune(": _GPU,
        "solkit.tune_call(": _GPU,
        "solkit.batch(": _GPU,
    },
    "docs/lab/tuning.md": {
        "gpus_named(": _GPU,
        "open_storage(": "it asks a PostgreSQL server",
    },
}
"""By page: a text that a block holds, and why the block does not run."""


@dataclass(frozen=True)
class Instead:
    """Substitute for a command.

    Attributes:
        why: it cannot run as it is.
        command: runs in its place; ``None``: the command itself, which must end with exit code 2
            and say that it needs a GPU.
    """

    why: str
    command: str | None = None


COMMAND_PAGES = ("README.md", "docs/cli.md")
"""Pages whose ``bash`` blocks run too."""

COMMANDS = {
    "solkit tune kernel.py": Instead(
        _GPU,
        "solkit tune softmax/whole_row --recorded my-data --shape M=8192,N=1024 --json tune.json",
    ),
    "solkit batch manifest.toml": Instead(_GPU, "solkit batch manifest.toml --triage"),
    "solkit evolve kernel.py": Instead(_GPU),
    "solkit evolve reference.py": Instead(_GPU),
    "solkit evolve problems/rmsnorm": Instead(_GPU),
    "solkit train": Instead("200,000 rows take minutes", "solkit train --out mine.solkit my-data"),
    "solkit evaluate": Instead(
        "200,000 rows take minutes",
        "solkit evaluate my-data --split problems --members 1 --no-baselines",
    ),
}
"""Commands of these pages that do not run as they are, by their first words."""


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        page: its file, from the root of the repository.
        line: of its first line, from 1.
        kind: ``"python"`` or ``"bash"``.
        text: its lines.
    """

    page: str
    line: int
    kind: str
    text: str

    @property
    def why_not(self) -> str | None:
        """The reason why it does not run; ``None`` if it does."""
        reasons = NOT_RUN.get(self.page, {})
        return next((why for text, why in reasons.items() if text in self.text), None)


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in its order."""
    text = page.read_text(encoding="utf-8")
    name = page.resolve().relative_to(ROOT).as_posix()
    return [
        Block(name, text.count("\n", 0, at.start()) + 2, at["kind"], at["text"])
        for at in _BLOCK.finditer(text)
    ]


def commands_of(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the ``solkit`` commands of ``bash`` blocks, without comments."""
    for block in blocks:
        text = block.text.replace("\\\n", " ") if block.kind == "bash" else ""
        for line in text.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["solkit"]:
                yield shlex.join(words)


# ------------------------------------------------------------------------------------- in a child


def run_page(page: Path) -> None:
    """Run a page's Python blocks in this process, in the current folder."""
    before = _PLACEHOLDERS / f"{page.stem.lower()}.py"
    names: dict[str, object] = {"__name__": "docs"}
    if before.exists():
        exec(compile(before.read_text(encoding="utf-8"), str(before), "exec"), names)
    for block in blocks_of(page):
        if block.kind == "python":
            _run(block, names)


def _run(block: Block, names: dict[str, object]) -> None:
    where = f"{block.page}:{block.line}"
    tree = ast.parse(block.text, where)
    if block.why_not is not None:
        tree.body = [
            statement
            for statement in tree.body
            if isinstance(statement, (ast.Import, ast.ImportFrom))
        ]
    ast.increment_lineno(tree, block.line - 1)
    try:
        exec(compile(tree, block.page, "exec"), names)
    except Exception:
        traceback.print_exc()
        sys.exit(f"{where} fails")


# ---------------------------------------------------------------------------------- in the parent


def _checked(page: Path, files: Path) -> str | None:
    """Return what is wrong with a page's Python; ``None`` if it runs."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(files, folder, dirs_exist_ok=True)
        command = [sys.executable, "-m", "tools.blocks", "--here", str(page.resolve())]
        return _failure(command, folder)


def _commanded(command: str, files: Path) -> str | None:
    """Return what is wrong with a command; ``None`` if it works, or says that it needs a GPU."""
    instead = _instead(command)
    runs = command if instead is None or instead.command is None else instead.command
    needs_gpu = instead is not None and instead.command is None
    words = [sys.executable, "-m", *shlex.split(runs)]
    if not needs_gpu:
        return _failure(words, str(files))
    done = _ran(words, str(files))
    refuses = done.returncode == 2 and "GPU" in done.stderr
    return None if refuses else f"exit code {done.returncode}, not 2:\n{done.stderr[-2000:]}"


def _instead(command: str) -> Instead | None:
    return next((it for words, it in COMMANDS.items() if command.startswith(words)), None)


def _failure(words: Sequence[str], folder: str) -> str | None:
    done = _ran(words, folder)
    return None if done.returncode == 0 else (done.stdout + done.stderr)[-4000:]


def _ran(words: Sequence[str], folder: str) -> subprocess.CompletedProcess[str]:
    data = dict.fromkeys(("XDG_DATA_HOME", "SOLKIT_TRACES", "SOLKIT_CALIBRATIONS"), folder)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    try:
        return subprocess.run(
            words,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            env={**os.environ, **data, "PYTHONPATH": path, "MPLBACKEND": "Agg"},
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"no end after {_LIMIT_S} s")


def check(pages: Sequence[Path]) -> bool:
    """Run all, print what ran and what did not, and say whether all is well."""
    from tools.placeholders import files

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "commands")
        files.make(Path(folder, "files"))
        shutil.copytree(Path(folder, "files"), work)
        blocks = {page: blocks_of(page) for page in pages}
        python = [page for page in pages if any(b.kind == "python" for b in blocks[page])]
        commands = [
            command
            for page in pages
            for command in commands_of(blocks[page])
            if page.resolve().relative_to(ROOT).as_posix() in COMMAND_PAGES
        ]
        # a command may read what the one before it wrote, so these stay in order
        with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
            futures = {
                str(page): one.submit(_checked, page, Path(folder, "files")) for page in python
            }
            futures |= {c: other.submit(_commanded, c, work) for c in commands}
            faults = {what: fault for what, future in futures.items() if (fault := future.result())}
    listed = [b for page in python for b in blocks[page] if b.kind == "python" and b.why_not]
    ran = sum(b.kind == "python" for page in python for b in blocks[page]) - len(listed)
    for block in listed:
        print(f"{block.page}:{block.line} imports alone: {block.why_not}")
    for what, fault in faults.items():
        print(f"-- {what}\n{fault}")
    for command in commands:
        if (instead := _instead(command)) is not None:
            print(f"{command}: {instead.why}; {instead.command or 'it says so'}")
    print(
        f"{ran} blocks ran, {len(listed)} did not; {len(commands)} commands; {len(faults)} faults"
    )
    return not faults


def main() -> None:
    """Run the blocks of pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--here", action="store_true", help="in this process and folder")
    options = parser.parse_args()
    if options.here:
        for page in options.pages:
            run_page(page)
        return
    sys.exit(0 if check(options.pages) else 1)


if __name__ == "__main__":
    main()
