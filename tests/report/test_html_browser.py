"""The page in a browser: it opens offline with nothing to complain of, its controls work."""

import shutil
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from solkit.core import Ceiling
from solkit.report import schema
from solkit.report.overview import named
from solkit.report.sources import Source

pytest.importorskip("jinja2", reason="the pages need solkit[report]")
pytest.importorskip("plotly", reason="the pages need solkit[report]")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

MOST_BYTES = 6_000_000
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Tab:
    """A page in a browser that has no network; what it complains of is kept."""

    def __init__(self, browser, path, viewport, scheme="light"):
        self.complaints, self.requests = [], []
        context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True)
        self.page = context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def drawn(self, name):
        """Wait for a figure, and return what it shows."""
        self.page.locator(f"#{name}").scroll_into_view_if_needed()
        self.page.wait_for_selector(f"#{name} .main-svg")
        return self.page.locator(f"#{name}")

    def visible(self, name):
        """The roofs that a figure shows, as (rates, used)."""
        shown = "p => p.data.filter(t => t.meta?.rates && t.visible).map(t => t.meta)"
        roofs = self.page.eval_on_selector(f"#{name}", shown)
        return {(roof["rates"], roof["used"]) for roof in roofs}

    def ground(self):
        return self.page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.fixture
def pages(make, tmp_path):
    """A page on one kernel, and one on two of which the first is opened by its link."""
    from solkit.report.html import Failure, page

    fp32 = Ceiling(66.9e12, "FLOP/s", 1980, "whitepaper")
    device = make.device(
        ceilings={**make.device().ceilings, "fp32": fp32},
        calibrated={"dram": Ceiling(3.1e12, "B/s", 2619, "calibrated")},
    )
    half = replace(make.demand(), accesses=make.demand().accesses[:1])
    kernel = make.kernel(demand=half, model=make.model())
    second = make.explained(
        shape={"M": 1}, analysis=replace(make.result().analysis, kernels=(kernel,))
    )
    report = make.report(make.explained(), second, device=device)
    source = Source(path="examples/matmul.py", sha256="0", text="x = 1\n" * 120)
    model = schema.to_model(report).model_copy(update={"sources": [source]})
    now = datetime(2026, 11, 21, tzinfo=timezone.utc)
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    one.write_text(page(named([model]), written=now), encoding="utf-8")
    failure = Failure("bad.py", "</script><script>document.title = 'taken'</script>")
    two.write_text(page(named([model, model]), failures=[failure], written=now), encoding="utf-8")
    assert max(one.stat().st_size, two.stat().st_size) < MOST_BYTES
    return one, two


@pytest.mark.slow
def test_a_kernels_page(browser, pages):
    tab = Tab(browser, pages[0], DESKTOP)
    roofline = tab.drawn("k1-roofline")
    assert roofline.locator(".legendtext").all_text_contents() == ["SOL", "modelled", "measured"]
    assert tab.visible("k1-roofline") == {("roofline", True)}

    tab.page.get_by_label("Datasheet").check()
    tab.page.get_by_label("Calibrated").check()
    assert tab.visible("k1-roofline") == {
        (r, True) for r in ("roofline", "datasheet", "calibrated")
    }
    tab.page.get_by_label("Pipes and caches").check()
    assert ("roofline", False) in tab.visible("k1-roofline")
    tab.page.get_by_label("Roofline (highest clock)").uncheck()
    assert tab.visible("k1-roofline") == {("datasheet", True), ("calibrated", True)}

    gap = tab.drawn("k1-s1-gap")
    assert "extra traffic" in gap.text_content()
    gap.locator(".point path").nth(2).hover(force=True)
    tab.page.wait_for_selector("#k1-s1-gap .hovertext")
    assert "50 % of each sector" in gap.locator(".hovertext").text_content()

    w = tab.page.locator(".cost", has_text="w_ptr")
    assert w.is_visible()
    tab.page.get_by_label("Costs at").select_option(label="M=1")
    assert not w.is_visible()

    light = tab.ground()
    tab.page.get_by_role("button", name="Light or dark").click()
    assert tab.ground() != light
    colour = "p => p._fullLayout.font.color"
    assert tab.page.eval_on_selector("#k1-roofline", colour) == "#e7ebf0"
    assert tab.visible("k1-roofline") == {("datasheet", True), ("calibrated", True)}

    assert tab.page.pdf(format="A4").startswith(b"%PDF")
    assert tab.complaints == []
    assert tab.requests == [pages[0].as_uri()]


@pytest.mark.slow
def test_a_page_of_several_on_a_phone(browser, pages):
    tab = Tab(browser, pages[1], PHONE, scheme="dark")
    assert tab.ground() == "rgb(15, 19, 24)"
    tab.drawn("c1")
    assert not tab.page.locator("#k1-s2").is_visible()
    tab.page.get_by_role("link", name="matmul (examples/matmul.py)", exact=True).click()
    tab.page.wait_for_selector("#k1-s1")
    tab.drawn("k1-roofline")
    tab.page.locator("#k1").get_by_role("link", name="M=1", exact=True).click()
    tab.page.wait_for_selector("#k1-s2-gap .main-svg")
    overflow = "document.documentElement.scrollWidth - innerWidth"
    assert tab.page.evaluate(overflow) <= 0
    assert "bad.py" in tab.page.locator("#index").inner_text()
    assert tab.page.title() != "taken"
    assert tab.complaints == []
