"""Permissions: a service may do everything, a person may access their own data (API §3, D24)."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Literal, TypeAlias

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import Agent
from toolwright.core.errors import Forbidden, InvalidRequest, NotFound
from toolwright.core.files import File
from toolwright.core.results import AttachmentRef
from toolwright.core.spaces import Space, SpaceMessage
from toolwright.core.state.state import question_of
from toolwright.core.threads.approval import Terms, terms_from_json
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import Run
from toolwright.core.tools.approval import ROLE
from toolwright.core.tools.relations import AgentCall
from toolwright.core.tools.tool import Tool
from toolwright.runtime.runtime import Runtime
from toolwright.web.auth.access import Caller, has_claim
from toolwright.wire.call import call_message_id
from toolwright.wire.result import result_from_json

MAX_CONFIGURED = 1_000  # agents that are checked if calls choose their delegates freely

Sight: TypeAlias = Literal["whole", "status"]


class Permits:
    """Permission checks for one runtime. Checks for a service cost nothing."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def agent(self, caller: Caller, name_or_id: str) -> None:
        """Raise `NotFound` unless the caller may open a thread with that agent.

        An agent that is not open to a person is reported as not existing, without naming the existing agents: only
        services may list them.
        """
        if caller.kind == "service":
            return
        absent = NotFound(f"There is no agent {name_or_id!r}.")
        try:
            agent = await self._runtime.agents.get(name_or_id)
        except NotFound:
            raise absent from None
        if not await self._is_open(caller, agent) or not await self._all_open(
            caller, await self._reached(agent.id)
        ):
            raise absent

    async def tool(self, caller: Caller, tool: Tool, delegate: object = None) -> bool:
        """Return whether the caller may call this tool of the app: not if it runs an agent that is not open to them.

        `delegate` is the agent that the call chooses.
        """
        if caller.kind == "service":
            return True
        fixed = None if tool.meta is None else tool.meta.delegate
        called = tool.relation.agent_id if isinstance(tool.relation, AgentCall) else None
        for name in (called, fixed, delegate):
            if isinstance(name, str) and await self._names_closed(caller, name):
                return False
        return await self._all_open(caller, self._runtime.agents.catalog.reached_by(tool))

    async def _names_closed(self, caller: Caller, name: str) -> bool:
        """Return whether the delegate names an agent that is not open to the caller. It can also be a request."""
        try:
            await self._runtime.agents.get(name)
        except NotFound:
            return False
        try:
            await self.agent(caller, name)
        except NotFound:
            return True
        return False

    async def _reached(self, agent: str) -> list[ActiveAgent]:
        """Return the agent and all agents that its threads can be handed over to or have as children."""
        agents = self._runtime.agents
        active = await agents.active(agent)
        reached = [active, *agents.catalog.reached(active.voices)]
        if any(None in voice.delegates for each in reached for voice in each.voices):
            configured = [await agents.usable(each.id) for each in await agents.list(MAX_CONFIGURED)]
            reached += [each for each in configured if each is not None]
        return reached

    async def _all_open(self, caller: Caller, agents: Iterable[ActiveAgent]) -> bool:
        """Return whether the person may open threads with all agents that can show more than the person's own data.

        Other reachable agents serve each person separately, regardless of who may open threads with them.
        """
        for each in agents:
            agent = each.agent
            shows_more = agent.toolkits and (agent.home_tools == "all" or agent.shared_memory)
            if shows_more and not await self._is_open(caller, agent):
                return False
        return True

    async def _is_open(self, caller: Caller, agent: Agent) -> bool:
        """Return whether the person may open threads with the agent, according to its declaration."""
        match agent.open_to:
            case "everyone":
                return True
            case "members":
                return await self._runtime.spaces.share_a_space(caller.entity_id or "", agent.entity_id)
            case str() | None:
                return False
            case wanted:
                return any(has_claim(caller.claims, each) for each in wanted)

    async def env(
        self, caller: Caller, agent: str, names: Iterable[str], thread_id: str | None = None
    ) -> None:
        """Raise `Forbidden` unless the caller may set these names in a thread of the agent (D24).

        They may also set names for which a run of the thread `thread_id` waits.
        """
        if caller.kind == "service":
            return
        refused = sorted(set(names) - await self.settable(agent))
        if refused and thread_id is not None:
            requests = await self._runtime.requests.list(thread_id)
            requested = {each.name for one in requests if one.kind == "run" for each in one.required}
            refused = [name for name in refused if name not in requested]
        if refused:
            raise Forbidden(f"You may not set {', '.join(map(repr, refused[:10]))} in this agent's threads.")

    async def settable(self, agent: str) -> frozenset[str]:
        """Return the env names that a person may set in a thread of the agent.

        A name in its `user_env` is left out if another agent that can answer in the thread or its children sets a value
        of that name without listing it: the person's value would replace that agent's value.
        """
        first = (await self._runtime.agents.get(agent)).user_env
        if not first:
            return frozenset()
        names = frozenset(first)
        for each in await self._reached(agent):
            names -= each.values_set - {*each.agent.user_env}
        return names

    async def tenvs(self, caller: Caller, agent: str, names: Iterable[str]) -> None:
        """Raise `Forbidden` unless the caller may set these tenvs in a new thread."""
        if caller.kind == "service" or not (requested := {*names}):
            return
        agents = self._runtime.agents
        refused = sorted(requested & agents.catalog.tenvs_set(await agents.active(agent)))
        if refused:
            raise Forbidden(
                f"This agent has set {', '.join(map(repr, refused[:10]))}: leave it out of tenvs."
            )

    async def thread(self, caller: Caller, thread_id: str) -> None:
        """Raise `NotFound` unless the caller may read and write the thread."""
        if caller.kind == "person" and not await self._owns(caller, thread_id):
            raise NotFound(f"There is no thread {thread_id!r}.")

    async def deps(self, caller: Caller, thread_id: str) -> None:
        """Raise `Forbidden` unless the caller may set the deps of runs in the thread."""
        if caller.kind == "person":
            thread = await self._runtime.threads.get(thread_id)
            if not (await self._runtime.agents.get(thread.agent)).user_deps:
                raise Forbidden("Only services may set the deps of this agent's runs.")

    async def request(self, caller: Caller, thread_id: str, request_id: str) -> None:
        """Raise `NotFound` unless the caller may read and answer requests of the thread."""
        if caller.kind == "person" and not await self._owns(caller, thread_id):
            raise NotFound(f"There is no open request {request_id!r}.")

    async def run(self, caller: Caller, run_id: str) -> None:
        """Raise `NotFound` unless the caller may see all of the run and cancel it."""
        if caller.kind == "person" and (await self.visible_run(caller, run_id))[1] != "whole":
            raise _no_run(run_id)

    async def visible_run(self, caller: Caller, run_id: str) -> tuple[Run, Sight]:
        """Return the run and how much of it the caller may see. Raises `NotFound` if they may see none of it."""
        run = await self._runtime.runs.get(run_id)
        if caller.kind == "service":
            return run, "whole"
        owns = await self._owns(caller, run.thread_id)
        caused = not owns and await self._runtime.spaces.caused(run_id, caller.entity_id or "")
        sight = sight_of_run(owns=owns, caused=caused)
        if sight is None:
            raise _no_run(run_id)
        return run, sight

    async def call(self, caller: Caller, call_id: str) -> Call:
        """Return a call, with its whole result, if the caller may see it. Raises `NotFound`.

        A service, the owner of its thread and the members of the space that shows it may.
        """
        if caller.kind == "person":
            row = await self._runtime.calls.row(call_id)
            if not await self._is_shown_to(caller, row) and not await self._owns(caller, row.thread_id):
                raise NotFound("Pending tool call not found")
        return await self._runtime.calls.get(call_id)

    async def answer(self, caller: Caller, call: Call) -> None:
        """Check that the caller may submit the call's result. Raises `NotFound`, or `Forbidden` in their own thread.

        A call with named approvers may be answered by these, if they can see it. Questions, and approvals without named
        approvers, in a person's own thread may be answered by that person.
        """
        terms = terms_from_json(call.terms) if call.awaits_approval else Terms()
        if caller.kind == "service":
            check_approver(caller, terms)
            return
        in_their_space = await self._is_in_their_space(caller, call)
        is_visible = call.visible and in_their_space
        if not is_visible and not await self._owns(caller, call.thread_id):
            raise NotFound("Pending tool call not found")
        if call.awaits_approval:
            check_approver(caller, terms)
        elif (
            question_of(call) is None
        ):  # otherwise the call is shown to them or belongs to one of their threads
            check_answer(visible=call.visible, in_their_space=in_their_space)

    async def file(self, caller: Caller, thread_id: str, path: str, call_id: str | None) -> File:
        """Return a file of a thread of the caller, or of the result of a call shown to them. Raises `NotFound`.

        A file that was written to the path after the call is not of its result. The error does not tell whether there
        is such a call or another file.
        """
        if call_id is not None and caller.kind == "person":
            with suppress(NotFound):
                call = await self._runtime.calls.row(call_id)
                file = await self._runtime.files.get(thread_id, path)
                files = () if call.result is None else result_from_json(call.result).attachments
                is_of_call = any(isinstance(each, AttachmentRef) and each.id == file.id for each in files)
                if is_of_call and call.thread_id == thread_id and await self._is_shown_to(caller, call):
                    return file
        await self.thread(caller, thread_id)
        return await self._runtime.files.get(thread_id, path)

    async def space(self, caller: Caller, space_id: str) -> Space:
        """Return a space if the caller may read it: a member, or anyone if it is public. Raises `NotFound`."""
        seen_by = None if caller.kind == "service" else caller.entity_id or ""
        return await self._runtime.spaces.get(space_id, seen_by=seen_by)

    async def in_space(self, caller: Caller, space_id: str) -> None:
        """Raise `NotFound` unless the caller may read the space. A service may read every space."""
        if caller.kind == "person":
            await self.space(caller, space_id)

    async def message(self, caller: Caller, message_id: str) -> SpaceMessage:
        """Return a message if the caller may read its space. Raises `NotFound`."""
        message = await self._runtime.spaces.message(message_id)
        try:
            await self.space(caller, message.space_id)
        except NotFound:
            raise NotFound(f"There is no message {message_id!r}.") from None
        return message

    async def own_message(self, caller: Caller, message_id: str) -> None:
        """Check that the caller may change the message. Raises `Forbidden` if they may only read it."""
        message = await self.message(caller, message_id)
        if caller.kind == "person" and message.entity_id != caller.entity_id:
            raise Forbidden("Only the author of this message may change it.")

    async def client(self, caller: Caller, client_id: str) -> None:
        """Raise `NotFound` unless the caller may delete the client registration."""
        front_end = await self._runtime.clients.get(client_id)
        if caller.kind == "person" and front_end.entity_id != caller.entity_id:
            raise NotFound(f"There is no client {client_id!r}.")

    def reader(self, caller: Caller) -> str:
        """Return the entity whose read position is set. Only people have one."""
        if caller.entity_id is None:
            raise Forbidden("Only people have unread counts. Use a person's token.")
        return caller.entity_id

    async def _is_shown_to(self, caller: Caller, call: Call) -> bool:
        """Return whether the call is visible and shown in a space that they are a member of."""
        return call.visible and await self._is_in_their_space(caller, call)

    async def _is_in_their_space(self, caller: Caller, call: Call) -> bool:
        """Return whether the call is shown in a space that they are a member of."""
        if call.space_id is None:
            return False
        is_member = await self._runtime.spaces.is_member(call.space_id, caller.entity_id or "")
        return is_member and await self._is_shown(call)

    async def _is_shown(self, call: Call) -> bool:
        """Return whether the message that shows the call exists. Without it people may not act on the call."""
        try:
            await self._runtime.spaces.message(call_message_id(call.id))
        except NotFound:
            return False
        return True

    async def _owns(self, caller: Caller, thread_id: str) -> bool:
        try:
            thread = await self._runtime.threads.get(thread_id)
        except NotFound:
            return False
        return thread.user_id in caller.user_ids


