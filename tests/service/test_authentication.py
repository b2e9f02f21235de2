"""The door: what has no token, is too large or comes too often is refused before it is read."""

from __future__ import annotations

import asyncio

import pytest

httpx = pytest.importorskip("httpx")

from solkit.service.authentication import COOKIE, Authenticator, owner_of_token  # noqa: E402 - httpx may be missing

TOKEN = "a-token"
BEARER = {"authorization": f"Bearer {TOKEN}"}


async def echo(scope, receive, send):
    """Answers with the owner and the length of the body."""
    body = (await receive()).get("body", b"")
    text = f"{scope.get('state', {}).get('owner')} {len(body)}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": text})


def answers(*arguments, most=1000, rate=None):
    """The answers to requests (method, path, arguments), one after the other."""

    async def ask():
        transport = httpx.ASGITransport(Authenticator(echo, [TOKEN, "other"], most, rate))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return [await client.request(method, path, **more) for method, path, more in arguments]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": "Bearer ÿ".encode("latin-1")},
        {"cookie": f"{COOKIE}={TOKEN}"},
    ],
)
def test_without_a_token_nobody_gets_in(headers):
    (answer,) = answers(("POST", "/v1/bound", {"headers": headers, "content": b"x"}))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "access token" in answer.json()["error"]["message"]


def test_a_token_names_its_owner():
    result, other = answers(
        ("POST", "/v1/bound", {"headers": BEARER, "content": b"abc"}),
        ("GET", "/v1/queue", {"headers": {"authorization": "bearer other"}}),
    )
    assert result.text == f"{owner_of_token(TOKEN)} 3"
    assert other.text.split()[0] == owner_of_token("other")
    assert TOKEN not in owner_of_token(TOKEN)


def test_a_browser_has_the_token_in_a_cookie_for_pages_alone():
    cookie = {"cookie": f"{COOKIE}={TOKEN}"}
    page, first, job, api, post = answers(
        ("GET", "/", {"headers": cookie}),
        ("GET", f"/?token={TOKEN}", {}),
        ("GET", "/jobs/1", {"headers": cookie}),
        ("GET", "/v1/queue", {"headers": cookie}),
        ("POST", "/", {"headers": cookie}),
    )
    assert [item.status_code for item in (page, first, job, api, post)] == [200, 200, 200, 401, 401]


def test_large_bodies_are_refused_as_they_come():
    sent = 0

    async def pieces():
        nonlocal sent
        for _ in range(1000):
            sent += 100
            yield b"x" * 100

    result, streamed, exact = answers(
        ("POST", "/v1/bound", {"headers": BEARER, "content": b"x" * 1001}),
        ("POST", "/v1/bound", {"headers": BEARER, "content": pieces()}),
        ("POST", "/v1/bound", {"headers": BEARER, "content": b"x" * 1000}),
    )
    assert [result.status_code, streamed.status_code, exact.status_code] == [413, 413, 200]
    assert "larger than 1,000 bytes" in streamed.json()["error"]["message"]
    assert sent < 2000  # it did not wait for the rest


def test_too_many_requests_are_refused_with_a_time_to_wait():
    ask = ("GET", "/v1/queue", {"headers": BEARER})
    results = answers(*[ask] * 12, rate=1.0)
    assert [result.status_code for result in results] == [200] * 10 + [429] * 2
    assert int(results[-1].headers["retry-after"]) >= 1


def test_health_needs_no_token():
    (answer,) = answers(("GET", "/v1/health", {}))
    assert answer.status_code == 200
