"""Check of the wheels' contents: ``python .ci/wheels.py SOLKIT.whl SOLKIT_DATA.whl``."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

LINKED = ("datasets", "roofline", "surrogate", "tuner")  # from solkit/, as symbolic links
MOST_BYTES = 9_500_000  # of the code's wheel, with the surrogate's trees (3.7 MB)
ROOMS = ("datasets/store.py", "roofline/bound.py", "surrogate/surrogate.solkit", "tuner/racing.py")
"""A file of each room that is a symbolic link in a checkout."""


def names(wheel: str) -> set[str]:
    """Return the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def check(is_right: bool, what: str) -> None:
    """Stop unless it is right."""
    if not is_right:
        sys.exit(f"the wheels are wrong: {what}")


code, data = sys.argv[1:]
size = Path(code).stat().st_size
check(size < MOST_BYTES, f"{code} has {size:,} bytes, the most is {MOST_BYTES:,}")
files = names(code)
tops = {name.split("/")[0] for name in files if ".dist-info/" not in name}
check(tops == {"solkit"}, f"{code} holds {sorted(tops)} at its top, expected solkit alone")
for room in ROOMS:
    check(f"solkit/{room}" in files, f"{code} lacks solkit/{room}")
check(not any("datasets/data/" in name for name in files), f"{code} holds measured sets")
tracked = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout
for name in tracked.splitlines():
    room, _, rest = name.partition("/")
    inside = name if room == "solkit" else f"solkit/{name}"
    is_ours = room in ("solkit", *LINKED) and rest and not rest.startswith("data/")
    check(not is_ours or inside in files or Path(name).is_symlink(), f"{code} lacks {inside}")
held = names(data)
for path in Path("datasets/data").rglob("*"):
    name = f"solkit_data/{path.relative_to('datasets/data')}"
    is_wanted = path.is_file() and "__pycache__" not in path.parts
    check(not is_wanted or name in held, f"{data} lacks {name}")
print(f"{Path(code).name}: {size / 1e6:.1f} MB; {Path(data).name}: the measured sets")
