"""Effects on records and on the data of agents, as programs: plans, blocks, passages and definitions of MCP tools."""

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime, timedelta

from toolwright.adapters.store.engine.codecs import Params, Row, long_text_or_none, micros, text_or_none
from toolwright.adapters.store.engine.outcome import GuardFailed
from toolwright.adapters.store.engine.program import Op, Ops
from toolwright.adapters.store.programs.parts import Steps
from toolwright.adapters.store.sql.agents import MCP_DEFINITIONS
from toolwright.adapters.store.sql.memory import BLOCKS, OWN_BLOCKS, PASSAGES, PASSAGES_EACH, coded
from toolwright.adapters.store.sql.records import GOALS, MEMORIES, PLANS, RECORDS, key_params, owned_by
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.agents.memory import Passage, Vector, folded_passage
from toolwright.core.agents.mind import Plan, plan_timer
from toolwright.core.journal import effects
from toolwright.core.journal.units import Unit


def record_op(effect: effects.RecordEffect, sql: Statements) -> Op:
    """Return the op of one effect."""
    match effect:
        case effects.Put(record=record):
            return Op(sql.records(type(record)).put, RECORDS[type(record)].params(record))
        case effects.Add(record=record):
            return Op(sql.records(type(record)).add, RECORDS[type(record)].params(record), "duplicate")
        case effects.Delete(kind=kind, key=key, guard=None):
            return Op(sql.records(kind).drop, key_params(kind, key))
        case effects.Delete(kind=kind, key=key, guard=guard):
            return Op(sql.records(kind).drop_existing, key_params(kind, key), guard)


