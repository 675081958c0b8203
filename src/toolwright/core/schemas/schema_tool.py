"""Tools as JSON Schemas (S1 "Schema as interface"), validated with the path of every error."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from toolwright.core.arguments.errors import type_name
from toolwright.core.arguments.schema import (
    InvalidSchema,
    Subschemas,
    compile_schema,
    with_definitions,
    with_parts,
)
from toolwright.core.checks import brief_value, check_line
from toolwright.core.errors import DefinitionError, InvalidConfiguration, InvalidJSON, InvalidRequest
from toolwright.core.json_value import (
    JSON,
    JSONObject,
    Path,
    has_more_values,
    one_line,
    plain,
    spell,
    surely_longer,
)
from toolwright.core.limits import (
    MAX_DESCRIPTION,
    MAX_ERRORS,
    MAX_ID,
    MAX_NAME,
    MAX_SCHEMA,
    MAX_SCHEMA_VALUES,
)
from toolwright.core.schemas.meta import META_PROPERTIES, REASONING, SCOPES, Meta
from toolwright.core.schemas.state_paths import OutputPath, read_output_path
from toolwright.core.text import brief, sentence

_LEADING_AWAY = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")
_DEFINITIONS = ("$schema", "$defs", "definitions")
_BESIDE_REFERENCE = ("title", "description", *_DEFINITIONS)
_OF_ALL_FIELDS = ("minProperties", "maxProperties", "const", "enum")
_OF_OTHER_FIELDS = ("additionalProperties", "unevaluatedProperties")
_OF_SOME_NAMES = ("patternProperties", "propertyNames")
_BRANCHES = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_CHOSEN = ("_delegate", "_scopes", "_outputPath", "_instance")


def read_schema_tool(name: str, schema: object) -> dict[str, Any]:
    """Return the fields of a `Tool` from a schema, by their names in `Tool`.

    The schema is parsed as draft 2020-12. The returned references point to its `$defs`, which contain their targets.
    Raises `InvalidConfiguration` with the path of every error. Nothing is fetched.
    """
    check_line("A schema tool", name)
    if len(name) > MAX_NAME:
        raise DefinitionError(f"A schema tool's name must have at most {MAX_NAME} characters.")
    errors = _Errors(f"The schema of the tool {name!r}")
    parsed = _parsed(schema, errors)
    root = _inlined(parsed, errors)
    nested = _parameters(root, _properties(root))  # within itself, where no call is
    root_schema = _Local(parsed, nested, name, errors).read(root)
    _check_texts(root_schema, errors)
    properties = _properties(root_schema)
    parameters = _parameters(root_schema, properties)
    _check_fields(parameters, errors)
    meta = _meta(name, root_schema, properties, errors)
    errors.raise_any()
    kind = "latent" if meta.delegate is None else "delegate"
    description = root_schema.get("description", "")
    return {"name": name, "description": description, "kind": kind, "parameters": parameters, "meta": meta}


def read_schema(what: str, schema: object) -> JSONObject:
    """Return a copy of a JSON Schema whose references point to `$defs`. Error messages begin with `what`.

    Raises `InvalidConfiguration` with the path of every error. Nothing is fetched.
    """
    errors = _Errors(what)
    parsed = _parsed(schema, errors)
    return _Local(parsed, parsed, "output", errors).read(parsed)


class _Errors:
    """The errors of one schema."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._details: list[dict[str, str]] = []

    def add(self, path: Path, message: str) -> None:
        """Add an error. Its message continues a sentence that begins with the path."""
        self._details.append({"path": brief(spell(path), MAX_ID), "message": message})

    def raise_any(self) -> None:
        """Raise `InvalidConfiguration` if there are errors."""
        if self._details:
            details = self._details[:MAX_ERRORS]
            text = "; ".join(f"{each['path']} {each['message']}".strip() for each in details)
            raise InvalidConfiguration(sentence(f"{self._what} is invalid: {text}"), details)


