"""HTTP by noun: a route reads its parameters, runs one operation in one transaction, rings, and answers."""

from fastapi import APIRouter

from sync_service.routes import (
    audit,
    deliveries,
    events,
    groups,
    policies,
    rollouts,
    runs,
    streams,
    trajectories,
    verdict,
    workers,
)


def all_routes() -> APIRouter:
    """Everything under `/v1`."""
    router = APIRouter(prefix="/v1")
    data = (rollouts, trajectories, groups, streams, workers, policies, runs, verdict, deliveries)
    for module in (*data, events, audit):
        router.include_router(module.router)
    return router
