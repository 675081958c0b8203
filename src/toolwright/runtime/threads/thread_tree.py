"""Thread trees: parents as scopes of variables (D5), and messages, files and notices between their threads."""

from collections.abc import Sequence

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import EnvRow
from toolwright.core.env.redact import Redactor
from toolwright.core.errors import DefinitionError, InvalidRequest
from toolwright.core.files import File, FileDrafts
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSONObject
from toolwright.core.ports import Clock, NewId
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.inbox import Delivery, InboxEvent
from toolwright.core.threads.run import Run, Side
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.env import NO_NAMES, Environment, ParentScope, Resolve, ThreadEnv
from toolwright.runtime.threads.inbox import kept_ref
from toolwright.wire.event import run_event

NAME_TAG = "name:"
PAGE = 1_000  # children per read


class Lineages:
    """Builds the resolvers of threads' envs."""

    def __init__(self, store: Store, agents: Agents, environment: Environment) -> None:
        self._store = store
        self._agents = agents
        self._environment = environment

    async def resolver(self, thread: Thread) -> Resolve:
        """Return the resolver of the thread's env for an agent, given the rows of all scopes."""
        scopes = await self._above(thread) if thread.parent_id is not None else []
        _, hidden = await self._agent(thread.agent)

        def resolve(thread: Thread, active: ActiveAgent | None, rows: Sequence[EnvRow]) -> ThreadEnv:
            # names hidden by the previous agent stay hidden
            before = NO_NAMES if thread.active_agent is None else hidden
            return self._environment.for_agent(thread, active, rows, scopes, before)

        return resolve

    async def env(
        self, thread: Thread, active: ActiveAgent | None, rows: Sequence[EnvRow] | None = None
    ) -> ThreadEnv:
        """Return the current env of the thread; `rows` are its values, if they were read already."""
        resolve = await self.resolver(thread)
        return resolve(thread, active, await self._store.env(thread.id) if rows is None else rows)

    async def redactor(self, thread: Thread) -> Redactor:
        """Return a redactor of the secrets that calls of the thread can resolve."""
        return (await self.env(thread, await self._agents.usable(thread.answering))).redactor

    async def _above(self, thread: Thread) -> list[ParentScope]:
        """Return the parent threads, the nearest first."""
        return [await self._scope_of(each) for each in await self._store.children.lineage(thread.id)]

    async def _scope_of(self, thread: Thread) -> ParentScope:
        scoped, hidden = await self._agent(thread.answering)
        if thread.active_agent is not None:
            hidden |= (await self._agent(thread.agent))[1]
        private = frozenset(thread.link.hidden if thread.link is not None else ())
        return ParentScope(thread.id, scoped, hidden, private)

    async def _agent(self, agent_id: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the names that the agent scopes, and the names that it hides."""
        try:
            agent = await self._agents.find(agent_id)
        except (InvalidRequest, DefinitionError):
            agent = None  # an agent that cannot run has no active prompt
        return (NO_NAMES, NO_NAMES) if agent is None else (agent.scoped, agent.hidden)


async def children_of(store: Store, thread_id: str) -> Sequence[Thread]:
    """Return all child threads of the thread, the oldest first."""
    children: list[Thread] = []
    while True:
        page = await store.children.children(thread_id, limit=PAGE, offset=len(children))
        children += page
        if len(page) < PAGE:
            return children


def child_id_of(call_id: str) -> str:
    """Return the id of the thread that the call creates."""
    return f"thr_{call_id.removeprefix('call_').replace('.', '-')}"


def described(file: File, ref: AttachmentRef) -> File:
    """Return the file with the description of the reference."""
    return changed(file, description=ref.description or file.description)


async def copy_files(
    thread_id: str, drafts: FileDrafts, files: Sequence[File], clock: Clock, new_id: NewId
) -> tuple[AttachmentRef, ...]:
    """Copy the files to another thread's drafts, under names that are free there (S0 §7)."""
    refs: list[AttachmentRef] = []
    for each in files:
        path = await drafts.free_path(each.name)
        file = changed(
            each,
            thread_id=thread_id,
            id=new_id("fil"),
            path=path,
            name=path.rsplit("/", 1)[1],
            created_at=clock.now(),
        )
        drafts.add(file)
        refs.append(file.ref)
    return tuple(refs)


def first_run(thread: Thread, run_id: str, depth: int, clock: Clock) -> Run:
    """Return the first run of the thread, on the side that receives messages."""
    own = thread.active_agent is None  # an agent that took the thread over has one side
    side: Side = thread.link.receives if thread.link is not None and own else "side_a"
    return Run(
        id=run_id,
        thread_id=thread.id,
        agent=thread.agent,
        side=side,
        chain_depth=depth,
        created_at=clock.now(),
    )


def message_for(
    thread: Thread, message_id: str, text: str, files: Sequence[AttachmentRef], depth: int, clock: Clock
) -> InboxEvent:
    """Return a message from the parent as one of the thread's own messages."""
    content: JSONObject = {"messageId": message_id, "content": text}
    if files:
        content["attachments"] = [kept_ref(ref) for ref in files]
    return InboxEvent(
        thread_id=thread.id,
        event_id=message_id,
        type="message",
        content=content,
        depth=depth,
        created_at=clock.now(),
    )


def notice_for(
    parent: Thread,
    event_id: str,
    notice: JSONObject,
    files: Sequence[AttachmentRef],
    depth: int,
    clock: Clock,
    new_id: NewId,
) -> Delivery:
    """Return a child's notification for its parent's inbox, which the next run reads."""
    content: JSONObject = {**notice}
    if files:
        content["attachments"] = [kept_ref(ref) for ref in files]
    run = first_run(parent, new_id("run"), depth, clock)
    return Delivery(
        thread=parent,
        event=InboxEvent(
            thread_id=parent.id,
            event_id=event_id,
            type="subagent",
            content=content,
            depth=depth,
            created_at=clock.now(),
        ),
        run=run,
        queued=run_event(run),
    )
