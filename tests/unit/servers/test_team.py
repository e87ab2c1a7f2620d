"""Which configuration fits which team, and which run."""

from typing import Any

import pytest

from planner_server.config import PlannerConfig
from planner_server.team import check_roles
from shared.config import load, parse, save
from shared.errors import UserError
from shared.schemas.run import RunSpec

TABLES = {
    "run": "r",
    "worker": "w",
    "auth": "loopback",
    "sync_url": "http://sync",
    "folder": "/f",
    "environment": "atlas",
    "policy": {"model": "/m"},
}
FITTING: dict[str, dict[str, Any]] = {
    "pair": {"executor_url": "http://executor"},
    "single": {"team": "single", "limits": {"tool_timeout_s": 30}},
    "unified": {"team": "unified", "executor_limits": {"max_turns": 3}},
}


@pytest.mark.parametrize("team", FITTING)
def test_the_resolved_copy_of_what_fits_is_read_again(team: str, tmp_path):
    config = parse(PlannerConfig, TABLES | FITTING[team])
    assert config.team == team
    save(config, tmp_path / "config.toml")
    assert load(PlannerConfig, tmp_path / "config.toml") == config


@pytest.mark.parametrize(
    ("team", "changes", "named"),
    [
        ("pair", {"executor_url": None}, "executor_url is missing"),
        ("pair", {"executor_limits": {"max_turns": 3}}, "executor_limits"),
        ("pair", {"limits": {"tool_timeout_s": 30}}, "tool_timeout_s"),
        ("single", {"executor_url": "http://executor"}, "executor_url"),
        ("single", {"executor_limits": {"max_turns": 3}}, "executor_limits"),
        ("single", {"limits": {}}, "set limits.tool_timeout_s"),
        ("unified", {"executor_url": "http://executor"}, "executor_url"),
        ("unified", {"executor_key_file": "/k"}, "executor_key_file"),
        ("unified", {"invocation_deadline_s": 9.0}, "invocation_deadline_s"),
        ("unified", {"invocation_attempts": 9}, "invocation_attempts"),
        ("unified", {"limits": {"tool_timeout_s": 30}}, "tool_timeout_s"),
    ],
)
def test_what_a_team_has_no_use_for_is_refused_by_name(team: str, changes: dict[str, Any], named: str):
    with pytest.raises(UserError, match=named):
        parse(PlannerConfig, TABLES | FITTING[team] | changes)


@pytest.mark.parametrize(
    ("team", "roles", "fits"),
    [
        ("pair", ("planner", "executor"), True),
        ("pair", ("planner",), True),
        ("single", ("planner",), True),
        ("single", ("planner", "executor"), False),
        ("unified", ("planner",), True),
        ("unified", ("executor",), False),
    ],
)
def test_a_run_trains_no_executor_that_the_team_lacks(team: str, roles: Any, fits: bool):
    config, spec = parse(PlannerConfig, TABLES | FITTING[team]), RunSpec(steps=1, trained_roles=roles)
    if fits:
        check_roles(config, spec)
    else:
        with pytest.raises(UserError, match=f"team is {team}, which has none"):
            check_roles(config, spec)
