"""Ctrl-C before a command has been imported is one line and exit code 130."""

import builtins
from collections.abc import Callable
from typing import Any

import pytest

from executor_server.__main__ import main as executor
from planner_server.__main__ import main as planner
from shared.cli.entry import main as tandem
from sync_service.__main__ import main as sync


def interrupted_at(name: str) -> Callable[..., Any]:
    real = builtins.__import__

    def load(module: str, names: Any = None, *rest: Any) -> Any:
        if module == name:
            raise KeyboardInterrupt
        return real(module, names, *rest)

    return load


@pytest.mark.parametrize(
    ("command", "imports", "name"),
    [
        (planner, "planner_server.config", "planner-server"),
        (executor, "shared.serving.main", "executor-server"),
        (sync, "sync_service", "sync_service"),
    ],
)
def test_a_server(command, imports, name, monkeypatch, capsys):
    with monkeypatch.context() as patched:
        patched.setattr(builtins, "__import__", interrupted_at(imports))
        code = command([])
    assert (code, capsys.readouterr().err) == (130, f"{name}: interrupted\n")


def test_the_command(monkeypatch, capsys):
    with monkeypatch.context() as patched:
        patched.setattr(builtins, "__import__", interrupted_at("shared.cli.main"))
        with pytest.raises(SystemExit) as end:
            tandem()
    assert (end.value.code, capsys.readouterr().err) == (130, "tandem: interrupted\n")
