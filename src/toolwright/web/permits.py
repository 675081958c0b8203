"""Who may see and do what: a service everything, a person what is theirs (API §3, D24).

What is not theirs is answered as what is not there, in the same words.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from toolwright.core.call import Call
from toolwright.core.errors import Forbidden, NotFound
from toolwright.core.run import Run
from toolwright.runtime.runtime import Runtime
from toolwright.web.access import Caller

Sight: TypeAlias = Literal["whole", "status"]


class Permits:
    """The rules over one runtime. All that is asked of it for a service costs nothing."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def agent(self, caller: Caller, name_or_id: str) -> None:
        """A person who asks for an agent that is not there is not told which are: the list is a service's."""
        if caller.kind == "service":
            return
        try:
            self._runtime.agent(name_or_id)
        except NotFound:
            raise NotFound(f"There is no agent {name_or_id!r}.") from None

    def env(self, caller: Caller, agent: str, names: Iterable[str]) -> None:
        """Whether the caller may set these names in a thread of that agent, else `Forbidden` (D24)."""
        if caller.kind == "service":
            return
        refused = sorted(set(names) - set(self._runtime.agent(agent).user_env))
        if refused:
            raise Forbidden(f"You may not set {', '.join(map(repr, refused[:10]))} in this agent's threads.")

    def tenvs(self, caller: Caller, agent: str, names: Iterable[str]) -> None:
        """Whether the caller may bring these tenvs to a new thread, else `Forbidden`.

        A person may not put their own in the place of those that the app has set: these are promised to its tools.
        """
        if caller.kind == "service":
            return
        refused = sorted(set(names) & self._runtime.promised(agent))
        if refused:
            raise Forbidden(
                f"This agent has set {', '.join(map(repr, refused[:10]))}: leave it out of tenvs."
            )

    async def thread(self, caller: Caller, thread_id: str) -> None:
        """Whether the caller may read and write the thread, else `NotFound`."""
        if caller.kind == "person" and not await self._owns(caller, thread_id):
            raise NotFound(f"There is no thread {thread_id!r}.")

    async def run(self, caller: Caller, run_id: str) -> None:
        """Whether the caller may see all of the run and cancel it, else `NotFound`."""
        if caller.kind == "person" and (await self.look(caller, run_id))[1] != "whole":
            raise _no_run(run_id)

    async def look(self, caller: Caller, run_id: str) -> tuple[Run, Sight]:
        """The run, and how much of it the caller may see; `NotFound` for one of which that is nothing."""
        run = await self._runtime.runs.get(run_id)
        if caller.kind == "service":
            return run, "whole"
        owns = await self._owns(caller, run.thread_id)
        sight = sight_of_run(owns=owns, caused=False)  # a message can cause a run elsewhere only in a space
        if sight is None:
            raise _no_run(run_id)
        return run, sight

    async def answer(self, caller: Caller, call_id: str) -> None:
        """Whether the caller may hand in the call's result: `NotFound`, or `Forbidden` in a thread of their own."""
        if caller.kind == "service":
            return
        call = await self._runtime.calls.get(call_id)
        if not await self._owns(caller, call.thread_id):
            raise NotFound("Pending tool call not found")
        check_answer(visible=await self._shows(call), in_their_space=False)

    async def _owns(self, caller: Caller, thread_id: str) -> bool:
        try:
            thread = await self._runtime.threads.get(thread_id)
        except NotFound:
            return False
        return thread.user_id in caller.user_ids

    async def _shows(self, call: Call) -> bool:
        agent = (await self._runtime.agents_of([call]))[call.run_id]
        return agent is not None and self._runtime.shows(agent, call.name)


def owner_of_new(caller: Caller, user_id: str | None) -> str | None:
    """Whose a new thread is: a person's is theirs, whoever they say. `Forbidden` if they name somebody else."""
    if caller.kind == "service":
        return user_id
    if user_id is not None and user_id not in caller.user_ids:
        raise Forbidden("A thread that you create is your own: leave userId out.")
    return caller.entity_id


def sight_of_run(*, owns: bool, caused: bool) -> Sight | None:
    """How much a person sees of a run: all of those in their threads, the status of those they caused elsewhere."""
    if owns:
        return "whole"
    return "status" if caused else None


def check_answer(*, visible: bool, in_their_space: bool) -> None:
    """Whether a person may answer a call that they may see, else `Forbidden`."""
    if not visible:
        raise Forbidden("This call is invisible: only a service may hand in its result.")
    if not in_their_space:
        raise Forbidden("This call is not shown in a space of yours: only a service may hand in its result.")


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"There is no run {run_id!r}.")