def _parsed(schema: object, errors: _Errors) -> JSONObject:
    """Return a copy of the schema. Raises if it is not an object within the limits."""
    try:
        parsed = plain(schema)
    except InvalidJSON as error:
        errors.add((), error.message.rstrip("."))
        errors.raise_any()
        raise
    if not isinstance(parsed, dict):
        errors.add((), f"must be an object, not {type_name(parsed)}")
    elif _is_large(parsed):
        errors.add(
            _large_part(parsed), f"must have at most {MAX_SCHEMA} bytes and {MAX_SCHEMA_VALUES} values"
        )
    errors.raise_any()
    assert isinstance(parsed, dict), "as just validated"
    parsed.pop("$id", None)  # only other documents refer to it
    return parsed


def _is_large(value: JSON) -> bool:
    return has_more_values(value, MAX_SCHEMA_VALUES) or surely_longer(value, MAX_SCHEMA)


def _large_part(schema: JSON) -> Path:
    """Return the path of the smallest part that exceeds the limits by itself."""
    steps: Iterable[tuple[str | int, JSON]] = ()
    if isinstance(schema, dict):
        steps = schema.items()
    elif isinstance(schema, list):
        steps = enumerate(schema)
    for step, part in steps:
        if _is_large(part):
            return (step, *_large_part(part))
    return ()


def _inlined(schema: JSONObject, errors: _Errors) -> JSONObject:
    """Return the schema with the references at its top level replaced by their targets."""
    root, references = schema, set[str]()
    while isinstance(reference := root.get("$ref"), str):
        target = Subschemas(schema).resolve(reference)
        if reference in references:
            errors.add(("$ref",), "leads back to itself")
        if target is None or reference in references or not isinstance(target[0], dict):
            return root
        references.add(reference)
        own = {key: each for key, each in root.items() if key != "$ref"}
        for key in [key for key in own if key in target[0] and key not in _BESIDE_REFERENCE]:
            errors.add((key,), "cannot be combined with $ref, which also sets it")
        root = {**target[0], **own}
    return root


class _Local:
    """A schema during its conversion to one whose references all point to its own `$defs`."""

    def __init__(self, original: JSONObject, nested: JSONObject, name: str, errors: _Errors) -> None:
        self._nested = nested
        self._name = name
        self._errors = errors
        self._places = Subschemas(original)
        self._names: dict[str, str] = {}
        self._left: list[tuple[str, JSON, Path]] = []

    def read(self, root: JSONObject) -> JSONObject:
        """Return the whole validated schema, with the targets of its references.

        Raises with all errors if it is invalid.
        """
        converted = self._object(root, ())
        definitions: JSONObject = {}
        while self._left:  # iterative: chains can be of any length
            name, part, path = self._left.pop()
            definitions[name] = self._part(part, path)
        self._errors.raise_any()
        if definitions:
            converted["$defs"] = {name: definitions[name] for name in self._names.values()}
        try:
            compile_schema(converted, self._name)
        except DefinitionError as error:
            cause = error.__cause__
            assert isinstance(cause, InvalidSchema), "its only cause"
            self._errors.add(cause.path, f"is not valid JSON Schema: {cause.why}")
        self._errors.raise_any()
        return converted

    def _part(self, part: JSON, path: Path) -> JSON:
        return self._object(part, path) if isinstance(part, dict) else part

    def _object(self, part: JSONObject, path: Path) -> JSONObject:
        for key in [key for key in _LEADING_AWAY if key in part]:
            self._errors.add((*path, key), "is not taken: only references within the schema are")
        copy = with_parts({k: each for k, each in part.items() if k not in _DEFINITIONS}, path, self._part)
        if "$ref" in part:
            copy["$ref"] = f"#/$defs/{self._definition(part['$ref'], (*path, '$ref'))}"
        return copy

    def _definition(self, reference: JSON, path: Path) -> str:
        """Return the name of the definition for a reference's target."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            self._errors.add(path, f"leads elsewhere, to {brief_value(reference)}: nothing is fetched")
            return ""
        if reference in self._names:
            return self._names[reference]
        target = self._places.resolve(reference)
        if target is None:
            self._errors.add(path, f"leads to {brief(repr(reference), 200)}, where no schema is")
            return ""
        last = reference.rpartition("/")[2] if "/" in reference else self._name
        self._names[reference] = name = free_name(last, self._names.values())
        is_root = reference in ("#", "#/")
        steps = tuple(step for step in reference[1:].split("/") if step)
        self._left.append((name, self._nested if is_root else target[0], steps))
        return name


def free_name(name: str, names: Iterable[str]) -> str:
    """Return an unused name for a definition, with no characters that need escaping in a reference."""
    plain_name = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:MAX_NAME] or "_"
    used, number, free = set(names), 1, plain_name
    while free in used:
        number += 1
        free = f"{plain_name}-{number}"
    return free


def _properties(schema: JSONObject) -> JSONObject:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _parameters(root: JSONObject, properties: JSONObject) -> JSONObject:
    """Return the schema of the arguments only, without meta-properties and the tool's description."""
    parameters: JSONObject = {"type": "object"}
    for key, each in root.items():
        if key == "properties":
            parameters[key] = {name: part for name, part in properties.items() if not name.startswith("_")}
        elif key == "required" and isinstance(each, list):
            parameters[key] = [name for name in each if not str(name).startswith("_")]
        elif key not in ("title", "description", "$defs"):
            parameters[key] = each
    parameters.setdefault("properties", {})
    if not parameters.get("required"):
        parameters.pop("required", None)
    return with_definitions(parameters, root.get("$defs"))


