"""Puts a model that `solkit train` wrote where SolKit ships it.

From the root of a checkout: ``python -m tools.ship_surrogate FILE``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from solkit.surrogate.shipped import LANGUAGE_FILE, MODEL_FILE, write_shipped_files

if __name__ == "__main__":
    files = Path("surrogate") / MODEL_FILE, Path("datasets/data") / LANGUAGE_FILE
    write_shipped_files(Path(sys.argv[1]), *files)
    for each in files:
        size = f"{each.stat().st_size / 1e6:.1f} MB" if each.exists() else "none"
        print(f"{each}: {size}")
