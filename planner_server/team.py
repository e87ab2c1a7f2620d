"""The three kinds of team, as the planner's server builds them: who has the tools, and who answers a delegation.

pair      the planner delegates, and the executor's server answers
single    one model that has the environment's tools itself, and delegates to nobody
unified   one policy that delegates to itself: the same sampler runs the executor's episode, by the executor's
          instructions, tools and limits (WideSeek's training)
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from planner_server.config import PlannerConfig
from planner_server.delegation import DELEGATE, Answered, Executor
from planner_server.executor import ExecutorClient
from planner_server.rollout import Roller
from shared.agents.executor import ExecutorAgent, answer_of
from shared.agents.toolbox import Toolbox
from shared.environments.base import Environment
from shared.errors import UserError
from shared.http.wire import wire
from shared.policy.folder import check_positions
from shared.policy.types import SamplingParams
from shared.schemas.invocation import InvocationRequest
from shared.schemas.run import RunSpec
from shared.serving.station import Station


def tools_of(config: PlannerConfig) -> Callable[[Environment], Toolbox]:
    """The planner's own tools, from the environment."""
    if config.team != "single":
        return lambda _: DELEGATE
    return lambda environment: Toolbox(environment.tools())


def check_roles(config: PlannerConfig, spec: RunSpec) -> None:
    """UserError where the run trains an executor that the team does not have."""
    if config.team != "pair" and "executor" in spec.trained_roles:
        raise UserError(
            f"run {config.run} trains the executor, but this planner server's team is {config.team}, which has none: "
            'declare the run with trained_roles = ["planner"], or configure team = "pair"'
        )


async def build_roller(
    config: PlannerConfig,
    here: Station,
    stack: AsyncExitStack,
    *,
    key: str | None,
    to_executor: httpx.AsyncBaseTransport | None,
) -> Roller:
    """What runs the team's rollouts. `key` is for the executor's server; `to_executor` replaces the wire to it."""
    executor: Executor | None = None
    if config.executor_url is not None:
        executor = Remote(
            ExecutorClient(
                await stack.enter_async_context(to_executor or wire()),
                config.executor_url,
                key=key,
                deadline_s=config.invocation_deadline_s,
                attempts=config.invocation_attempts,
            )
        )
    elif config.team == "unified":
        executor = Own(_own_agent(config, here))
    return Roller(
        run=config.run,
        environment=here.environment,
        sampler=here.policy.sampler,
        chat=here.chat,
        toolbox=here.toolbox,
        executor=executor,
        limits=config.limits,
    )


def _own_agent(config: PlannerConfig, here: Station) -> ExecutorAgent:
    """The executor's part of one policy; UserError where its trajectories do not fit the model."""
    limits = config.executor_limits
    check_positions(config.policy.model, limits.max_context_tokens, "executor_limits")
    toolbox = Toolbox(here.environment.tools())
    return ExecutorAgent(here.environment, here.policy.sampler, here.chat_about(toolbox), toolbox, limits)


@dataclass(frozen=True, slots=True)
class Remote:
    """An executor's server, which has its own policy and keeps its own trajectories."""

    client: ExecutorClient

    async def answer(
        self, invocation: str, request: InvocationRequest, params: SamplingParams, checkpoint: Path | None
    ) -> Answered:
        """ExecutorFailed where it failed each time; `params` and `checkpoint` are those of another policy."""
        return await self.client.invoke(invocation, request), None


@dataclass(frozen=True, slots=True)
class Own:
    """This server's own policy, at the planner's temperature and by the planner's weights."""

    agent: ExecutorAgent

    async def answer(
        self, invocation: str, request: InvocationRequest, params: SamplingParams, checkpoint: Path | None
    ) -> Answered:
        """Unavailable where the sampler failed, as in the planner's own turns."""
        episode = await self.agent.run(request, params, checkpoint)
        return answer_of(episode), episode
