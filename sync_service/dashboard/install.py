"""Puts the pages on the app of the sync service."""

from fastapi import APIRouter, FastAPI

from sync_service.dashboard import actions, alignment, events, learning, login, overview, runs, steps
from sync_service.dashboard.live import Live
from sync_service.dashboard.pages import PageRoute
from sync_service.dashboard.sessions import Ring
from sync_service.dashboard.static import static_routes
from sync_service.service import Service


def install_dashboard(app: FastAPI, service: Service, ring: Ring | None) -> None:
    """The routes of every page, none of them part of the protocol. `ring` None: the loopback mode, without a login."""
    app.state.browser_ring = ring
    app.state.live = Live(service)
    files = APIRouter(route_class=PageRoute)
    static_routes(files)
    pages = (login, runs, overview, learning, alignment, steps, events, actions)
    for router in (files, *(module.router for module in pages)):
        app.include_router(router, include_in_schema=False)