def owner_of_new(caller: Caller, user_id: str | None) -> str | None:
    """Return the owner of a new thread. A person owns their threads. Raises `Forbidden` if they name another owner."""
    if caller.kind == "service":
        return user_id
    if user_id is not None and user_id not in caller.user_ids:
        raise Forbidden("A thread that you create is your own: leave userId out.")
    return caller.entity_id


def only_services_import(caller: Caller) -> None:
    """Raise `Forbidden` for a person: an imported conversation has answers of the agent that it never gave."""
    if caller.kind == "person":
        raise Forbidden("Only services can create a thread with messages. Leave messages out.")


def owner_of_listed(caller: Caller, entity_id: str | None) -> str | None:
    """Return the owner whose items are listed, or None for all. A person always lists their own."""
    return entity_id if caller.kind == "service" else caller.entity_id or ""


def sight_of_run(*, owns: bool, caused: bool) -> Sight | None:
    """Return a person's view of a run: all of it in their own threads, the status if they caused it elsewhere."""
    if owns:
        return "whole"
    return "status" if caused else None


def speaker(caller: Caller, entity_id: str | None) -> str:
    """Return the author of a message: the person, or the entity that a service names."""
    if caller.kind == "person":
        return caller.entity_id or ""
    if entity_id is None:
        raise InvalidRequest("entityId is required", [{"path": "entityId", "message": "is required"}])
    return entity_id


