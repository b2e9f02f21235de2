"""Answers that depend on the request alone, given again without asking anybody."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import MutableMapping
from typing import Any

from solkit.service.authentication import App, Message, Receive, Send
from solkit.service.queue import REUSED

_PATHS = tuple(f"/v1/{kind}" for kind in REUSED)
_MOST_BYTES = 64 << 20


class IdempotentAnswers:
    """Answers a request as it answered an equal one of the same owner.

    A request with an id of its own is not looked up: its job decides.

    Args:
        app: it sets ``scope["state"]["keeps"]`` if its answer may be given again. Its requests come
            with an owner, and their body in one piece
            (`solkit.service.authentication.Authenticator`).
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._known: OrderedDict[bytes, tuple[Message, Message]] = OrderedDict()
        self._bytes = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """ASGI's entry."""
        is_one = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in _PATHS
        if not is_one or any(name == b"idempotency-key" for name, _ in scope["headers"]):
            await self._app(scope, receive, send)
            return
        request = await receive()
        key = _request_key(scope, request)
        if (messages := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            for message in messages:
                await send(dict(message))
            return
        answer: list[Message] = []

        async def heard(message: Message) -> None:
            answer.append(message)
            await send(message)

        await self._app(scope, _replay_first(request, receive), heard)
        if scope["state"].get("keeps") and len(answer) == 2 and not answer[1].get("more_body"):
            self._keep_answer(key, (answer[0], answer[1]))

    def _keep_answer(self, key: bytes, answer: tuple[Message, Message]) -> None:
        if key in self._known:
            return
        self._known[key] = answer
        self._bytes += len(answer[1]["body"])
        while self._bytes > _MOST_BYTES:
            _, (_, body) = self._known.popitem(last=False)
            self._bytes -= len(body["body"])


def _request_key(scope: MutableMapping[str, Any], request: Message) -> bytes:
    prefix = f"{scope['state']['owner']} {scope['path']}\n".encode()
    return hashlib.sha256(prefix + request.get("body", b"")).digest()


def _replay_first(request: Message, receive: Receive) -> Receive:
    """Receives what was taken already, then the rest."""
    requests = [request]

    async def again() -> Message:
        return requests.pop() if requests else await receive()

    return again
