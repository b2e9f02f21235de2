"""Rooms import only rooms below them: docs/decisions/0017-order-of-rooms.md.

What few need stays at the edge: docs/decisions/0049-what-few-need.md.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ORDER = (
    ("errors", "spans", "userdata"),
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
KERNEL_FILES = (
    "datasets/zoo",
    "datasets/inductor",
    "datasets/languages",
    "datasets/libraries",
    "datasets/public",
)  # as users write them: they import no room


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
        for item in (*inner, *(part.body for part in parts)):
            yield from statements(item)


@functools.cache
def import_statements(text):
    """Those of a file, in functions and for type checking as well."""
    nodes = statements(ast.parse(text).body)
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(text):
    """The rooms that a file imports, with lines."""
    for node in import_statements(text):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
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
    pairs = [(name, room, (ROOT / name).read_text(encoding="utf-8")) for name, room in files()]
    assert [line for pair in pairs for line in upward(*pair)] == []


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


# ------------------------------------------------------------------- what few need, at the edge

OPTIONAL = {
    "benches of a cluster": ("solkit.measure.benches.ray", "solkit.measure.benches.remote"),
    "service": ("solkit.service",),
    "language regressor": ("solkit.surrogate.language",),
    "rewriting": (
        "solkit.pipeline.compiled_parents",
        "solkit.pipeline.evolve_log",
        "solkit.pipeline.evolve_original",
        "solkit.pipeline.evolve_selection",
        "solkit.pipeline.evolving",
        "solkit.pipeline.held_out_kernels",
        "solkit.pipeline.kernel_evaluator",
        "solkit.pipeline.practice",
        "solkit.pipeline.studies_ahead",
        "solkit.pipeline.timed_variants",
        "solkit.pipeline.variant_checks",
        "solkit.pipeline.variant_ranking",
        "solkit.tuner.evolution",
        "solkit.tuner.proposers.rewriter",
    ),
    "evaluators for other loops": (
        "solkit.integrations.evaluator",
        "solkit.integrations.grading_process",
        "solkit.integrations.openevolve",
        "solkit.integrations.rl",
        "solkit.integrations.shinka",
    ),
}

EDGE = ("solkit", "solkit.cli", "solkit.integrations", "solkit.service")
"""The command line, the lazy public names, and what is itself for other programs."""

SEAMS = {
    ("solkit.measure.benches.local", "solkit.measure.benches.remote"): "one host speaks as many",
    ("solkit.pipeline.remote_gpus", "solkit.measure.benches.ray"): "opens what settings name",
    ("solkit.pipeline.remote_gpus", "solkit.measure.benches.remote"): "opens what settings name",
    ("solkit.surrogate.ensemble", "solkit.surrogate.language"): "stacks it on the trees",
    ("solkit.surrogate.model", "solkit.surrogate.language"): "loads it where a model has one",
}
"""The one place in the core where each is joined, with the reason. This list may only shrink."""


def module_of(path):
    parts = path.with_suffix("").parts
    name = ".".join(parts if parts[0] == "solkit" else ("solkit", *parts))
    return name.removesuffix(".__init__")


def is_within(module, package):
    return module == package or module.startswith(f"{package}.")


@pytest.fixture(scope="module")
def imports_of():
    """Each module of the rooms with the full names that it imports, inner imports too."""
    return {module_of(path): set(imports(path)) for path, _ in files()}


def imports(path):
    """The full names that a file imports, inner imports too; from packages with the name."""
    for node in import_statements((ROOT / path).read_text("utf-8")):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_core_does_not_name_what_few_need(imports_of):
    joined = set()
    for module, names in imports_of.items():
        if module == "solkit" or any(is_within(module, edge) for edge in EDGE[1:]):
            continue
        for packages in OPTIONAL.values():
            if any(is_within(module, package) for package in packages):
                continue
            joined |= {
                (module, package)
                for name in names
                for package in packages
                if is_within(name, package)
            }
    assert joined == set(SEAMS)


def test_what_few_need_uses_public_names_alone(imports_of):
    private = []
    for module, names in imports_of.items():
        for packages in OPTIONAL.values():
            own = next((package for package in packages if is_within(module, package)), None)
            if own is None:
                continue
            home = own.rpartition(".")[0] if module == own and "." in own else own
            private += [
                f"{module} imports {name}"
                for name in names
                if name.startswith("solkit.")
                and not is_within(name, home)
                and any(part.startswith("_") and part != "__all__" for part in name.split("."))
            ]
    assert private == []
