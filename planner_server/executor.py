"""The executor as the planner calls it: sent again under the same id until it answers, or counts as failed."""

import asyncio

import httpx
from pydantic import ValidationError

from shared.errors import InvalidInput, PromptTooLong, TandemError, Unavailable, UserError, from_problem
from shared.http.body import faults
from shared.schemas.invocation import InvocationAnswer, InvocationRequest

BACKOFF_S = 0.2
TOO_BUSY = 429
JSON = {"content-type": "application/json"}


class ExecutorFailed(Unavailable):
    """The executor failed each time that it was asked."""

    type = "executor-failed"


class ExecutorClient:
    """Calls `PUT /v1/invocations/{id}`. `deadline_s` bounds one request, `attempts` how often it is sent.

    It speaks to the transport itself: a client's cookies, redirects and authentication cost as much as the call.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, base_url: str, *, deadline_s: float, attempts: int) -> None:
        self._transport = transport
        self._base_url = base_url.rstrip("/")
        self._deadline_s = deadline_s
        self._attempts = attempts

    async def invoke(self, invocation: str, request: InvocationRequest) -> InvocationAnswer:
        """The answer; ExecutorFailed where the executor itself failed each time (5xx, lost connection, deadline).

        PromptTooLong: the subtask is too long for it. Every other refusal is a fault of the configuration, so it is
        raised as what no toolbox shows to a model: Conflict (another run), UserError (another schema).
        """
        body = request.model_dump_json().encode()
        fault = ""
        for attempt in range(self._attempts):
            if attempt:
                await asyncio.sleep(BACKOFF_S * 2 ** (attempt - 1))
            try:
                return await self._send(invocation, body)
            except TimeoutError:
                fault = f"no answer within {self._deadline_s:g} s"
            except httpx.TransportError as error:
                fault = f"connection lost: {error!r}"
            except Unavailable as error:
                fault = error.detail
        raise ExecutorFailed(f"the executor failed {self._attempts} times; the last time: {fault}")

    async def _send(self, invocation: str, body: bytes) -> InvocationAnswer:
        request = httpx.Request("PUT", f"{self._base_url}/v1/invocations/{invocation}", content=body, headers=JSON)
        async with asyncio.timeout(self._deadline_s):
            response = await self._transport.handle_async_request(request)
            try:
                content = await response.aread()
            finally:
                await response.aclose()
        if response.is_success:
            return self._answer(content)
        if response.status_code >= 500 or response.status_code == TOO_BUSY:
            raise Unavailable(f"HTTP {response.status_code}: {response.text[:200]}")
        raise self._refusal(response)

    def _answer(self, content: bytes) -> InvocationAnswer:
        try:
            return InvocationAnswer.model_validate_json(content)
        except ValidationError as error:
            raise UserError(f"{self._base_url} does not answer as an executor: {faults(error)}") from None

    def _refusal(self, response: httpx.Response) -> TandemError:
        try:
            error = from_problem(response.json(), response.status_code)
        except (ValueError, AttributeError):  # no JSON, or no object: another kind of server
            return UserError(f"{self._base_url} does not answer as an executor: HTTP {response.status_code}")
        if isinstance(error, InvalidInput) and not isinstance(error, PromptTooLong):
            return UserError(f"the executor at {self._base_url} refuses the planner's requests: {error.detail}")
        return error
