import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from shared.errors import BodyConflict, InvalidInput, NotFound, Overloaded, Unavailable, UserError
from shared.policy.group_commit import GroupCommit
from shared.policy.store import TrajectoryStore

MIB = 2**20


@pytest.fixture
def store(tmp_path):
    opened = TrajectoryStore(tmp_path / "t.sqlite", 64 * MIB)
    yield opened
    opened.close()


async def test_what_was_put_comes_back_exactly(store, make_trajectory):
    messages = [{"role": "user", "content": "héllo \x00 \ud800"}]
    trajectory = make_trajectory(30, messages=messages, facts={"score": 0.5})
    await store.put(trajectory)
    assert await store.get([trajectory.id, "absent"]) == {trajectory.id: trajectory}


async def test_it_is_there_after_a_restart(tmp_path, make_trajectory):
    trajectory = make_trajectory()
    first = TrajectoryStore(tmp_path / "t.sqlite", MIB)
    await first.put(trajectory)
    first.close()
    second = TrajectoryStore(tmp_path / "t.sqlite", MIB)
    assert await second.get([trajectory.id]) == {trajectory.id: trajectory}
    second.close()


async def test_the_same_again_is_fine_and_another_body_is_not(store, make_trajectory):
    trajectory = make_trajectory()
    await store.put(trajectory)
    await store.set_facts(trajectory.id, {"answer": "Paris"})
    await store.put(trajectory)
    with pytest.raises(BodyConflict, match=trajectory.id):
        await store.put(make_trajectory(id=trajectory.id))
    kept = (await store.get([trajectory.id]))[trajectory.id]
    assert (kept.token_ids, kept.facts) == (trajectory.token_ids, {"answer": "Paris"})


async def test_a_tree_is_stored_and_released_as_a_whole(store, make_trajectory):
    below, alone = [make_trajectory(), make_trajectory()], make_trajectory()
    root = make_trajectory(facts={"parts": [part.id for part in below]})
    written = []
    await store.put(root, written.append, below)
    await store.put(alone)
    assert len(written) == 1
    assert await store.get_whole([root.id]) == {t.id: t for t in (root, *below)}
    await store.release([root.id])
    assert await store.unreleased("r") == [alone]


async def test_of_a_tree_that_cannot_be_stored_nothing_is(store, make_trajectory):
    taken, fresh = make_trajectory(), make_trajectory()
    await store.put(taken)
    root, other = make_trajectory(), make_trajectory(id=taken.id)
    written = []
    with pytest.raises(BodyConflict, match=taken.id):
        await store.put(root, written.append, [fresh, other])
    assert written == []
    assert await store.unreleased("r") == [taken]


async def test_facts_of_what_is_not_stored_name_it(store):
    with pytest.raises(NotFound, match="nowhere"):
        await store.set_facts("nowhere", {})


async def test_concurrent_puts_share_a_transaction(store, make_trajectory, monkeypatch: pytest.MonkeyPatch):
    batches = []
    commit = GroupCommit._commit
    monkeypatch.setattr(GroupCommit, "_commit", lambda self, batch: (batches.append(len(batch)), commit(self, batch)))
    trajectories = [make_trajectory() for _ in range(200)]
    await asyncio.gather(*map(store.put, trajectories))
    assert len(await store.get([t.id for t in trajectories])) == 200
    assert sum(batches) == 200
    assert len(batches) < 100


async def test_a_bad_one_fails_alone(store, make_trajectory):
    good, other = make_trajectory(), make_trajectory()
    clash = make_trajectory(id=good.id)
    results = await asyncio.gather(*map(store.put, [good, clash, other]), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), BodyConflict, type(None)]
    assert set(await store.get([good.id, other.id])) == {good.id, other.id}


@pytest.mark.parametrize("changes", [{"mask": [1]}, {"logprobs": [float("nan")] * 12}, {"mask": [2] * 12}])
async def test_parts_that_do_not_fit_are_refused_by_name(store, make_trajectory, changes):
    trajectory = make_trajectory(**changes)
    with pytest.raises(InvalidInput, match=trajectory.id):
        await store.put(trajectory)


async def test_the_bound_pushes_out_released_rows_oldest_first(tmp_path, make_trajectory):
    store = TrajectoryStore(tmp_path / "t.sqlite", 4 * MIB)
    trajectories = [make_trajectory(2000) for _ in range(400)]
    for trajectory in trajectories:
        await store.put(trajectory)
        await store.release([trajectory.id])
    left = await store.get([t.id for t in trajectories])
    gone = len(trajectories) - len(left)
    assert gone > 0
    assert [t.id for t in trajectories if t.id in left] == [t.id for t in trajectories[gone:]]
    store.close()
    assert (tmp_path / "t.sqlite").stat().st_size <= 4 * MIB


