"""A fault at one call of an episode: shown in demonstrations with what mends it, and injected to measure recovery.

Stage 1 of ParaManager (arXiv 2604.17009) trains on trajectories that recover. A turn that is no action ends an
episode, so what can be recovered from is a call that the toolbox refuses, or a tool that fails; the texts are the
protocol's own.
"""

import asyncio
import functools
import inspect
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shared.agents.chat import ChatFormat
from shared.environments.base import ToolResult
from shared.policy.types import Completion, Sampler, SamplingParams
from shared.policy.warmup.conversation import Conversation, Turn
from shared.policy.warmup.lockstep import VERSION


@dataclass(frozen=True, slots=True)
class Fault:
    """At call number `call`, from 0: a `mistake` of the model's, or an `outage` of a tool that was called rightly.

    `mistake`: the turn that stands in the place of the model's own, with its result; it is shown, but not learned.
    `outage`: what the call of the tool of that name comes to.
    """

    kind: str
    call: int
    mistake: Turn | None = None
    outage: Callable[[str], ToolResult] | None = None


def in_conversation(conversation: Conversation, tools: Sequence[str], fault: Fault | None) -> Conversation:
    """The conversation with the fault before one of its calls, which is then made (again).

    `tools` are those that the turns call, in order. A fault beyond the last call is at the last; without a call there
    is none.
    """
    if fault is None or not tools:
        return conversation
    turns, place = conversation.turns, min(fault.call, len(tools) - 1)
    if fault.mistake is not None:
        failed = replace(fault.mistake, learned=False)
    else:
        assert fault.outage is not None
        failed = Turn(turns[place].text, (fault.outage(tools[place]),))
    return replace(conversation, turns=(*turns[:place], failed, *turns[place:]))


DrawFault = Callable[[random.Random, str], Fault | None]
"""A fault for an episode about what is asked; None where there is no place for one."""


class Injection:
    """One fault on its way into one episode; `happened` says whether the episode came so far."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.happened = False

    def tools(self, functions: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """The tools of this episode: a call that has an outage does not reach its tool."""
        made = itertools.count()
        return {name: self._failing(name, function, made) for name, function in functions.items()}

    def _failing(self, name: str, function: Callable[..., Any], made: "itertools.count[int]") -> Callable[..., Any]:
        outage = self.fault.outage

        @functools.wraps(function)
        async def tool(*positional: Any, **named: Any) -> Any:
            if next(made) == self.fault.call and outage is not None:
                self.happened = True
                return outage(name)
            if inspect.iscoroutinefunction(function):
                return await function(*positional, **named)
            return await asyncio.to_thread(function, *positional, **named)

        return tool

    def sampler(self, sampler: Sampler, chat: ChatFormat) -> Sampler:
        """The sampler of this episode: a mistake is written in the place of the model's own turn."""
        return sampler if self.fault.mistake is None else _Mistaken(self, self.fault.mistake, sampler, chat)


class _Mistaken:
    """A sampler that writes one turn itself."""

    def __init__(self, injection: Injection, mistake: Turn, sampler: Sampler, chat: ChatFormat) -> None:
        self._injection = injection
        self._mistake = mistake
        self._sampler = sampler
        self._chat = chat
        self._turns = itertools.count()

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, checkpoint: Path | None = None
    ) -> Completion:
        """The next turn, the model's or the mistake."""
        if next(self._turns) != self._injection.fault.call:
            return await self._sampler.generate(prompt_ids, params, checkpoint=checkpoint)
        self._injection.happened = True
        ids = self._chat.turn(self._mistake.text)
        return Completion(ids, [0.0] * len(ids), VERSION, "stop")

    async def load_weights(self, folder: Path, version: Any) -> str:
        """Passed on."""
        return await self._sampler.load_weights(folder, version)

    async def close(self) -> None:
        """Passed on."""
        await self._sampler.close()
