"""The server's end of a torch process: requests and replies over a socket, its death, and its bounded end."""

import asyncio
import contextlib
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from socket import socketpair
from typing import Any

from shared.errors import DeadlineExceeded, Unavailable, from_problem
from shared.policy.fork import fork, prepare
from shared.policy.framing import Decoder, Message, encode
from shared.policy.worker import work

START_S = 300.0
"""Importing torch; loading a model."""
CALL_S = 3600.0
CLOSE_S = 10.0
CHUNK = 2**20
LOG_LINES = 20

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Child:
    """A `shared.policy.worker` process. Any number of calls may wait at once; a cancelled one is withdrawn.

    When the process ends unasked, every waiting call fails with Unavailable, and `died` returns why.
    """

    def __init__(self, kind: str, process: ForkServerProcess, log: Path, streams: Streams) -> None:
        self.kind, self.log = kind, log
        self.info: dict[str, Any] = {}
        self._process = process
        self._exit_code = _exit_code(process)
        self._replies, self._requests = streams
        self._next = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(_heard)
        self._closing = False
        self._reader = asyncio.create_task(self._read(), name=f"{kind}-replies")

    @classmethod
    async def spawn(cls, kind: str, settings: dict[str, Any], log: Path, threads: int) -> "Child":
        """Start the process; it answers nothing before `ready` has returned. `close` it, whatever happens next.

        Unavailable where torch cannot be imported here.
        """
        _make(log)
        prepare()
        ours, theirs = socketpair()
        with theirs, contextlib.ExitStack() as failed:
            streams = await asyncio.open_connection(sock=ours, limit=CHUNK)
            failed.callback(streams[1].close)  # where a process was started nevertheless, this ends it
            try:
                process = await asyncio.wait_for(asyncio.to_thread(fork, work, kind, theirs, log), START_S)
            except (EOFError, OSError) as error:
                raise Unavailable(f"no {kind} was forked: torch could not be imported ({error!r})") from None
            failed.pop_all()
        child = cls(kind, process, log, streams)
        child._send({"settings": settings | {"threads": threads}})
        return child

    async def ready(self) -> None:
        """Wait until its model is loaded; raises its own UserError (a missing model), or Unavailable if it ended."""
        try:
            self.info = await asyncio.wait_for(asyncio.shield(self._ready), START_S)
        except TimeoutError:
            raise DeadlineExceeded(f"the {self.kind} was not ready within {START_S:.0f} s; see {self.log}") from None

    async def call(self, method: str, arguments: dict[str, Any] | None = None, timeout_s: float = CALL_S) -> Any:
        """Ask it; raises the error that it answers with, or Unavailable where it dies first."""
        if self._death.done() or self._closing:
            raise Unavailable(self._reason())
        self._next += 1
        id_ = self._next
        self._waiting[id_] = future = asyncio.get_running_loop().create_future()
        self._send({"id": id_, "method": method, "arguments": arguments or {}})
        try:
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            self._send({"cancel": id_})
            raise DeadlineExceeded(f"the {self.kind} did not answer {method} within {timeout_s:.0f} s") from None
        except asyncio.CancelledError:
            self._send({"cancel": id_})
            raise
        finally:
            del self._waiting[id_]

    async def died(self) -> str:
        """Wait for its end, and say why, with the last lines of its log. Does not return after `close`."""
        return await asyncio.shield(self._death)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Let it end by itself, within the bound; then kill it. 0 kills it at once."""
        self._closing = True
        if not timeout_s:
            self._process.kill()
        if not self._requests.is_closing():
            self._requests.write_eof()
        await asyncio.wait({self._exit_code}, timeout=timeout_s or CLOSE_S)
        if not self._exit_code.done():
            self._process.kill()
            await self._exit_code
        await asyncio.wait({self._reader}, timeout=CLOSE_S)

    def _send(self, message: Message) -> None:
        if not self._requests.is_closing():
            self._requests.write(encode(message))

    async def _read(self) -> None:
        """Consumes the process's replies, waits for the next, and produces results; ends with the process."""
        decoder = Decoder()
        try:
            with contextlib.suppress(ConnectionError):  # it died with requests unread
                while data := await self._replies.read(CHUNK):
                    for message in decoder.feed(data):
                        self._accept(message)
            await asyncio.wait_for(asyncio.shield(self._exit_code), CLOSE_S)
        except (ValueError, TimeoutError):  # no frames, or no end after its socket is closed
            self._process.kill()
            await self._exit_code
        self._requests.close()
        if not self._closing:
            self._death.set_result(self._reason())
        fault = Unavailable(self._reason())
        for future in [self._ready, *self._waiting.values()]:
            if not future.done():
                future.set_exception(fault)

    def _accept(self, message: Message) -> None:
        future = self._ready if "ready" in message or "refused" in message else self._waiting.get(message["id"])
        if future is None or future.done():
            return  # cancelled meanwhile
        problem = message.get("refused") or message.get("error")
        if problem:
            future.set_exception(from_problem(problem, problem["status"]))
        else:
            future.set_result(message.get("ready", message.get("result")))

    def _reason(self) -> str:
        if self._closing:
            return f"the {self.kind} is closed"
        code = self._exit_code.result()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"the {self.kind} process {how}; the end of {self.log}:\n{tail(self.log)}"


def _exit_code(process: ForkServerProcess) -> asyncio.Future[int]:
    """What it ends with, once it has; the negative number of the signal that killed it."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    sentinel = process.sentinel

    def has_ended() -> None:
        loop.remove_reader(sentinel)
        if not ended.done():
            ended.set_result(process.exitcode or 0)

    loop.add_reader(sentinel, has_ended)
    return ended


def _make(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()


def _heard(future: asyncio.Future[Any]) -> None:
    """Nobody waits for the start of a process any more that is stopped within it: asyncio need not complain."""
    if not future.cancelled():
        future.exception()


def tail(log: Path, lines: int = LOG_LINES) -> str:
    """The last lines of a log, for an error message."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 200 * lines))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
