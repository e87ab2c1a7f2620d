"""`tandem show`: a rollout, the executor's calls in it, and texts that are hostile."""

import asyncio
from pathlib import Path

import pytest
from fastapi import FastAPI, Request

from shared.cli.export.fates import fates
from shared.cli.server import Server
from shared.ids import new_id
from shared.schemas.stream import Heartbeat
from tests.integration.cli.command import Tandem
from tests.integration.sync.builder import VERSION, Builder
from tests.listening import listening

EVIL = "\x1b]0;owned\x07<script>alert(1)</script> [bold]x[/] \u202egnp.exe\x00 \x1b[2J"


def server_of_texts(asked: list[str], parts: tuple[str, ...] = ()) -> FastAPI:
    """A role server that has every trajectory, with `parts` below it; `asked` gets the keys with which it was asked."""
    app = FastAPI()

    @app.get("/v1/trajectories/{id}")
    async def text(id: str, request: Request) -> dict:
        asked.append(request.headers.get("authorization", ""))
        messages = [{"role": "user\x1b[31m", "content": EVIL}, {"role": "assistant", "content": [EVIL]}]
        facts = {"answer": EVIL, "parts": parts}
        return {"id": id, "run": "r1", "role": "planner", "tokens": 3, "messages": messages, "facts": facts}

    return app


async def trained(build: Builder):
    """A rollout with two calls; the planner has trained on it, the executor has not."""
    await build.declare(groups_per_step=1, planner_reward={"format": 0.2, "correct": 0.8})
    trainer = build.trainer("planner")
    await trainer.resume()
    rollout, *_ = await build.fill(1, calls=2)
    await trainer.train()
    return rollout


async def test_rewards_versions_and_fates_of_a_rollout_and_its_calls(build: Builder, viewer: Tandem):
    rollout = await trained(build)
    (shown,) = (await viewer("show", rollout.id, "--json")).json
    assert (shown["rollout"]["reward"], shown["rollout"]["multiplicity"]) == (1.0, 1)
    assert [call["id"] for call in shown["calls"]] == list(rollout.body.executor_trajectories)
    assert [call["reward"] for call in shown["calls"]] == [pytest.approx(0.1 + 0.4 + 0.25)] * 2
    top, planner, *calls = (await viewer("show", rollout.id)).lines
    assert f"rollout {rollout.id}  reported".replace("  ", " ") in top
    assert "reward 1.000" in planner
    assert "trained x1" in planner
    told = "r_format 1, r_expert 0.5, reward 0.750, 7 tokens by version 1.0 (0 updates), scored"
    assert [line.lstrip(" ├└─│") for line in calls] == [
        f"executor call {number} {id}: {told}" for number, id in enumerate(rollout.body.executor_trajectories, start=1)
    ]


async def test_a_rollout_shows_the_scores_of_the_terms_that_its_reward_has(build: Builder, viewer: Tandem):
    reward = {"correct": 0.6, "efficiency": 0.2, "diversity": 0.1, "budget": {"calls": 8}}
    await build.declare(planner_reward=reward)
    rollout = build.rollout(await build.open(), r_efficiency=0.25, r_diversity=1.0)
    await build.report(rollout)
    (shown,) = (await viewer("show", rollout.id, "--json")).json
    assert shown["rollout"]["reward"] == pytest.approx(0.1 + 0.6 + 0.2 * 0.25 + 0.1)
    planner = (await viewer("show", rollout.id)).lines[1]
    assert "r_correct 1.0, r_efficiency 0.250, r_diversity 1.000, reward 0.850" in planner
    assert "r_protocol" not in planner


async def test_a_run_shows_the_formulas_that_are_in_force(build: Builder, viewer: Tandem):
    await build.declare(planner_reward={"correct": 0.7, "efficiency": 0.2, "budget": {"calls": 8}})
    shown = (await viewer("show", "r1", "--json")).json
    assert shown["reward"]["planner"].endswith("0.2*r_correct*r_efficiency); r_efficiency = 1 - min(1, calls/8)")
    lines = [" ".join(line.split()) for line in (await viewer("show", "r1")).lines]
    assert lines[0] == "run r1 declared"
    assert lines[1] == f"reward of the planner {shown['reward']['planner']}"
    assert lines[2] == f"reward of the executor {shown['reward']['executor']}"
    assert {"steps 3", "trained_roles planner, executor"} <= set(lines)
    assert "no run nobody" in (await viewer("show", "nobody")).fault


async def test_a_group_shows_all_its_rollouts(build: Builder, viewer: Tandem):
    rollout = await trained(build)
    shown = (await viewer("show", rollout.body.group, "--json")).json
    assert [account["rollout"]["slot"] for account in shown] == [0, 1]
    assert "no rollout and no group" in (await viewer("show", new_id())).fault


async def test_texts_come_from_their_servers_as_nothing_but_text(build: Builder, viewer: Tandem):
    rollout = await trained(build)
    asked: list[str] = []
    async with listening(server_of_texts(asked)) as url:
        beat = Heartbeat(role="planner", url=url, version=VERSION)
        await build.client.heartbeat("r1", "planner-1", beat)
        outcome = await viewer("show", rollout.id, "--text")
        (shown,) = (await viewer("show", rollout.id, "--text", "--json")).json
    assert all(key.startswith("Bearer tandem_") for key in asked)
    assert not set(outcome.out) & {"\x1b", "\x07", "\x00", "\u202e"}
    assert "<script>alert(1)</script> [bold]x[/] gnp.exe" in outcome.out
    assert outcome.out.count("no text: no executor server has told where it is") == 2
    assert shown["texts"][rollout.body.planner_trajectory]["messages"][0]["content"] == EVIL


async def test_what_one_policy_delegated_to_itself_is_shown_below_its_rollout(build: Builder, viewer: Tandem):
    await build.declare(groups_per_step=1, trained_roles=("planner",))
    rollout, *_ = await build.fill(1)
    part = new_id()
    async with listening(server_of_texts([], (part,))) as url:
        await build.client.heartbeat("r1", "planner-1", Heartbeat(role="planner", url=url, version=VERSION))
        outcome = await viewer("show", rollout.id, "--text")
    assert f"delegation 1 {part}: of the same policy, trained with the planner's" in outcome.out
    assert outcome.out.count("<script>") == 4  # two messages of the planner's, and two of the delegation's


async def test_a_text_that_cannot_be_had_says_why(build: Builder, viewer: Tandem):
    rollout = await trained(build)
    for role in ("planner", "executor"):
        await build.client.heartbeat("r1", f"{role}-1", Heartbeat(role=role, url="http://127.0.0.1:9"))
    outcome = await viewer("show", rollout.id, "--text")
    assert outcome.code == 0
    assert outcome.out.count("does not answer at http://127.0.0.1:9") == 3


async def test_an_export_of_trajectories_has_what_became_of_them(build: Builder, site: str, key_files: dict[str, Path]):
    rollout = await trained(build)
    with Server(site, key_files["viewer"].read_text().strip(), "the sync service") as server:
        found = await asyncio.to_thread(fates, server, "r1")
    place = {"rollout": rollout.id, "group": rollout.body.group, "step": 1}
    assert found[rollout.body.planner_trajectory] == {**place, "reward": 1.0, "fate": 1}
    for call in rollout.body.executor_trajectories:
        assert found[call] == {**place, "reward": pytest.approx(0.75), "fate": "scored"}
    assert len(found) == 2 + 4
