"""The real command, in this process: its words, its exit code, what it prints."""

import asyncio
import contextlib
import io
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from shared.cli.main import main

URL, KEY = "TANDEM_SYNC_URL", "TANDEM_KEY_FILE"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What was printed, as JSON."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """What was printed, by line, without what ends a line in spaces."""
        return [line.rstrip() for line in self.out.splitlines()]

    @property
    def fault(self) -> str:
        """The one line on stderr."""
        (line,) = self.err.splitlines()
        return line


@dataclass(frozen=True, slots=True)
class Tandem:
    """`await tandem("status", "r1")`, beside a service that this process serves, with that environment."""

    environment: Mapping[str, str]

    async def __call__(self, *words: str | Path) -> Outcome:
        """Run it in a thread, as it blocks."""
        return await asyncio.to_thread(call, words, self.environment)

    def with_key(self, file: Path) -> "Tandem":
        """The same with the key of that file."""
        return Tandem({**self.environment, KEY: str(file)})


def call(words: tuple[str | Path, ...], environment: Mapping[str, str]) -> Outcome:
    """Run `main` with these words."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = ["tandem", *map(str, words)]
    with (
        patch.object(sys, "argv", argv),
        patch.dict("os.environ", environment),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())
