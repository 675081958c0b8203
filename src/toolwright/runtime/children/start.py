"""Start of a child thread: at once, or after its missing variables are provided (S0 §6)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import EnvRow, Variable, VariablesRequest, merged
from toolwright.core.files import File, FileDrafts, NoFiles
from toolwright.core.journal.child_effects import Spawn
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.ports import Clock
from toolwright.core.threads.child import Link, link_from_json, link_json
from toolwright.core.threads.thread import Thread
from toolwright.core.value import value
from toolwright.runtime.calls.variables import missing_of, with_effective_types
from toolwright.runtime.env.env import Environment
from toolwright.runtime.journal import Services
from toolwright.runtime.threads.thread_tree import NAME_TAG, copy_files, first_run, message_for
from toolwright.wire.event import run_event

REQUEST_LIFE = timedelta(hours=24)


@value
class NewChildRows:
    """The initial rows of a child. `files` are the parent's files to copy.

    `most` is the maximum number of concurrent children of its agent, or None.
    """

    thread_id: str
    parent_id: str
    agent_id: str
    name: str | None
    message: str
    arguments: JSONObject
    user_id: str | None
    depth: int
    link: Link
    most: int | None = None
    files: tuple[File, ...] = ()


class ChildStart:
    """Finds missing variables of children, and builds the effects that start them."""

    def __init__(self, services: Services, environment: Environment) -> None:
        self._store = services.store
        self._environment = environment
        self._clock = services.clock
        self._new_id = services.new_id

    async def unresolved_variables(
        self, birth: NewChildRows, agent: ActiveAgent, added: Sequence[EnvRow] = ()
    ) -> tuple[Variable, ...]:
        """Return the scoped variables that would not resolve in the child: they do not come from its parent (D5)."""
        if not any(each.scoped for side in agent.sides.values() for each in side.variables):
            return ()
        stored = [*await self._store.env_of(birth.thread_id), *added]
        own = {(row.kind, row.name): row for row in stored}
        threads = {
            birth.parent_id,
            *[each.id for each in await self._store.children.lineage(birth.parent_id)],
        }
        users = [row for row in await self._store.env(birth.parent_id) if row.owner not in threads]
        thread, rows = self._thread(birth), [*own.values(), *users]
        sides = [
            missing_of(lambda each: self._environment.for_agent(thread, each, rows), side)
            for side in agent.sides.values()
        ]
        return merged([each for missing in sides for each in missing if each.scoped])

    async def spawn(self, birth: NewChildRows, report: str | None) -> Spawn:
        """Return the effect that starts the child; `report` is the call that waits for its end."""
        drafts = FileDrafts(NoFiles())
        refs = await copy_files(birth.thread_id, drafts, birth.files, self._clock, self._new_id)
        run = first_run(
            self._thread(birth), f"run_{birth.thread_id.removeprefix('thr_')}", birth.depth, self._clock
        )
        thread = self._thread(birth, run_id=run.id, report=report)
        message_id = f"msg_{birth.thread_id.removeprefix('thr_')}"
        return Spawn(
            thread_id=birth.thread_id,
            thread=thread,
            event=message_for(thread, message_id, birth.message, refs, birth.depth, self._clock),
            run=run,
            queued=run_event(run),
            files=drafts.changes,
        )

    def request(
        self, birth: NewChildRows, agent: ActiveAgent, missing: Sequence[Variable], request_id: str
    ) -> VariablesRequest:
        """Return the request for the child's missing variables."""
        now = self._clock.now()
        return VariablesRequest(
            id=request_id,
            thread_id=birth.parent_id,
            kind="child",
            agent=agent.agent.name,
            required=with_effective_types(agent.types, missing),
            child=birth_json(birth),
            expires_at=now + REQUEST_LIFE,
            created_at=now,
        )

    def _thread(self, birth: NewChildRows, run_id: str | None = None, report: str | None = None) -> Thread:
        begins = run_id is not None
        return Thread(
            id=birth.thread_id,
            agent=birth.agent_id,
            user_id=birth.user_id,
            parent_id=birth.parent_id,
            name=birth.name,
            tags=() if birth.name is None else (f"{NAME_TAG}{birth.name}",),
            arguments=birth.arguments,
            run_id=run_id,
            ev=int(begins),
            posted=int(begins),
            link=birth.link,
            report=report,
            created_at=self._clock.now(),
        )


def birth_json(birth: NewChildRows) -> JSONObject:
    """Return a deferred child as JSON, for the journal."""
    files: list[JSON] = [
        [each.path, each.name, each.mime_type, each.size, each.digest, each.width, each.height]
        for each in birth.files
    ]
    return {
        "threadId": birth.thread_id,
        "parentId": birth.parent_id,
        "agentId": birth.agent_id,
        "name": birth.name,
        "message": birth.message,
        "arguments": birth.arguments,
        "userId": birth.user_id,
        "depth": birth.depth,
        "link": link_json(birth.link),
        "most": birth.most,
        "files": files,
    }


def birth_from_json(written: JSONObject, clock: Clock) -> NewChildRows:
    """Return the child that `birth_json` serialized."""
    stored = cast("dict[str, Any]", written)  # as serialized by `birth_json`
    return NewChildRows(
        thread_id=stored["threadId"],
        parent_id=stored["parentId"],
        agent_id=stored["agentId"],
        name=stored["name"],
        message=stored["message"],
        arguments=stored["arguments"],
        user_id=stored["userId"],
        depth=stored["depth"],
        link=link_from_json(stored["link"]),
        most=stored.get("most"),
        files=tuple([_file(stored["parentId"], each, clock) for each in stored["files"]]),
    )


def _file(thread_id: str, stored: Sequence[Any], clock: Clock) -> File:  # as serialized by `birth_json`
    path, name, mime_type, size, digest, width, height = stored
    return File(
        thread_id=thread_id,
        path=path,
        id="",
        name=name,
        mime_type=mime_type,
        size=size,
        digest=digest,
        width=width,
        height=height,
        created_at=clock.now(),
    )
