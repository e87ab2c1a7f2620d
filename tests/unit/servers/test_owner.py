"""Whom the sync service asks for a text: only what looks like a server of ours."""

from pathlib import Path

import pytest

from shared.errors import Unavailable, UserError
from sync_service.owner import checked, read_key


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
