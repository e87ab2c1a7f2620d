"""The executor's server: answers delegations with a tool-using model, and trains it.

    PUT /v1/invocations/{id} -> invocations.py   join, recall, cancel, deadline
                                agent.py         the tool loop, the stored trajectory, the answer
                                scoring.py       the expert score, in the background; judge.py asks for it
                                (shared) submitter.py   ids and scores to the sync service, gathered
    deliveries of the stream -> train.py         batch.py: rewards, alignment.py, baselines; then the update
    GET /v1/trajectories/{id}, GET /v1/checkpoints, POST /v1/checkpoints/{name}:keep   (shared) routes.py

Nothing happens at import. The lifespan runs one root task, `serve_run`, which owns the policy's processes, the
clients and every loop; if one of them dies, the process says why and ends. The server answers before the run is
declared and after it is finished; it ends when it is told to.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import httpx
from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response

from executor_server.agent import Agent
from executor_server.config import ExecutorConfig
from executor_server.connection import while_connected
from executor_server.invocations import Invocations
from executor_server.scoring import Scoring
from executor_server.train import train
from shared.agents.executor import ExecutorAgent
from shared.agents.toolbox import Toolbox
from shared.errors import Conflict
from shared.http.admission import one_lane
from shared.http.body import json_body, openapi_body
from shared.http.guard import PLANNER
from shared.http.health import install_health
from shared.http.lifespan import rooted
from shared.http.problems import install_problems
from shared.http.protocol import install_protocol
from shared.http.requests import install_requests
from shared.ids import Id
from shared.policy.policy import Policy
from shared.schemas.invocation import InvocationAnswer, InvocationRequest
from shared.schemas.rollout import TrajectoryItem
from shared.schemas.run import RunSpec
from shared.serving.access import guard_server
from shared.serving.metrics import ServerMetrics, install_server_metrics
from shared.serving.reward import tell_reward
from shared.serving.routes import install_common_routes, json, part, ready
from shared.serving.sinks import open_sinks
from shared.serving.station import station
from shared.serving.submitter import Submitter
from shared.serving.watch import watch

CLIENT_CLOSED_REQUEST = 499


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes use, once the policy has started."""

    config: ExecutorConfig
    policy: Policy
    invocations: Invocations
    submitter: Submitter[TrajectoryItem]


def create_app(config: ExecutorConfig, *, sync: httpx.AsyncBaseTransport | None = None) -> FastAPI:
    """The app; `sync` replaces the wire to the sync service in tests."""
    app = FastAPI(
        title="Tandem executor server",
        version="1",
        lifespan=lambda app: rooted(app, partial(serve_run, app, config, sync)),
        openapi_url=None,
        redirect_slashes=False,
    )
    install_problems(app)
    install_health(app, {"policy": partial(ready, app)})
    install_common_routes(app)
    app.put(
        "/v1/invocations/{invocation}",
        dependencies=[PLANNER],
        response_model=InvocationAnswer,
        openapi_extra=openapi_body(InvocationRequest),
    )(invoke)
    one_lane(app, config.admission)
    install_server_metrics(app, config, "executor")
    install_protocol(app)
    install_requests(app)
    guard_server(app, config)
    return app


async def invoke(
    request: Request, invocation: Id, body: InvocationRequest = Depends(json_body(InvocationRequest))
) -> Response:
    """Run one delegation, or join or recall it; a client that goes away cancels it."""
    config: ExecutorConfig = part(request, "config")
    invocations: Invocations = part(request, "invocations")
    if body.run != config.run:
        raise Conflict(f"this server works for run {config.run}, not {body.run}")
    answer = await while_connected(request, invocations.answer(invocation, body))
    return json(answer) if answer is not None else Response(status_code=CLIENT_CLOSED_REQUEST)


async def serve_run(app: FastAPI, config: ExecutorConfig, wire: httpx.AsyncBaseTransport | None) -> None:
    """The root task: start everything, run every loop, and put everything away again."""
    metrics: ServerMetrics = app.state.metrics
    async with AsyncExitStack() as stack:
        sinks = await stack.enter_async_context(open_sinks(config.metrics, config.run, "executor"))
        here = await stack.enter_async_context(station(config, "executor", lambda e: Toolbox(e.tools()), wire))
        app.state.on_stop = here.member.drain
        declared: asyncio.Future[RunSpec] = asyncio.get_running_loop().create_future()
        submitter: Submitter[TrajectoryItem] = Submitter(
            here.sync.submit_trajectories, TrajectoryItem, here.policy.store
        )
        scoring = Scoring(here.environment, here.policy.store, submitter, declared)
        stack.callback(scoring.close)
        metrics.gauge("tandem_scores_waiting", "Trajectories that are not judged yet.", lambda: scoring.waiting)
        agent = Agent(
            ExecutorAgent(here.environment, here.policy.sampler, here.chat, here.toolbox, config.limits),
            store=here.policy.store,
            scoring=scoring,
            params=config.sampling,
            hold=here.policy.checkpoints.hold,
        )
        invocations = Invocations(agent, config.invocation_deadline_s, metrics.flights("invocation"))
        stack.push_async_callback(invocations.close)
        await scoring.recover(config.run)  # before the first new one is stored, which would be scored twice
        app.state.parts = Parts(config, here.policy, invocations, submitter)
        metrics.show(here.policy, submitter, here.member)
        async with asyncio.TaskGroup() as loops:
            loops.create_task(watch(here.policy))
            loops.create_task(here.member.heartbeats())
            loops.create_task(submitter.run())
            loops.create_task(scoring.run())
            spec = await here.member.declared()
            tell_reward(spec, config.folder)
            submitter.trained = here.member.trains(spec, config.trains)
            declared.set_result(spec)
            if submitter.trained:
                every = config.policy.checkpoints.every
                stream = here.stream(metrics.progress(sinks))
                loops.create_task(train(here.policy, stream, spec, here.member, checkpoint_every=every))
