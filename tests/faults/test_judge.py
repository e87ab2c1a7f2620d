"""The judge finds what it is for: with it blind, no number of kills would prove a thing."""

import json
from pathlib import Path

import pytest

from tests.faults.judge import Verdict, judge, stale_acks
from tests.faults.ledger import Ledger, read
from tests.faults.recording import RecordingClient
from tests.faults.trainer import train
from tests.faults.weights import ToyWeights
from tests.integration.sync.builder import Builder


@pytest.fixture
async def trained(build: Builder, tmp_path: Path, port: int) -> Builder:
    """A finished run with its ledger and weights in `tmp_path`."""
    await build.declare(steps=2, staleness=2)
    async with RecordingClient(f"http://127.0.0.1:{port}") as client:
        client.ledger = Ledger(tmp_path / "test.ledger")
        build.client = client
        for step in (1, 2):
            await build.fill(step)
        for role in ("planner", "executor"):
            await train(client, client, build.run, role, ToyWeights(tmp_path / f"{build.run}-{role}"))
    return build


def verdict(build: Builder, folder: Path, database: str) -> Verdict:
    """The judge's."""
    return judge(folder, database.replace("+psycopg", ""), [build.run])


async def test_a_good_run_is_good(trained: Builder, tmp_path: Path, database: str) -> None:
    found = verdict(trained, tmp_path, database)
    assert found.findings == []
    assert found.acked >= 4 + 8 + 8 + 2 + 4 + 6


SPOILT = {
    "UPDATE rollouts SET r_correct = 0.25 WHERE slot = 1": "lost",
    "DELETE FROM trajectories WHERE id = (SELECT id FROM trajectories LIMIT 1)": "lost",
    "UPDATE trajectories SET multiplicity = 9 WHERE id = (SELECT id FROM trajectories LIMIT 1)": "lost",
    "DELETE FROM policies": "lost",
    "UPDATE deliveries SET state = 'ready', outcome = NULL WHERE step = 2": "stuck",
    "UPDATE groups SET scoring = 'pending' WHERE step = 2 AND index = 0": "stuck",
    "UPDATE groups SET reported = 1 WHERE step = 2": "inconsistent",
}


@pytest.mark.parametrize("statement", SPOILT)
async def test_what_the_database_has_otherwise(trained: Builder, tmp_path: Path, database: str, statement: str) -> None:
    await trained.sql(statement)
    assert getattr(verdict(trained, tmp_path, database), SPOILT[statement]) > 0


async def test_a_batch_that_is_in_the_weights_twice_or_not_at_all(
    trained: Builder, tmp_path: Path, database: str
) -> None:
    log, meta = (tmp_path / f"{trained.run}-planner" / name for name in ("weights.log", "checkpoint.json"))
    once = log.read_bytes()
    log.write_bytes(once + once.splitlines(keepends=True)[-1])
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"length": log.stat().st_size}))
    assert verdict(trained, tmp_path, database).double_consumed > 0
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"length": len(once.splitlines(keepends=True)[0])}))
    assert verdict(trained, tmp_path, database).lost > 0


def test_an_ack_sent_after_a_newer_epoch_was_granted() -> None:
    def entry(write: str, epoch: int, **times: float) -> dict:
        return {"write": write, "run": "r", "role": "planner", "epoch": epoch, "step": 1, **times}

    granted = [entry("resume", 1, at=1.0), entry("resume", 2, at=5.0)]
    assert list(stale_acks([*granted, entry("ack", 1, sent=4.0, at=6.0), entry("ack", 2, sent=6.0, at=7.0)])) == []
    assert len(list(stale_acks([*granted, entry("ack", 1, sent=5.5, at=6.0)]))) == 1
    assert len(list(stale_acks([entry("zombie", 1) | {"accepted": True}]))) == 1


def test_a_torn_line_is_left_out_and_the_next_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    Ledger(path).record({"write": "one"})
    with path.open("ab") as file:
        file.write(b'{"write":"tor')
    Ledger(path).record({"write": "two"})
    assert [entry["write"] for entry in read(tmp_path)] == ["one", "two"]
