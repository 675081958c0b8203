"""Sign-in: sessions in signed cookies, one-time sign-in links, and the visitor's credentials."""

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from html import escape
from string import Template
from typing import Final, cast
from urllib.parse import parse_qs, quote

from nicegui import events, ui
from nicegui.element import Element
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.ports import Clock
from toolwright.core.text import brief
from toolwright.core.value import Value
from toolwright.web.auth.access import SERVICE, Caller, OneTimeTokens, SignedCallers
from toolwright.web.console.widgets import badge, box, plain_text

COOKIE = "toolwright_session"
LIFE = timedelta(hours=12)
LINK_LIFE = timedelta(minutes=10)
ROOM = 2_600  # bytes of a session without its caller: with signature and base64 it still fits into a cookie
# claims about the token, not about the person
_TOKEN_CLAIMS = frozenset({"iss", "aud", "exp", "nbf", "iat", "jti"})
MAX_COOKIE = 4_096  # characters
MAX_HINT: Final = 500  # characters
_SEND: Final = """(event) => {
  event.preventDefault();
  const fields = [...event.target.elements].filter((field) => field.name);
  const entered = Object.fromEntries(fields.map((field) => [field.name, field.value]));
  for (const field of fields) if (field.type === "password") field.value = "";
  emit(entered);
}"""
"""A constant script that sends the fields' values and clears the secrets. The server never stores them."""
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
}
MAX_FORM: Final = 64 * 1024  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A signed-in caller; `begun` and `until` are seconds since 1970."""

    id: str
    caller: Caller
    begun: float = 0.0
    until: float | None = None

    @property
    def caller_key(self) -> str:
        """Key shared by all sessions of this caller: the person, or the named secret key."""
        caller = self.caller
        return f"person:{caller.entity_id}" if caller.kind == "person" else f"service:{caller.name or ''}"


OPEN = Session(id="open", caller=SERVICE)
"""The session of all local users if there are no keys."""


class Sessions:
    """Sessions of one server.

    A cookie contains its session, signed by `Keys.signing`. It ends when its key or person is removed. The journal
    stores signed-out sessions, see `ConsoleApp.sign_out`; this process caches its own. `links` sign in once, within ten
    minutes.
    """

    def __init__(self, clock: Clock, signed_callers: Callable[[str], SignedCallers]) -> None:
        self._clock = clock
        self._callers = signed_callers("console session")
        self.links = OneTimeTokens(clock, signed_callers("console link"), LINK_LIFE)
        self._ended: dict[str, float] = {}

    def begin(self, caller: Caller) -> Session:
        """Return a new session. A person's session lasts no longer than their token."""
        now = self._now()
        until = now + LIFE.total_seconds()
        until = min(until, caller.until or until)
        return Session(id=secrets.token_urlsafe(16), caller=caller, begun=now, until=until)

    async def seal(self, session: Session) -> str:
        """Return the session as a cookie's value."""
        content: JSONObject = {"id": session.id, "begun": session.begun, "until": session.until}
        roles: list[JSON] = [*session.caller.roles]
        content["roles"] = roles if len(_written({"roles": roles})) <= ROOM // 2 else []
        content["claims"] = _fitting_claims(session.caller.claims, ROOM - len(_written(content)))
        return await self._callers.seal(session.caller, content)

    async def read(self, cookie: str | None) -> Session | None:
        """Return the session of a signed cookie, or None.

        It is None if the signature is foreign, the session has expired, the user signed out, or the key was removed or
        no longer has all rights.
        """
        opened = await self._callers.open((cookie or "")[:MAX_COOKIE])
        if opened is None or opened[0].scope != "all":
            return None
        content, until = opened[1], opened[1]["until"]
        roles = tuple(content.get("roles", ()))
        caller = replace(opened[0], until=until, claims=content["claims"], roles=roles)
        session = Session(id=content["id"], caller=caller, begun=content["begun"], until=until)
        return session if self.is_open(session) else None

    def is_open(self, session: Session) -> bool:
        """Return whether the session is still valid."""
        self._forget()
        if session.id in self._ended:
            return False
        return session.until is None or session.until > self._now()

    def end(self, session: Session) -> None:
        """Sign out. The cookie is rejected from now on."""
        if session.until is not None:
            self._ended[session.id] = session.until

    def _forget(self) -> None:
        """Remove expired sessions from the signed-out ones. They are rejected anyway."""
        now = self._now()
        self._ended = {id_: until for id_, until in self._ended.items() if until > now}

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _fitting_claims(claims: Mapping[str, JSON], room: int) -> JSONObject:
    """Return the claims about the person that fit into a cookie, the shortest first."""
    content: JSONObject = {}
    of_person = [
        (len(_written({name: each})), name) for name, each in claims.items() if name not in _TOKEN_CLAIMS
    ]
    for size, name in sorted(of_person):
        room -= size
        if room < 0:
            break
        content[name] = claims[name]
    return content


