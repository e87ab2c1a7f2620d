"""Weights over HTTP: to a host that shares no folder."""

import hashlib

import httpx
import pytest

from shared.errors import InvalidInput, Unauthorized
from shared.policy.vllm.carrier import Mirror
from shared.policy.vllm.folder import checksum, write_folder
from shared.policy.vllm.mirror import create_app

KEY = "a-key"


@pytest.fixture
def there(tmp_path):
    (tmp_path / "there").mkdir()
    return tmp_path / "there"


def mirror(there, tmp_path, key=KEY):
    return Mirror(tmp_path / "here", "http://mirror", httpx.ASGITransport(create_app(there, KEY)), key)


async def test_a_folder_arrives_as_it_was_and_takes_the_place_of_the_one_before(model, other, there, tmp_path):
    carrier = mirror(there, tmp_path)
    (there / "initial").mkdir()  # the model that the server was started on, say
    for seed in (1, 2):
        here = carrier.folder / f"1.{seed}.{seed}"
        write_folder(other(seed), model, here)
        place = await carrier.carry(here, 30)
        assert place == str(there / here.name)
        assert {f.name: f.read_bytes() for f in there.rglob("*.*") if f.is_file()} == {
            f.name: f.read_bytes() for f in here.iterdir()
        }
        assert checksum(there / here.name) == checksum(here)
        assert sorted(folder.name for folder in there.iterdir()) == [here.name, "initial"]
    await carrier.close()


async def test_another_key_stores_nothing(model, there, tmp_path):
    carrier = mirror(there, tmp_path, "another")
    write_folder(model, model, carrier.folder / "1.1.1")
    with pytest.raises(Unauthorized):
        await carrier.carry(carrier.folder / "1.1.1", 30)
    assert not any(there.iterdir())


@pytest.fixture
async def client(there):
    transport = httpx.ASGITransport(create_app(there, KEY))
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://mirror", headers=headers) as client:
        yield client


async def test_bytes_that_changed_on_the_way_are_refused_and_not_kept(client, there):
    headers = {"X-Checksum": hashlib.sha256(b"sent").hexdigest()}
    answer = await client.put("/v1/folders/1.1.1/model.safetensors", content=b"came", headers=headers)
    assert answer.status_code == InvalidInput.status
    assert "another checksum" in answer.json()["detail"]
    assert not any((there / "1.1.1").iterdir())


@pytest.mark.parametrize("path", ["..%2F..%2Fetc/x", "1.1.1/..%2Fx", "1.1.1/.hidden", ".x/y", "a b/c", "initial/x"])
async def test_a_path_stays_below_the_folder(client, there, path):
    headers = {"X-Checksum": hashlib.sha256(b"").hexdigest()}
    answer = await client.put(f"/v1/folders/{path}", headers=headers)
    assert answer.status_code in (404, 422)
    assert not any(there.rglob("*"))


async def test_a_file_comes_with_its_checksum(client, there):
    answer = await client.put("/v1/folders/1.1.1/x", content=b"x", headers={"X-Checksum": "none"})
    assert answer.status_code == InvalidInput.status
    assert not any(there.iterdir())
