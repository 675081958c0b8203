"""Bodies of HTTP tools (JSON, forms, files of the thread, text), and the selected fields of a response."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from toolwright.core.json_value import JSON, JSONObject, dumps
from toolwright.core.tools.http.url_template import (
    Style,
    Unfillable,
    as_it_is,
    percent,
    query_of,
    scalar,
    styled_pairs,
)
from toolwright.core.value import value

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
BodyKind: TypeAlias = Literal["json", "urlencoded", "multipart", "raw"]
_MOST_STEPS = 20  # maximum depth of references and alternatives when looking for a `format`


@value
class Encoding:
    """Encoding of one form field: in a style like a query parameter, or as text of this content type.

    `content_type` is the type of the field's part in a `multipart/form-data` body. None means JSON for objects and a
    file's own type.
    """

    content_type: str | None = None
    style: Style | None = None
    explode: bool | None = None

    @property
    def explodes(self) -> bool:
        """Return whether each item is sent separately."""
        return self.style == "form" if self.explode is None else self.explode


@value
class FileContent:
    """A file of the thread to be sent."""

    name: str
    mime_type: str
    content: bytes


@value
class Part:
    """A part of a `multipart/form-data` body; `file_name` is None unless it is a file."""

    name: str
    content: bytes
    content_type: str | None = None
    file_name: str | None = None


@value
class Body:
    """The body of a request. With `parts` it is `multipart/form-data` and `content` is empty.

    `content_type` is its type if the tool's headers set none.
    """

    content: bytes = b""
    content_type: str = "application/json"
    parts: tuple[Part, ...] | None = None


Files: TypeAlias = Mapping[str, FileContent]
"""Files of the thread by the paths that arguments name."""
Encodings: TypeAlias = Mapping[str, Encoding]


def body_kind(content_type: str | None) -> BodyKind:
    """Return the kind of body of a content type. The default is JSON."""
    media = (content_type or "application/json").partition(";")[0].strip().lower()
    if media == URLENCODED:
        return "urlencoded"
    if media == MULTIPART:
        return "multipart"
    return "json" if media.endswith(("/json", "+json")) else "raw"


@value
class BodyForm:
    """The kind of a tool's body, and its schema, which declares which texts are file paths.

    A file is a text of the format `binary`: a field of a `multipart/form-data` body, or a `raw` body itself.
    """

    kind: BodyKind
    root: JSONObject
    schema: JSON

    def file_paths(self, value: JSON) -> list[str]:
        """Return the paths of the files in this body."""
        if self.kind == "raw":
            return [*_paths(self.root, self.schema, value)]
        if self.kind != "multipart" or not isinstance(value, dict):
            return []
        return [path for name, each in value.items() for path in _paths(self.root, self._field(name), each)]

    def filled(self, value: JSON, encodings: Encodings, files: Files) -> Body:
        """Return the body for this value, with its loaded files. Raises `Unfillable` if a form is not an object."""
        if self.kind == "json":
            return Body(content=dumps(value).encode())
        if self.kind == "raw":
            if isinstance(value, str) and is_file_schema(self.root, self.schema):
                return Body(content=files[value].content, content_type=files[value].mime_type)
            return Body(content=scalar(value).encode(), content_type="text/plain; charset=utf-8")
        if not isinstance(value, dict):
            raise Unfillable("The body of the tool's request is a form, so it must be an object.")
        if self.kind == "urlencoded":
            return Body(content=_urlencoded(value, encodings).encode(), content_type=URLENCODED)
        parts: list[Part] = []
        for name, each in value.items():
            own = {path: files[path] for path in _paths(self.root, self._field(name), each)}
            parts += _parts(name, each, encodings.get(name), own)
        return Body(content_type=MULTIPART, parts=tuple(parts))

    def _field(self, name: str) -> JSON:
        return property_schema(self.root, self.schema, name)


def is_file_schema(root: JSONObject, schema: JSON, steps: int = _MOST_STEPS) -> bool:
    """Return whether values of the schema are paths of files: texts of the format `binary`."""
    if not isinstance(schema, dict) or steps == 0:
        return False
    if schema.get("format") == "binary":
        return True
    return any(is_file_schema(root, each, steps - 1) for each in _alternatives(root, schema))


def property_schema(root: JSONObject, schema: JSON, name: str, steps: int = _MOST_STEPS) -> JSON:
    """Return the schema of a property, also through references and alternatives, or None."""
    if not isinstance(schema, dict) or steps == 0:
        return None
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        return properties[name]
    inner = (property_schema(root, each, name, steps - 1) for each in _alternatives(root, schema))
    return next((each for each in inner if each is not None), None)


def _alternatives(root: JSONObject, schema: JSONObject) -> Iterator[JSON]:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield target(root, reference)
    for key in ("anyOf", "oneOf", "allOf"):
        members = schema.get(key)
        yield from members if isinstance(members, list) else ()


def target(root: JSONObject, reference: JSON) -> JSON:
    """Return the part of a schema to which a local reference points, or None."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    node: JSON = root
    for step in filter(None, reference[1:].split("/")):
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def _paths(root: JSONObject, schema: JSON, value: JSON) -> Iterator[str]:
    if isinstance(value, str) and is_file_schema(root, schema):
        yield value
    elif isinstance(value, list) and is_file_schema(root, _items(root, schema)):
        yield from [each for each in value if isinstance(each, str)]


