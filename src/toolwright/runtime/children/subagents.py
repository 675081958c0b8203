"""Agents as tools (S0 §5, §6): handoffs, and children in threads of their own."""

import math
from collections.abc import Sequence
from functools import partial

from toolwright.core import errors
from toolwright.core.agents.active import ActiveAgent
from toolwright.core.arguments.errors import InvalidArguments, invalid_text, within
from toolwright.core.env.env import Variable
from toolwright.core.files import File, FileDrafts
from toolwright.core.journal.child_effects import ChildLimit, HandOff, OpenRequest, Spawn, Speak
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_NAME
from toolwright.core.results import Outcome, Pending, ToolResult
from toolwright.core.state.state import ThreadState
from toolwright.core.text import brief, sentence
from toolwright.core.threads.child import Link
from toolwright.core.tools.pipeline import PreparedCall, missing_tenvs_error
from toolwright.core.tools.relations import AgentCall, Handoff, Immediate, Lifecycle, SubagentToolConfig
from toolwright.core.tools.tenvs_needed import MissingTenvs
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.deps import given_deps
from toolwright.runtime.calls.nested import message_in, paths
from toolwright.runtime.calls.variables import waiting_json
from toolwright.runtime.children.child import ChildStart, NewChildRows
from toolwright.runtime.children.step_tools import has_room
from toolwright.runtime.files import StoredFiles
from toolwright.runtime.journal import Services
from toolwright.runtime.state.state import RunState
from toolwright.runtime.threads.thread_tree import child_id_of, copy_files, first_run, message_for
from toolwright.wire.call import RequiredVariable
from toolwright.wire.event import run_event
from toolwright.wire.text import is_title

PUT_OFF = "subagent_env_required"
FOREVER = Pending(wait=math.inf)
"""The caller waits for its child without a time limit."""


