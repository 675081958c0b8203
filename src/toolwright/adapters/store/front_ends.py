"""Front-ends on SQL: their rows, what writes them and what reads them."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Text, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.compiled import Compiler, DialectName, statements
from toolwright.adapters.store.driver import Driver, first, rows_read
from toolwright.adapters.store.instants import instant, micros
from toolwright.adapters.store.rows import Params, Row, text_or_none
from toolwright.adapters.store.tables_kept import clients
from toolwright.core.front_end import FrontEnd
from toolwright.core.json_value import dumps


def front_end_params(given: FrontEnd) -> Params:
    return {
        "id": given.id,
        "entity_id": given.entity_id,
        "name": text_or_none(given.name),
        "metadata": dumps(given.metadata),
        "created_at": micros(given.created_at),
    }


def front_end(row: Row) -> FrontEnd:
    return FrontEnd(
        id=row[0],
        entity_id=row[1],
        name=None if row[2] is None else json.loads(row[2]),
        metadata=json.loads(row[3]),
        created_at=instant(row[4]),
    )


def _text(name: str) -> Any:  # SQLAlchemy's own parameter type is generic over what it is compared with
    return bindparam(name, type_=Text)


def _big(name: str) -> Any:  # as above
    return bindparam(name, type_=BigInteger)


class FrontEndStatements:
    """Statements about front-ends, compiled for one dialect; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        insert = sqlite.insert if name == "sqlite" else postgresql.insert
        values = {c.name: bindparam(c.name, type_=c.type) for c in clients.columns}
        once = insert(clients).values(values).on_conflict_do_nothing()
        self.insert = compiled(once.returning(clients.c.id))
        self.drop = compiled(delete(clients).where(clients.c.id == _text("id")).returning(clients.c.id))
        self.drop_of = compiled(delete(clients).where(clients.c.entity_id == _text("entity_id")))
        self.one = compiled(select(clients).where(clients.c.id == _text("id")))
        in_order = select(clients).order_by(clients.c.created_at, clients.c.id)
        page = in_order.limit(_big("limit")).offset(_big("offset"))
        self.all = compiled(page)
        self.all_of = compiled(page.where(clients.c.entity_id == _text("entity_id")))


class SqlFrontEnds:
    """The `FrontEndReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(FrontEndStatements, driver.dialect)

    async def front_end(self, id: str) -> FrontEnd | None:
        return first(await self._driver.read(lambda: rows_read(front_end, self._sql.one, {"id": id})))

    async def front_ends(
        self, *, entity_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[FrontEnd]:
        asked: Params = {"limit": limit, "offset": offset}
        if entity_id is None:
            return await self._driver.read(lambda: rows_read(front_end, self._sql.all, asked))
        asked["entity_id"] = entity_id
        return await self._driver.read(lambda: rows_read(front_end, self._sql.all_of, asked))
