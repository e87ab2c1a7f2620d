"""The planner's server: works through the run's tasks, delegating to the executor, and trains the planner.

    rollouts.py    opens the groups of each step; horizon.py says how far ahead it may work
    team.py        who has the tools, and who answers a delegation
    rollout.py     one rollout; delegation.py is its tool; executor.py sends one again until it is answered or failed
    (shared) submitter.py   ids and scalars to the sync service, gathered
    train.py       the planner's stream; batch.py: rewards and advantages; linearise.py: rows
    PUT, GET /v1/evaluations/{id} -> evaluations.py   tasks of a split on named checkpoints of both roles
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

from planner_server.config import PlannerConfig
from planner_server.evaluations import Evaluations
from planner_server.reports import Reports
from planner_server.rollouts import RolloutLoop
from planner_server.team import build_roller, check_roles, tools_of
from planner_server.train import train
from shared.http.admission import one_lane
from shared.http.body import json_body, openapi_body
from shared.http.guard import OPERATOR, VIEWER
from shared.http.health import install_health
from shared.http.lifespan import rooted
from shared.http.problems import install_problems
from shared.http.protocol import install_protocol
from shared.http.requests import install_requests
from shared.ids import Id
from shared.policy.policy import Policy
from shared.schemas.invocation import EvaluationRequest, EvaluationView
from shared.schemas.rollout import RolloutItem
from shared.serving.access import guard_server
from shared.serving.metrics import ServerMetrics, install_server_metrics
from shared.serving.reward import tell_reward
from shared.serving.routes import install_common_routes, json, part, ready
from shared.serving.secrets import secret
from shared.serving.sinks import open_sinks
from shared.serving.station import station
from shared.serving.submitter import Submitter
from shared.serving.watch import watch


@dataclass(frozen=True, slots=True)
class Wires:
    """What replaces the wires to the other servers in tests."""

    sync: httpx.AsyncBaseTransport | None = None
    executor: httpx.AsyncBaseTransport | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes use, once the policy has started."""

    policy: Policy
    evaluations: Evaluations
    submitter: Submitter[RolloutItem]


def create_app(config: PlannerConfig, wires: Wires = Wires()) -> FastAPI:
    """The app of one planner server."""
    app = FastAPI(
        title="Tandem planner server",
        version="1",
        lifespan=lambda app: rooted(app, partial(serve_run, app, config, wires)),
        openapi_url=None,
        redirect_slashes=False,
    )
    install_problems(app)
    install_health(app, {"policy": partial(ready, app)})
    install_common_routes(app)
    path = "/v1/evaluations/{evaluation}"
    starting = app.put(
        path,
        dependencies=[OPERATOR],
        response_model=EvaluationView,
        openapi_extra=openapi_body(EvaluationRequest),
    )
    starting(start_evaluation)
    app.get(path, dependencies=[VIEWER], response_model=EvaluationView)(evaluation_view)
    one_lane(app, config.admission)
    install_server_metrics(app, config, "planner")
    install_protocol(app)
    install_requests(app)
    guard_server(app, config)
    return app


async def start_evaluation(
    request: Request, evaluation: Id, body: EvaluationRequest = Depends(json_body(EvaluationRequest))
) -> Response:
    """Start an evaluation; asking again says where it stands."""
    evaluations: Evaluations = part(request, "evaluations")
    return json(evaluations.start(evaluation, body))


async def evaluation_view(request: Request, evaluation: Id) -> Response:
    """Progress, then the result."""
    evaluations: Evaluations = part(request, "evaluations")
    return json(evaluations.view(evaluation))


async def serve_run(app: FastAPI, config: PlannerConfig, wires: Wires) -> None:
    """The root task: start everything, run every loop, and put everything away again."""
    key = secret("EXECUTOR_KEY", config.executor_key_file)
    metrics: ServerMetrics = app.state.metrics
    async with AsyncExitStack() as stack:
        sinks = await stack.enter_async_context(open_sinks(config.metrics, config.run, "planner"))
        starting = station(config, "planner", tools_of(config), wires.sync, config.team)
        here = await stack.enter_async_context(starting)
        app.state.on_stop = here.member.drain
        roller = await build_roller(config, here, stack, key=key, to_executor=wires.executor)
        places, attempts = config.max_concurrent_rollouts, config.attempts_per_slot
        evaluations = Evaluations(
            roller,
            here.policy.checkpoints.hold,
            config.sampling,
            places=places,
            attempts=attempts,
            one_policy=config.team != "pair",
        )
        stack.push_async_callback(evaluations.close)
        submitter: Submitter[RolloutItem] = Submitter(here.sync.submit_rollouts, RolloutItem, here.policy.store)
        app.state.parts = Parts(here.policy, evaluations, submitter)
        metrics.show(here.policy, submitter, here.member)
        reports = Reports(here.policy.store, submitter)
        async with asyncio.TaskGroup() as loops:
            loops.create_task(watch(here.policy))
            loops.create_task(here.member.heartbeats())
            loops.create_task(submitter.run())
            spec = await here.member.declared()
            tell_reward(spec, config.folder)
            check_roles(config, spec)
            submitter.trained = here.member.trains(spec, config.trains)
            if submitter.trained:
                every = config.policy.checkpoints.every
                stream = here.stream(metrics.progress(sinks))
                training = train(
                    here.policy,
                    stream,
                    spec,
                    here.member,
                    checkpoint_every=every,
                    accuracies=evaluations.accuracies,
                )
                loops.create_task(training)
            await reports.recover()
            rollouts = RolloutLoop(
                here.member,
                here.sync,
                spec,
                roller,
                config.sampling(),
                reports.report,
                places=places,
                attempts=attempts,
                flights=metrics.flights("rollout"),
            )
            loops.create_task(rollouts.run())
