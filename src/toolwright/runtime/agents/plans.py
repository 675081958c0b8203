"""Plans that are due: each becomes one event in its agent's inbox (S3, JOURNAL "Waking")."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from toolwright.core.agents.agent import agent_of_keeper
from toolwright.core.agents.mind import Plan, next_run
from toolwright.core.env.logs import logger
from toolwright.core.errors import InvalidRequest, StoreError
from toolwright.core.journal.effects import DropPlan, Effect, FirePlan, SetPlan, SetTimer
from toolwright.core.journal.units import Apply, Committed, Conflict
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.inbox import Delivery
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents
from toolwright.runtime.agents.inboxes import Deliveries
from toolwright.runtime.journal import Services

log = logger("toolwright.runtime")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Plans:
    """Fires plans. `wake` wakes the thread that received the event."""

    def __init__(
        self, services: Services, agents: Agents, deliveries: Deliveries, wake: Callable[[str], None]
    ) -> None:
        self._agents = agents
        self._store = services.store
        self._deliveries = deliveries
        self._wake = wake
        self._clock = services.clock
        self._new_id = services.new_id

    async def fire(self, plan_key: str) -> None:
        """Deliver the plan `<keeper>:<plan_id>` if it is due, and schedule its next time.

        A plan that was missed while no process was running is delivered once. If the app has changed so that the agent
        cannot have a home thread, the plan is skipped this time. A person's plan ends with the thread that it wakes.
        """
        agent_id, _, plan_id = plan_key.rpartition(":")
        while True:  # retry if the plan has changed since it was read
            plan = await self._store.records.one(Plan, agent_id, plan_id)
            if plan is None:
                return
            if plan.next_run_at > self._clock.now():  # the clock was set back: its timer is kept
                await self._commit(SetTimer(name=plan.timer, due=plan.next_run_at))
                return
            next_plan = self._next_firing(plan)
            thread = None if plan.thread_id is None else await self._store.thread(plan.thread_id)
            refusal = await self._refusal(plan, thread)
            if refusal is not None:
                log.error("The plan %r of %s is skipped: %s.", plan_id, agent_id, refusal)
                await self._commit(_plan_effect(plan, next_plan if plan.thread_id is None else None))
                return
            delivery = self._delivery(plan, thread)
            fired = FirePlan(plan=plan, then=next_plan, delivery=delivery)
            match await self._commit(fired):
                case Committed():
                    self._wake(delivery.thread.id)
                    return
                case Conflict(guard="plan"):
                    continue  # it was changed or deleted in the meantime
                case Conflict(guard="duplicate"):
                    # It has fired for this time, and was then rewritten with its previous time.
                    await self._commit(_plan_effect(plan, next_plan))
                    return
                case Conflict(guard=guard):
                    raise StoreError(f"The plan {plan_id!r} of the agent {agent_id!r} was refused ({guard}).")

    async def _refusal(self, plan: Plan, thread: Thread | None) -> str | None:
        """Return the reason why the plan cannot be delivered, or None."""
        if plan.thread_id is not None:
            is_terminated = thread is None or thread.is_over
            return f"the thread {plan.thread_id!r} is terminated" if is_terminated else None
        missing = await self._agents.missing_home_tenvs(plan.agent_id)
        return f"without a home thread: {missing}" if missing else None

    async def _commit(self, effect: Effect) -> Committed | Conflict:
        unit = Apply(token=self._new_id("unit"), at=self._clock.now(), effects=(effect,))
        return await self._store.commit(unit)

    def _next_firing(self, plan: Plan) -> Plan | None:
        """Return the plan after this firing, or None if it ends."""
        if plan.cron is None:
            return None
        try:
            return changed(plan, next_run_at=next_run(plan.cron, plan.timezone, self._clock.now()))
        except InvalidRequest as error:  # its time zone no longer exists, or this was its last time
            log.warning(
                "The plan %r of the agent %s will not run again: %s", plan.id, plan.agent_id, error.message
            )
            return None

    def _delivery(self, plan: Plan, thread: Thread | None) -> Delivery:
        due = (plan.next_run_at - _EPOCH) // timedelta(microseconds=1)
        content: JSONObject = {
            "planId": plan.id,
            "name": plan.name,
            "instruction": plan.instruction,
            "scheduledAt": plan.next_run_at.isoformat(),
        }
        event_id = f"plan:{plan.id}:{due}"
        return self._deliveries.delivery(
            agent_of_keeper(plan.agent_id), "plan", event_id, content, thread=thread
        )


def _plan_effect(plan: Plan, then: Plan | None) -> Effect:
    """Return the effect that reschedules or deletes a plan whose time has passed."""
    return DropPlan(agent_id=plan.agent_id, id=plan.id) if then is None else SetPlan(plan=then)
