"""The journal's stores: in memory, on SQLite and on Postgres."""
