"""What became of trajectories, as the sync service recorded it: only there rewards and fates of both roles meet."""

from typing import Any

from shared.cli.account import Account, accounts_in
from shared.cli.server import Server
from shared.schemas.rollout import GroupView


def fates(server: Server, run: str) -> dict[str, dict[str, Any]]:
    """By trajectory id, of both roles: `rollout`, `group`, `step`, `reward`, `fate`. NotFound: there is no such run."""
    found: dict[str, dict[str, Any]] = {}
    for group in server.items(f"/v1/runs/{run}/groups", GroupView):
        for account in accounts_in(server, group.group):
            found |= _of(account)
    return found


def _of(account: Account) -> dict[str, dict[str, Any]]:
    rollout = account.rollout
    place = {"rollout": rollout.id, "group": rollout.group, "step": account.group.step}
    told = {}
    if rollout.planner_trajectory:
        fate = rollout.fate_reason if rollout.multiplicity is None else rollout.multiplicity
        told[rollout.planner_trajectory] = {**place, "reward": account.reward, "fate": fate}
    for call in account.calls:
        fate = (call.reason or call.state) if call.multiplicity is None else call.multiplicity
        told[call.id] = {**place, "reward": account.reward_of(call), "fate": fate}
    return told
