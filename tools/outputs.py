"""Outputs of commands in the documentation, kept real.

A ``console`` block with one ``$ solkit ...`` line and text below it shows that command's output::

    python -m tools.outputs README.md docs/*.md docs/lab/*.md  # runs the commands, writes outputs
    python -m tools.outputs --check README.md docs/*.md        # exit code 1 if one has changed
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

_BLOCK = re.compile(r"```console\n\$ solkit (?P<command>.+)\n(?:(?!\$ |```).*\n)+```")
_COLUMNS = "100"


def refreshed(text: str) -> str:
    """Return a page with the outputs that its commands have now."""
    return _BLOCK.sub(lambda block: _rerun(block["command"]), text)


def _rerun(command: str) -> str:
    process = subprocess.run(
        [sys.executable, "-m", "solkit", *shlex.split(command)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": _COLUMNS, "SOLKIT_HINTS": "0"},
    )
    lines = (line.rstrip() for line in process.stdout.rstrip().splitlines())
    return "\n".join([f"```console\n$ solkit {command}", *lines, "```"])


def main() -> None:
    """Refresh or check pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    stale = []
    for page in options.pages:
        text = page.read_text(encoding="utf-8")
        if (new := refreshed(text)) != text:
            stale.append(page)
            if not options.check:
                page.write_text(new, encoding="utf-8")
    for page in stale:
        print(f"{page}: outputs {'have changed' if options.check else 'refreshed'}")
    sys.exit(1 if stale and options.check else 0)


if __name__ == "__main__":
    main()
