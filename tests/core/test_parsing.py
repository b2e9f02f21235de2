"""Texts are parsed in threads, and beside a thread that parses without us."""

from __future__ import annotations

import ast
import sys
import threading
from pathlib import Path

import pytest

from solkit.core.parsing import syntax_tree

TEXT = Path(ast.__file__).read_text()


class Cycle:
    """Garbage whose end runs Python: another thread may run then, in the midst of a parse."""

    def __init__(self):
        self.own = self

    def __del__(self):
        for _ in range(300):
            pass


@pytest.fixture
def _hasty():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("_hasty")
def test_threads_parse_at_once():
    faults = []

    def parse():
        try:
            for _ in range(6):
                for _ in range(3):
                    Cycle()
                assert ast.dump(syntax_tree(TEXT)) == expected
        except BaseException as error:
            faults.append(error)

    expected = ast.dump(ast.parse(TEXT))
    threads = [threading.Thread(target=parse) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_a_parse_that_another_thread_disturbed_is_tried_again(monkeypatch):
    parse, calls = ast.parse, []

    def disturbed(*args, **kwargs):
        calls.append(args)
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=42, after=35)")
        return parse(*args, **kwargs)

    monkeypatch.setattr(ast, "parse", disturbed)
    tree = syntax_tree("1 + 2", mode="eval")
    assert (ast.unparse(tree), len(calls)) == ("1 + 2", 3)


def test_a_text_at_fault_is_named():
    with pytest.raises(SyntaxError) as caught:
        syntax_tree("x = (", "kernel.py")
    assert (caught.value.filename, caught.value.lineno) == ("kernel.py", 1)
