"""The env and tenvs of threads: values, secrets, their storage and re-encryption (D4–D6)."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from secrets import token_hex
from typing import TypeAlias

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.env import EnvChange, EnvKind, EnvRow, EnvVar, SigningKey, derived_key
from toolwright.core.env.logs import logger
from toolwright.core.env.redact import LONG, NOTHING, Redactor
from toolwright.core.errors import CannotUnseal
from toolwright.core.journal.rows import Add
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply, Committed, Reseal
from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.ports import Cipher, Clock, NewId
from toolwright.core.results import ToolResult
from toolwright.core.threads.thread import Thread
from toolwright.core.value import changed, key_of
from toolwright.runtime.carried import Carried

log = logger("toolwright.secrets")

Layer: TypeAlias = Mapping[str, EnvVar | CannotUnseal]
NO_NAMES = frozenset[str]()
NO_TOOLS: Mapping[str, Mapping[str, EnvVar]] = {}
MAX_CACHED_SECRETS = 10_000  # decrypted secrets: decrypting one takes as long as half a commit
BATCH = 500


@dataclass(frozen=True, slots=True)
class ParentScope:
    """A parent thread as a scope: the names `scoped` there (D5), and values hidden from models of child threads.

    These are the values of the names `hidden` from its agents' models, and its own values of the names `private` to it
    (D6).
    """

    thread_id: str
    scoped: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    private: frozenset[str] = frozenset()


class ThreadEnv:
    """The environment of one thread at a point in time.

    `tenvs` are merged from prompt, agent and thread; `own_tenvs` are those of the thread. `redactor` knows every secret
    that the thread can resolve.
    """

    __slots__ = ("_hidden", "_layers", "_threads", "_tools", "own_tenvs", "redactor", "tenvs")

    def __init__(
        self,
        threads: Sequence[tuple[Layer, frozenset[str]]],
        layers: Sequence[Layer],
        tenvs: JSONObject,
        redactor: Redactor,
        tools: Mapping[str, Mapping[str, EnvVar]] = NO_TOOLS,
        own_tenvs: JSONObject | None = None,
        hidden: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._hidden = hidden
        self.own_tenvs: JSONObject = own_tenvs or {}
        self._threads = threads
        self._layers = layers
        self._tools = tools
        self.tenvs = tenvs
        self.redactor = redactor

    def get(self, name: str, *, own: bool = True, tool: str | None = None) -> EnvVar | None:
        """Return the effective value, or None.

        Lookup order: thread, parent threads, user, app, agent, then the tool or the prompt (D5). The lookup in parent
        threads ends at the first thread in which the name is scoped. Without `own` the thread's value is skipped.
        Raises `CannotUnseal` if the value cannot be decrypted.
        """
        for layer in self._layers_for(name, own, tool):
            value = layer.get(name)
            if isinstance(value, CannotUnseal):
                raise value
            if value is not None:
                return value
        return None

    def hides(self, name: str) -> bool:
        """Return whether the thread's value of that name is hidden from all models, whatever its type (D6)."""
        return self._hidden(name)

    def names(self) -> set[str]:
        """Return all names that have a value in some layer, whether or not the lookup reaches it."""
        layers = [*[values for values, _ in self._threads], *self._layers]
        return {name for layer in layers for name in layer}

    def _layers_for(self, name: str, own: bool, tool: str | None) -> Iterator[Layer]:
        for values, scoped in self._threads:
            if own or values is not self._threads[0][0]:
                yield values
            if name in scoped:
                break
        yield from self._layers[:-1]
        if tool is not None and tool in self._tools:
            yield self._tools[tool]
        yield from self._layers[-1:]


