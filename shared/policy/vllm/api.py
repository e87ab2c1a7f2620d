"""The routes of a vLLM server that we use, and what its answers mean. Written against vLLM 0.32.

Turns go to `/inference/v1/generate`, which takes and gives token ids, and says which version of the weights sampled
which tokens; the other routes are those of its development mode.
"""

from collections.abc import Callable, Sequence
from typing import Any

import httpx

from shared.errors import InvalidInput, Unavailable, UserError
from shared.policy.types import SamplingParams

QUICK_S = 30.0
NO_VLLM = frozenset({httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED})
"""What another server answers to /health."""


class VllmApi:
    """Each method is one call. InvalidInput: it refuses the request; Unavailable: it fails, or is not there."""

    def __init__(self, where: str, transport: httpx.AsyncBaseTransport, url: str, key: str | None = None) -> None:
        """`where` names the server in messages."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.where = where
        self._http = httpx.AsyncClient(transport=transport, base_url=url, headers=headers, timeout=QUICK_S)

    async def healthy(self) -> bool:
        """Whether it answers, and its engine lives."""
        return await self._health() == httpx.codes.OK

    async def starting(self) -> bool:
        """Whether it is not healthy yet. UserError: what answers there is something else, and never will be."""
        status = await self._health()
        if status in NO_VLLM:
            raise UserError(f"{self.where} is no vLLM server: it answered /health with {status}")
        return status != httpx.codes.OK

    async def release(self) -> str:
        """The version of vLLM itself."""
        return await self._told("/version", lambda answer: answer["version"])

    async def model(self) -> tuple[str, int]:
        """The name under which it serves the model, and how many tokens a request may have in all."""
        model = await self._told("/v1/models", lambda answer: answer["data"][0])
        return model["id"], model["max_model_len"]

    async def generate(
        self, model: str, token_ids: Sequence[int], params: SamplingParams, timeout_s: float
    ) -> dict[str, Any]:
        """Sample one turn: its token_ids, logprobs, finish_reason and weight_versions. A cancelled call is aborted."""
        sampling = {
            "max_tokens": params.max_new_tokens,
            "temperature": params.temperature,
            "stop_token_ids": params.stop_ids,
            "ignore_eos": True,  # a turn ends at our stop ids only
            "logprobs": 0,  # of the sampled tokens, and no others
            "detokenize": False,
        }
        body = {"model": model, "token_ids": token_ids, "sampling_params": sampling}
        return (await self._call("POST", "/inference/v1/generate", body, timeout_s))["choices"][0]

    async def pause(self, timeout_s: float) -> None:
        """Let running requests end, and hold new ones back."""
        await self._call("POST", "/pause?mode=wait", timeout_s=timeout_s)

    async def resume(self) -> None:
        """Go on with what waits."""
        await self._call("POST", "/resume")

    async def reload(self, folder: str, timeout_s: float) -> None:
        """Read the weights of a folder on its host into the model, in place."""
        body = {"method": "reload_weights", "kwargs": {"weights_path": folder}}
        await self._call("POST", "/collective_rpc", body, timeout_s)

    async def forget_prefixes(self) -> None:
        """Drop all cached keys and values; Unavailable where it does not."""
        if not (await self._call("POST", "/reset_prefix_cache?reset_external=true"))["success"]:
            raise Unavailable(f"{self.where} kept its prefix cache: what the old weights made would be used again")

    async def name_weights(self, version: str) -> None:
        """Say which version the weights are; it marks tokens with it from now on."""
        await self._call("POST", "/update_weight_version", {"new_version": version})

    async def weights_name(self) -> str:
        """The version that it says its weights are."""
        return (await self._call("GET", "/weight_info"))["weight_version"]

    async def digests(self, timeout_s: float) -> dict[str, str]:
        """The sha256 of each tensor that it holds."""
        answer = await self._call("POST", "/weight_checker", {"action": "checksum"}, timeout_s)
        return answer["checksums"]

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _health(self) -> int | None:
        try:
            return (await self._http.get("/health")).status_code
        except httpx.HTTPError:
            return None

    async def _told(self, path: str, read: Callable[[Any], Any]) -> Any:
        """What the server says of itself; UserError where the answer is not that of a vLLM server."""
        answer = await self._call("GET", path)
        try:
            return read(answer)
        except (LookupError, TypeError):
            raise UserError(f"{self.where} is no vLLM server: it answered {path} with {str(answer)[:60]!r}") from None

    async def _call(self, method: str, path: str, body: Any = None, timeout_s: float = QUICK_S) -> Any:
        try:
            answer = await self._http.request(method, path, json=body, timeout=timeout_s)
        except httpx.TimeoutException:
            raise Unavailable(f"{self.where} did not answer {path} within {timeout_s:.0f} s") from None
        except httpx.HTTPError as error:
            raise Unavailable(f"{self.where} cannot be reached: {error or type(error).__name__}") from None
        if answer.status_code != httpx.codes.OK:
            raise _fault(self.where, path, answer)
        try:
            return answer.json()
        except ValueError:
            raise UserError(f"{self.where} is no vLLM server: it answered {path} with {answer.text[:60]!r}") from None


def _fault(where: str, path: str, answer: httpx.Response) -> Exception:
    status, text = answer.status_code, f"{where} answered {path} with {answer.status_code}: {answer.text[:500]}"
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND, httpx.codes.FORBIDDEN):
        return UserError(f"{text}. It is started as docs/vllm.md says")
    if status in (httpx.codes.BAD_REQUEST, httpx.codes.UNPROCESSABLE_ENTITY):
        return InvalidInput(text)
    return Unavailable(text)
