"""Tables of what belongs to families of threads: values of their own, requests and what these ask for."""

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text

from toolwright.adapters.store.engine.metadata import metadata, one_of
from toolwright.core.env.request import RequestKind

thread_values = Table(
    "thread_values",
    metadata,
    Column("thread_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    PrimaryKeyConstraint("thread_id", "key"),
)

requests = Table(
    "requests",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, nullable=False),
    Column("kind", Text, nullable=False, info=one_of(RequestKind)),
    Column("agent", Text, nullable=False),
    Column("required", Text, nullable=False),
    Column("child", Text),
    Column("expires_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Index("requests_by_thread", "thread_id"),
)

asked = Table(
    "asked",
    metadata,
    Column("name", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    PrimaryKeyConstraint("name", "request_id"),
    Index("asked_by_request", "request_id"),
)