class Subagents:
    """Executes calls of agents and of lifecycle tools. Their effects are committed with their results."""

    def __init__(self, services: Services, agents: Agents, child_start: ChildStart, max_depth: int) -> None:
        self._store = services.store
        self._agents = agents
        self._child_start = child_start
        self._clock = services.clock
        self._new_id = services.new_id
        self._max_depth = max_depth

    async def __call__(self, prepared: PreparedCall, state: ThreadState) -> Outcome:
        """Execute a call of a tool of the kind `agent`."""
        if not isinstance(state, RunState):
            return ToolResult.fail("Agents can only be called within a run.", error_code="outside_run")
        outcome = await self._carried_out(prepared, state)
        if isinstance(outcome, ToolResult) and outcome.error_code not in (None, PUT_OFF):
            child_id = child_id_of(state.call_id)  # the child never starts: it needs no variables
            state.call_env.drop(await state.retry_until_available(lambda: self._store.env_of(child_id)))
        return outcome

    async def _carried_out(self, prepared: PreparedCall, state: RunState) -> Outcome:
        try:
            match prepared.tool.relation:
                case Handoff(agent_id=agent_id):
                    return await self._hand_off(state, agent_id)
                case AgentCall() as relation:
                    return await self._call(state, relation, prepared.arguments)
                case Lifecycle(verb="create", relations=relations):
                    return await self._create(state, relations, prepared.arguments)
                case Lifecycle(relations=relations):
                    return await self._message(state, relations, prepared.arguments)
                case _:
                    return ToolResult.fail(
                        f"Tool {prepared.tool.name!r} calls no agent.", error_code="no_executor"
                    )
        except InvalidArguments as fault:
            invalid = invalid_text(within(fault.faults, "arguments"))
            return ToolResult.fail(invalid, error_code="invalid_arguments")
        except (
            errors.InvalidRequest,
            errors.NotFound,
            errors.NoRoom,
            errors.DefinitionError,
            errors.CannotSeal,
        ) as error:
            return ToolResult.fail(error.message, error_code=error.code)

    async def _create(
        self, state: RunState, relations: Sequence[AgentCall], arguments: JSONObject
    ) -> Outcome:
        """`subagent_create`: create a resumable child."""
        relation = _named(relations, str(arguments["agent"]))
        config, thread_arguments = relation.config, arguments.get("arguments")
        inner = thread_arguments if isinstance(thread_arguments, dict) else {}
        text = arguments.get("message")
        if relation.schema is not None and relation.validator is not None:
            inner = relation.validator.read(_with_message(relation.schema, config, inner, text))
        message = (
            text if isinstance(text, str) and text else message_in(inner, config.init_user_message_property)
        )
        file_paths = [*paths(arguments, "attachments"), *paths(inner, config.init_attachments_property)]
        await state.retry_until_available(lambda: self._check_room(state.thread_id, relation))
        return await self._begin(state, relation, str(arguments["name"]), message, file_paths, inner)

    async def _message(
        self, state: RunState, relations: Sequence[AgentCall], arguments: JSONObject
    ) -> Outcome:
        """`subagent_message`: send a message to a resumable child. A busy child reads it at its next step."""
        reference = str(arguments["reference"])
        child = await state.retry_until_available(lambda: self._store.thread(reference))
        if (
            child is None
            or child.parent_id != state.thread_id
            or child.link is None
            or not child.link.resumable
        ):
            raise errors.NotFound(f"There is no subagent {brief(repr(reference), 200)}.")
        if child.child_status == "terminated":
            return ToolResult.fail(f"The subagent {reference!r} is terminated.", error_code="terminated")
        files = await self._files(state, paths(arguments, "attachments"))
        text = str(arguments["message"])
        if not text.strip() and not files:
            raise errors.InvalidRequest("message is empty.", [{"path": "message", "message": "is empty"}])
        waits = child.link.blocking and child.child_status != "running"
        report = state.call_id if waits else None
        relation = next((each for each in relations if each.agent_id == child.agent), None)
        deps = self._deps(state, relation)
        state.speak(partial(self._speech, state, child.id, text, files, report, deps))
        if waits:
            return FOREVER
        status = "queued" if child.child_status == "running" else "running"
        return ToolResult.ok({"reference": child.id, "status": status})

    async def _speech(
        self,
        state: RunState,
        child_id: str,
        text: str,
        named: Sequence[File],
        report: str | None,
        deps: JSONObject | None,
    ) -> Speak:
        """Return the effect that sends the message, rebuilt if one of its files has lost its name to another."""
        child = await self._store.thread(child_id)
        if child is None or (report is not None and child.child_status == "running"):
            raise errors.InvalidRequest(f"The subagent {child_id!r} is now busy. Send the message again.")
        if child.is_over:
            raise errors.ThreadTerminated(f"The subagent {child_id!r} is terminated.")
        current = None if deps is None or child.run_id is None else await self._store.run(child.run_id)
        if current is not None and current.deps != deps:
            raise errors.InvalidRequest(
                f"The subagent {child_id!r} is busy with other deps. Send the message after it has finished."
            )
        files = FileDrafts(StoredFiles(self._store, child.id))
        refs = await copy_files(child.id, files, named, self._clock, self._new_id)
        run = first_run(child, self._new_id("run"), state.chain_depth, self._clock)
        run = run if deps is None else changed(run, deps=deps)
        message_id = f"msg_{state.call_id.removeprefix('call_')}"
        event = message_for(child, message_id, text, refs, state.chain_depth, self._clock)
        return Speak(
            thread_id=child.id,
            event=event,
            run=run,
            queued=run_event(run),
            files=files.changes,
            report=report,
        )

    async def _hand_off(self, state: RunState, agent_id: str) -> ToolResult:
        agent = await self._usable(agent_id)
        missing = agent.missing_tenvs(state.call_env.own_tenvs)
        if missing:
            return missing_tenvs_error(agent.agent.name, missing)
        state.effect(HandOff(thread_id=state.thread_id, agent=agent_id))
        return ToolResult.ok(f"{agent.agent.name} answers from now on.")

    async def _call(self, state: RunState, relation: AgentCall, arguments: JSONObject) -> Outcome:
        config = relation.config
        name_argument = arguments.get(config.init_agent_name_property or "name")
        name = name_argument if isinstance(name_argument, str) and name_argument else None
        message = message_in(arguments, config.init_user_message_property)
        file_paths = paths(arguments, config.init_attachments_property)
        return await self._begin(state, relation, name, message, file_paths, arguments)

    async def _begin(
        self,
        state: RunState,
        relation: AgentCall,
        name: str | None,
        message: str,
        file_paths: Sequence[str],
        arguments: JSONObject,
    ) -> Outcome:
        """Start a child, or request its missing variables and start it when they are provided."""
        if name is not None and not (is_title(name) and len(name) <= MAX_NAME):
            raise errors.InvalidRequest(
                f"The name of a subagent must be one line of 1 to {MAX_NAME} characters."
            )
        agent = await self._usable(relation.agent_id)
        birth = NewChildRows(
            thread_id=child_id_of(state.call_id),
            parent_id=state.thread_id,
            agent_id=relation.agent_id,
            name=name,
            message=message,
            arguments=arguments,
            user_id=state.user_id,
            depth=state.chain_depth,
            link=link_of(relation),
            most=relation.config.resumable.max_instances if relation.config.resumable else None,
            files=tuple(await self._files(state, file_paths)),
        )
        return await self.begin(state, birth, agent, relation)

    async def begin(
        self, state: RunState, birth: NewChildRows, agent: ActiveAgent, relation: AgentCall | None = None
    ) -> Outcome:
        """Start a child of that agent, or request its missing variables and defer it."""
        if await self._is_deep(state):
            message = (
                f"Agents can call each other at most {self._max_depth} deep, and this one is at that depth."
            )
            return ToolResult.fail(message, error_code="too_deep")
        tenvs = {} if relation is None else _tenvs(relation.config, state)
        missing_tenvs = agent.missing_tenvs(tenvs)
        if missing_tenvs:
            return _missing_tenvs(agent.agent.name, missing_tenvs, relation)
        if tenvs:
            state.call_env.bring(birth.thread_id, tenvs, agent.secret_tenvs)
        deps = self._deps(state, relation)
        if deps is not None:
            birth = changed(birth, deps=deps)
        missing = await self._child_start.unresolved_variables(birth, agent)
        if missing:
            return self._ask(state, birth, agent, missing)
        blocking = birth.link.blocking
        if birth.most is not None:
            state.effect(ChildLimit(thread_id=birth.parent_id, agent=birth.agent_id, most=birth.most))
        state.speak(partial(self._spawned, relation, birth, state.call_id if blocking else None))
        state.announce_child(birth.thread_id, birth.name, birth.agent_id)
        if blocking:
            return FOREVER
        return ToolResult.ok({"reference": birth.thread_id, "name": birth.name, "status": "running"})

    def _deps(self, state: RunState, relation: AgentCall | None) -> JSONObject | None:
        """Return the deps of a child's run, as declared by the relation. Raises `InvalidRequest` if they do not fit."""
        if relation is None or relation.config.deps is None or state.deps is None:
            return None
        mapped = relation.config.child_deps(state.run_context.run.deps)
        return given_deps(self._agents.catalog, relation.agent_id, relation.config.name, mapped)

    async def _is_deep(self, state: RunState) -> bool:
        """Return whether the thread is at the maximum depth, which bounds agents that call each other in a cycle."""
        if state.thread.parent_id is None:
            return False
        ancestors = await state.retry_until_available(lambda: self._store.children.lineage(state.thread_id))
        return len(ancestors) >= self._max_depth

    async def _spawned(self, relation: AgentCall | None, birth: NewChildRows, report: str | None) -> Spawn:
        """Return the effect that starts the child. Raises `NoRoom` if others have started in the meantime."""
        if relation is not None:
            await self._check_room(birth.parent_id, relation)
        return await self._child_start.spawn(birth, report)

    async def _check_room(self, thread_id: str, relation: AgentCall) -> None:
        """Raise `NoRoom` if the maximum number of children of that agent is reached."""
        resumable = relation.config.resumable
        if not resumable or resumable.max_instances is None:
            return
        alive = (await self._store.children.living(thread_id)).get(relation.agent_id, 0)
        if not has_room(relation, alive):
            raise errors.NoRoom(f"{relation.config.name!r} already has the maximum of {alive} children.")

    def _ask(
        self, state: RunState, birth: NewChildRows, agent: ActiveAgent, missing: Sequence[Variable]
    ) -> ToolResult:
        """Defer the child until its missing variables are provided (S0 §6)."""
        request = self._child_start.request(
            birth, agent, missing, f"req_{state.call_id.removeprefix('call_')}"
        )
        state.effect(OpenRequest(thread_id=state.thread_id, request=request))
        names = ", ".join(each.name for each in missing)
        return ToolResult.fail(
            sentence(f"The agent {agent.agent.name!r} requires values of its own: {names}"),
            error_code=PUT_OFF,
            error_data={**waiting_json(request), "required": [RequiredVariable.of(each) for each in missing]},
        )

    async def _usable(self, agent_id: str) -> ActiveAgent:
        agent = await self._agents.usable(agent_id)
        if agent is None:
            raise errors.NotFound(f"The agent {agent_id!r} is not configured in this app.")
        return agent

    async def _files(self, state: RunState, file_paths: Sequence[str]) -> list[File]:
        if not file_paths:
            return []
        return [await state.drafts.get(path) for path in file_paths]


