"""What is put into the inbox of an agent that may be at rest: the event, and the run that is to read it."""

from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.value import value


@value
class Delivery:
    """An event for the inbox of an agent's home thread, which is made if it is not there yet, and woken.

    The event waits for the next run: one that is queued, else `run`, with the event `queued`. A terminated thread
    gets nothing any more.
    """

    thread: Thread
    event: InboxEvent
    run: Run
    queued: EventDraft