def _written(content: JSONObject) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()


class SignInField(Value):
    """A field of the form. A `secret` field shows dots. A field with `choices` accepts no other values."""

    name: str
    secret: bool = False
    choices: Sequence[str] = ()
    hint: str = ""
    label: str = ""


Send = Callable[[Mapping[str, str]], Awaitable[object]]
"""Receives the entered values by field name. Empty fields are left out."""


def entry_form(fields: Sequence[SignInField], label: str, send: Send) -> dict[str, Element]:
    """Render the fields and a button that sends them. Returns the fields' elements by name."""
    with box("form", "stack") as form:
        form.props["autocomplete"] = "off"
        elements = {field.name: _field(n, field) for n, field in enumerate(fields)}
        with box("div", "row"):
            button = ui.button(label, color=None).props("no-caps unelevated type=submit")
            button.classes("action primary")

    async def submitted(event: events.GenericEventArguments) -> None:
        entered = _read(event.args, fields)
        button.disable()
        try:
            await send(entered)
        finally:
            if not button.is_deleted:
                button.enable()

    form.on("submit", submitted, js_handler=_SEND)
    return elements


def _field(n: int, field: SignInField) -> Element:
    with box("label", "entry") as entry:
        with box("span", "row"):
            plain_text(field.label or field.name, "span", "" if field.label else "mono")
            if field.secret:
                badge("secret")
        if field.hint:
            plain_text(brief(field.hint, MAX_HINT), "span", "quiet small")
        element = box("select" if field.choices else "input")
        element.props["name"] = f"field{n}"  # regardless of the field's name
        if field.choices:
            with element:
                for choice in field.choices:
                    plain_text(choice, "option").props["value"] = choice
            return entry
        element.props["type"] = "password" if field.secret else "text"
        element.props["autocomplete"] = "off"
        element.props["spellcheck"] = "false"
    return entry


def _read(args: object, fields: Sequence[SignInField]) -> dict[str, str]:
    """Return the entered fields from the browser's data, which is untrusted."""
    sent = cast("dict[str, object]", args) if isinstance(args, dict) else {}
    entered = {field.name: sent.get(f"field{n}") for n, field in enumerate(fields)}
    return {name: text for name, text in entered.items() if isinstance(text, str) and text}


_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in · Toolwright</title>
<link rel="icon" href="/console/static/icon.svg">
<link rel="stylesheet" href="/console/static/console.css">
</head>
<body class="sign-in">
<main>
<img src="/console/static/icon.svg" alt="" width="40" height="40">
<h1>Toolwright</h1>
$error
<form method="post" action="/console/sign-in?next=$then">
<h2>With a secret key</h2>
<label for="secret_key">Secret key</label>
<input id="secret_key" name="secret_key" type="password" autocomplete="current-password" $autofocus>
<button type="submit">Sign in</button>
</form>
$people
</main>
</body>
</html>
""")
_PEOPLE = Template("""<form method="post" action="/console/sign-in?next=$then">
<h2>As a person</h2>
<label for="public_key">Public key</label>
<input id="public_key" name="public_key" autocomplete="off">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="off">
<button type="submit">Sign in</button>
</form>""")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInForm:
    """The entered values. Empty fields have empty texts."""

    secret_key: str = ""
    public_key: str = ""
    token: str = ""


async def form_of(request: Request) -> SignInForm:
    """Parse the form sent by the page. Raises `InvalidRequest` if the body is not this form."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise InvalidRequest("This form is too long. Enter a key or a token.")
    try:
        fields = parse_qs(body.decode(), max_num_fields=10, strict_parsing=bool(body))
    except ValueError:
        raise InvalidRequest("This is not the form of the sign-in page.") from None
    entered = {name: fields.get(name, [""])[0].strip() for name in ("secret_key", "public_key", "token")}
    return SignInForm(**entered)


def sign_in_page(then: str, *, takes_people: bool, error: str = "", status: int = 200) -> Response:
    """Return the sign-in page, which continues to the path `then`."""
    target = quote(then, safe="")
    page = _PAGE.substitute(
        then=target,
        error=f'<p class="error" role="alert">{escape(error)}</p>' if error else "",
        people=_PEOPLE.substitute(then=target) if takes_people else "",
        autofocus="autofocus",
    )
    return HTMLResponse(page, status, HEADERS)
