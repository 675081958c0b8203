"""`toolwright keys new`."""

import base64
import secrets

from toolwright.cli.output import Refusal
from toolwright.core.text import sentence
from toolwright.web.auth.access import ServiceKey

SECRET_BYTES, FERNET_BYTES = 32, 32


def new_secret_key() -> str:
    """Return a key for callers of the gateway."""
    return f"sk_{secrets.token_urlsafe(SECRET_BYTES)}"


def new_encryption_key() -> str:
    """Return a Fernet key: 32 random bytes in URL-safe base64."""
    return base64.urlsafe_b64encode(secrets.token_bytes(FERNET_BYTES)).decode("ascii")


def print_key(name: str, scope: str) -> None:
    """Print a new secret key with that name and scope, as an entry of TOOLWRIGHT_SECRET_KEYS."""
    entry = f"{name}({scope})={new_secret_key()}"
    try:
        read = ServiceKey.read(entry)
    except ValueError as error:
        raise Refusal(sentence(str(error))) from error
    if read.name != name:
        raise Refusal(f"A key's name must be at most 64 letters, digits, '.', '_' and '-', not {name!r}.")
    print(entry)


def print_keys() -> None:
    """Print a new secret key and a new encryption key as lines of a `.env` file."""
    print(
        f"""\
# The secret key gives all rights. Callers send it as the header x-secret-key.
TOOLWRIGHT_SECRET_KEYS={new_secret_key()}
# The encryption key encrypts the secrets of threads and people in the journal. Without it they cannot be read.
TOOLWRIGHT_ENCRYPTION_KEYS={new_encryption_key()}
# To use them: toolwright keys new > .env; set -a; . ./.env; set +a
# Separate several keys with commas. The first encryption key encrypts, all of them decrypt."""
    )
