"""Programs of a kernel's reference, compiled beside a search: which, and until when."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("libcst")

from solkit.core import EvolveSettings, Problem, Variant
from solkit.errors import InputError
from solkit.pipeline import compiled_parents
from solkit.pipeline.compiled_parents import CompiledParents
from solkit.pipeline.evolve_original import Original
from solkit.roofline.devices import find

FILE = "def reference(x):\n    return x\n\n\ndef kernel(x):\n    return x\n"
BEST = "the best algorithm's file"


@pytest.fixture
def parents(monkeypatch):
    """Begins to compile; Inductor's texts and libraries come of the function that it is given."""

    def begin(
        compiled,
        best=lambda *_, **__: SimpleNamespace(code="plan", plan="A plan"),
        form="native",
        **how,
    ):
        traced = SimpleNamespace(routes=(), flops_by_pipe={})
        monkeypatch.setattr(compiled_parents, "bound", lambda *_, **__: traced)
        monkeypatch.setattr(compiled_parents, "best", best)
        monkeypatch.setattr(compiled_parents, "planned_reference", lambda *_: "planned")
        monkeypatch.setattr(
            compiled_parents,
            "with_compiled_reference",
            lambda _, __, called, ___, settings, ____: compiled(called[0], settings),
        )
        problem = Problem("p", "k.py", form, "reference", {}, ({},))
        candidate = SimpleNamespace(name="kernel", params={})
        file = SimpleNamespace(problem=problem, candidate=candidate, path="k.py")
        original = Original("k.py", "k.py", file, {}, {}, Variant("first", FILE))
        prepared = SimpleNamespace(device=find("h100"), path=lambda _: BEST)
        return CompiledParents(original, prepared, EvolveSettings(**how))

    return begin


def proposals(futures):
    written = [future.result(timeout=120) for future in futures]
    return [proposal.source for _, proposal in filter(None, written)]


def test_the_reference_its_settings_and_the_best_algorithm_are_variants(parents):
    begun = parents(lambda path, settings: (f"{path} {sorted(settings)}", ()))
    texts = proposals(begun.begin())
    assert texts[0] == "k.py []"
    assert f"{BEST} []" in texts
    assert len(texts) == len(set(texts)) > 4


def test_programs_of_pytorchs_kernels_are_left_out_where_these_are_not_allowed(parents):
    def compiled(path, _):
        return path, () if path == BEST else ("mm",)

    begun = parents(compiled, custom_kernel=True)
    assert proposals(begun.begin()) == [BEST]
    assert begun.notes == []


def test_a_reference_that_is_refused_leaves_a_note_and_no_further_program(parents):
    def compiled(*_):
        raise InputError("it draws random numbers")

    begun = parents(compiled)
    assert proposals(begun.begin()) == []
    assert begun.notes == ["The reference's own program was not tried: it draws random numbers"]


def test_a_function_named_kernel_is_no_entry_point_of_a_model(parents):
    assert parents(lambda *_: ("text", ()), form="kernelbench").begin() == []


def test_nothing_is_compiled_once_the_search_has_ended(parents):
    compiled = []

    def end(*_, **__):
        begun.close()
        return SimpleNamespace(code="plan", plan="A plan")

    def compile_one(path, settings):
        compiled.append(path)
        return f"{path} {sorted(settings)}", ()

    begun = parents(compile_one, end)
    proposals(begun.begin())
    assert compiled == ["k.py"] * 3  # what precedes the best algorithm
