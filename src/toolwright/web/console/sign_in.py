"""The console's sign-in: a plain page without scripts, for a secret key or for a person's public key and token."""

from dataclasses import dataclass
from html import escape
from string import Template
from typing import Final
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from toolwright.core.errors import InvalidRequest

LONGEST_FORM: Final = 64 * 1024  # bytes
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
}
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
class Form:
    """What was entered; empty where nothing was."""

    secret_key: str = ""
    public_key: str = ""
    token: str = ""


async def form_of(request: Request) -> Form:
    """The form that the page sends. Raises `InvalidRequest` if it is none."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            raise InvalidRequest("This form is too long: a key or a token belongs into it.")
    try:
        fields = parse_qs(body.decode(), max_num_fields=10, strict_parsing=bool(body))
    except ValueError:
        raise InvalidRequest("This is not a form as the sign-in page sends it.") from None
    entered = {name: fields.get(name, [""])[0].strip() for name in ("secret_key", "public_key", "token")}
    return Form(**entered)


def sign_in_page(then: str, *, takes_people: bool, error: str = "", status: int = 200) -> Response:
    """The page, which leads on to the path `then`."""
    there = quote(then, safe="")
    page = _PAGE.substitute(
        then=there,
        error=f'<p class="error" role="alert">{escape(error)}</p>' if error else "",
        people=_PEOPLE.substitute(then=there) if takes_people else "",
        autofocus="autofocus",
    )
    return HTMLResponse(page, status, HEADERS)
