"""Types of values that are given as plain text (D5, D6), and the annotation of a secret."""

from collections.abc import Collection, Mapping
from typing import cast

from toolwright.core.env.env import EnvType, EnvVar, read_env, stored_only
from toolwright.core.errors import InvalidRequest
from toolwright.core.value import value


@value
class Shown:
    """Names whose values give children a name or a first message, and the `related` ones that a group has all of."""

    names: tuple[str, ...]
    related: tuple[str, ...]

    def has(self, name: str, among: Collection[str]) -> bool:
        """Return whether the name is one of these, or one with a suffix that all related names have too."""
        ends = [name[len(each) :] for each in self.names if name.startswith(each)]
        return any(
            not end
            or (end.startswith("_") and len(end) > 1 and all(each + end in among for each in self.related))
            for end in ends
        )


@value
class EnvTypes:
    """The types of names where an agent is active: as its variables declare them, `text` for flags and for what
    models are shown by being designated, else `secret`.
    """

    declared: Mapping[str, EnvType]
    flags: frozenset[str] = frozenset()
    shown: tuple[Shown, ...] = ()

    def of(self, name: str, among: Collection[str] = ()) -> EnvType:
        """The type of a value that is given without one, beside values of the names `among`."""
        if name in self.flags or any(each.has(name, among) for each in self.shown):
            return "text"
        return self.declared.get(name, "secret")

    def hides(self, name: str, among: Collection[str] = ()) -> bool:
        """Return whether the name is declared as a secret, and models are not shown its value all the same."""
        return self.declared.get(name) == "secret" and self.of(name, among) == "secret"

    def read(self, env: object, path: str = "env") -> dict[str, EnvVar | None]:
        """Env of a caller, checked.

        Raises `InvalidRequest`, also for a secret that models would be shown or that is a flag, and for a declared
        secret given as text.
        """
        names = cast("Mapping[str, object]", env) if isinstance(env, Mapping) else ()
        variables = read_env(cast("object", env), path, lambda name: self.of(name, names))
        for name, var in variables.items():
            self.check(name, var, names, path)
        return variables

    def stored(self, env: object, path: str = "env") -> dict[str, EnvVar]:
        """The variables to be stored, where there is nothing to take away."""
        return stored_only(self.read(env, path), path)

    def check(self, name: str, var: EnvVar | None, among: Collection[str] = (), path: str = "env") -> None:
        """Raise `InvalidRequest` for a secret that models are shown or that is a flag, for text declared a secret."""
        if var is None:
            return
        if var.type == "secret" and any(name in each.names for each in self.shown):
            raise _invalid_value(f"{path}.{name}", "is shown to models: store it as text, not as a secret")
        if var.type == "secret" and name in self.flags:
            raise _invalid_value(f"{path}.{name}", "is a flag: store it as text, not as a secret")
        if var.type == "text" and self.hides(name, among):
            raise _invalid_value(f"{path}.{name}", "is declared as a secret")


def _invalid_value(path: str, fault: str) -> InvalidRequest:
    return InvalidRequest(f"{path} {fault}.", [{"path": path, "message": fault}])


SECRETS = EnvTypes(declared={})
"""Types where no agent is known: all is secret unless it says otherwise."""


class Secret:
    """Marks a tenv as a secret: `Annotated[str, tw.Secret]`. It is kept encrypted and never shown (D4, D6)."""