def _tenvs(config: SubagentToolConfig, state: RunState) -> JSONObject:
    """Return the tenvs of a child: fixed ones, and those that the caller passes on."""
    return {**config.tenvs, **state.call_env.passed_on(config.pass_tenvs)}


def _missing_tenvs(name: str, missing: MissingTenvs, relation: AgentCall | None) -> ToolResult:
    """Return the error of a call whose child would be missing tenvs."""
    remedy = "A child does not inherit tenvs. Set them with tenvs= or pass_tenvs= in its SubagentToolConfig."
    if relation is None:
        remedy = "A delegate has only the tenvs of its agent and prompt."
    error = sentence(f"The agent {name!r} cannot start: its tools require tenvs that are not set: {missing}")
    return changed(missing_tenvs_error(name, missing), error=f"{error} {remedy}")


def _with_message(
    schema: JSONObject, config: SubagentToolConfig, arguments: JSONObject, message: JSON
) -> JSONObject:
    """Return the arguments, with the message in its property if they do not contain it."""
    name = config.init_user_message_property or "message"
    properties = schema.get("properties")
    if not message or name in arguments or not isinstance(properties, dict) or name not in properties:
        return arguments
    return {**arguments, name: message}


def link_of(relation: AgentCall) -> Link:
    """Return the link of a child of that relation to its parent."""
    config = relation.config
    immediate, resumable = config.immediate, config.resumable
    hidden: tuple[str, ...] = ()
    if isinstance(immediate, Immediate):
        hidden = tuple(
            [n for n in immediate.scoped_env if n not in (immediate.name_env, immediate.description_env)]
        )
    if not resumable:
        return Link(blocking=config.blocking, hidden=hidden)
    return Link(
        blocking=config.blocking,
        resumable=True,
        receives=resumable.receives_messages,
        implicit=resumable.parent_communication == "implicit",
        hidden=hidden,
    )


def _named(relations: Sequence[AgentCall], name: str) -> AgentCall:
    relation = next((each for each in relations if each.config.name == name), None)
    if relation is None:
        raise errors.NotFound(
            sentence(
                f"There is no agent {name!r} to create; there are {', '.join(r.config.name for r in relations)}"
            )
        )
    return relation
