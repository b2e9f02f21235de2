"""Records as fields of JSON models."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import ValidationError

from solkit.core import Value
from solkit.report.record_forms import Json, JsonModel, RecordForm


@dataclass(frozen=True)
class Part:
    rate: float
    waited: float | None = None


@dataclass(frozen=True)
class Whole:
    kind: Literal["read", "written"]
    grid: tuple[int, int, int]
    settings: Mapping[str, Value]
    part: Part
    parts: tuple[Part, ...] = ()
    shares: Mapping[str, float] | None = None


class Page(JsonModel):
    whole: Json[Whole]
    several: tuple[Json[Part], ...] = ()


WHOLE = Whole("read", (1, 2, 3), {"M": 4, "x": math.inf}, Part(1.5), (Part(2.0, 3.0),))
DOCUMENT = {
    "kind": "read", "grid": [1, 2, 3], "settings": {"M": 4, "x": "inf"},
    "part": {"rate": 1.5, "waited": None}, "parts": [{"rate": 2.0, "waited": 3.0}], "shares": None,
}  # fmt: skip


def written(model):
    return json.loads(json.dumps(model.model_dump(mode="json"), allow_nan=False))


def test_a_record_is_kept_as_it_is_and_written_with_all_its_fields():
    page = Page(whole=WHOLE)
    assert page.whole is WHOLE
    assert written(page) == {"whole": DOCUMENT, "several": []}


def test_what_is_read_is_a_record_again():
    page = Page.model_validate({"whole": DOCUMENT | {"later": 1}, "several": [{"rate": 1}]})
    assert page.several == (Part(1.0),)
    assert (page.whole.part, page.whole.parts) == (Part(1.5), (Part(2.0, 3.0),))
    assert page.whole.settings == {"M": 4, "x": "inf"}
    assert written(page)["whole"] == DOCUMENT


def test_a_number_that_is_not_finite_is_null_and_comes_back_as_nan():
    page = Page(whole=WHOLE, several=(Part(math.inf, math.nan),))
    assert written(page)["several"] == [{"rate": None, "waited": None}]
    (part,) = Page.model_validate(written(page)).several
    assert math.isnan(part.rate)
    assert part.waited is None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"kind": "lost"}, ("whole", "kind")),
        ({"grid": [1, 2]}, ("whole", "grid", 2)),
        ({"part": {}}, ("whole", "part", "rate")),
        ({"parts": [{"rate": "fast"}]}, ("whole", "parts", 0, "rate")),
    ],
)
def test_a_fault_is_named_with_its_place(change, place):
    with pytest.raises(ValidationError) as caught:
        Page.model_validate({"whole": DOCUMENT | change})
    assert [fault["loc"] for fault in caught.value.errors()] == [place]


def test_a_form_says_what_files_must_have_and_what_old_ones_lack():
    class Kept(JsonModel):
        strict: Annotated[Part, RecordForm("StrictPart", required=True)]
        mild: Annotated[Part, RecordForm(about=": of old files", added=(("rate", 7.0),))]

    assert Kept.model_validate({"strict": {"rate": 1, "waited": 2}, "mild": {}}).mild == Part(7.0)
    with pytest.raises(ValidationError, match=r"strict\.waited"):
        Kept.model_validate({"strict": {"rate": 1}, "mild": {}})
    schema = Kept.model_json_schema()["$defs"]
    assert schema["StrictPart"]["required"] == ["rate", "waited"]
    assert schema["PartJson"]["description"].endswith("Part`: of old files.")