def _check_texts(root: JSONObject, errors: _Errors) -> None:
    """Report keywords at the top of a schema that a tool cannot have."""
    if root.get("type", "object") != "object":
        errors.add(("type",), "must be 'object': a tool's arguments always are one")
    description = root.get("description")
    if isinstance(description, str) and len(description) > MAX_DESCRIPTION:
        errors.add(("description",), f"must have at most {MAX_DESCRIPTION} characters")
    title = root.get("title")
    if isinstance(title, str) and (len(title) > MAX_NAME or not one_line(title)):
        errors.add(("title",), f"must be one line of at most {MAX_NAME} characters")
    for key in [key for key in root if key.startswith("_")]:
        errors.add((key,), "is not a schema keyword: meta-properties belong in the properties")


def _check_fields(parameters: JSONObject, errors: _Errors) -> None:
    """Report keywords about all fields of an object: a call's meta-properties would violate them."""
    definitions = parameters.get("$defs", {})
    places: list[tuple[JSON, Path, bool]] = [(parameters, (), True)]
    references = set[str]()
    while places:
        part, path, top = places.pop()
        if not isinstance(part, dict):
            continue
        keys = [key for key in _OF_ALL_FIELDS if key in part]
        keys += [key for key in _OF_OTHER_FIELDS if not top and not _takes_anything(part.get(key, True))]
        keys += [key for key in _OF_SOME_NAMES if _touches_meta(key, part, definitions)]
        for key in keys:
            errors.add(
                (*path, key), "cannot be said of all fields, since a call has others beside its arguments"
            )
        places += [(each, where, False) for each, where in _branches(part, path)]
        reference = part.get("$ref")
        if isinstance(reference, str) and reference not in references and isinstance(definitions, dict):
            references.add(reference)
            name = reference.rpartition("/")[2]
            places.append((definitions.get(name), ("$defs", name), False))


def _branches(schema: JSONObject, path: Path) -> Iterator[tuple[JSON, Path]]:
    """Yield the subschemas that apply to the same value, with their paths."""
    for key in _BRANCHES:
        part = schema.get(key)
        if key == "dependentSchemas" and isinstance(part, dict):
            yield from ((each, (*path, key, name)) for name, each in part.items())
        elif isinstance(part, list):
            yield from ((each, (*path, key, number)) for number, each in enumerate(part))
        else:
            yield part, (*path, key)


def _takes_anything(schema: JSON) -> bool:
    return schema is True or schema == {}


def _touches_meta(key: str, schema: JSONObject, definitions: JSON) -> bool:
    """Return whether a keyword about field names applies to a meta-property."""
    rule = schema.get(key)
    if rule is None:
        return False
    if key == "patternProperties" and isinstance(rule, dict):
        rule = cast("JSONObject", dict.fromkeys(rule, False))
    validator = compile_schema(with_definitions({key: rule}, definitions), key)
    return not validator.is_valid(dict.fromkeys((*META_PROPERTIES, REASONING)))


