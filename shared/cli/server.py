"""One of our servers, as a command calls it: once, with errors that say in one line what to do."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from shared.client.retry import TryAgain, raise_for
from shared.config import Url
from shared.errors import Unauthorized, Unavailable, UserError
from shared.schemas import protocol
from shared.schemas.base import Page

M = TypeVar("M", bound=BaseModel)
ANSWER_S = 30.0
SILENCE_S = 45.0
"""A stream of events that is silent for so long is dead: it has a comment every 15 s."""
_URL: TypeAdapter[str] = TypeAdapter(Url)


class Server:
    """A context manager. Each call is one attempt: a person is better served by an error than by a minute of retries.

    `name` is for people. Raises the classes of shared.errors; Unavailable where nothing answers.
    """

    def __init__(self, url: str, key: str | None, name: str, *, timeout_s: float = ANSWER_S) -> None:
        """UserError where `url` is none."""
        try:
            self.url = _URL.validate_python(url).rstrip("/")
        except ValidationError:
            raise UserError(f"where is {name}? {url!r} is no http:// or https:// URL") from None
        self.name, self.has_key = name, key is not None
        headers = {protocol.HEADER: str(protocol.PROTOCOL)}
        if key:
            headers["authorization"] = f"Bearer {key}"
        # our servers are called directly: a proxy of the environment would only see the key
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=False)
        self._peer = protocol.Peer(f"{name} at {self.url}")

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, model: type[M], **query: object) -> M:
        """The answer of a GET; what is None is left out of the query."""
        return self._read(model, self.call("GET", path, None, query))

    def post(self, path: str, model: type[M], **query: object) -> M:
        """The answer of a POST without a body."""
        return self._read(model, self.call("POST", path, None, query))

    def put(self, path: str, body: BaseModel, model: type[M]) -> M:
        """The answer of a PUT."""
        return self._read(model, self.call("PUT", path, body))

    def items(self, path: str, model: type[M], **query: object) -> Iterator[M]:
        """All items of a list, page after page."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.get(path, Page[model], **query, cursor=cursor or None)  # ty: ignore[invalid-type-form]
            yield from page.items
            cursor = page.next

    def call(
        self, method: str, path: str, body: BaseModel | None = None, query: Mapping[str, object] | None = None
    ) -> httpx.Response:
        """The answer, if it is no error."""
        content = None if body is None else self._peer.encode(body)
        headers = {"content-type": "application/json"} if content else {}
        with self._faults():
            response = self._http.request(method, path, params=_params(query), content=content, headers=headers)
            self._peer.heard(response.headers.get(protocol.HEADER))
            raise_for(response)
        return response

    @contextmanager
    def lines(self, path: str, headers: Mapping[str, str], **query: object) -> Generator[Iterator[str]]:
        """The lines of an answer that goes on, such as a stream of events. Unavailable: it broke off."""
        timeout = httpx.Timeout(ANSWER_S, read=SILENCE_S)
        with (
            self._faults(),
            self._http.stream("GET", path, params=_params(query), headers=dict(headers), timeout=timeout) as response,
        ):
            if not response.is_success:
                response.read()
            raise_for(response)
            yield response.iter_lines()

    @contextmanager
    def _faults(self) -> Generator[None]:
        try:
            yield
        except httpx.TimeoutException:
            raise Unavailable(f"{self.name} at {self.url} does not answer") from None
        except httpx.TransportError as error:
            raise Unavailable(f"{self.name} does not answer at {self.url}: {error or repr(error)}") from None
        except TryAgain as fault:
            raise fault.error from None
        except Unauthorized as error:
            raise Unauthorized(f"{error.detail}; --key-file or $TANDEM_KEY_FILE names a file with a key") from None

    def _read(self, model: type[M], response: httpx.Response) -> M:
        try:
            return model.model_validate_json(response.content)
        except ValidationError:
            raise UserError(
                f"{self.url} does not answer as {self.name} of this version: is it another server?"
            ) from None


def _params(query: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (query or {}).items() if value is not None}
