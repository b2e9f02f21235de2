"""Blocks of the documentation: which are found, and which are listed as not run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import blocks

DOCS = blocks.ROOT / "docs"
PAGES = [blocks.ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("lab/*.md"))]
BLOCKS = [block for page in PAGES for block in blocks.blocks_of(page)]
PYTHON = [block for block in BLOCKS if block.kind == "python"]


@pytest.mark.parametrize("block", PYTHON, ids=lambda item: f"{item.page}:{item.line}")
def test_a_block_is_python_at_its_line(block):
    ast.parse(block.text)
    lines = Path(blocks.ROOT, block.page).read_text(encoding="utf-8").splitlines()
    assert lines[block.line - 1] == block.text.splitlines()[0]


def test_each_reason_belongs_to_one_block():
    for page, reasons in blocks.NOT_RUN.items():
        for text in reasons:
            assert len([b for b in PYTHON if b.page == page and text in b.text]) == 1, text


def test_each_command_that_has_a_substitute_is_on_a_page_whose_commands_run():
    commands = list(blocks.commands_of([b for b in BLOCKS if b.page in blocks.COMMAND_PAGES]))
    assert len(commands) > 8
    for words in blocks.COMMANDS:
        assert any(command.startswith(words) for command in commands), words


def test_a_command_over_several_lines_is_one():
    block = blocks.Block("page.md", 1, "bash", "solkit bound a.py \\\n    --device h100  # b\nls\n")
    assert list(blocks.commands_of([block])) == ["solkit bound a.py --device h100"]


def test_a_block_that_fails_is_named_by_its_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(blocks, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\nx = 1\n```\n\n```python\nassert x == 1\n\n1 / 0\n```\n")
    with pytest.raises(SystemExit, match=r"page\.md:8 fails"):
        blocks.run_page(page)
    assert 'page.md", line 10' in capsys.readouterr().err


def test_of_a_block_that_is_not_run_the_imports_run(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "ROOT", tmp_path)
    monkeypatch.setattr(blocks, "NOT_RUN", {"page.md": {"1 / 0": "it divides"}})
    page = tmp_path / "page.md"
    page.write_text("```python\nimport json\n1 / 0\n```\n\n```python\njson.dumps(1)\n```\n")
    blocks.run_page(page)
    page.write_text("```python\nimport no_such_module\n1 / 0\n```\n")
    with pytest.raises(SystemExit, match=r"page\.md:2 fails"):
        blocks.run_page(page)
