"""Conditions that several statements share."""

from sqlalchemy import and_

from toolwright.adapters.store.tables.threads import threads
from toolwright.core.threads.child import ENDED

NOT_OVER = and_(*(threads.c.state.is_distinct_from(end) for end in ENDED))
"""The thread may be spoken to."""
