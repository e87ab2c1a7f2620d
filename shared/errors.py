"""The error tree. A class docstring is the message; `type` is stable on the wire; the client raises the same classes.

TandemError
 +- InvalidInput (422)
 |   +- BodyTooLarge (413)
 |   +- PromptTooLong         the agent's first prompt leaves no room for a turn
 +- Unauthorized (401)
 +- Forbidden (403)
 +- ProtocolMismatch (400)     the two sides' versions of the protocol do not fit
 +- NotFound (404)
 +- MethodNotAllowed (405)
 +- Conflict (409)
 |   +- BodyConflict          another body under an id that exists
 |   +- CheckpointAhead       a checkpoint of a step that the database does not know
 |   +- InvalidTransition     a move that the state machine does not have
 |   +- LeaseLost             a stale epoch
 |   +- StreamHeld            another worker's lease is live
 |   +- StalenessBound        a group or attempt beyond the staleness rule
 +- Overloaded (429)
 +- Unavailable (503)
 |   +- DeadlineExceeded      a wait that ended without its event
 +- StorageFull (507)
 +- UserError                 a user's mistake on the command line: one clear line, no traceback
"""

import errno
from typing import Any, ClassVar, Self


class TandemError(Exception):
    """Something went wrong."""

    type: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, detail: str | None = None, **extra: Any) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip()
        self.extra = extra
        super().__init__(self.detail)

    def again(self) -> Self:
        """The same error anew: one exception that several tasks raise would gather the tracebacks of all."""
        return type(self)(self.detail, **self.extra)

    def problem(self) -> dict[str, Any]:
        """The problem+json body (RFC 9457) of this error."""
        title = (type(self).__doc__ or "").strip().splitlines()[0]
        return {
            "type": f"urn:tandem:{self.type}",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            "retryable": self.retryable,
            **self.extra,
        }


class InvalidInput(TandemError):
    """The request is not valid."""

    type = "invalid-input"
    status = 422


class BodyTooLarge(InvalidInput):
    """The body is larger than this service accepts."""

    type = "body-too-large"
    status = 413


class PromptTooLong(InvalidInput):
    """The request leaves the agent no room for a turn."""

    type = "prompt-too-long"


class Unauthorized(TandemError):
    """This call needs a live key."""

    type = "unauthorized"
    status = 401


class Forbidden(TandemError):
    """This key may not do that: it is of another role, or of another run."""

    type = "forbidden"
    status = 403


class ProtocolMismatch(TandemError):
    """The client's version of the protocol and the server's do not fit."""

    type = "protocol-mismatch"
    status = 400


class NotFound(TandemError):
    """There is no such thing."""

    type = "not-found"
    status = 404


class MethodNotAllowed(TandemError):
    """The path has no such method."""

    type = "method-not-allowed"
    status = 405


class Conflict(TandemError):
    """The request does not fit the current state."""

    type = "conflict"
    status = 409


class BodyConflict(Conflict):
    """Another body is already stored under this id; nothing was overwritten."""

    type = "body-conflict"


class CheckpointAhead(Conflict):
    """The checkpoint holds a step that is not acked and was not given out: the database is the older of the two."""

    type = "checkpoint-ahead"


class InvalidTransition(Conflict):
    """The current state does not allow this move."""

    type = "invalid-transition"


class LeaseLost(Conflict):
    """The lease on this stream is held under a newer epoch."""

    type = "lease-lost"


class StreamHeld(Conflict):
    """Another worker holds a live lease on this stream."""

    type = "stream-held"
    retryable = True


class StalenessBound(Conflict):
    """The step is further ahead than the staleness bound allows."""

    type = "staleness-bound"
    retryable = True


class Overloaded(TandemError):
    """Too much is waiting; try again later."""

    type = "overloaded"
    status = 429
    retryable = True


class Unavailable(TandemError):
    """The service cannot answer now; try again later."""

    type = "unavailable"
    status = 503
    retryable = True


class DeadlineExceeded(Unavailable):
    """The wait ended without what it waited for."""

    type = "deadline-exceeded"


class StorageFull(TandemError):
    """The database's disk is full; nothing was stored. Try again when there is room."""

    type = "storage-full"
    status = 507
    retryable = True


class UserError(TandemError):
    """A mistake that its author can mend: shown as one line, without a traceback."""

    type = "user-error"
    status = 400


def _tree(cls: type[TandemError]) -> dict[str, type[TandemError]]:
    """Each wire type with its class; a subclass that names no `type` of its own travels as its parent."""
    own = {cls.type: cls} if "type" in vars(cls) else {}
    return own | {k: v for sub in cls.__subclasses__() for k, v in _tree(sub).items()}


def from_problem(body: dict[str, Any], status: int) -> TandemError:
    """The exception that `body` (problem+json) stands for; an unknown type becomes a plain TandemError."""
    cls = _tree(TandemError).get(str(body.get("type", "")).removeprefix("urn:tandem:"), TandemError)
    known = {"type", "title", "status", "detail", "retryable"}
    return cls(str(body.get("detail") or f"HTTP {status}"), **{k: v for k, v in body.items() if k not in known})


def from_os_error(error: OSError) -> TandemError:
    """The one line that a file or folder deserves that cannot be used: UserError where it is a mistake to mend."""
    machines = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE)
    kind = TandemError if error.errno in machines else UserError
    return kind(f"{error.filename}: {error.strerror}")


RETRY_LATER = frozenset(error.status for error in (Overloaded, Unavailable, StorageFull))
"""The statuses that pass: what answers them says when to come back."""
