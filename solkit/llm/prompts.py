"""Prompts that lie in a package as files: ``prompts/<version>/<name>``.

`string.Template`'s ``$name`` stands for what is filled in. A version never changes once it has been
released, since records of exchanges name it; a new text is a new folder.
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from string import Template

from solkit.errors import InputError


@functools.lru_cache
def load_prompt(package: str, version: str, name: str) -> Template:
    """Return the prompt ``name`` of a package.

    Raises:
        InputError: there is no such version.
    """
    folder = resources.files(package).joinpath("prompts")
    versions = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if version not in versions:
        raise InputError(f"no prompts of version {version!r}; there are: {', '.join(versions)}")
    return Template((folder / version / name).read_text(encoding="utf-8"))


def fence_python(source: str) -> str:
    """Return code in a fence of Markdown that nothing in the code can close."""
    longest = max((len(run) for run in re.findall("`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{source}\n{fence}"
