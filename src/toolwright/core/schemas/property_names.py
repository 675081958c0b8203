"""Aliases for property names that a provider rejects, in schemas, arguments and errors."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from toolwright.core.arguments.schema import Subschemas, with_parts
from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.schemas.provider_rules import PROPERTY_NAME

_FOREIGN = re.compile(r"[^a-zA-Z0-9_.-]+")
_MARK = "."
"""Appended to a key that looks like an alias but is not one."""
Renamed: TypeAlias = Callable[[str, Mapping[str, JSON]], str]


class PropertyNames:
    """Aliases for property names of one schema that a provider rejects, in both directions.

    An alias applies only at positions where the schema has that property. Another key at such a position that looks
    like the alias is sent with a trailing dot, so that it is not mistaken for the property when it is returned.
    """

    def __init__(self, schema: JSONObject, aliases: Mapping[str, str]) -> None:
        self._schema = schema
        self._places = Subschemas(schema)
        self._alias = dict(aliases)
        self._real = {alias: name for name, alias in aliases.items()}

    @classmethod
    def for_schema(cls, schema: JSONObject) -> "PropertyNames | None":
        """Return the aliases for that schema, or None if it needs none."""
        names: dict[str, None] = {}
        _collect(schema, names)
        odd = [name for name in names if not PROPERTY_NAME.fullmatch(name)]
        if not odd:
            return None
        aliases: dict[str, str] = {}
        used = {*names, *(name.rstrip(_MARK) for name in names)}
        for name in odd:
            stem = _FOREIGN.sub("_", name)[:60].strip(f"_{_MARK}") or "property"
            alias = next(each for each in _numbered(stem) if each not in used)
            used.add(alias)
            aliases[name] = alias
        return cls(schema, aliases)

    def renamed(self, schema: JSONObject) -> JSONObject:
        """Return the schema with the aliases. Each description states the original name."""
        copy = with_parts(schema, (), lambda part, _: self.renamed(part) if isinstance(part, dict) else part)
        for keyword in ("properties", "dependentRequired", "dependentSchemas"):
            parts = copy.get(keyword)
            if isinstance(parts, dict):
                has_aliases = keyword == "properties"
                copy[keyword] = {
                    self._alias.get(name, name): self._model_name(name, each)
                    if has_aliases
                    else self._required(each)
                    for name, each in parts.items()
                }
        if "required" in copy:
            copy["required"] = self._required(copy["required"])
        return copy

    def real(self, arguments: str) -> str:
        """Return the arguments, as JSON text, with the names of the schema."""
        return self._rewritten(arguments, self._to_real)

    def wire(self, arguments: str) -> str:
        """Return the arguments, as JSON text, with the names sent to the provider."""
        return self._rewritten(arguments, self._to_alias)

    def with_model_names(self, text: str) -> str:
        """Return a text about arguments with the property names that the model knows."""
        for name in sorted(self._alias, key=len, reverse=True):
            written = json.dumps(name, ensure_ascii=False)[1:-1]
            text = text.replace(name, self._alias[name]).replace(written, self._alias[name])
        return text

    def _model_name(self, name: str, schema: JSON) -> JSON:
        if name not in self._alias or schema is False:
            return schema
        return described(schema if isinstance(schema, dict) else {}, f"The name of this property is {name!r}")

    def _required(self, names: JSON) -> JSON:
        if not isinstance(names, list):
            return names
        return [self._alias.get(each, each) if isinstance(each, str) else each for each in names]

    def _to_real(self, key: str, properties: Mapping[str, JSON]) -> str:
        if key in properties or not self._is_alias(key.rstrip(_MARK), properties):
            return key
        return key.removesuffix(_MARK) if key.endswith(_MARK) else self._real[key]

    def _to_alias(self, key: str, properties: Mapping[str, JSON]) -> str:
        if key in properties:
            return self._alias.get(key, key)
        return f"{key}{_MARK}" if self._is_alias(key.rstrip(_MARK), properties) else key

    def _is_alias(self, key: str, properties: Mapping[str, JSON]) -> bool:
        return key in self._real and self._real[key] in properties

    def _rewritten(self, arguments: str, rename: Renamed) -> str:
        try:
            written = parse_json(arguments)
        except NotJson:
            return arguments
        rewritten = self._at(written, [self._schema], rename)
        return (
            arguments
            if rewritten == written and [*_keys(rewritten)] == [*_keys(written)]
            else dumps_unescaped(rewritten)
        )

    def _at(self, part: JSON, schemas: Sequence[JSON], rename: Renamed) -> JSON:
        """Return the value with the keys renamed that one of these schemas declares."""
        if not isinstance(part, dict | list) or not schemas:
            return part
        all_schemas = self._all(schemas)
        if isinstance(part, list):
            return [self._at(each, _of_item(all_schemas, at), rename) for at, each in enumerate(part)]
        properties: dict[str, list[JSON]] = {}
        for schema in all_schemas:
            for name, each in _as_object(schema.get("properties")).items():
                properties.setdefault(name, []).append(each)
        others = [each for schema in all_schemas for each in _of_others(schema)]
        declared: Mapping[str, JSON] = dict.fromkeys(properties)
        copy: JSONObject = {}
        for key, each in part.items():
            name = rename(key, declared)
            own = properties.get(key) or properties.get(name)
            copy[name] = self._at(each, own or others, rename)
        return copy

    def _all(self, schemas: Sequence[JSON]) -> list[JSONObject]:
        """Return the schemas together with all their branches and all schemas to which they refer."""
        all_schemas: list[JSONObject] = []
        waiting = [*schemas]
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, dict) or any(schema is each for each in all_schemas):
                continue
            all_schemas.append(schema)
            place = self._places.resolve(schema.get("$ref"))
            if place is not None:
                waiting.append(place[0])
            for keyword in ("anyOf", "oneOf", "allOf"):
                waiting += _as_list(schema.get(keyword))
            waiting += [schema[each] for each in ("if", "then", "else") if each in schema]
            waiting += _as_object(schema.get("dependentSchemas")).values()
        return all_schemas


def _collect(schema: JSONObject, names: dict[str, None]) -> None:
    names.update(dict.fromkeys(_as_object(schema.get("properties"))))
    with_parts(schema, (), lambda part, _: _collect(part, names) if isinstance(part, dict) else None)


def _numbered(stem: str) -> Iterable[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}_{number}"
        number += 1


def _keys(part: JSON) -> Iterable[str]:
    if isinstance(part, dict):
        for key, each in part.items():
            yield key
            yield from _keys(each)
    elif isinstance(part, list):
        for each in part:
            yield from _keys(each)


def _of_item(schemas: Sequence[JSONObject], at: int) -> list[JSON]:
    schemas_of_item: list[JSON] = []
    for schema in schemas:
        first = _as_list(schema.get("prefixItems"))
        schemas_of_item.append(first[at] if at < len(first) else schema.get("items"))
    return schemas_of_item


def _of_others(schema: JSONObject) -> list[JSON]:
    """Return the schemas of properties that are not listed by name."""
    return [schema.get("additionalProperties"), *_as_object(schema.get("patternProperties")).values()]


def described(schema: JSONObject, note: str) -> JSONObject:
    """Return the schema with a note appended to its description."""
    text = schema.get("description")
    return {**schema, "description": f"{text} ({note})" if isinstance(text, str) and text else note}


def _as_object(part: JSON) -> JSONObject:
    return part if isinstance(part, dict) else {}


def _as_list(part: JSON) -> list[JSON]:
    return part if isinstance(part, list) else []
