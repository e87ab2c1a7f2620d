"""What the pool asks of Ray, with Ray replaced: what it raises, and an actor that hangs."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RaySystemError

from shared.errors import DeadlineExceeded, UserError
from shared.policy.config import PolicyConfig
from shared.policy.pool import cluster, remote
from shared.policy.pool.remote import RemoteChild
from shared.policy.processes import start_processes


async def test_what_ray_raises_when_it_is_joined_is_one_line(monkeypatch):
    def refuse(**_: Any) -> None:
        raise RaySystemError("wrong\ntoken")

    left = []
    ray = SimpleNamespace(is_initialized=lambda: False, init=refuse, shutdown=lambda: left.append(True))
    monkeypatch.setattr(cluster, "ray", ray)
    with pytest.raises(UserError, match=r"the Ray cluster at auto cannot be joined: .*wrong token"):
        await cluster.Cluster("auto", 1).open()
    assert left == [True]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", None], ids=["http", "nothing", "silence"])
async def test_an_address_where_something_else_listens_is_one_line_at_once(answer, monkeypatch):
    async def other(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer is not None:
            writer.write(answer)
            writer.close()

    monkeypatch.setattr(cluster, "REACH_S", 0.1)
    monkeypatch.setattr(cluster, "ray", SimpleNamespace(is_initialized=lambda: False, shutdown=lambda: None))
    async with await asyncio.start_server(other, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(UserError, match=f"the Ray cluster at {address} cannot be joined: "):
            await cluster.Cluster(address, 1).open()


async def test_an_actor_that_hangs_is_given_up(monkeypatch, tmp_path):
    asked = []

    def never(*arguments: Any) -> asyncio.Future[Any]:
        asked.append(arguments)
        return asyncio.get_running_loop().create_future()

    actor = SimpleNamespace(call=SimpleNamespace(remote=never))
    started = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: actor))
    monkeypatch.setattr(remote, "ray", SimpleNamespace(remote=lambda _: started, ObjectRef=tuple))
    monkeypatch.setattr(remote, "LATER_S", 0.01)
    child = RemoteChild("sampler", "sampler-0", {}, tmp_path, 1, 0)
    with pytest.raises(DeadlineExceeded, match=r"the actor of the sampler on .* did not answer statistics"):
        await child.call("statistics", timeout_s=0.01)
    assert asked == [("statistics", {}, 0.01)]


async def test_ray_that_is_not_installed_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr("shared.policy.processes.find_spec", lambda _: None)
    config = PolicyConfig.model_validate({"model": tmp_path, "device": "cpu", "pool": {"kind": "ray"}})
    with pytest.raises(UserError, match=r"pip install 'tandem-cotrain\[ray\]'"):
        await start_processes(config, tmp_path, tmp_path, None, True)
