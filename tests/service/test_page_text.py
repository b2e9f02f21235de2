"""The text of the web page: who sees it, what it says, and that no text of a user is markup."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("httpx")
pytest.importorskip("fastapi", reason="the service needs solkit[serve]")

from serving import FAST, PROBLEM, SHAPE, TOKEN, finished_job


@pytest.fixture
def client(service):
    return service()


def test_a_token_opens_the_page_and_leaves_its_address(service):
    visitor = service(token="")
    assert visitor.get("/").status_code == 401
    page = visitor.get("/", params={"token": TOKEN})
    assert (page.status_code, str(page.url.query)) == (200, "b''")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "Queues" in page.text
    assert "recorded" in page.text
    assert re.search(r'<meta http-equiv="?refresh"? content="?5"?', page.text)


def test_a_page_shows_a_result_and_its_json(client):
    job = finished_job(client, "bound", problem=PROBLEM, shapes=[SHAPE])["job"]
    text = client.get(f"/jobs/{job}").text
    assert "the speed of light on" in text
    assert "limited by dram" in text
    assert "solkit.bound/1" in text


def test_what_a_user_wrote_is_no_markup(client):
    source = "import torch\n# <script>alert(1)</script>\ndef reference(x):\n    return <b>\n"
    job = client.post("/v1/bound", json={"problem": source}).json()["job"]
    text = client.get(f"/jobs/{job}").text
    assert "InputError" in text
    assert not re.search("<script|<b>", text)


def test_a_job_is_named_by_its_kernel_and_links_its_report(client):
    common = {"source": FAST, "problem": PROBLEM}
    scored = finished_job(client, "analyse", shapes=[SHAPE], **common)["job"]
    tuned = finished_job(client, "tune", "one", shape=SHAPE, gpu_seconds=5, **common)["job"]
    linked = re.search(rf'<a href="/jobs/{scored}">(.*?)</a>', client.get("/").text)
    assert "whole_row_kernel M=8192,N=4096" in linked[1]
    text = client.get(f"/jobs/{tuned}").text
    assert re.search("<title>[^<]*whole_row_kernel", text)
    assert re.search(r'<svg[^>]*class="?curve.*speed of light.*</svg>', text, re.DOTALL)
    report = client.get(f"/jobs/{scored}/report")
    assert (report.status_code, "whole_row_kernel" in report.text) == (200, True)
    none = client.get(f"/jobs/{tuned}/report")
    assert (none.status_code, "is shown on its own page" in none.text) == (404, True)