def perform_agent(effect: effects.AgentEffect, unit: Unit, sql: Statements) -> Steps:
    """Perform one effect. Locks the row of the block, or of the owner of passages, for its dependent rows."""
    match effect:
        case effects.CheckMind():
            yield from _check_mind(effect, sql)
        case effects.SetPlan(plan=plan):
            put = record_op(effects.Put(record=plan), sql)
            yield [put, set_timer(plan.timer, plan.next_run_at, unit, sql)]
        case effects.DropPlan(agent_id=agent_id, id=plan_id):
            drop = record_op(effects.Delete(kind=Plan, key=(agent_id, plan_id)), sql)
            yield [drop, Op(sql.spaces.drop_timer, {"name": plan_timer(agent_id, plan_id)})]
        case effects.FirePlan():
            yield _fire(effect, unit, sql)
        case effects.MovePlans(by=by):
            yield [Op(each, {"by": by // timedelta(microseconds=1)}) for each in sql.agents.move_plans]
        case effects.DropMind(agent_id=agent_id):
            passages = [Op(each, {"agent_id": agent_id}) for each in sql.memory.drop_passages]
            yield [*drop_mind(agent_id, sql), *passages]
        case effects.SetBlock() | effects.DropBlock() | effects.LinkBlock() | effects.UnlinkBlock():
            yield from _block(effect, sql)
        case effects.AddPassage(passage=passage, vector=vector):
            yield from _add(passage, vector, sql)
        case effects.DropPassage():
            this: Params = {"agent_id": effect.agent_id, "id": effect.id}
            yield Op(sql.memory.drop_passage, this, "passage")
        case effects.SetVector(vector=vector):
            this = {"agent_id": effect.agent_id, "passage_id": effect.id}
            yield Op(sql.memory.set_vector, {**this, **_vector_params(vector)})
        case _:
            yield _definition(effect, sql)


def _check_mind(effect: effects.CheckMind, sql: Statements) -> Steps:
    """Check the rows of an agent's state. The lock is acquired before the read, which then sees all committed rows."""
    mine: Params = {"agent_id": effect.agent_id}
    if sql.agents.locks_minds:
        yield Op(sql.agents.lock_mind, mine)
    rows = yield Op(sql.agents.mind[effect.kind], mine)
    if not effect.holds(_mind_rows(effect.kind, rows)):
        raise GuardFailed("mind")


def _mind_rows(kind: effects.MindKind, rows: Sequence[Row]) -> Mapping[str, object]:
    match kind:
        case "goals":
            return {goal.id: goal for goal in GOALS.readable(rows)}
        case "memories":
            return {memory.key: memory for memory in MEMORIES.readable(rows)}
        case "plans":
            return {plan.id: plan for plan in PLANS.readable(rows)}
        case "blocks":
            return {block.label: block for block in OWN_BLOCKS.readable(rows)}
        case "links":
            return {effects.link_key(agent_id, label): None for agent_id, label in rows}


def drop_mind(agent_id: str, sql: Statements) -> list[Op]:
    """Delete the agent state stored under an id (the agent's own or per person) and the timers of its plans.

    Passages are not deleted, because there can be very many.
    """
    records = [sql.records(kind).drop_owned for kind in owned_by("agent_id")]
    drops = [Op(each, {"agent_id": agent_id}) for each in (*records, *sql.memory.drop_blocks)]
    first = plan_timer(agent_id, "")
    return [
        *drops,
        Op(sql.agents.drop_timers, {"first": first, "last": f"{first[:-1]};"}),
    ]  # ";" is the character after ":"


def _fire(effect: effects.FirePlan, unit: Unit, sql: Statements) -> list[Op]:
    plan = effect.plan
    params: Params = {"agent_id": plan.agent_id, "id": plan.id, "seen": micros(plan.next_run_at)}
    if effect.then is None:
        gone = Op(sql.agents.drop_plan_seen, params, "plan")
        return [gone, Op(sql.spaces.drop_timer, {"name": plan.timer})]
    due = effect.then.next_run_at
    moved = Op(sql.agents.move_plan, {**params, "next_run_at": micros(due)}, "plan")
    return [moved, set_timer(plan.timer, due, unit, sql)]


def set_timer(name: str, due: datetime, unit: Unit, sql: Statements) -> Op:
    """Return the op that sets a timer."""
    return Op(sql.spaces.set_timer, {"name": name, "due": micros(due), "gen": micros(unit.at)})


def _block(
    effect: effects.SetBlock | effects.DropBlock | effects.LinkBlock | effects.UnlinkBlock, sql: Statements
) -> Steps:
    if isinstance(effect, effects.SetBlock):
        yield Op(sql.memory.put_block, BLOCKS.params(effect.block), "block")
        return
    this: Params = {"agent_id": effect.agent_id, "label": effect.label}
    match effect:
        case effects.DropBlock():
            yield Op(sql.memory.drop_block, this, "block")
            yield Op(sql.memory.drop_links, this)
        case effects.LinkBlock():
            yield Op(sql.memory.lock_block, this, "block")
            yield Op(sql.memory.put_link, {**this, "reader_id": effect.reader_id})
        case effects.UnlinkBlock():
            yield Op(sql.memory.drop_link, {**this, "reader_id": effect.reader_id})


def _add(passage: Passage, vector: Vector | None, sql: Statements) -> Generator[Ops, list[Row], None]:
    [(keeper, stored)] = yield Op(sql.memory.count_passage, {"agent_id": passage.agent_id, "one": 1})
    place = int(keeper) * PASSAGES_EACH + int(stored)
    folded = folded_passage(passage)
    row = PASSAGES.params(passage, place=place, folded=folded, **_vector_params(vector))
    yield Op(sql.memory.insert_passage, row, "duplicate")
    if sql.memory.is_indexed_apart:
        yield Op(sql.memory.index_passage, {"place": place, "coded": coded(folded, passage.agent_id)})


def _vector_params(vector: Vector | None) -> Params:
    if vector is None:
        return {"embedder": None, "floats": None}
    return {"embedder": vector.embedder, "floats": vector.floats}


def _definition(
    effect: effects.PinMcpTool | effects.HoldMcpTool | effects.AcceptMcpTool | effects.UnholdMcpTool,
    sql: Statements,
) -> Op:
    match effect:
        case effects.PinMcpTool(definition=definition):
            return Op(sql.mcp.pin, MCP_DEFINITIONS.params(definition))
        case effects.HoldMcpTool():
            text = long_text_or_none(effect.definition)
            return Op(sql.mcp.hold, {**_tool_params(effect), "offered": effect.held, "said": text})
        case effects.AcceptMcpTool():
            return Op(sql.mcp.accept, {**_tool_params(effect), "offered": effect.held}, "mcp_tool")
        case effects.UnholdMcpTool():
            return Op(sql.mcp.unhold, _tool_params(effect))


def _tool_params(effect: effects.McpToolEffect) -> Params:
    params: Params = {"server": text_or_none(effect.server), "tool": text_or_none(effect.tool)}
    return {**params, "agent_id": effect.agent_id, "at": micros(effect.at)}
