"""W3C trace contexts: as text for the journal and for others, and of calls that wait for somebody outside."""

from collections import OrderedDict

from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

W3C = TraceContextTextMapPropagator()
HEADER = "traceparent"
MOST_WAITING = 10_000  # calls of which a process knows the trace context


def traceparent_of(context: Context | None) -> str | None:
    """The text of the context, the current one for None; None if nothing is traced in it."""
    carrier: dict[str, str] = {}
    W3C.inject(carrier, context)
    return carrier.get(HEADER)


def context_of(traceparent: str | None) -> Context:
    """The context of that text; one without any trace if it says none."""
    return Context() if traceparent is None else W3C.extract({HEADER: traceparent}, Context())


class Waiting:
    """Trace contexts and agents of calls that wait for somebody outside, those of the newest."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, tuple[str | None, str]] = OrderedDict()

    def put(self, call_id: str, traceparent: str | None, agent: str) -> None:
        """A call of the agent waits."""
        self._calls[call_id] = traceparent, agent
        if len(self._calls) > MOST_WAITING:
            self._calls.popitem(last=False)

    def get(self, call_id: str) -> str | None:
        """The context of the call, None if it is not known here."""
        return self._calls.get(call_id, (None, None))[0]

    def agent(self, call_id: str) -> str | None:
        """The agent of the call, None if the call is not known here."""
        return self._calls.get(call_id, (None, None))[1]
