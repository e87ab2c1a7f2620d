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
    workers,
)


def all_routes() -> APIRouter:
    """Everything under `/v1`."""
    router = APIRouter(prefix="/v1")
    for module in (rollouts, trajectories, groups, streams, workers, policies, runs, deliveries, events, audit):
        router.include_router(module.router)
    return router
