"""A seat: one role of a team, as the model that is warmed up for it meets it. Most models have one seat.

The only model of the team `single` sits in the planner's place and has the environment's tools itself; that of
`unified` has two seats, and learns at both.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedTokenizerBase

from shared.agents.chat import ChatFormat
from shared.agents.protocol import Calls, parse
from shared.agents.toolbox import Toolbox
from shared.environments.base import Environment, Split, ToolResult
from shared.errors import UserError
from shared.policy.warmup.conversation import Row, render
from shared.policy.warmup.curriculum import Curriculum
from shared.schemas.base import Role

LOOKED_AT = 20
"""Demonstrations in which the calls of a single model are looked at."""


@dataclass(frozen=True, slots=True)
class Seat:
    """`environment` is that of the team; `chat` describes the tools of this seat, where tools are described."""

    role: Role
    environment: Environment
    curriculum: Curriculum
    chat: ChatFormat
    toolbox: Toolbox

    def demonstration(self, rng: random.Random) -> Row:
        """A demonstration under the environment's instructions, as every rollout begins."""
        system = self.environment.system_prompt(self.role)
        return render(self.chat, replace(self.curriculum.demonstration(rng), system=system))


async def delegate(context: Callable[[Split, str], ToolResult], task: str) -> ToolResult:
    """Give a subtask to the executor, which has tools; its answer comes back."""
    return context("validation", task)


def roles_of(environment: Environment, role: Role) -> tuple[Role, ...]:
    """The roles that the model of `role` learns: both, where the team has one model for them."""
    return ("planner", "executor") if environment.team == "unified" else (role,)


def works_alone(environment: Environment, role: Role) -> bool:
    """Whether this is a single model: it has a planner's tasks and an executor's tools."""
    return role == "planner" and environment.team == "single"


def tools_of(environment: Environment, role: Role) -> dict[str, Callable[..., Any]]:
    """The environment's tools; or `delegate`, as the planner server describes it, before a curriculum's partner."""
    delegates = role == "planner" and not works_alone(environment, role)
    return {"delegate": delegate} if delegates else environment.tools()


def take_seat(environment: Environment, role: Role, curriculum: Curriculum, tokenizer: PreTrainedTokenizerBase) -> Seat:
    """The seat of `role`; UserError where the tokenizer's chat template does not serve."""
    toolbox = Toolbox(tools_of(environment, role))
    chat = ChatFormat(tokenizer, toolbox.schemas() if environment.describe_tools else ())
    chat.check()
    return Seat(role, environment, curriculum, chat, toolbox)


def check_calls(environment: Environment, role: Role, curriculum: Curriculum) -> None:
    """UserError where demonstrations call what the seat does not have: a pair's planner, where a single model sits."""
    rng, tools = random.Random(0), tools_of(environment, role)
    for _ in range(LOOKED_AT):
        for turn in curriculum.demonstration(rng).turns:
            action = parse(turn.text)
            strange = {call.name for call in action.calls} - tools.keys() if isinstance(action, Calls) else set()
            if turn.learned and strange:
                raise UserError(
                    f"environment {environment.name} has no warm-up for the team {environment.team}: "
                    f"its demonstrations call {', '.join(sorted(strange))}"
                )
