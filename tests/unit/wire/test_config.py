"""Configuration: sparse TOML, dotted overrides, unknown keys refused by name, the resolved copy saved."""

from pathlib import Path

import pytest

from shared.config import Config, Url, load, override, parse, save
from shared.errors import UserError


class Inner(Config):
    lr: float = 1e-3
    name: str = "adam"


class ServerUrl(Config):
    url: Url


class Outer(Config):
    steps: int = 10
    inner: Inner = Inner()


def test_defaults_file_and_overrides_lie_over_one_another(tmp_path: Path):
    file = tmp_path / "c.toml"
    file.write_text("steps = 20\n[inner]\nlr = 0.5\n")
    config = load(Outer, file, ["inner.name=sgd", "steps=30"])
    assert (config.steps, config.inner.lr, config.inner.name) == (30, 0.5, "sgd")


def test_what_is_saved_loads_as_the_same(tmp_path: Path):
    config = load(Outer, None, ["inner.lr=0.25"])
    save(config, tmp_path / "deep" / "c.toml")
    assert load(Outer, tmp_path / "deep" / "c.toml") == config


@pytest.mark.parametrize(
    ("assignments", "named"),
    [
        (["inner.rate=1"], "inner.rate: unknown key"),
        (["steps=many"], "steps"),
        (["steps"], "key.name=value"),
        (["=3"], "key.name=value"),
        (["steps.deep=1"], "steps"),
        (["inner.lr=nan"], "inner.lr"),
    ],
)
def test_a_fault_names_its_key(assignments: list[str], named: str):
    with pytest.raises(UserError, match=named):
        load(Outer, None, assignments)


def test_an_override_does_not_touch_what_it_overrides():
    tables = {"a": {"b": 1}}
    assert override(tables, ["a.b=2", "a.c=[1, 2]"]) == {"a": {"b": 2, "c": [1, 2]}}
    assert tables == {"a": {"b": 1}}


def test_a_missing_or_broken_file_is_one_clear_line(tmp_path: Path):
    with pytest.raises(UserError, match=r"no configuration file .*none\.toml"):
        load(Outer, tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("steps = = 3")
    with pytest.raises(UserError, match=r"bad\.toml: .*line 1"):
        load(Outer, tmp_path / "bad.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "deep.toml").write_text("steps = " + "[" * 5000 + "]" * 5000)
    for name in ("binary.toml", "deep.toml", "bad.toml/below", "."):
        with pytest.raises(UserError) as caught:
            load(Outer, tmp_path / name)
        assert str(tmp_path / name) in caught.value.detail
        assert "\n" not in caught.value.detail
    with pytest.raises(UserError, match="nested too deep"):
        load(Outer, None, ["steps=" + "[" * 5000])


def test_what_cannot_be_saved_is_one_clear_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        save(Outer(), tmp_path / "file" / "c.toml")


def test_a_password_in_a_url_is_refused_and_not_repeated():
    for url in ("http://user:hidden@host:8000", "https://:hidden@host", "http://hidden@host"):
        with pytest.raises(UserError, match="names no user and no password") as caught:
            parse(ServerUrl, {"url": url})
        assert "hidden" not in caught.value.detail
    assert parse(ServerUrl, {"url": "http://host:8000/@path"}).url == "http://host:8000/@path"