def _meta(name: str, root: JSONObject, properties: JSONObject, errors: _Errors) -> Meta:
    """Return meta-properties of the tool: its properties that begin with `_`."""
    schemas: dict[str, JSONObject] = {}
    for key, schema in properties.items():
        if key == REASONING:
            errors.add(("properties", key), "is not declared: it is added where it is asked for")
        elif key.startswith("_") and key not in META_PROPERTIES:
            allowed = ", ".join(META_PROPERTIES)
            errors.add(("properties", brief(key, 60)), f"is not a known meta-property: there are {allowed}")
        elif key.startswith("_") and isinstance(schema, dict):
            schemas[key] = schema
        elif key.startswith("_"):
            errors.add(("properties", key), "must be an object")
    _check_name(name, schemas.get("_tool", {}), root, errors)
    activity = _fixed_text("_activity", schemas, errors)
    delegate = _fixed_text("_delegate", schemas, errors)
    if activity and "_delegate" in schemas:
        errors.add(
            ("properties", "_delegate"),
            "cannot be combined with an _activity: only one of them executes the call",
        )
    choices = {key: schema for key, schema in schemas.items() if key in _CHOSEN and "const" not in schema}
    title, definitions = root.get("title"), root.get("$defs")
    return Meta(
        title=title if isinstance(title, str) else None,
        output=schemas.get("_output"),
        activity=activity or None,
        delegate=delegate,
        scopes=_fixed_scopes(schemas.get("_scopes", {}), errors),
        output_path=_fixed_path(schemas.get("_outputPath", {}), errors),
        instance=_fixed_text("_instance", schemas, errors),
        choices=choices,
        definitions=definitions if isinstance(definitions, dict) else {},
    )


def _check_name(name: str, schema: JSONObject, root: JSONObject, errors: _Errors) -> None:
    validator = compile_schema({**schema, "$defs": root.get("$defs", {})}, name)
    if not validator.is_valid(name):
        path = ("properties", "_tool", *(("const",) if "const" in schema else ()))
        errors.add(path, f"must be {name!r}, the name that the tool is registered by")


def _fixed_text(key: str, schemas: dict[str, JSONObject], errors: _Errors) -> str | None:
    """Return the constant text of a meta-property, or None if it is not fixed. Only `_activity` can be empty."""
    schema = schemas.get(key)
    if schema is None or ("const" not in schema and key in _CHOSEN):
        return None
    if "const" not in schema:
        errors.add(("properties", key), "needs a const: the name of its handler")
        return None
    text = schema["const"]
    fits = isinstance(text, str) and len(text) <= MAX_ID and one_line(text) and (text or key not in _CHOSEN)
    if not fits or not isinstance(text, str):
        least = 1 if key in _CHOSEN else 0
        errors.add(("properties", key, "const"), f"must be one line of {least} to {MAX_ID} characters")
        return None
    return text


def _fixed_path(schema: JSONObject, errors: _Errors) -> OutputPath | None:
    """Return the output path that the tool fixes. Paths offered by an `enum` are validated too."""
    path = ("properties", "_outputPath")
    options = schema.get("enum")
    for number, option in enumerate(options if isinstance(options, list) else []):
        _read_path(option, (*path, "enum", number), errors)
    return _read_path(schema["const"], (*path, "const"), errors) if "const" in schema else None


def _fixed_scopes(schema: JSONObject, errors: _Errors) -> tuple[str, ...] | None:
    """Return the scopes that the tool fixes."""
    if "const" not in schema:
        return None
    scopes = schema["const"]
    if not isinstance(scopes, list) or not compile_schema(SCOPES, "_scopes").is_valid(scopes):
        allowed = "messages, data, tools, input, state, †input.name and †state.name"
        errors.add(("properties", "_scopes", "const"), f"must be a list of {allowed}")
        return None
    return tuple(map(str, scopes))


def _read_path(written: JSON, path: Path, errors: _Errors) -> OutputPath | None:
    try:
        return read_output_path(written)
    except InvalidRequest as error:
        errors.add(path, f"is no output path: {error.message.rstrip('.')}")
        return None
