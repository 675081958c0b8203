"""Offer of an app to MCP hosts: permitted tools, prompts as templates, and fixed resources."""

import mimetypes
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, cast
from urllib.parse import quote, unquote

from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import one_line
from toolwright.core.value import Value

Permitted: TypeAlias = Literal["all", "read_only", "none"] | frozenset[str]
"""The tools that a kind of caller is permitted to use: a rule, or their names."""
_RULES: tuple[Literal["all", "read_only", "none"], ...] = ("all", "read_only", "none")
_KEYS = ("people", "services", "prompts", "resources")
_FIELDS = ("content", "tool", "description", "mime_type")
_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]{0,99})\}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f]+")
OWN = "toolwright://"
"""Prefix of our own URIs: of files of calls, and of resources declared by name."""
OWN_FILES = "toolwright://threads/"
"""Prefix of the URIs of files of calls."""
FILE_NAME = "toolwright/name"
"""Metadata key of a content's file name, for images, which have no URI."""
ERROR = "toolwright/error"
"""Metadata key of an error's code and data; the text of the result contains only the message."""


class FixedResource(Value):
    """A resource for permitted callers: text, bytes, or a file that is read at each request."""

    name: str
    uri: str
    content: str | bytes | Path
    mime_type: str
    description: str | None = None


