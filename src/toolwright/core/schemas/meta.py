"""Meta-properties of schema tools (S1): fixed by the tool or chosen by a call; and a call without them."""

from collections.abc import Mapping

from pydantic_core import from_json

from toolwright.core.arguments.schema import with_definitions
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_ID
from toolwright.core.results import ToolResult
from toolwright.core.schemas.state_paths import OUTPUT_PATH, OutputPath, read_output_path
from toolwright.core.value import Value, field

REASONING = "_reasoningForCall"
ANONYMOUS = "anonymous"
"""The delegate that is a request containing only the call."""
META_PROPERTIES = ("_tool", "_output", "_activity", "_delegate", "_scopes", "_outputPath", "_instance")
"""Meta-properties that a tool's schema can declare."""

_NAME: JSONObject = {"type": "string", "minLength": 1, "maxLength": MAX_ID}
SCOPES: JSONObject = {
    "type": "array",
    "items": {
        "type": "string",
        "pattern": r"^(messages|data|tools|input|state|†(input|state)(\.[^.]+)+)$",
        "maxLength": MAX_ID,
    },
    "maxItems": 100,
}
"""The schema of the parts of a caller's context shown to a delegate: kinds of parts, and paths into input and state."""
_CHOICES: Mapping[str, JSONObject] = {
    "_delegate": _NAME,
    "_scopes": SCOPES,
    "_instance": _NAME,
    "_outputPath": OUTPUT_PATH,
}


class Meta(Value):
    """The meta-properties of a schema tool; each is None if the tool does not fix it.

    `output` is the schema of its result. `activity` and `delegate` name the executor. `scopes` are the parts of the
    caller's context for a delegate. `output_path` is where its result is written. `instance` is the instance of the
    call. `choices` are the schemas of the meta-properties that each call can choose. `definitions` are the definitions
    to which `choices` and `output` refer.
    """

    title: str | None = None
    output: JSONObject | None = None
    activity: str | None = None
    delegate: str | None = None
    scopes: tuple[str, ...] | None = None
    output_path: OutputPath | None = None
    instance: str | None = None
    choices: Mapping[str, JSONObject] = field(default_factory=dict[str, JSONObject])
    definitions: JSONObject = field(default_factory=dict[str, JSON])

    @property
    def delegates(self) -> tuple[str | None, ...]:
        """The names that a call's delegate can have; None means any name."""
        if self.delegate is not None or "_delegate" not in self.choices:
            return () if self.delegate is None else (self.delegate,)
        listed = self.choices["_delegate"].get("enum")
        return tuple([str(each) for each in listed]) if isinstance(listed, list) else (None,)


class Call(Value):
    """A call of a schema tool (S1 "Call"): `args` are its parameters only.

    `meta` holds the effective meta-properties by name: the values that the tool fixes, or the model's choices for the
    others, and the `_output` of a latent tool. `reasoning` is the model's reason for the call. `result` is set once the
    call has ended.
    """

    tool: str
    args: JSONObject
    meta: JSONObject = field(default_factory=dict[str, JSON])
    reasoning: str | None = None
    result: ToolResult | None = None

    @property
    def instance(self) -> str | None:
        """The instance of the request that made the call, if the request has several."""
        return _text(self.meta.get("_instance"))

    @property
    def delegate(self) -> str | None:
        """The delegate that executes the call, or None."""
        return _text(self.meta.get("_delegate"))

    @property
    def scopes(self) -> tuple[str, ...]:
        """The parts of the caller's context that its delegate receives."""
        written = self.meta.get("_scopes")
        return tuple(map(str, written)) if isinstance(written, list) else ()

    @property
    def output_path(self) -> OutputPath | None:
        """The path in the state at which the result is written, or None."""
        written = self.meta.get("_outputPath")
        return None if written is None else read_output_path(written)


