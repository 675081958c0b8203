"""Inspection of a whole journal on Postgres. Needs the extra `postgres`."""

from toolwright.adapters.store.inspection import PAGE, broken_in, queries
from toolwright.adapters.store.postgres.connection import FAULTS, connect, store_error
from toolwright.core.broken_rows import BrokenRow


async def inspect_postgres(url: str) -> list[BrokenRow]:
    """Every broken row, read in pages on one snapshot."""
    found: list[BrokenRow] = []
    try:
        connection = await connect(url, None)  # all rows take their time
        try:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for reader, sql in queries("postgresql"):
                cursor = f"of_{reader.table.name}"  # one each: what is fetched is prepared by its name
                await connection.execute(f"DECLARE {cursor} NO SCROLL CURSOR FOR {sql}")
                while page := await connection.fetch(f"FETCH {PAGE} FROM {cursor}"):
                    found += broken_in(reader, [tuple(row) for row in page])
                await connection.execute(f"CLOSE {cursor}")
            await connection.execute("COMMIT")
        finally:
            await connection.close()
    except FAULTS as error:
        raise store_error(error) from error
    return found