class ResourceTemplate(Value):
    """Resources that a tool reads: the variables of the URI are its arguments. A variable is a whole segment.

    `mime_type` is the type of a text result; None means `text/plain`, or `application/json` for other values.
    """

    uri: str
    tool: str
    mime_type: str | None = None
    description: str | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in the order of the URI."""
        matches = [_VARIABLE.fullmatch(segment) for segment in self.uri.split("/")]
        return tuple([match[1] for match in matches if match is not None])

    def match(self, uri: str) -> Mapping[str, str] | None:
        """Return the variables of a URI, or None if it is not one of the template."""
        parts, segments = self.uri.split("/"), uri.split("/", self.uri.count("/") + 1)
        if len(parts) != len(segments):
            return None
        values: dict[str, str] = {}
        for part, segment in zip(parts, segments, strict=True):
            variable = _VARIABLE.fullmatch(part)
            if variable is not None:
                values[variable[1]] = unquote(segment)
            elif part != segment:
                return None
        return values if all(values.values()) else None


class McpPermissions(Value):
    """The tools, prompts and resources that people and services can use over MCP, and the tasks that they can find.

    `prompts` are the names of the offered prompts, or None for all prompts of the app. Prompts and resources are
    permitted like `read_only` tools, and the resources of a template like its tool.
    """

    people: Permitted = "read_only"
    services: Permitted = "all"
    prompts: frozenset[str] | None = frozenset()
    resources: tuple[FixedResource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()

    def allow(self, kind: Literal["person", "service"], name: str, *, read_only: bool) -> bool:
        """Return whether callers of that kind may use the tool of that name."""
        permitted = self.people if kind == "person" else self.services
        if isinstance(permitted, frozenset):
            return name in permitted
        return permitted == "all" or (permitted == "read_only" and read_only)

    @property
    def names(self) -> frozenset[str]:
        """The tools, prompts and resources that are permitted by name."""
        named = [each for each in (self.people, self.services) if isinstance(each, frozenset)]
        return frozenset[str]().union(*named)


def mcp_permissions(declared: object) -> McpPermissions:
    """Return the permissions that `App(mcp_server=…)` declares. Raises `DefinitionError`."""
    if declared is None:
        return McpPermissions()
    if not isinstance(declared, Mapping):
        raise DefinitionError(
            f"App: mcp_server must be a dict with the keys {', '.join(_KEYS)}, not {brief_value(declared)}."
        )
    rules = cast("Mapping[object, object]", declared)
    unknown = next((key for key in rules if key not in _KEYS), None)
    if unknown is not None:
        raise DefinitionError(
            f"App: mcp_server has no key {brief_value(unknown)}: it has {', '.join(_KEYS)}."
        )
    resources = _resources(rules.get("resources", {}))
    return McpPermissions(
        people=_permitted("people", rules.get("people", "read_only")),
        services=_permitted("services", rules.get("services", "all")),
        prompts=_prompts(rules.get("prompts", ())),
        resources=tuple([each for each in resources if isinstance(each, FixedResource)]),
        templates=tuple([each for each in resources if isinstance(each, ResourceTemplate)]),
    )


def _permitted(key: str, declared: object) -> Permitted:
    for rule in _RULES:
        if declared == rule:
            return rule
    names = _names(declared)
    if names is not None:
        return names
    raise DefinitionError(
        f"App: mcp_server: {key} must be 'all', 'read_only', 'none' or a list of tools' names, "
        f"not {brief_value(declared)}."
    )


def _prompts(declared: object) -> frozenset[str] | None:
    if declared is True:
        return None
    names = frozenset[str]() if declared is False else _names(declared)
    if names is None:
        raise DefinitionError(
            f"App: mcp_server: prompts must be True or a list of names, not {brief_value(declared)}."
        )
    return names


def _names(declared: object) -> frozenset[str] | None:
    if not isinstance(declared, list | tuple | set | frozenset):
        return None
    names = cast("Iterable[object]", declared)
    return frozenset(cast("Iterable[str]", names)) if all(isinstance(name, str) for name in names) else None


def _resources(declared: object) -> Sequence[FixedResource | ResourceTemplate]:
    if not isinstance(declared, Mapping):
        raise DefinitionError(
            f"App: mcp_server: resources must be a dict by URI or name, not {brief_value(declared)}."
        )
    entries = cast("Mapping[object, object]", declared)
    return [_resource(name, entry) for name, entry in entries.items()]


def _resource(name: object, entry: object) -> FixedResource | ResourceTemplate:
    where = f"App: mcp_server: the resource {brief_value(name)}"
    if not isinstance(name, str) or not name.strip() or not one_line(name) or name.startswith(OWN):
        raise DefinitionError(
            f"{where} must be declared by a URI or a name, on one line, not beginning with {OWN}."
        )
    fields: Mapping[object, object] = {"content": entry}
    if isinstance(entry, Mapping):
        fields = cast("Mapping[object, object]", entry)
    unknown = next((key for key in fields if key not in _FIELDS), None)
    if unknown is not None:
        raise DefinitionError(f"{where} has no key {brief_value(unknown)}: it has {', '.join(_FIELDS)}.")
    described: dict[str, str] = {}
    for key in ("description", "mime_type"):
        text = fields.get(key)
        if text is not None and not (isinstance(text, str) and one_line(text)):
            raise DefinitionError(f"{where}: {key} must be a text on one line, not {brief_value(text)}.")
        described |= {} if text is None else {key: text}
    is_template = _URI.fullmatch(name) is not None and "{" in name
    if "tool" in fields or is_template:
        return _template(where, name, fields, described)
    content = fields.get("content")
    if not isinstance(content, str | bytes | Path):
        raise DefinitionError(f"{where} must be a text, bytes or a path, not {brief_value(content)}.")
    if isinstance(content, Path):
        content = content.absolute()
        if not content.is_file():
            raise DefinitionError(f"{where} cannot be read: there is no file {str(content)!r}.")
    guessed = mimetypes.guess_type(str(content) if isinstance(content, Path) else name)[0]
    kind = described.get("mime_type") or guessed or _plain_kind(content)
    uri = name if _URI.fullmatch(name) else f"{OWN}resources/{quote(name)}"
    return FixedResource(
        name=name, uri=uri, content=content, mime_type=kind, description=described.get("description")
    )


def _template(
    where: str, name: str, fields: Mapping[object, object], described: Mapping[str, str]
) -> ResourceTemplate:
    tool = fields.get("tool")
    if not isinstance(tool, str) or "content" in fields:
        raise DefinitionError(
            f"{where} has variables: give it the name of a tool, {{'tool': …}}, not a content."
        )
    template = ResourceTemplate(uri=name, tool=tool, **described)
    literal = [segment for segment in name.split("/") if _VARIABLE.fullmatch(segment) is None]
    variables = template.variables
    if _URI.fullmatch(name) is None or not variables or any("{" in each or "}" in each for each in literal):
        raise DefinitionError(
            f"{where} is read by a tool: it must be a URI in which each variable is a whole segment, "
            "such as orders://{number}."
        )
    if len({*variables}) < len(variables):
        raise DefinitionError(f"{where} names a variable twice.")
    return template


def _plain_kind(content: str | bytes | Path) -> str:
    return "text/plain" if isinstance(content, str) else "application/octet-stream"
