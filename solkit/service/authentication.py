"""The door of the HTTP service: tokens, size and rate of requests, before anything reads them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from solkit.service.answers import error_answer

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

COOKIE = "solkit_token"
OPEN = ("/v1/health", "/openapi.json")
"""Paths that need no token."""
_PAGES = ("/", "/jobs/")
"""Paths that a browser asks for: with the token in a cookie, or once in the address."""
_READ_S = 30.0
"""Seconds that a client may take to send a request."""
_BURST_S = 10.0
"""The rate is a mean over so many seconds."""


def owner_of_token(token: str) -> str:
    """Return the name of a token in the jobs, from which it cannot be found."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


class Authenticator:
    """Lets in what has a token and is small and rare enough; refuses the rest as JSON.

    Args:
        app: what is guarded; it finds the owner in ``scope["state"]["owner"]``.
        tokens: each of which is let in.
        max_body: bytes of a request at the most, counted as they come.
        rate: requests a second and token; ``None`` for no limit.
    """

    def __init__(
        self, app: App, tokens: Collection[str], max_body: int, rate: float | None = None
    ) -> None:
        self._app, self._max_body, self._rate = app, max_body, rate
        self._tokens = tuple(tokens)
        self._spent: dict[str, tuple[float, float]] = {}  # requests, and when they were counted

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """ASGI's entry."""
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        token = self._valid_token(scope)
        if token is None:
            why = "a valid access token is needed: Authorization: Bearer <token>"
            await _send_refusal(send, 401, "Unauthorised", why, {"www-authenticate": "Bearer"})
            return
        owner = owner_of_token(token)
        if (wait_s := self._rate_limit_wait_s(owner)) > 0:
            why = f"more than {self._rate:g} requests a second; try again later"
            await _send_refusal(
                send, 429, "TooManyRequests", why, {"retry-after": str(int(wait_s) + 1)}
            )
            return
        scope.setdefault("state", {})["owner"] = owner
        scope["state"]["token"] = token
        if scope["method"] in ("GET", "HEAD", "DELETE"):
            await self._app(scope, receive, send)
            return
        body = await self._read_body(scope, receive, send)
        if body is not None:
            await self._app(scope, _replay_body(body, receive), send)

    def _valid_token(self, scope: Mapping[str, Any]) -> str | None:
        """Return the valid token of a request; ``None`` if it has none."""
        headers = dict(scope["headers"])
        kind, _, credentials = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind.lower() != "bearer":
            credentials = _of_browser(scope, headers)
        data = credentials.strip().encode()
        # each is compared, in a time that does not tell how much of one is right
        matches = [token for token in self._tokens if hmac.compare_digest(token.encode(), data)]
        return matches[0] if matches else None

    def _rate_limit_wait_s(self, owner: str) -> float:
        """Return seconds until this owner may ask again; 0 if it is now."""
        if self._rate is None:
            return 0.0
        now_s = time.monotonic()
        count, last_s = self._spent.get(owner, (0.0, now_s))
        count = max(count - (now_s - last_s) * self._rate, 0.0)
        most = max(self._rate * _BURST_S, 1.0)
        is_allowed = count + 1 <= most
        self._spent[owner] = (count + is_allowed, now_s)
        return 0.0 if is_allowed else (count + 1 - most) / self._rate

    async def _read_body(
        self, scope: Mapping[str, Any], receive: Receive, send: Send
    ) -> bytes | None:
        """Return the whole body; ``None`` if it was refused."""
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._max_body:
            await self._refuse_too_large(send)
            return None
        try:
            body = await asyncio.wait_for(self._receive_body(receive), _READ_S)
        except asyncio.TimeoutError:
            await _send_refusal(
                send, 408, "Timeout", f"the request took more than {_READ_S:g} s to send"
            )
            return None
        if body is not None and len(body) > self._max_body:
            await self._refuse_too_large(send)
            return None
        return body

    async def _receive_body(self, receive: Receive) -> bytes | None:
        """Return the body, or its beginning if it is too large; ``None`` if the client left."""
        body = bytearray()
        while len(body) <= self._max_body:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        return bytes(body)

    async def _refuse_too_large(self, send: Send) -> None:
        why = f"the request is larger than {self._max_body:,} bytes"
        await _send_refusal(send, 413, "TooLarge", why, {"connection": "close"})


def _of_browser(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> str:
    """Return the token of a page's request: a browser sends a cookie, which only reads may use."""
    path = scope["path"]
    if scope["method"] not in ("GET", "HEAD") or not (path == "/" or path.startswith(_PAGES[1])):
        return ""
    values = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token")
    if values:
        return str(values[0])
    try:
        cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return ""
    return cookie[COOKIE].value if COOKIE in cookie else ""


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Receives a body that was read already, then whatever comes."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _send_refusal(
    send: Send, status: int, kind: str, why: str, headers: Mapping[str, str] | None = None
) -> None:
    body = error_answer(kind, why).encode()
    fields = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **(headers or {}),
    }
    start = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})
