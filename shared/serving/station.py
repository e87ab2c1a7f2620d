"""What a role's server is made of before it does anything: environment, chat, clients, policy, membership."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import structlog

from shared.agents.chat import ChatFormat
from shared.agents.toolbox import Toolbox
from shared.client import SyncClient
from shared.environments.base import Environment, Team
from shared.environments.registry import load_environment
from shared.http.wire import wire
from shared.observer import Observer
from shared.policy.folder import check_positions
from shared.policy.policy import Policy
from shared.policy.tokenizer import load_tokenizer
from shared.schemas import Role
from shared.serving.config import ServerConfig
from shared.serving.member import Member
from shared.serving.rejoin import compare_log_probs
from shared.serving.secrets import secret
from shared.stream import Stream

log = structlog.get_logger()
RENEWAL_TIMEOUT_S = 5.0
RENEWAL_RETRY_S = 10.0
"""Both well below a lease's time to live: one stalled connection must not cost the lease."""


@dataclass(frozen=True, slots=True)
class Station:
    """The parts that both roles have."""

    environment: Environment
    toolbox: Toolbox
    chat: ChatFormat
    sync: SyncClient
    renewals: SyncClient
    policy: Policy
    member: Member
    chat_about: Callable[[Toolbox], ChatFormat]
    """How a conversation of an agent with other tools becomes ids, by the same tokenizer."""

    def stream(self, observer: Observer) -> Stream:
        """The stream of this role, held by this worker."""
        member = self.member
        stream = Stream(
            self.sync,
            self.renewals,
            run=member.run,
            role=member.role,
            worker=member.worker,
            weights=self.policy,
            observer=observer,
        )
        member.version = lambda: stream.version
        return stream


def renewals_client(sync_url: str, key: str | None, transport: httpx.AsyncBaseTransport) -> SyncClient:
    """The client of the small calls that must come in time: renewals, releases, heartbeats."""
    return SyncClient(sync_url, key=key, transport=transport, timeout_s=RENEWAL_TIMEOUT_S, retry_for_s=RENEWAL_RETRY_S)


@asynccontextmanager
async def station(
    config: ServerConfig,
    role: Role,
    tools: Callable[[Environment], Toolbox],
    sync_wire: httpx.AsyncBaseTransport | None = None,
    team: Team = "pair",
) -> AsyncGenerator[Station]:
    """Start all of it, and put it away; UserError for a mistake in the configuration, the model or the environment."""
    key = secret("SYNC_KEY", config.sync_key_file)
    environment = load_environment(config.environment, config.environment_options).of_team(team)
    toolbox = tools(environment)
    tokenizer = await asyncio.to_thread(load_tokenizer, config.policy.model)

    def chat_about(tools: Toolbox) -> ChatFormat:
        return ChatFormat(tokenizer, tools.schemas() if environment.describe_tools else ())

    chat = chat_about(toolbox)
    chat.check()
    check_positions(config.policy.model, config.limits.max_context_tokens)
    async with (
        SyncClient(config.sync_url, key=key, transport=sync_wire or wire()) as sync,
        renewals_client(config.sync_url, key, sync_wire or wire()) as renewals,
    ):
        policy = await Policy.start(
            config.policy, config.folder, config.run, role, total_steps=None, resume=True, train=config.trains
        )
        try:
            log.info("policy-started", **policy.info)
            if config.trains:
                await compare_log_probs(policy, config.run, config.policy)
            device = str(policy.info["device"])
            member = Member(renewals, config.run, config.worker, role, config.url, device)
            yield Station(environment, toolbox, chat, sync, renewals, policy, member, chat_about)
        finally:
            await policy.close()
