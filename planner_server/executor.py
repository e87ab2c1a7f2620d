"""The executor as the planner calls it: sent again under the same id until it answers, or counts as failed."""

import asyncio

import httpx
from pydantic import ValidationError

from shared.client.exchange import Exchange
from shared.client.retry import retry_after_s
from shared.errors import (
    Forbidden,
    InvalidInput,
    PromptTooLong,
    TandemError,
    Unauthorized,
    Unavailable,
    UserError,
    from_problem,
)
from shared.http.body import faults
from shared.schemas.invocation import InvocationAnswer, InvocationRequest

BACKOFF_S = 0.2
TOO_BUSY = 429


class ExecutorFailed(Unavailable):
    """The executor failed each time that it was asked."""

    type = "executor-failed"


class ExecutorClient:
    """Calls `PUT /v1/invocations/{id}`. `deadline_s` bounds one request, `attempts` how often it is sent."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        base_url: str,
        *,
        key: str | None = None,
        deadline_s: float,
        attempts: int,
    ) -> None:
        self._exchange = Exchange(transport, base_url, key, "the executor")
        self._deadline_s = deadline_s
        self._attempts = attempts

    async def invoke(self, invocation: str, request: InvocationRequest) -> InvocationAnswer:
        """The answer; ExecutorFailed where the executor itself failed each time (5xx, lost connection, deadline).

        PromptTooLong: the subtask is too long for it. Every other refusal is a fault of the configuration, so it is
        raised as what no toolbox shows to a model: Conflict (another run), UserError (another schema, no valid key).
        """
        fault, asked_s = "", 0.0
        for attempt in range(self._attempts):
            if attempt:
                await asyncio.sleep(max(BACKOFF_S * 2 ** (attempt - 1), asked_s))
            try:
                return await self._send(invocation, request)
            except TimeoutError:
                fault = f"no answer within {self._deadline_s:g} s"
            except httpx.TransportError as error:
                fault = f"connection lost: {error!r}"
            except Unavailable as error:
                fault, asked_s = error.detail, min(error.extra["retry_after_s"], self._deadline_s)
        raise ExecutorFailed(f"the executor failed {self._attempts} times; the last time: {fault}")

    async def _send(self, invocation: str, request: InvocationRequest) -> InvocationAnswer:
        async with asyncio.timeout(self._deadline_s):
            response = await self._exchange("PUT", f"/v1/invocations/{invocation}", request)
        if response.is_success:
            return self._answer(response.content)
        if response.status_code >= 500 or response.status_code == TOO_BUSY:
            after_s = retry_after_s(response.headers) or 0.0
            raise Unavailable(f"HTTP {response.status_code}: {response.text[:200]}", retry_after_s=after_s)
        raise self._refusal(response)

    def _answer(self, content: bytes) -> InvocationAnswer:
        try:
            return InvocationAnswer.model_validate_json(content)
        except ValidationError as error:
            raise UserError(f"{self._exchange.base_url} does not answer as an executor: {faults(error)}") from None

    def _refusal(self, response: httpx.Response) -> TandemError:
        try:
            error = from_problem(response.json(), response.status_code)
        except (ValueError, AttributeError):  # no JSON, or no object: another kind of server
            return UserError(f"{self._exchange.base_url} does not answer as an executor: HTTP {response.status_code}")
        if isinstance(error, InvalidInput) and not isinstance(error, PromptTooLong):
            return UserError(f"{self._exchange.name} refuses the planner's requests: {error.detail}")
        if isinstance(error, Unauthorized | Forbidden):
            return UserError(f"{self._exchange.name} refuses the planner's key: {error.detail}")
        return error
