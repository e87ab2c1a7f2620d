"""One episode of one agent: sample a turn, run its calls, append their results, until it answers.

How an episode ends, and what `r_format` is (m-grpo.md, section 2):

* an answer: 1. `status` is `ok`, or `limit` where the answer was asked for by a limit that was met;
* a turn that is no action: 0, `error` and the reason code; `limit` where the turn was cut off by its length;
* a limit (turns, calls, context, time): the calls beyond it are not run, their results have the state `limit` and ask
  for the answer, and one more turn may give it. Calls in that turn too: 0, `limit`, reason `limit-ignored`. Tools with
  deadlines of their own (`tool_timeout_s` is None) are not cut by the time limit: a slow one is a fault, not a limit.

A tool's fault is a state that the model sees. A fault of the infrastructure (`Unavailable`) is none: it is raised, and
so is a cancellation; running calls are then cancelled and waited for, and there is no episode.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.agents.protocol import Action, Answer, Call, Calls, Reason, Violation, parse, render_result
from shared.agents.toolbox import Toolbox
from shared.agents.transcript import Transcript
from shared.environments.base import ToolCall, ToolResult
from shared.errors import DeadlineExceeded, PromptTooLong
from shared.policy.types import Completion, Sampler, SamplingParams
from shared.schemas.base import PolicyVersion

NOTICES = {
    Reason.TURN_LIMIT: "No turns are left for calls. Answer now.",
    Reason.CALL_LIMIT: "No calls are left. Answer now.",
    Reason.CONTEXT_LIMIT: "No room is left for results. Answer now.",
    Reason.TIME_LIMIT: "No time is left for calls. Answer now.",
}
"""What the results beyond a limit say: each asks for the answer that the next turn may give."""


@dataclass(frozen=True, slots=True)
class Episode:
    """What an agent did. `token_ids`, `mask` and `logprobs` have one length; at least one token was sampled.

    `calls`: each with the result that the model saw. `reason`: why `r_format` is 0, or which limit was met, or None.
    `version`: that of the oldest sampled token. `messages`: the text, for people only. `turns`: sampled ones, each by
    `params`.
    """

    token_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    version: PolicyVersion
    messages: list[dict[str, Any]]
    calls: tuple[ToolCall, ...]
    answer: str | None
    r_format: int
    reason: Reason | None
    status: Literal["ok", "error", "limit"]
    turns: int
    params: SamplingParams


async def run_agent(
    sampler: Sampler,
    chat: ChatFormat,
    toolbox: Toolbox,
    *,
    system: str,
    user: str,
    limits: Limits,
    params: SamplingParams,
    checkpoint: Path | None = None,
    parser: Callable[[str], Action] = parse,
) -> Episode:
    """Run one episode on `user`'s request, under the environment's instructions `system` (may be empty).

    PromptTooLong where the first prompt leaves no room for a turn; DeadlineExceeded where the sampler does not answer;
    Unavailable from a tool or the sampler passes through. `parser` is the action protocol, if not the usual one.
    """
    run = _Run(sampler, chat, toolbox, limits, _sampling(params, chat, limits), checkpoint, time.monotonic())
    run.open(system, user)
    while True:
        completion = await run.sample()
        match parser(chat.decode(completion.token_ids)):
            case Answer(text):
                return run.episode(answer=text)
            case Violation(reason):
                cut_off = completion.finish == "length"
                return run.episode(reason=Reason.TURN_CUT_OFF if cut_off else reason, limited=cut_off)
            case Calls() if run.met is not None:
                return run.episode(reason=Reason.LIMIT_IGNORED)
            case Calls(calls):
                if not run.append(await run.results(calls), completion):
                    return run.episode(reason=Reason.CONTEXT_LIMIT)


def _sampling(params: SamplingParams, chat: ChatFormat, limits: Limits) -> SamplingParams:
    stops = tuple(dict.fromkeys((*chat.stop_ids, *params.stop_ids)))
    return replace(params, max_new_tokens=min(params.max_new_tokens, limits.max_new_tokens), stop_ids=stops)


@dataclass
class _Run:
    """The state of one episode. `met` is the limit that was met and announced; the next turn must then answer."""

    sampler: Sampler
    chat: ChatFormat
    toolbox: Toolbox
    limits: Limits
    params: SamplingParams
    checkpoint: Path | None
    started: float
    transcript: Transcript = field(default_factory=Transcript)
    messages: list[dict[str, Any]] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    turns: int = 0
    ran: int = 0
    met: Reason | None = None

    def open(self, system: str, user: str) -> None:
        """Feed the first prompt."""
        prompt = self.chat.start(system, user)
        if not self._fits(prompt):
            raise PromptTooLong(
                f"the prompt has {len(prompt)} tokens: with {self.params.max_new_tokens} for a turn "
                f"that is beyond max_context_tokens, {self.limits.max_context_tokens}"
            )
        self.transcript.feed(prompt)
        if told := self.chat.system(system):
            self.messages.append({"role": "system", "content": told})
        self.messages.append({"role": "user", "content": user})

    async def sample(self) -> Completion:
        """Sample one turn and append it; there is always room for one."""
        wait = self.limits.deadline_s
        try:
            async with asyncio.timeout(wait):
                completion = await self.sampler.generate(
                    list(self.transcript.token_ids), self.params, checkpoint=self.checkpoint
                )
        except TimeoutError:
            raise DeadlineExceeded(f"the sampler did not answer within {wait:g} s") from None
        self.transcript.sampled(completion)
        self.turns += 1
        self.messages.append({"role": "assistant", "content": self.chat.decode(completion.token_ids)})
        return completion

    async def results(self, calls: Sequence[Call]) -> list[ToolCall]:
        """Run the calls that the limits allow, at the same time; every call has a result, in the order of the turn."""
        allowed = self._allowed(len(calls))
        results = await self._run(calls[:allowed])
        self.ran += allowed
        notice = NOTICES[self.met] if self.met else f"Not run: at most {self.limits.max_parallel_calls} calls a turn."
        results += [ToolResult("limit", notice)] * (len(calls) - allowed)
        return [ToolCall(c.name, c.arguments, result) for c, result in zip(calls, results, strict=True)]

    def _allowed(self, wanted: int) -> int:
        """How many calls of this turn are run; `met` is set where a limit leaves out one that asks for the answer."""
        if self._time_left() <= 0:
            self.met = Reason.TIME_LIMIT
        elif self.turns >= self.limits.max_turns:
            self.met = Reason.TURN_LIMIT
        if self.met:
            return 0
        in_turn = min(wanted, self.limits.max_parallel_calls)
        allowed = min(in_turn, self.limits.max_calls - self.ran)
        if allowed < in_turn:
            self.met = Reason.CALL_LIMIT
        return allowed

    async def _run(self, calls: Sequence[Call]) -> list[ToolResult]:
        """Results in the order of the calls. Whatever ends this, no call is left running."""
        if not calls:
            return []
        timeout_s = self.limits.tool_timeout_s
        wait_s = None if timeout_s is None else self._time_left()
        tasks = [asyncio.create_task(self.toolbox.call(c.name, c.arguments, timeout_s)) for c in calls]
        try:
            _, late = await asyncio.wait(tasks, timeout=wait_s, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if task not in late:
                task.result()  # raises what the infrastructure raised
        if late:
            self.met = Reason.TIME_LIMIT
        return [ToolResult("limit", NOTICES[Reason.TIME_LIMIT]) if t in late else t.result() for t in tasks]

    def append(self, calls: Sequence[ToolCall], completion: Completion) -> bool:
        """Feed the results and the next prompt; False where not even the notice of a limit leaves room for a turn."""
        closed = completion.token_ids[-1] == self.chat.end_of_turn
        shown, ids = list(calls), self._rendered(calls, closed)
        if not self._fits(ids):
            notice = ToolResult("limit", NOTICES[Reason.CONTEXT_LIMIT])
            shown = [replace(call, result=notice) for call in calls]
            ids, self.met = self._rendered(shown, closed), Reason.CONTEXT_LIMIT
        self.calls += shown
        if not self._fits(ids):
            return False
        self.transcript.feed(ids)
        self.messages += [{"role": "tool", "content": render_result(call.result)} for call in shown]
        return True

    def _rendered(self, calls: Sequence[ToolCall], closed: bool) -> list[int]:
        return self.chat.extend([render_result(call.result) for call in calls], closed)

    def _fits(self, token_ids: Sequence[int]) -> bool:
        """Whether a whole turn may follow `token_ids`."""
        used = len(self.transcript) + len(token_ids) + self.params.max_new_tokens
        return used <= self.limits.max_context_tokens

    def _time_left(self) -> float:
        return self.started + self.limits.deadline_s - time.monotonic()

    def episode(self, *, answer: str | None = None, reason: Reason | None = None, limited: bool = False) -> Episode:
        """The finished episode."""
        met = limited or self.met is not None
        version = self.transcript.version
        assert version is not None  # a turn was sampled
        return Episode(
            token_ids=self.transcript.token_ids,
            mask=self.transcript.mask,
            logprobs=self.transcript.logprobs,
            version=version,
            messages=self.messages,
            calls=tuple(self.calls),
            answer=answer,
            r_format=int(answer is not None),
            reason=reason or self.met,
            status="limit" if met else "ok" if answer is not None else "error",
            turns=self.turns,
            params=self.params,
        )
