import xml.etree.ElementTree as ElementTree

import pytest

from solkit.errors import InputError
from solkit.report import figures, schema
from solkit.report.overview import named

pytest.importorskip("matplotlib", reason="figures need solkit[report]")


def models(*reports):
    return named([schema.to_model(report) for report in reports], ["a.json", "b.json"])


def words(path):
    return " ".join(ElementTree.parse(path).getroot().itertext())


@pytest.mark.slow
def test_every_figure_as_png_and_svg(make, tmp_path):
    reports = models(make.report(make.explained()), make.report(make.measured()))
    written = figures.write(reports, tmp_path / "new" / "folder")
    stems = ["matmul-a.json-roofline", "matmul-a.json-gap-1", "matmul-b.json-roofline"]
    names = [f"{s}.{kind}" for s in (*stems, "comparison-1") for kind in ("png", "svg")]
    assert [path.name for path in written] == names
    for path in written:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
    gap = words(written[3])
    for text in ("extra traffic", "1.20×", "SOL", "measured", "1.50×", "193 µs"):
        assert text in gap
    roofline = words(written[1])
    for text in ("dram, 3.352 TB/s", "tensor.bf16", "FLOP per byte", "1 PFLOP/s", "measured"):
        assert text in roofline


def test_the_same_figure_is_the_same_file(make, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_KINDS", ("svg",))
    reports = models(make.report(make.result()))
    one, other = (figures.write(reports, tmp_path / name)[0] for name in "ab")
    assert one.read_bytes() == other.read_bytes()


def test_a_name_is_no_path_and_no_formula(make, tmp_path, monkeypatch):
    report = schema.to_model(make.report(make.measured()))
    kernel = report.kernel.model_copy(update={"name": "../$x^$/<k>"})
    odd = report.model_copy(update={"kernel": kernel})
    monkeypatch.setattr(figures, "_KINDS", ("svg",))
    written = figures.write(named([odd, odd]), tmp_path)
    assert {path.parent for path in written} == {tmp_path}
    assert "../$x^$/<k>" in words(written[0])
    assert "../$x^$/<k>" in words(tmp_path / "comparison-1.svg")


def test_a_folder_that_cannot_be(make, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--figures: cannot write to"):
        figures.write(models(make.report()), tmp_path / "file")
