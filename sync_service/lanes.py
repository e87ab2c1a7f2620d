"""Which requests stand in which lane: a heartbeat, a renewal or an ack never waits behind bulk writes."""

import re

from fastapi import FastAPI
from starlette.types import Scope

from shared.http.admission import AdmissionConfig, Lane, install_admission

URGENT = re.compile(r"/v1/runs/[^/]+/(streams/[^/]+:(renew|ack|release)|workers/[^/]+|policies/.+)")
HELD = re.compile(r"/v1/runs/[^/]+/streams/[^/]+:lease|/v1/(.+/)?events|/runs/[^/]+/live")
WAITS = re.compile(rb"(^|&)wait=(?!0(\.0*)?(&|$))")
"""A query that asks to be held for more than no time."""
URGENT_IN_WORK = 16
TEXTS = re.compile(r"/runs/[^/]+/steps/[^/]+/rollouts/[^/]+/text")
PAGES_IN_WORK = 4
"""Pages at once: people who watch take few of the connections that bulk writes stand for."""


def install_lanes(app: FastAPI, config: AdmissionConfig, held_requests: int) -> None:
    """Admission for the sync service."""
    bulk = Lane("bulk", config.in_work, config.waiting, config.wait_s)
    urgent = Lane("urgent", URGENT_IN_WORK, config.waiting, config.wait_s)
    held = Lane("held", held_requests)
    pages = Lane("pages", PAGES_IN_WORK, config.waiting, config.wait_s)
    texts = Lane("texts", PAGES_IN_WORK, config.waiting, config.wait_s)  # they wait for other servers, for seconds

    def lane_of(scope: Scope) -> Lane:
        if URGENT.fullmatch(scope["path"]):
            return urgent
        if HELD.fullmatch(scope["path"]):
            return held
        if scope["path"].startswith("/v1/"):
            return held if WAITS.search(scope["query_string"]) else bulk
        return texts if TEXTS.fullmatch(scope["path"]) else pages

    install_admission(app, (bulk, urgent, held, pages, texts), lane_of)
