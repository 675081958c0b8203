"""Records of requests sent to models: the digests of their texts and tools, and these texts."""

import json
from collections import OrderedDict

from toolwright.core.agents.agent import is_declared_id
from toolwright.core.agents.catalog import REQUESTS
from toolwright.core.model import ModelRequest, ToolDefinition
from toolwright.core.request_changes import recorded
from toolwright.core.threads.compaction import VERSION, SentText, text_digest
from toolwright.core.threads.message import Sent
from toolwright.core.value import changed
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame

MAX_CACHED_TEXTS, MAX_CACHED_TOOLS = 10_000, 100


class SentRecords:
    """Builds the records of requests. Caches which texts are in the journal, and the last sent tools."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._tools: OrderedDict[int, tuple[tuple[ToolDefinition, ...], str, str]] = OrderedDict()

    def stored(self, frame: Frame) -> None:
        """Remember that the texts of the last request are in the journal."""
        for each in frame.texts:
            self._known[each.thread_id, each.digest] = None
        frame.texts = ()
        while len(self._known) > MAX_CACHED_TEXTS:
            self._known.popitem(last=False)

    def record(
        self,
        context: RunContext,
        frame: Frame,
        request: ModelRequest,
        tokens: int,
        budget: int | None,
    ) -> None:
        """Set the record of a request, and the texts that it refers to if they can be missing from the journal."""
        parts = frame.parts
        if parts is not None and parts.tools is request.tools and parts.system == request.system:
            digests = parts.digests
        else:
            digests = self._texts(context, frame, request)
        row = frame.compaction(context.side) if frame.compactions else None
        reported = request.state is not None and request.state.parts
        frame.state = request.state if reported else None
        frame.sent = Sent(
            system=digests[0],
            tools=digests[1],
            compaction=0 if row is None else row.number,
            version=VERSION,
            tokens=tokens or None,
            budget=budget,
        )

    def record_change(
        self, context: RunContext, frame: Frame, before: ModelRequest, after: ModelRequest
    ) -> None:
        """Record the request as hooks have changed it."""
        assert frame.sent is not None, "the request was recorded before it was changed"
        texts = frame.texts
        system, tools = self._texts(context, frame, after, is_own=after.system != before.system)
        change, parts = recorded(before, after)
        thread_id = context.thread.id
        unknown = [each for each in parts if (thread_id, each) not in self._known]
        missing = [SentText(thread_id=thread_id, digest=each, text=parts[each]) for each in unknown]
        frame.texts = (*texts, *frame.texts, *missing)
        frame.sent = changed(frame.sent, system=system, tools=tools, change=change)

    def _texts(
        self, context: RunContext, frame: Frame, request: ModelRequest, *, is_own: bool = False
    ) -> tuple[str, str]:
        """Return the digests of the system text, the thread's own if a function or hook made it, and of the tools."""
        tools, tools_digest = self.tools_text(request.tools)
        digests = text_digest(request.system), tools_digest
        agent_id = context.active.agent_id
        # A request brings its own system text, and an agent configured over HTTP can be deleted with all its texts.
        is_shared = is_declared_id(agent_id) and context.thread.agent != REQUESTS.id
        owner = "" if is_shared else context.thread.id
        whose = context.thread.id if is_own or frame.text is not None else owner
        texts = {(owner, digests[1]): tools, (whose, digests[0]): request.system}
        if frame.text and frame.decided is not None:
            texts[context.thread.id, frame.decided.instructions] = frame.text
        frame.texts = tuple(
            [
                SentText(thread_id=each, digest=digest, text=text)
                for (each, digest), text in texts.items()
                if text and (each, digest) not in self._known
            ]
        )
        if frame.parts is not None:
            frame.parts.system, frame.parts.tools, frame.parts.digests = (
                request.system,
                request.tools,
                digests,
            )
        return digests

    def tools_text(self, tools: tuple[ToolDefinition, ...]) -> tuple[str, str]:
        """Return the tools as JSON, and its digest. They are cached while the same tuple is sent."""
        if not tools:
            return "", ""
        cached = self._tools.get(id(tools))
        if cached is None or cached[0] is not tools:
            described = [[each.name, each.description, each.parameters] for each in tools]
            text = json.dumps(described, ensure_ascii=False)
            cached = tools, text, text_digest(text)
            self._tools[id(tools)] = cached
            if len(self._tools) > MAX_CACHED_TOOLS:
                self._tools.popitem(last=False)
        return cached[1], cached[2]