def offered(parameters: JSONObject, meta: Meta, latent: bool) -> JSONObject:
    """Return the parameters as sent to a model, with its choices and the output of a latent tool (D16)."""
    output = {"_output": meta.output} if latent and meta.output is not None else {}
    # a call with a delegate needs none
    required: list[JSON] = [] if "_delegate" in meta.choices else [*output]
    return _with_fields(parameters, meta, {**meta.choices, **output}, required)


def call_schema(name: str, parameters: JSONObject, meta: Meta, latent: bool) -> JSONObject:
    """Return the schema that validates calls. Meta-properties that are not offered are accepted and ignored."""
    fields: JSONObject = {
        **dict.fromkeys((*META_PROPERTIES, REASONING), True),
        "_tool": {"const": name},
        **{key: {"allOf": [schema, _CHOICES[key]]} for key, schema in meta.choices.items()},
    }
    if latent and meta.output is not None:
        del fields["_output"]
    schema = _with_fields(offered(parameters, meta, latent), meta, fields, [])
    if latent and meta.output is not None and "_delegate" in meta.choices:
        either: JSON = {"anyOf": [{"required": ["_output"]}, {"required": ["_delegate"]}]}
        rules = schema.get("allOf")
        return {**schema, "allOf": [*(rules if isinstance(rules, list) else []), either]}
    return schema


def read_call(name: str, meta: Meta, arguments: JSONObject, latent: bool) -> Call:
    """Return a call with arguments that its schema has accepted. Names that begin with `_` are never arguments."""
    path = None if meta.output_path is None else meta.output_path.written
    scopes: JSON = None if meta.scopes is None else [*meta.scopes]
    fixed: dict[str, JSON] = {
        "_delegate": meta.delegate,
        "_scopes": scopes,
        "_outputPath": path,
        "_instance": meta.instance,
    }
    chosen = {key: arguments.get(key) if key in meta.choices else value for key, value in fixed.items()}
    gives = latent and meta.output is not None and "_output" in arguments
    output = {"_output": arguments["_output"]} if gives else {}
    return Call(
        tool=name,
        args={key: each for key, each in arguments.items() if not key.startswith("_")},
        meta={**{key: each for key, each in chosen.items() if each is not None}, **output},
        reasoning=_text(arguments.get(REASONING)),
    )


def read_recorded_call(name: str, meta: Meta, arguments: str) -> Call:
    """Return a call from the JSON text of its validated arguments.

    The text is parsed only if the tool leaves the call a choice.
    """
    parsed: JSON = from_json(arguments) if meta.choices and arguments.strip() else {}
    return read_call(name, meta, parsed if isinstance(parsed, dict) else {}, latent=False)


def called_instance(meta: Meta, arguments: JSONObject) -> str | None:
    """Return the instance that unvalidated arguments name, or that the tool fixes."""
    return _text(arguments.get("_instance")) if "_instance" in meta.choices else meta.instance


def latent_result(meta: Meta, call: Call) -> ToolResult:
    """Return the result of a call that the model itself executes: its output, or a note that it is complete."""
    if meta.output is None:
        return ToolResult.ok({"success": True, "args": call.args})
    return ToolResult.ok(call.meta["_output"])


def _text(value: JSON) -> str | None:
    return value if isinstance(value, str) else None


def _with_fields(
    parameters: JSONObject, meta: Meta, fields: Mapping[str, JSON], required: list[JSON]
) -> JSONObject:
    """Return an object schema with additional properties, and with the definitions to which they refer."""
    if not fields:
        return parameters
    properties, needed, shared = (parameters.get(key) for key in ("properties", "required", "$defs"))
    schema = {key: each for key, each in parameters.items() if key != "$defs"}
    schema["properties"] = {**(properties if isinstance(properties, dict) else {}), **fields}
    if required:
        schema["required"] = [*(needed if isinstance(needed, list) else []), *required]
    return with_definitions(schema, {**(shared if isinstance(shared, dict) else {}), **meta.definitions})
