"""The verdict on a run."""

from fastapi import APIRouter, Response

from shared.http.guard import READER
from shared.ids import Name
from shared.schemas.verdict import Verdict
from sync_service.operations import verdict
from sync_service.routes.answers import answer
from sync_service.service import Here

router = APIRouter(tags=["runs"])


@router.get("/runs/{run}/verdict", dependencies=[READER], response_model=Verdict)
async def get(run: Name, service: Here) -> Response:
    """Whether the run is healthy, why not, what may be done, and when it ends."""
    config = service.config
    return answer(
        await service.database.read(
            lambda connection: verdict.verdict(connection, run, config.stall_s, config.worker_lost_s)
        )
    )
