"""Front-ends and ended sessions of the console on SQL: their statements and reads."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from toolwright.adapters.store.engine.codecs import Params, instant
from toolwright.adapters.store.engine.driver import Driver, read_rows
from toolwright.adapters.store.engine.statement import Compiler, DialectName, number, statements, string
from toolwright.adapters.store.tables.kept import FRONT_ENDS, clients, sign_outs
from toolwright.core.spaces.space import FrontEnd


class FrontEndStatements:
    """Statements about front-ends, compiled for one dialect; each attribute is one of them."""

    def __init__(self, name: DialectName) -> None:
        compiled = Compiler(name)
        insert = sqlite.insert if name == "sqlite" else postgresql.insert
        values = {c.name: bindparam(c.name, type_=c.type) for c in clients.columns}
        once = insert(clients).values(values).on_conflict_do_nothing()
        self.insert = compiled(once.returning(clients.c.id))
        self.drop = compiled(delete(clients).where(clients.c.id == string("id")).returning(clients.c.id))
        self.drop_of = compiled(delete(clients).where(clients.c.entity_id == string("entity_id")))
        self.one = compiled(select(clients).where(clients.c.id == string("id")))
        in_order = select(clients).order_by(clients.c.created_at, clients.c.id)
        page = in_order.limit(number("limit")).offset(number("offset"))
        self.all = compiled(page)
        self.all_of = compiled(page.where(clients.c.entity_id == string("entity_id")))
        signed_out = insert(sign_outs).values(key=string("key"), at=number("at"), until=number("until"))
        latest = {"at": signed_out.excluded["at"], "until": signed_out.excluded["until"]}
        self.sign_out = compiled(signed_out.on_conflict_do_update(index_elements=["key"], set_=latest))
        unused = signed_out.on_conflict_do_nothing(index_elements=["key"])
        self.use_once = compiled(unused.returning(sign_outs.c.key))
        self.drop_expired = compiled(delete(sign_outs).where(sign_outs.c.until < number("at")))
        keys = or_(sign_outs.c.key == string("session"), sign_outs.c.key == string("caller"))
        self.signed_out = compiled(select(sign_outs.c.key, sign_outs.c.at).where(keys))


class SqlFrontEnds:
    """The `FrontEndReads` port over a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sql = statements(FrontEndStatements, driver.dialect)

    async def front_end(self, id: str) -> FrontEnd | None:
        return await read_rows(self._driver, FRONT_ENDS.first, self._sql.one, {"id": id})

    async def front_ends(
        self, *, entity_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[FrontEnd]:
        asked: Params = {"limit": limit, "offset": offset}
        if entity_id is None:
            return await read_rows(self._driver, FRONT_ENDS.each, self._sql.all, asked)
        asked["entity_id"] = entity_id
        return await read_rows(self._driver, FRONT_ENDS.each, self._sql.all_of, asked)

    async def signed_out(self, session: str, caller: str) -> Mapping[str, datetime]:
        asked: Params = {"session": session, "caller": caller}
        rows = await read_rows(self._driver, list, self._sql.signed_out, asked)
        return {str(key): instant(at) for key, at in rows}
