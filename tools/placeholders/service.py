"""Names that docs/service.md leaves to its reader."""

from pathlib import Path as _Path

sources = [_Path("kernel.py").read_text(encoding="utf-8")]
