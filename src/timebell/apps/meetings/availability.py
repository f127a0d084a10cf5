"""`Availability`: the verbs about the hours in which people may be met. Who has said none may be met at any time."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from timebell.apps.meetings.free_time import Block, Hours, check_hours
from timebell.apps.meetings.store_availability import AvailabilityStore, block_of
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Ids, Page, Timebell, Transaction, decode_cursor, page_of

# Three stretches of each weekday, and some weeks that are different.
BLOCKS_MAX: Final = 100
_READ: Final = "availability"


class Availability:
    """A person's blocks. Each verb takes part in the transaction that it is given."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = AvailabilityStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def add(self, tx: Transaction, person: UUID, hours: Hours, *, actor: str | None) -> Block:
        check_hours(hours)
        made = await self._store.insert_block(
            tx, id=self._ids.new(), user_id=person, hours=hours, blocks_max=BLOCKS_MAX
        )
        if made is None:
            raise InvalidInput(f"there are {BLOCKS_MAX} blocks already; delete one or change it")
        await self._record(tx, "availability.added", made, actor)
        return made

    async def get(self, tx: Transaction, person: UUID, id: UUID) -> Block:
        return _found(await self._store.read_block(tx, user_id=person, id=id), id)

    async def hold(self, tx: Transaction, person: UUID, id: UUID) -> Block:
        """The block as it is, which nobody else changes until the transaction ends."""
        return _found(await self._store.lock_block(tx, user_id=person, id=id), id)

    async def list(self, tx: Transaction, person: UUID, *, limit: int, cursor: str | None) -> Page[Block]:
        """The oldest first."""
        after = decode_cursor(_READ, cursor).id
        rows = await self._store.list_blocks(tx, user_id=person, after=after, limit=limit)
        return page_of(_READ, rows, limit, block_of)

    async def edit(self, tx: Transaction, block: Block, hours: Hours, *, actor: str | None) -> Block:
        """Change a block that is held. What was accepted stays accepted."""
        check_hours(hours)
        edited = await self._store.update_block(tx, block, hours)
        await self._record(tx, "availability.edited", edited, actor)
        return edited

    async def remove(self, tx: Transaction, block: Block, *, actor: str | None) -> None:
        """With the last one the person may be met at any time again."""
        await self._store.delete_block(tx, user_id=block.user_id, id=block.id)
        await self._record(tx, "availability.removed", block, actor)

    async def _record(self, tx: Transaction, name: str, block: Block, actor: str | None) -> None:
        data = {"block_id": str(block.id)}
        await self._bell.record(tx, name, data, subject=f"availability:{block.user_id}", actor=actor)


def _found(block: Block | None, id: UUID) -> Block:
    if block is None:
        raise NotFound(f"there is no availability block {id}")
    return block