def asks_somebody(call: Call) -> bool:
    """Return whether the call asks the thread's owner: a question of a handler, or an approval.

    Any other waiting call is executed externally, and its result is submitted.
    """
    return call.awaits_approval or question_of(call) is not None


def check_answer(*, visible: bool, in_their_space: bool) -> None:
    """Raise `Forbidden` unless the person may submit the result of a visible call that asks no person."""
    if not visible:
        raise Forbidden("This call is invisible: only a service may hand in its result.")
    if not in_their_space:
        raise Forbidden("This call is not shown in a space of yours: only a service may hand in its result.")


def check_approver(caller: Caller, terms: Terms) -> None:
    """Raise `Forbidden` unless the caller, who may see the call, may approve it on these terms."""
    by = terms.by
    if by == "service" and caller.kind != "service":
        raise Forbidden("This call requires a service's approval.")
    if by == "person" and caller.kind != "person":
        raise Forbidden("This call requires a person's approval. Submit the answer with that person's token.")
    if not isinstance(by, str) and (caller.kind != "person" or not _is_named(caller, by)):
        who = "a person's approval" if caller.kind == "service" else "another person's approval"
        raise Forbidden(f"This call requires {who}.")
    if terms.not_by and {*terms.not_by} & {*caller.user_ids}:
        who = "another person or a service" if by in ("anyone", "service") else "another person"
        raise Forbidden(f"Your message began this run, so {who} must approve this call.")


def _is_named(caller: Caller, by: Collection[str]) -> bool:
    """Return whether the person has one of these ids or roles. An id that begins like a role names no one."""
    ids = [each for each in caller.user_ids if not each.startswith(ROLE)]
    return not {*by}.isdisjoint([*ids, *(ROLE + role for role in caller.roles)])


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"There is no run {run_id!r}.")


def reads_system_text(caller: Caller) -> bool:
    """Return whether the caller can read the system text and the tools of requests to models.

    People cannot, because these can contain an agent's memories about others.
    """
    return caller.kind == "service"
