"""The documentation uses plain words: a list of others, each with a better one."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHANGELOG_CHARACTERS = 160

BETTER = {
    r"told": "reported",
    r"in place of": "instead of",
    r"anew": "again",
    r"mend(?:s|ed|ing)?": "fix",
    r"beside": "next to",
    r"so many": "n",
    r"in turns": "alternating, alternately",
    r"(?:go|goes|gone|going) on with": "continue",
}
"""Words that nobody says any more, as regular expressions, and what to write instead."""

PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "lab").glob("*.md")),
]
_CODE = re.compile(r"^```.*?^```|`[^`]*`", re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    """A page's text with its code blanked out: every line stays at its number."""
    return _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)


def faults(name: str, text: str) -> list[str]:
    """Find the words of the list: file and line, the word, and a better one."""
    return [
        f"{name}:{number}: {match[0]!r}: write {better!r}"
        for number, line in enumerate(prose(text).splitlines(), 1)
        for words, better in BETTER.items()
        for match in re.finditer(rf"\b{words}\b", line, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_uses_plain_words(page):
    name = page.relative_to(ROOT).as_posix()
    assert faults(name, page.read_text(encoding="utf-8")) == []


def test_a_fault_names_file_line_and_a_better_word():
    text = "one\n\n```console\n$ solkit told beside\n```\nIn place of `told`, it stands beside.\n"
    assert faults("page.md", text) == [
        "page.md:6: 'In place of': write 'instead of'",
        "page.md:6: 'beside': write 'next to'",
    ]


def test_words_that_only_contain_one_of_the_list_are_left_alone():
    assert faults("page.md", "Besides, amendments and retold canewood.") == []


def test_a_change_takes_one_line_of_the_changelog():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    changes = lines[lines.index("## Unreleased") + 1 :]
    assert len(changes) > 100
    unlike = [line for line in changes if line and not line.startswith(("- ", "## "))]
    assert unlike == []
    assert [line for line in changes if len(line) > CHANGELOG_CHARACTERS] == []


# --------------------------------------------------------------------------------- docstrings

CLAUSE = re.compile(r'(?:\A|:\n\s*)"""((?:What|Whether|Of|How|Its)\b[^\n]*)')
"""The first line of a docstring that opens with a clause: a verb or a noun says it sooner."""

DESCRIPTIONS = {"app.py", "mcp.py", "requests.py"}  # of the service, for those who call it


def test_docstrings_begin_with_a_verb_or_a_noun():
    files = [
        path for _, path in runpy.run_path(str(ROOT / "bench" / "lines.py"))["product_files"]()
    ]
    assert len(files) > 500
    clauses = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in files
        if not (path.parent.name == "service" and path.name in DESCRIPTIONS)
        for line in CLAUSE.findall(path.read_text(encoding="utf-8"))
    ]
    assert clauses == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"""What it is."""\n', "What it is."),
        ('class Row:\n    """How a row is.\n\n    More.\n    """\n', "How a row is."),
        ('def is_whole(self):\n    """Whether it is whole."""\n', "Whether it is whole."),
    ],
)
def test_a_docstring_that_opens_with_a_clause_is_seen(text, line):
    assert CLAUSE.findall(text)[0].removesuffix('"""') == line


@pytest.mark.parametrize("text", ['x = """What"""\n', 'def f():\n    """Whatever it takes."""\n'])
def test_other_texts_are_no_such_docstrings(text):
    assert CLAUSE.findall(text) == []
