"""A model behind any OpenAI-compatible endpoint, through the `openai` client.

The other side may be slow, broken or hostile. An attempt has a time limit as a whole, and a body is
cut at a number of bytes. Redirects are not followed, since they could carry the source to a host
that was not named, and bodies must come uncompressed, since a small one could unpack to a huge one.
The client's own retries are off: `solkit.llm.retry` counts every attempt.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from solkit.errors import InputError
from solkit.extras import library
from solkit.llm.client import Answered, Failure, Reply, Request, Trouble, is_this_machine
from solkit.llm.keys import Key, take_key

DEFAULT_KEY_VARIABLE = "OPENAI_API_KEY"
_NO_KEY = "none"  # the client insists on one
_MOST_CHARACTERS = 300  # of a server's error text


class Limits(BaseModel):
    """Limits of one attempt.

    Attributes:
        attempt_s: from its start to the last byte of the answer.
        body_bytes: of the answer.
    """

    model_config = ConfigDict(frozen=True)

    attempt_s: float = Field(default=300.0, gt=0)
    body_bytes: int = Field(default=4 << 20, gt=0)


class Endpoint:
    """A model behind an endpoint.

    Args:
        base_url: as for the `openai` client: ``"https://host/v1"``.
        model: its name.
        key_variable: the environment variable with the key, which is taken out of the environment
            (`solkit.llm.keys`); ``None`` for no key. The default may be unset if the
            host is this machine.
        limits: of one attempt.

    Raises:
        InputError: the URL or the key is unusable.
        UnsupportedError: the package `openai` is missing.
    """

    is_live = True

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key_variable: str | None = DEFAULT_KEY_VARIABLE,
        limits: Limits | None = None,
    ) -> None:
        self.host = _host_of_url(base_url)
        self.name = model
        self._url, self._limits = base_url, limits or Limits()
        self._key = _key_for_host(key_variable, self.host)
        self._openai = library("openai")
        self._client: Any = None
        self._limit_name = "max_tokens"

    def __repr__(self) -> str:
        return f"Endpoint({self.host!r}, {self.name!r})"

    def ask(self, request: Request) -> Answered:
        """See `Chat.ask`.

        The attempt runs in a thread that is left behind at the time limit: a server that sends its
        headers byte by byte can keep it for longer, but nobody waits for it.
        """
        box: list[Answered] = []
        thread = threading.Thread(
            target=lambda: box.append(self._attempt_request(request)), daemon=True
        )
        thread.start()
        thread.join(self._limits.attempt_s + 1.0)
        if box:
            return box[0]
        self._client = None  # the thread left behind still uses its connections
        return self._timeout_failure()

    def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _attempt_request(self, request: Request) -> Answered:
        """Nothing of the client's leaves here, since its exceptions hold the key's header."""
        try:
            return _parse_reply(self._response_body(request), self._mask_key)
        except Exception as error:  # whatever the client raises, the answer is a failure
            return self._failure_of_error(error)

    def _response_body(self, request: Request) -> str:
        settings: dict[str, Any] = {
            "model": request.model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            "temperature": request.temperature,
            "seed": request.seed,
            self._limit_name: request.max_tokens,
        }
        create = self._connect_client().chat.completions.with_raw_response.create
        # raw: the body is parsed here, strictly, and not into half-filled objects
        body = create(**settings, extra_headers={"Accept-Encoding": "identity"}).content
        return bytes(body).decode("utf-8", "replace")

    def _connect_client(self) -> Any:
        if self._client is None:
            http = self._openai.DefaultHttpxClient(
                timeout=self._limits.attempt_s,
                follow_redirects=False,
                event_hooks={"response": [self._limit_response]},
            )
            self._client = self._openai.OpenAI(
                api_key=_NO_KEY if self._key is None else self._key.reveal_key(),
                base_url=self._url,
                max_retries=0,
                timeout=self._limits.attempt_s,
                http_client=http,
            )
        return self._client

    def _limit_response(self, response: Any) -> None:
        """Put the limits on a response before its body is read."""
        coding = response.headers.get("content-encoding", "identity")
        if coding not in ("", "identity"):
            raise _CutError(Failure(Trouble.NONSENSE, "the answer is compressed against request"))
        if 300 <= response.status_code < 400:
            raise _CutError(Failure(Trouble.REFUSED, f"{self.host} redirects elsewhere"))
        limits = self._limits
        response.stream = _limited_stream(response, limits.body_bytes, limits.attempt_s)

    def _failure_of_error(self, error: BaseException) -> Failure:
        cut = _cause_of_kind(error, _CutError)
        if isinstance(cut, _CutError):
            return cut.failure
        if isinstance(error, self._openai.APITimeoutError):
            return self._timeout_failure()
        if isinstance(error, self._openai.APIStatusError):
            return self._refusal_of_status(error)
        if isinstance(error, self._openai.APIConnectionError):
            why = self._hide_key(str(error.__cause__ or error))
            return Failure(Trouble.UNREACHABLE, f"{self.host} cannot be reached: {why}")
        return Failure(Trouble.NONSENSE, self._hide_key(f"{type(error).__name__}: {error}"))

    def _refusal_of_status(self, error: Any) -> Failure:
        status, text = int(error.status_code), str(error.message)
        why = self._hide_key(f"{self.host} answered {status}: {text}")
        if status == 400 and "max_completion_tokens" in text and self._limit_name == "max_tokens":
            self._limit_name = "max_completion_tokens"  # newer models know only this name
            return Failure(Trouble.SERVER, why, 0.0)
        wait_s = _retry_after(error.response.headers.get("retry-after", ""))
        if status in (408, 409, 429):
            return Failure(Trouble.RATE_LIMIT, why, wait_s)
        return Failure(Trouble.SERVER if status >= 500 else Trouble.REFUSED, why, wait_s)

    def _timeout_failure(self) -> Failure:
        text = f"{self.host} did not answer within {self._limits.attempt_s:g} s"
        return Failure(Trouble.TIME_OUT, text)

    def _hide_key(self, text: str) -> str:
        """Return a text of the other side, short, on one line and without the key."""
        return _shorten_text(self._mask_key(text))

    def _mask_key(self, text: str) -> str:
        return text if self._key is None else self._key.hide_in(text)


class _CutError(Exception):
    """An answer that is not read to its end."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.why)