async def test_what_is_not_released_is_never_pushed_out(tmp_path, make_trajectory):
    store = TrajectoryStore(tmp_path / "t.sqlite", MIB)
    trajectories = [make_trajectory(2000) for _ in range(100)]
    results = await asyncio.gather(*map(store.put, trajectories), return_exceptions=True)
    put = [trajectory.id for trajectory, fault in zip(trajectories, results, strict=True) if fault is None]
    refusals = [fault for fault in results if fault is not None]
    assert len(put) > 20
    assert refusals
    assert all(isinstance(fault, Overloaded) and "max_bytes" in fault.detail for fault in refusals)
    assert set(await store.get(put)) == set(put)
    await store.release(put[:20])
    await store.put(make_trajectory(2000))
    assert set(await store.get(put)) >= set(put[20:])
    assert len(await store.get(put)) < len(put)
    store.close()


async def test_unreleased_rows_of_a_run_are_listed_in_order(store, make_trajectory):
    trajectories = [make_trajectory() for _ in range(3)]
    for trajectory in [*trajectories, make_trajectory(run="another")]:
        await store.put(trajectory)
    await store.release([trajectories[1].id])
    assert await store.unreleased("r") == [trajectories[0], trajectories[2]]


async def test_a_store_that_cannot_write_says_so_and_keeps_what_it_has(store, make_trajectory):
    kept, refused = make_trajectory(), make_trajectory()
    await store.put(kept)
    pages = sqlite3.connect(store.path).execute("PRAGMA page_count").fetchone()[0]
    limit = await asyncio.wrap_future(
        store.writer.submit(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchone())
    )
    assert limit == (pages,)
    with pytest.raises(Unavailable, match="full"):  # what SQLite says of a full disk, too
        await store.put(make_trajectory(5000, id=refused.id))
    assert set(await store.get([kept.id, refused.id])) == {kept.id}
    await asyncio.wrap_future(store.writer.submit(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchone()))
    await store.put(refused)
    assert set(await store.get([kept.id, refused.id])) == {kept.id, refused.id}


def test_a_folder_may_have_any_name(tmp_path):
    path = tmp_path / "run #1?mode=ro 50%41" / "t.sqlite"
    TrajectoryStore(path, 2**20).close()
    assert path.is_file()


def test_another_file_is_refused_by_name(tmp_path):
    with pytest.raises(UserError, match="is not a trajectory store"):
        TrajectoryStore(tmp_path, 2**20)
    path = tmp_path / "notes.txt"
    path.write_text("no database " * 100)
    with pytest.raises(UserError, match=r"notes\.txt is not a trajectory store"):
        TrajectoryStore(path, MIB)


def test_a_closed_store_refuses(tmp_path):
    path = tmp_path / "t.sqlite"
    writer = GroupCommit(sqlite3.connect(path, isolation_level=None, check_same_thread=False), path)
    writer.close()
    with pytest.raises(Unavailable, match="closed"):
        writer.submit(lambda connection: None)


WRITER = """
import asyncio, sys
from pathlib import Path
from shared.policy.store import TrajectoryStore
from shared.policy.types import Trajectory
from shared.schemas import PolicyVersion

async def put(store, number):
    version = PolicyVersion(epoch=0, step=0, updates=0)
    await store.put(Trajectory(f"t{number}", "r", "planner", [number] * 50, [1] * 50, [-0.5] * 50, version))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()

async def main():
    store = TrajectoryStore(Path(sys.argv[1]), 2**26)
    for start in range(0, 10**6, 8):
        await asyncio.gather(*(put(store, number) for number in range(start, start + 8)))

asyncio.run(main())
"""


def write_until_killed(path: Path) -> list[int]:
    """The numbers whose put had returned when the writer was killed."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout
    promised = [int(writer.stdout.readline()) for _ in range(100)]
    os.kill(writer.pid, signal.SIGKILL)
    promised += [int(line) for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    writer.wait(10)
    return promised


async def test_every_commit_is_synced_to_disk(store):
    """Of a crash of the whole machine, which no test can stage, these two settings are the guarantee."""
    pragmas = ("journal_mode", "synchronous")
    query = store.writer.submit(lambda c: [c.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas])
    assert await asyncio.wrap_future(query) == ["wal", 2]


async def test_what_was_durable_survives_kill_9(tmp_path: Path):
    path = tmp_path / "t.sqlite"
    promised = write_until_killed(path)
    store = TrajectoryStore(path, 64 * MIB)
    found = await store.get([f"t{number}" for number in promised])
    assert len(found) == len(promised) >= 100
    assert all(found[f"t{number}"].token_ids == [number] * 50 for number in promised)
    store.close()
