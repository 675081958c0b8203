"""Env of a thread for a handler: values that it sets are committed with the call's result."""

from collections.abc import Iterable, Sequence

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.env.env import SECRETS, EnvChange, EnvRow, EnvType, EnvVar, Tenvs, checked_name, read_env
from toolwright.core.env.logs import is_first, logger
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.call import Call
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env import Environment, tenv_vars

_log = logger("toolwright.tools")


class CallEnv:
    """The env of one call: the values visible to the calling prompt, and the values that the call sets."""

    def __init__(
        self, context: RunContext, active: ActiveAgent | None, call: Call | None, environment: Environment
    ) -> None:
        self._context = context
        self._tool = None if call is None else call.name
        self._active = active
        self._environment = environment
        self._set: dict[str, EnvVar | None] = {}
        self._dropped: Sequence[EnvChange] = ()
        self._brought: Sequence[EnvChange] = ()
        self._tenvs: Tenvs | None = None

    @property
    def tenvs(self) -> Tenvs:
        """The tenvs of the thread."""
        if self._tenvs is None:
            self._tenvs = Tenvs(self._context.env_for(self._active).tenvs)
        return self._tenvs

    @property
    def own_tenvs(self) -> JSONObject:
        """The tenvs that the thread itself was created with, for agents that take it over."""
        return self._context.env.own_tenvs

    async def get(self, name: str) -> EnvVar | None:
        """Return the current value of a name, or None if no layer has it."""
        if self._set.get(name) is not None:
            return self._set[name]
        await self._context.reload_env()
        env = self._context.env_for(self._active)
        value = env.get(name, own=name not in self._set, tool=self._tool)
        tool = self._tool
        if value is None and tool is not None and not self._is_declared(name) and is_first(tool, "env", name):
            _log.warning(
                "The tool %r reads the env name %r, which has no value and is not declared. Declare it with "
                "@tw.tool(variables=[tw.Variable(%r)]), so that runs wait until it has a value.",
                tool,
                name,
                name,
            )
        return value

    def _is_declared(self, name: str) -> bool:
        """Return whether a tool or prompt of the active agent declares the name."""
        active = self._context.root.active
        return active is None or any(
            each.name == name for side in active.sides.values() for each in side.variables
        )

    def set(self, name: str, value: str | None, type: EnvType | None) -> None:
        """Set or delete (`None`) a name for this thread, with the given or declared type, a secret by default."""
        name = checked_name(name)
        types = SECRETS if self._context.root.active is None else self._context.root.active.types
        among = (name, *self._set, *self._context.env.names()) if types.shown else ()
        kind = type or types.type_of(name, among)
        variables = read_env({name: None if value is None else {"value": value, "type": kind}})
        for each, var in variables.items():
            types.check(each, var, among)
            self._change(each, var)
            self._set[each] = var
            if var is not None and (var.type == "secret" or self._context.env_for(self._active).hides(each)):
                self._context.learn(each, var.value)

    @property
    def changes(self) -> tuple[EnvChange, ...]:
        """The changes of values that the call has set and deleted, for its unit."""
        changes = [self._change(name, var) for name, var in self._set.items()]
        return (*changes, *self._brought, *self._dropped)

    def passed_on(self, names: Iterable[str]) -> JSONObject:
        """Return the existing tenvs of these names, as visible to the call."""
        tenvs = self._context.env_for(self._active).tenvs
        return {name: tenvs[name] for name in names if name in tenvs}

    def bring(self, child_id: str, tenvs: JSONObject, secrets: frozenset[str]) -> None:
        """Set the tenvs of a new child; names in `secrets` and names that are secret here are stored as secrets.

        Raises `CannotSeal` for a secret if no keys are configured.
        """
        active = self._context.root.active
        hidden = secrets if active is None else secrets | active.secret_tenvs
        values = tenv_vars(tenvs, hidden)
        now = self._context.clock.now()
        self._brought = [self._environment.tenv(child_id, name, var, now) for name, var in values.items()]

    def drop(self, rows: Sequence[EnvRow]) -> None:
        """Delete the values of a child thread that was never started."""
        self._dropped = [EnvChange(owner=each.owner, kind=each.kind, name=each.name) for each in rows]

    def _change(self, name: str, var: EnvVar | None) -> EnvChange:
        return self._environment.change(self._context.thread.id, name, var, self._context.clock.now())
