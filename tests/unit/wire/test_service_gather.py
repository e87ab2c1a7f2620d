"""Single submissions that come at once share a transaction of the sync service, and none spoils another."""

import asyncio
from collections.abc import Sequence

import pytest

from shared.errors import Conflict, TandemError, Unavailable
from sync_service.gather import Gatherer


class Table:
    """A transaction that takes a moment; `refused` is refused alone, `poison` breaks every transaction it is in."""

    def __init__(self, *, away: bool = False) -> None:
        self.transactions: list[list[str]] = []
        self._away = away

    async def write(self, items: Sequence[str]) -> list[str | TandemError]:
        self.transactions.append(list(items))
        await asyncio.sleep(0)
        if self._away:
            raise Unavailable("the database is away")
        if "poison" in items:
            raise ZeroDivisionError
        return [Conflict("no") if item == "refused" else item.upper() for item in items]


async def test_what_comes_meanwhile_shares_the_next_transaction_and_is_refused_alone() -> None:
    table = Table()
    gatherer = Gatherer(table.write)
    asked = [gatherer.submit("r1", item) for item in ("a", "refused", "b")]
    first, refused, last = await asyncio.gather(*asked, return_exceptions=True)
    assert (first, last) == ("A", "B")
    assert isinstance(refused, Conflict)
    assert len(table.transactions) < 3
    assert await gatherer.submit("r1", "c") == "C"


async def test_an_item_that_breaks_its_transaction_is_alone_in_failing() -> None:
    gatherer = Gatherer(Table().write)
    found = await asyncio.gather(
        *(gatherer.submit("r1", item) for item in ("a", "poison", "b")), return_exceptions=True
    )
    assert (found[0], found[2]) == ("A", "B")
    assert isinstance(found[1], ZeroDivisionError)


async def test_runs_have_queues_of_their_own_and_a_fault_of_the_whole_is_told_to_each() -> None:
    table = Table(away=True)
    gatherer = Gatherer(table.write)
    for asked in (gatherer.submit("r1", "a"), gatherer.submit("r2", "b")):
        with pytest.raises(Unavailable):
            await asked
    assert table.transactions == [["a"], ["b"]]
