"""Security schemes of an OpenAPI document as variables that an HTTP tool sends."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from toolwright.adapters.openapi.operation import Document, model_of, shortened
from toolwright.adapters.openapi.schemas import Node, Refused, entries, part
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.tools.http.styles import percent

Auth = bool | str | Mapping[str, str] | None
_COOKIE = re.compile(r"[!#%&'*+.^_`|~0-9A-Za-z-]+")  # it stands in a header, in which `${…}` names a variable
_LONGEST = 300  # characters of a variable's description


def add_security(config: JSONObject, document: Document, operation: Node, prefix: str, auth: Auth) -> None:
    """Put the credentials of an operation into its configuration, as variables. Raises `Refused`.

    Of alternatives the first one is taken whose schemes can all be sent, and before it one whose schemes `auth` names.
    """
    declared = part(operation, "security")
    requirements = declared if declared is not None else part(document.root, "security")
    if auth is False or not isinstance(requirements, list) or not requirements:
        return
    choices = [[*entries(each)] for each in cast("list[Node]", requirements)]
    named: Mapping[str, str] = auth if isinstance(auth, Mapping) else {}
    wanted = [names for names in choices if names and all(name in named for name in names)]
    if [] in choices and not wanted and not isinstance(auth, str):
        return  # it is optional, and nobody asked for it
    reason = ""
    for names in [*wanted, *choices]:
        try:
            schemes = [(name, _scheme(document, name)) for name in names]
        except Refused as error:
            reason = reason or str(error)
            continue
        for name, scheme in schemes:
            _send(config, scheme, _variable(name, prefix, auth, len(schemes)), name)
        return
    raise Refused(reason)


def _scheme(document: Document, name: str) -> Any:  # the library's model
    raw = part(document.root, "components", "securitySchemes", name)
    if raw is None:
        raise Refused(f"its security scheme {name!r} is not declared")
    scheme = model_of(document, "SecurityScheme", raw)
    kind, how = scheme.type, (scheme.scheme or "").lower()
    if kind == "http" and how not in ("bearer", "basic"):
        raise Refused(f"its security scheme {name!r} is HTTP authentication {scheme.scheme!r}")
    if kind == "apiKey" and (
        not scheme.name or scheme.security_scheme_in not in ("header", "query", "cookie")
    ):
        raise Refused(f"its security scheme {name!r} does not say where the key stands")
    if kind == "apiKey" and scheme.security_scheme_in == "cookie" and not _COOKIE.fullmatch(scheme.name):
        raise Refused(f"its security scheme {name!r} names no cookie")
    if kind not in ("http", "apiKey", "oauth2", "openIdConnect"):
        raise Refused(f"its security scheme {name!r} is of the type {kind!r}")
    return scheme


def _variable(name: str, prefix: str, auth: Auth, count: int) -> str:
    if isinstance(auth, Mapping) and name in auth:
        return auth[name]
    if isinstance(auth, str):
        return auth if count == 1 else f"{auth}_{upper(name)}"
    return f"{prefix}_{upper(name)}" if prefix else upper(name)


def upper(text: str) -> str:
    """`apiKey` as `API_KEY`."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return re.sub(r"[^A-Za-z0-9]+", "_", parted).strip("_").upper()[:60] or "KEY"


def _send(config: JSONObject, scheme: Any, variable: str, name: str) -> None:
    execution = cast("JSONObject", config["execution"])
    headers = cast("JSONObject", execution.setdefault("headers", {}))
    if scheme.type == "http" and scheme.scheme.lower() == "basic":
        basic: JSONObject = {
            "username": f"${{env.{variable}_USERNAME}}",
            "password": f"${{env.{variable}_PASSWORD}}",
        }
        execution["basicAuth"] = basic
        _declare(config, scheme, f"{variable}_USERNAME", "text", f"The user name of {name}")
        _declare(config, scheme, f"{variable}_PASSWORD", "secret", f"The password of {name}")
        return
    place = f"${{env.{variable}}}"
    if scheme.type != "apiKey":
        headers["Authorization"] = f"Bearer {place}"
    elif scheme.security_scheme_in == "header":
        headers[scheme.name] = place
    elif scheme.security_scheme_in == "query":
        url = str(execution["url"])
        execution["url"] = f"{url}{'&' if '?' in url else '?'}{percent(scheme.name)}={place}"
    else:
        cookies = [str(headers["Cookie"])] if "Cookie" in headers else []
        headers["Cookie"] = "; ".join([*cookies, f"{scheme.name}={place}"])
    what = "API key" if scheme.type == "apiKey" else "bearer token"
    _declare(config, scheme, variable, "secret", f"The {what} of {name}")
    _drop_parameter(config, scheme)


def _drop_parameter(config: JSONObject, scheme: Any) -> None:
    """A key that is also declared as a parameter is no argument: the model does not know it."""
    execution = cast("JSONObject", config["execution"])
    parameters = cast("dict[str, JSONObject]", execution.get("parameters", {}))
    for argument, each in [*parameters.items()]:
        same = str(each.get("name", argument)).lower() == (scheme.name or "authorization").lower()
        if same and each["in"] == (scheme.security_scheme_in or "header"):
            del parameters[argument]
            schema = cast("JSONObject", config["inputSchema"])
            del cast("JSONObject", schema["properties"])[argument]
            required = [
                name for name in cast("Sequence[str]", schema.get("required", [])) if name != argument
            ]
            schema["required"] = [*required]


def _declare(config: JSONObject, scheme: Any, variable: str, kind: str, otherwise: str) -> None:
    variables = cast("list[JSON]", config["variables"])
    text = " ".join((scheme.description or "").split())
    description = f"{otherwise}: {shortened(text, _LONGEST)}" if text else f"{otherwise}."
    variables.append({"name": variable, "type": kind, "required": True, "description": description})