class Environment:
    """Reads and builds the rows of variables, with secrets encrypted by the cipher."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher
        self._opened: OrderedDict[str, str] = OrderedDict()
        self._unreadable: set[str] = set()
        self._redactor = lru_cache(maxsize=1_000)(Redactor)  # consecutive runs use the same secrets

    def for_agent(
        self,
        thread: Thread,
        agent: ActiveAgent | None,
        rows: Sequence[EnvRow],
        above: Sequence[ParentScope] = (),
        hidden: frozenset[str] = NO_NAMES,
    ) -> ThreadEnv:
        """Return the thread's env for that agent, from the stored values `rows`.

        `above` are the parent threads, the nearest first. `hidden` are names whose values its models may not see, in
        addition to the agent's own.
        """
        hidden = hidden.union(*[each.hidden for each in above], agent.hidden if agent is not None else ())
        if not rows and agent is not None and not agent.secrets and not hidden:
            # the common case, which needs no reads
            return ThreadEnv([({}, agent.scoped)], ({}, *agent.env), agent.tenvs, NOTHING, agent.tool_env)
        own: dict[str, EnvVar | CannotUnseal] = {}
        users: dict[str, EnvVar | CannotUnseal] = {}
        theirs: dict[str, dict[str, EnvVar | CannotUnseal]] = {each.thread_id: {} for each in above}
        tenvs: JSONObject = dict(agent.tenvs) if agent is not None else {}
        brought: JSONObject = {}
        secrets = set(agent.secrets) if agent is not None else set[tuple[str, str]]()
        for row in rows:
            value = self._value(row)
            # text, even if stored as a secret
            flag = agent is not None and row.kind == "env" and row.name in agent.types.flags
            if isinstance(value, EnvVar) and not flag and (row.type == "secret" or _is_declared(row, agent)):
                secrets.add((row.name, _secret(row, value)))
            if row.kind == "env":
                (own if row.owner == thread.id else theirs.get(row.owner, users))[row.name] = value
            elif isinstance(value, EnvVar) and row.owner not in theirs:
                tenvs[row.name] = brought[row.name] = json.loads(value.value)
        layers = (users, *(agent.env if agent is not None else ()))
        scoped = frozenset[str]() if agent is None else agent.scoped
        threads = [(own, scoped), *[(theirs[each.thread_id], each.scoped) for each in above]]
        private = [frozenset(thread.link.hidden if thread.link else ()), *[each.private for each in above]]
        for (values, _), names in zip(threads, private, strict=True):
            secrets |= _of(values, names.__contains__)
        if hidden:
            for values in (*[each for each, _ in threads], *layers):
                secrets |= _of(values, partial(_hides, hidden))
        tools = agent.tool_env if agent is not None else NO_TOOLS

        def hides(name: str) -> bool:
            return name in private[0] or _hides(hidden, name)

        return ThreadEnv(threads, layers, tenvs, self._redactor(frozenset(secrets)), tools, brought, hides)

    def change(self, owner: str, name: str, var: EnvVar | None, at: datetime) -> EnvChange:
        """Return the change that sets a name of a thread or person, or deletes it for None. Raises `CannotSeal`."""
        return self._change(owner, "env", name, var, at)

    def tenv(self, owner: str, name: str, var: EnvVar, at: datetime) -> EnvChange:
        """Return the change that sets a tenv of a new thread; its value is JSON text."""
        return self._change(owner, "tenv", name, var, at)

    def _change(self, owner: str, kind: EnvKind, name: str, var: EnvVar | None, at: datetime) -> EnvChange:
        if var is None:
            return EnvChange(owner=owner, kind=kind, name=name)
        value, key = (var.value, None) if var.type == "text" else self._cipher.seal(var.value)
        row = EnvRow(owner=owner, kind=kind, name=name, type=var.type, value=value, key=key, updated_at=at)
        if key is not None and 0 < len(_secret(row, var)) < LONG:
            log.warning(
                "The secret %r has fewer than %d characters, so it is only redacted where it is a whole word.",
                name,
                LONG,
            )
        return EnvChange(owner=owner, kind=kind, name=name, row=row)

    def _value(self, row: EnvRow) -> EnvVar | CannotUnseal:
        if row.key is None:
            return EnvVar(value=row.value, type=row.type)
        try:
            return EnvVar(value=self._open(row.value), type=row.type)
        except CannotUnseal as error:
            if row.value not in self._unreadable:  # logged once
                self._unreadable.add(row.value)
                log.warning("The secret %r of %s cannot be read: %s", row.name, row.owner, error.message)
            return error

    def values(self, rows: Sequence[EnvRow]) -> tuple[dict[str, EnvVar], JSONObject]:
        """Return the env and the tenvs in these rows, without values that cannot be decrypted."""
        env: dict[str, EnvVar] = {}
        tenvs: JSONObject = {}
        for row in rows:
            value = self._value(row)
            if isinstance(value, CannotUnseal):
                continue
            if row.kind == "env":
                env[row.name] = value
            else:
                tenvs[row.name] = json.loads(value.value)
        return env, tenvs

    def _open(self, sealed: str) -> str:
        cached = self._opened.pop(sealed, None)
        self._opened[sealed] = text = self._cipher.open(sealed) if cached is None else cached
        if len(self._opened) > MAX_CACHED_SECRETS:
            self._opened.popitem(last=False)
        return text

    def derived(self, purpose: str) -> Sequence[bytes]:
        """Return a key for another purpose from each of the keys."""
        return self._cipher.derived(purpose)

    @property
    def key(self) -> str | None:
        """The id of the key that encrypts, or None."""
        return self._cipher.key

    def resealed(self, row: EnvRow) -> EnvRow | None:
        """Return the row encrypted with the first key, or None if it cannot be decrypted."""
        value = self._value(row)
        if not isinstance(value, EnvVar):
            return None
        sealed, key = self._cipher.seal(value.value)
        return changed(row, value=sealed, key=key)


def _is_declared(row: EnvRow, agent: ActiveAgent | None) -> bool:
    """Return whether a value that was set as text, before its type was known, is declared as a secret here."""
    return row.kind == "env" and agent is not None and agent.types.hides(row.name)


def _of(values: Layer, has_name: Callable[[str], bool]) -> set[tuple[str, str]]:
    """Return the values whose name matches."""
    return {(n, v.value) for n, v in values.items() if isinstance(v, EnvVar) and has_name(n)}


def _hides(hidden: frozenset[str], name: str) -> bool:
    """Return whether the name is in `hidden`, alone or with a suffix as for immediately started children."""
    return any(name == each or name.startswith(f"{each}_") for each in hidden)


def tenv_vars(values: JSONObject, secrets: frozenset[str]) -> dict[str, EnvVar]:
    """Return tenvs as stored: JSON texts, marked as secrets if their names are."""
    return {
        name: EnvVar(value=dumps(value), type="secret" if name in secrets else "text")
        for name, value in values.items()
    }


def _secret(row: EnvRow, var: EnvVar) -> str:
    """Return the secret text. For a tenv it is the text within its JSON; null hides nothing."""
    if row.kind == "env":
        return var.value
    value = json.loads(var.value)
    return value if isinstance(value, str) else "" if value is None else var.value


Resolve: TypeAlias = Callable[[Thread, ActiveAgent | None, Sequence[EnvRow]], ThreadEnv]
"""Returns the env of a thread for an agent through one of its prompts, from the rows of variables."""


async def redacted(redactor: Redactor, outcome: ToolResult) -> ToolResult:
    """Return the outcome of a call without secrets."""
    parts: list[JSON] = [outcome.result, outcome.error, outcome.stack, outcome.error_data]
    return await in_thread_if_large(parts, redactor.result, outcome)


class Keys(Carried):
    """The keys that encrypt secrets, and those derived from them."""

    def __init__(self, store: Store, environment: Environment, clock: Clock, new_id: NewId) -> None:
        self._store = store
        self._environment = environment
        self._clock = clock
        self._new_id = new_id
        self._random: bytes | None = None

    async def signing(self, purpose: str) -> Sequence[bytes]:
        """Return the keys that sign texts for a purpose: the first signs, all verify.

        They are derived from the keys that encrypt secrets, or from a random key in the journal if there are none.
        """
        derived = self._environment.derived(purpose)
        if derived:
            return derived
        if self._random is None:
            self._random = await self._stored_key()
        return [derived_key(self._random, purpose)]

    async def _stored_key(self) -> bytes:
        """Return the random key in the journal, created with its first use in any process."""
        now = self._clock.now()
        new = SigningKey(key=token_hex(32), created_at=now)
        stored = await self._store.records.one(SigningKey, *key_of(new))
        while stored is None:
            await self._store.commit(Apply(token=self._new_id("unit"), at=now, effects=(Add(record=new),)))
            stored = await self._store.records.one(SigningKey, *key_of(new))
        return bytes.fromhex(stored.key)

    async def renew(self) -> int:
        """Re-encrypt secrets of other keys with the first key. Return their number.

        The other keys are not needed after that. A secret that no key can decrypt is not changed.
        """
        key, total, unreadable = self._environment.key, 0, 0
        while key is not None:
            rows = await self._store.sealed_otherwise(key, BATCH + unreadable)
            pairs = [(row, self._environment.resealed(row)) for row in rows]
            readable = tuple([(was, now) for was, now in pairs if now is not None])
            unreadable = len(pairs) - len(readable)
            if not readable:
                break
            unit = Reseal(token=self._new_id("unit"), at=self._clock.now(), rows=readable)
            answer = await self._store.commit(unit)
            total += answer.count if isinstance(answer, Committed) else 0
        return total
