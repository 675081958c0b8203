"""`toolwright keys new`."""

import base64
import secrets

SECRET_BYTES, FERNET_BYTES = 32, 32


def new_secret_key() -> str:
    """A key for callers of the gateway."""
    return f"sk_{secrets.token_urlsafe(SECRET_BYTES)}"


def new_encryption_key() -> str:
    """A Fernet key: 32 random bytes in URL-safe base64."""
    return base64.urlsafe_b64encode(secrets.token_bytes(FERNET_BYTES)).decode("ascii")


def print_keys() -> None:
    """Print them as lines of a `.env` file."""
    print(
        f"""\
# The secret key gives all rights: callers send it as the header x-secret-key.
TOOLWRIGHT_SECRET_KEYS={new_secret_key()}
# The encryption key seals the secrets of threads and people in the journal: without it they cannot be read.
TOOLWRIGHT_ENCRYPTION_KEYS={new_encryption_key()}
# To use them: toolwright keys new > .env; set -a; . ./.env; set +a
# Several keys are separated by commas; of the encryption keys the first seals, all open."""
    )