def _items(root: JSONObject, schema: JSON, steps: int = _MOST_STEPS) -> JSON:
    if not isinstance(schema, dict) or steps == 0:
        return None
    if "items" in schema:
        return schema["items"]
    inner = (_items(root, each, steps - 1) for each in _alternatives(root, schema))
    return next((each for each in inner if each is not None), None)


def _urlencoded(fields: JSONObject, encodings: Encodings) -> str:
    pairs: list[tuple[str, str]] = []
    for name, each in fields.items():
        encoding = encodings.get(name)
        if encoding is None or encoding.style is None:
            pairs += [(percent(key), percent(text)) for key, text in query_of({name: each})]
        else:
            pairs += styled_pairs(name, encoding.style, encoding.explodes, each, percent)
    return "&".join(f"{name}={text}" for name, text in pairs)


def _parts(name: str, value: JSON, encoding: Encoding | None, files: Files) -> Iterable[Part]:
    if value is None:
        return
    if encoding is not None and encoding.style is not None:
        for key, text in styled_pairs(name, encoding.style, encoding.explodes, value, as_it_is):
            yield Part(name=key, content=text.encode())
        return
    for each in value if isinstance(value, list) else [value]:
        if each is not None:
            yield _part(name, each, None if encoding is None else encoding.content_type, files)


def _part(name: str, value: JSON, content_type: str | None, files: Files) -> Part:
    if isinstance(value, str) and value in files:
        file = files[value]
        return Part(
            name=name,
            content=file.content,
            content_type=content_type or file.mime_type,
            file_name=file.name,
        )
    if isinstance(value, list | dict):
        content_type = content_type or "application/json"
    return Part(name=name, content=scalar(value).encode(), content_type=content_type)


Fields: TypeAlias = dict[str, "Fields"]
"""Names of an object's fields to keep, each with its subfields; no subfields means the whole value is kept."""

ANY = "*"
"""Matches every name that has no path of its own."""


def read_fields(paths: Iterable[str]) -> Fields:
    r"""Return the tree of these paths. A dot within a name is `\.`. A path and its prefix keep the whole value."""
    tree: Fields = {}
    complete: set[tuple[str, ...]] = set()
    for names in sorted(map(_names, paths), key=len):
        if any(names[:length] in complete for length in range(1, len(names))):
            continue
        complete.add(names)
        below = tree
        for name in names:
            below = below.setdefault(name, {})
    return tree


def written_path(names: Iterable[str]) -> str:
    """Return the path of these names."""
    return ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in names)


def trimmed(part: JSON, fields: Fields) -> JSON:
    """Return the value with only these fields. Each item of a list is trimmed to the same fields."""
    if not fields:
        return part
    if isinstance(part, list):
        return [trimmed(item, fields) for item in part]
    if not isinstance(part, dict):
        return part
    default = fields.get(ANY)
    selected = ((name, item, fields.get(name, default)) for name, item in part.items())
    return {name: trimmed(item, below) for name, item, below in selected if below is not None}


def _names(path: str) -> tuple[str, ...]:
    names, escaped = [""], False
    for each in path:
        if each == "." and not escaped:
            names.append("")
        elif each != "\\" or escaped:
            names[-1] += each
        escaped = each == "\\" and not escaped
    return tuple(names)
