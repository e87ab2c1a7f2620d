"""A process of its own that takes commands, one JSON line each, and answers each with one line.

The command's `do` names a coroutine function, the rest are its arguments. So the load generator and the consumer are
started once, outside what is measured.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

LIMIT_S = 600.0
ROOT = Path(__file__).parents[3]


class Worker:
    """The process of `module`, from outside."""

    def __init__(self, module: str) -> None:
        self._module = module

    async def __aenter__(self) -> "Worker":
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", self._module, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=2**26
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None):
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 5)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def call(self, do: str, **arguments: object) -> Any:
        """The answer to one command; RuntimeError where the process ended instead."""
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        line = await asyncio.wait_for(self._process.stdout.readline(), LIMIT_S)
        if not line:
            raise RuntimeError(f"{self._module} ended in `{do}`; its error is above")
        return json.loads(line)


def serve(commands: Mapping[str, Callable[..., Awaitable[Any]]]) -> None:
    """Answer commands until stdin ends. An error ends the process, with its traceback."""
    with open(os.dup(0), "rb") as source, open(os.dup(1), "wb", buffering=0) as sink:
        for line in source:
            command = json.loads(line)
            answer = asyncio.run(commands[command.pop("do")](**command))
            sink.write(json.dumps(answer).encode() + b"\n")
