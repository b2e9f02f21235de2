"""Old keywords of functions that take settings now."""

from __future__ import annotations

import pytest

from solkit.core import MeasureSettings
from solkit.deprecation import moved_to_settings, renamed


@moved_to_settings(limit_s="time_limit_s study_limit_s", trace="log")
def measure(path, *, settings=None):
    return path, settings


@renamed(problem="reference")
def rank(path, reference=None):
    return path, reference


def test_a_renamed_keyword_is_understood_and_the_new_name_told():
    with pytest.warns(DeprecationWarning, match=r"rank\(\): problem is called reference now"):
        assert rank("k.py", problem="p.py") == ("k.py", "p.py")
    assert rank("k.py", reference="p.py") == ("k.py", "p.py")


class Holder:
    def __init__(self):
        self.settings = MeasureSettings(protocol="warm")

    @moved_to_settings(trace="log")
    def measure(self, *, settings=None):
        return settings


def test_an_old_keyword_sets_all_that_took_its_place_and_names_it():
    with pytest.warns(DeprecationWarning, match=r"limit_s moved: .*time_limit_s=\.\.\."):
        found = measure("k.py", limit_s=9.0)
    assert found == ("k.py", MeasureSettings(time_limit_s=9.0, study_limit_s=9.0))


def test_what_the_settings_say_beside_it_stays():
    with pytest.warns(DeprecationWarning, match="moved"):
        _, settings = measure("k.py", trace="a.jsonl", settings=MeasureSettings(sandbox=True))
    assert settings == MeasureSettings(log="a.jsonl", sandbox=True)
    with pytest.warns(
        DeprecationWarning, match="moved"
    ):  # a method's own settings, where the call gives none
        assert Holder().measure(trace="a.jsonl") == MeasureSettings(log="a.jsonl", protocol="warm")


def test_none_was_the_default():
    with pytest.warns(DeprecationWarning, match="moved"):
        assert measure("k.py", limit_s=None) == ("k.py", MeasureSettings())


def test_without_old_keywords_nothing_is_said(recwarn):
    assert measure("k.py") == ("k.py", None)
    assert not recwarn