def _limited_stream(response: Any, most_bytes: int, most_s: float) -> Any:
    """Yield the response's stream, of the class that its HTTP library (httpx or httpx2) wants."""
    library = importlib.import_module(type(response).__module__.partition(".")[0])
    inner, deadline = response.stream, time.monotonic() + most_s

    class Limited(library.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for part in inner:
                size += len(part)
                if size > most_bytes:
                    text = f"the answer has over {most_bytes} bytes"
                    raise _CutError(Failure(Trouble.OVERSIZED, text))
                if time.monotonic() > deadline:
                    text = f"the answer took over {most_s:g} s"
                    raise _CutError(Failure(Trouble.TIME_OUT, text))
                yield part

        def close(self) -> None:
            inner.close()

    return Limited()


class _Usage(BaseModel):
    model_config = ConfigDict(strict=True)

    prompt_tokens: int = Field(ge=0, lt=10**12)
    completion_tokens: int = Field(ge=0, lt=10**12)


class _ChoiceMessage(BaseModel):
    content: str


class _Choice(BaseModel):
    message: _ChoiceMessage
    finish_reason: str | None = None


class _Completion(BaseModel):
    """The part of a chat completion that counts; the rest is ignored.

    https://platform.openai.com/docs/api-reference/chat/object
    """

    choices: list[_Choice] = Field(min_length=1)
    model: str = ""
    usage: Any = None


def _parse_reply(body: str, mask: Callable[[str], str]) -> Answered:
    """Return a completion's text; a failure if the body is not one."""
    try:
        completion = _Completion.model_validate_json(body)
    except (ValidationError, RecursionError) as error:
        why = _shorten_text(mask(_first_problem(error)))
        return Failure(Trouble.NONSENSE, f"the answer is no chat completion: {why}")
    usage = _parse_usage(completion.usage)
    choice = completion.choices[0]
    return Reply(
        text=mask(choice.message.content),
        tokens_in=None if usage is None else usage.prompt_tokens,
        tokens_out=None if usage is None else usage.completion_tokens,
        model=_shorten_text(mask(completion.model)),
        finish=_shorten_text(mask(choice.finish_reason or "")),
    )


def _parse_usage(usage: Any) -> _Usage | None:
    """Read the reported tokens; ``None`` if they are missing or absurd, and must be estimated."""
    try:
        return _Usage.model_validate(usage)
    except ValidationError:
        return None


def _shorten_text(text: str) -> str:
    return " ".join(text.split())[:_MOST_CHARACTERS]


def _first_problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return type(error).__name__
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


def _cause_of_kind(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def _retry_after(text: str) -> float | None:
    """Return seconds in a ``Retry-After`` header (RFC 9110, 10.2.3): a number or a date."""
    try:
        wait_s = float(text)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(wait_s, 0.0) if wait_s < float("inf") else None


def _host_of_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise InputError("the endpoint's URL is unusable; expected e.g. https://host/v1")
    if parts.username or parts.password or parts.query:
        raise InputError(
            f"the URL of {host} holds a user, password or query: put the key in an environment "
            "variable"
        )
    return host if parts.port is None else f"{host}:{parts.port}"


def _key_for_host(variable: str | None, host: str) -> Key | None:
    if variable is None:
        return None
    key = take_key(variable)
    if key is None and not (is_this_machine(host) and variable == DEFAULT_KEY_VARIABLE):
        raise InputError(
            f"{variable} is not set: put the key for {host} there, name another variable, or none "
            "if the endpoint takes no key"
        )
    return key
