"""Tool names towards providers, which take only `^[a-zA-Z0-9_-]{1,64}$` (D18)."""

import hashlib
import re

_ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LOOKS_LIKE_ALIAS = re.compile(r".*-[0-9a-f]{16}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]+")


def alias_of(name: str) -> str:
    """The name that a provider sees: `name` itself where it may, else readable text and a digest of the name.

    A real name that has the form of an alias gets one too, so no alias can be a real name.
    """
    if _ACCEPTED.fullmatch(name) and not _LOOKS_LIKE_ALIAS.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{_FOREIGN.sub('_', name)[:47]}-{digest}"


class Aliases:
    """Both directions for one model. What the provider was told is remembered and so mapped back."""

    def __init__(self) -> None:
        self._wire: dict[str, str] = {}
        self._real: dict[str, str] = {}

    def wire(self, name: str) -> str:
        """The name towards the provider."""
        known = self._wire.get(name)
        if known is not None:
            return known
        alias = alias_of(name)
        if alias != name:
            self._wire[name] = alias
            self._real[alias] = name
        return alias

    def real(self, name: str) -> str:
        """The tool's own name for one that the provider used; a name never told stays as it is."""
        return self._real.get(name, name)
