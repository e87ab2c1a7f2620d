"""Whom the sync service asks for a text: only what looks like a server of ours."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from shared.errors import Unavailable, UserError
from shared.ids import new_id
from sync_service.owner import Names, Owners, checked, read_key


@pytest.mark.parametrize("url", ["http://127.0.0.1:8081", "https://gpu-1.example:8443/planner/", "http://[::1]:80"])
def test_a_servers_address_is_asked(url: str) -> None:
    assert checked(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://gpu-1",
        "gpu-1:8081",
        "http://",
        "http://user:secret@gpu-1",
        "http://gpu-1:99999",
        "http://[::1",
        "http://gpu-1:0",
        "http://gpu-1/?x=1",
        "http://gpu-1/#x",
        "http://gpu-1 /",
        "http://gpu-1\r\nx: y/",
        "http://gpü-1",
        "http://169.254.169.254/latest",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://0.0.0.0:8081",
        "http://224.0.0.1",
    ],
)
def test_another_address_is_not(url: str) -> None:
    with pytest.raises(Unavailable):
        checked(url)


async def test_a_name_that_leads_to_an_address_of_one_link_leads_nowhere() -> None:
    with pytest.raises(OSError, match="of one link"):
        await Names().resolve("0xA9FEA9FE")  # as the system's resolver reads it: 169.254.169.254
    assert [one["host"] for one in await Names().resolve("0x7F000001")] == ["127.0.0.1"]


@pytest.fixture
async def owners() -> AsyncGenerator[Owners]:
    """With a wire that is real."""
    owners = Owners("tandem_text_key")
    yield owners
    await owners.close()


@pytest.mark.parametrize(
    "url", ["http://0xA9FEA9FE", "http://2852039166", "http://a..b", "http://" + "a" * 300, "http://xn--"]
)
async def test_a_name_that_is_none_is_no_fault_of_ours(owners: Owners, url: str) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await owners.read([url], "r1", "planner", new_id(), "planner")


@pytest.mark.parametrize(
    "answer", [b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b""]
)
async def test_what_speaks_no_http_is_no_fault_of_ours(owners: Owners, answer: bytes) -> None:
    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(say, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match="does not answer as ours do"):
            await owners.read([f"http://127.0.0.1:{port}"], "r1", "planner", new_id(), "planner")


def test_the_key_is_one_line_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "text.key"
    with pytest.raises(UserError, match="cannot be read"):
        read_key(file)
    file.write_text("tandem_one_two\n")
    assert read_key(file) == "tandem_one_two"
    for wrong in ("", "one\ntwo", "kéy"):
        file.write_text(wrong)
        with pytest.raises(UserError, match="holds no key"):
            read_key(file)
