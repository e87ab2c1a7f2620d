"""The end of a child process is the end of its server."""

from shared.errors import Unavailable
from shared.policy.policy import Policy


async def watch(policy: Policy) -> None:
    """Consumes nothing; waits for a process of the policy to die; then raises Unavailable, which says why."""
    raise Unavailable(await policy.failed())
