"""Kernel files on their way: what loading reads comes along, in the same places."""

from __future__ import annotations

import pytest

from solkit.datasets.kernels import kernel_at_path
from solkit.errors import InputError
from solkit.measure.benches import source_archive
from solkit.measure.benches.source_archive import make_bundle


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "deep" / "scaling"
    (folder / "package" / "inner").mkdir(parents=True)
    for name, text in {
        "problem.py": "KIND = 'elementwise'\n",
        "scale.py": "import helper, torch\nfrom package.inner import tools\n",
        "helper.py": "from further import A\n",
        "further.py": "A = 1\n",
        "package/__init__.py": "",
        "package/inner/__init__.py": "from . import tools\n",
        "package/inner/tools.py": "from ..table import ROWS\n",
        "package/table.py": "ROWS = 2\n",
        "stranger.py": "B = 1\n",
        "scale.launch.toml": "grid = [1]\n",
    }.items():
        (folder / name).write_text(text)
    return folder


def names(bundle):
    return {name.removeprefix("scaling/") for name in bundle.files}


def test_a_file_comes_with_what_it_imports_and_nothing_else(folder):
    bundle = make_bundle(str(folder / "scale.py"))
    assert names(bundle) == {
        *("problem.py", "scale.py", "helper.py", "further.py", "scale.launch.toml"),
        *("package/__init__.py", "package/inner/__init__.py", "package/inner/tools.py"),
        "package/table.py",
    }


def test_unpacked_it_is_the_same_kernel(folder, tmp_path):
    path, reference = make_bundle(str(folder / "scale.py")).unpack(tmp_path / "there")
    assert reference is None
    here, there = kernel_at_path(folder / "scale.py"), kernel_at_path(path)
    assert (there.kernel_id, there.family, there.name) == (here.kernel_id, "scaling", here.name)


def test_a_reference_elsewhere_comes_along(folder, tmp_path):
    other = tmp_path / "elsewhere" / "reference.py"
    other.parent.mkdir()
    other.write_text("def reference(): ...\n")
    path, reference = make_bundle(str(folder / "scale.py"), str(other)).unpack(tmp_path / "there")
    here = kernel_at_path(folder / "scale.py", "kernel", other)
    assert kernel_at_path(path, "kernel", reference).kernel_id == here.kernel_id


def test_a_problem_folder_comes_whole(folder):
    (folder / "definition.json").write_text("{}")
    bundle = make_bundle(str(folder))
    assert {"definition.json", "stranger.py"} <= names(bundle)
    assert bundle.path == "scaling"


def test_a_change_is_another_bundle(folder):
    before = make_bundle(str(folder / "scale.py"))
    assert make_bundle(str(folder / "scale.py")) is before  # known by its files' stamps
    (folder / "further.py").write_text("A = 12345\n")
    after = make_bundle(str(folder / "scale.py"))
    assert after.digest != before.digest


def test_unpacking_twice_writes_once(folder, tmp_path):
    bundle = make_bundle(str(folder / "scale.py"))
    path, _ = bundle.unpack(tmp_path)
    (tmp_path / bundle.digest[:16] / "scaling" / "scale.py").write_text("changed\n")
    assert bundle.unpack(tmp_path)[0] == path
    assert not list(tmp_path.rglob(".solkit-*"))


def test_what_cannot_be_sent_is_an_error(folder, monkeypatch):
    with pytest.raises(InputError, match=r"cannot read .*missing"):
        make_bundle(str(folder / "missing.py"))
    monkeypatch.setattr(source_archive, "MOST_BYTES", 10)
    (folder / "large.py").write_text("x = 1\n" * 10)
    with pytest.raises(InputError, match="at most 0 MiB are sent"):
        make_bundle(str(folder / "large.py"))
