"""Source texts as files in a private folder, each named by its hash."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from solkit.userdata import write_atomically

_DIGITS = 16  # 64 bits: two of a million texts share a name with a chance of 3 in 10^8


class Texts:
    """A temporary folder for source texts, which `close` removes.

    Each text has its own folder, so that in a sandbox none sees the others.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="solkit-lab-", ignore_cleanup_errors=True)

    def path(self, source: str | os.PathLike[str]) -> str:
        """Return the file of a source: a path, or a text, which has more than one line."""
        text = os.fspath(source)
        return text if "\n" not in text else self._write_text(text)

    def close(self) -> None:
        """Remove all of them."""
        self._folder.cleanup()

    def _write_text(self, text: str) -> str:
        data = text.encode()
        name = hashlib.sha256(data).hexdigest()[:_DIGITS]
        file = Path(self._folder.name) / name / f"{name}.py"
        if not file.exists() or file.read_bytes() != data:  # a candidate may change its own file
            write_atomically(file, data)
        return str(file)
