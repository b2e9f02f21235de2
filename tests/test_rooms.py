"""Rooms import only rooms below them: docs/decisions/0017-order-of-rooms.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ORDER = (
    ("errors", "userdata"),
    ("extras",),
    ("core",),
    ("ops",),
    ("datasets",),
    ("processes",),
    ("adapters",),
    ("roofline",),
    ("kernelfiles",),
    ("analysis",),
    ("measure",),
    ("collect", "calibrate", "profiling", "llm"),
    ("surrogate",),
    ("tuner",),
    ("pipeline",),
    ("integrations", "report"),
    ("service",),
    ("cli",),
    ("__init__", "__main__"),
)
"""The rooms from the ground up; those of one line do not import each other."""

FLOOR = {room: floor for floor, rooms in enumerate(ORDER) for room in rooms}
KERNEL_FILES = ("datasets/zoo", "datasets/inductor")  # as users write them: they import no room


def files():
    """Each file of a room, with the room's name."""
    for top in ("solkit", "roofline", "datasets", "surrogate", "tuner"):
        for path in sorted((ROOT / top).rglob("*.py")):
            linked = any(parent.is_symlink() for parent in path.parents)
            name = path.relative_to(ROOT)
            if not linked and not name.as_posix().startswith(KERNEL_FILES):
                yield name, name.parts[0] if top != "solkit" else Path(name.parts[1]).stem


def statements(body):
    """All statements, inner ones too; `ast.walk` would visit every name and number besides."""
    for node in body:
        yield node
        inner = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        parts = [*getattr(node, "handlers", []), *getattr(node, "cases", [])]
        for each in (*inner, *(part.body for part in parts)):
            yield from statements(each)


def imported(text):
    """The rooms that a file imports, with lines: in functions and for type checking as well."""
    for node in statements(ast.parse(text).body):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole module"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = names if node.module == "solkit" else [node.module]
        for module in modules:
            package, *rooms = module.split(".")
            if package == "solkit" and rooms:
                yield node.lineno, rooms[0]


def upward(name, room, text):
    """The imports of a file that lead to no lower room."""
    return [
        f"{name}:{line} imports {other}"
        for line, other in imported(text)
        if other != room and FLOOR[other] >= FLOOR[room]
    ]


def test_every_room_has_a_place_in_the_order():
    rooms = {room for _, room in files()}
    assert len(rooms) > 12
    assert rooms - FLOOR.keys() == set()


def test_rooms_import_only_rooms_below_them():
    found = [(name, room, (ROOT / name).read_text(encoding="utf-8")) for name, room in files()]
    assert [line for each in found for line in upward(*each)] == []


@pytest.mark.parametrize(
    "text",
    [
        "from solkit.measure.guarded import session",
        "from solkit import pipeline",
        "def later():\n    import solkit.measure",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from solkit.report import units",
        "try:\n    pass\nexcept OSError:\n    import solkit.measure",
        "match 1:\n    case 1:\n        import solkit.measure",
    ],
)
def test_an_import_of_a_higher_room_is_found_wherever_it_stands(text):
    assert len(upward("solkit/analysis/new.py", "analysis", text)) == 1
    assert upward("solkit/cli/new.py", "cli", text) == []


def test_rooms_of_one_floor_do_not_import_each_other():
    assert upward("new.py", "collect", "import solkit.profiling") == ["new.py:1 imports profiling"]
