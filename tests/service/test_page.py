"""The web page in Debian's Chromium: it loads nothing else, and complains of nothing."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("httpx")
pytest.importorskip("fastapi", reason="the service needs solkit[serve]")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

from serving import FAST, PROBLEM, SHAPE, TOKEN, finished_job  # noqa: E402 - httpx may be missing


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
def test_queues_and_results_in_a_browser(browser, served, scripts):
    with served.client() as client:
        job = finished_job(client, "bound", problem=PROBLEM, shapes=[SHAPE])["job"]
        text = "import torch\n# <script>alert(1)</script>\ndef reference(x):\n    return <b>\n"
        bad = client.post("/v1/bound", json={"problem": text}).json()["job"]
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, java_script_enabled=scripts
    )
    complaints, asked_for = [], []
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked_for.append(request.url))
    assert page.request.get(served.url).status == 401
    page.goto(f"{served.url}/?token={TOKEN}")
    assert page.url == f"{served.url}/"  # the token is not in the history
    assert "Queues" in page.inner_text("body")
    assert "recorded" in page.inner_text("table >> nth=0")
    assert page.locator("meta[http-equiv=refresh]").get_attribute("content") == "5"
    page.goto(f"{served.url}/jobs/{job}")
    result = page.inner_text("body")
    assert "the speed of light on" in result
    assert "limited by dram" in result
    page.click("summary")
    assert '"schema": "solkit.bound/1"' in page.inner_text("details")
    page.goto(f"{served.url}/jobs/{bad}")
    assert "InputError" in page.inner_text("body")
    assert page.locator("script, b").count() == 0
    page.click("text=All jobs")
    assert page.url == f"{served.url}/"
    policy = page.request.get(served.url).headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert complaints == []
    assert all(url.startswith((served.url, "data:")) for url in asked_for)
    width = page.evaluate("document.documentElement.scrollWidth") if scripts else 390
    assert width <= 390  # wide tables scroll by themselves
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_a_job_is_named_by_its_kernel_and_links_its_report(browser, served, width):
    with served.client() as client:
        common = {"source": FAST, "problem": PROBLEM}
        scored = finished_job(client, "analyse", shapes=[SHAPE], **common)["job"]
        tuned = finished_job(client, "tune", "one", shape=SHAPE, gpu_seconds=5, **common)["job"]
    context = browser.new_context(viewport={"width": width, "height": 844})
    page = context.new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{served.url}/?token={TOKEN}")
    assert "whole_row_kernel M=8192,N=4096" in page.inner_text(f'a[href="/jobs/{scored}"]')
    for place in ("/", f"/jobs/{tuned}", f"/jobs/{scored}"):
        page.goto(served.url + place)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(f"{served.url}/jobs/{tuned}")
    assert "whole_row_kernel" in page.title()
    assert "speed of light" in page.locator("svg.curve").text_content()
    page.goto(f"{served.url}/jobs/{scored}")
    page.click("a:text-is('report')")
    page.wait_for_url("**/report")
    assert "whole_row_kernel" in page.inner_text("body")
    assert page.goto(f"{served.url}/jobs/{tuned}/report").status == 404
    assert "is shown on its own page" in page.inner_text("body")
    page.goto(f"{served.url}/")
    page.click(f'a[href="/jobs/{tuned}#result"]')
    assert " configurations in " in page.inner_text("pre >> nth=0")
    assert [complaint for complaint in complaints if "404" not in complaint] == []
    context.close()
