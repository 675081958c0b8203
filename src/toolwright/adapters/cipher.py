"""Encryption of secrets with Fernet keys: the first key encrypts, every key can decrypt."""

import contextlib
import logging
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

from cryptography.fernet import Fernet, InvalidToken

from toolwright.core.env.env import derived_key
from toolwright.core.errors import CannotSeal, CannotUnseal, DefinitionError
from toolwright.core.text import sentence

log = logging.getLogger("toolwright.secrets")


class FernetCipher:
    """The `Cipher` port with a list of Fernet keys."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._fernets = {_name(key): _fernet(key, number) for number, key in enumerate(keys, 1)}
        self._secrets = [urlsafe_b64decode(key) for key in dict.fromkeys(keys)]

    @property
    def key(self) -> str | None:
        return next(iter(self._fernets), None)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self._fernets)

    def derived(self, purpose: str) -> Sequence[bytes]:
        return [derived_key(secret, purpose) for secret in self._secrets]

    def seal(self, text: str) -> tuple[str, str]:
        for name, fernet in self._fernets.items():
            return fernet.encrypt(text.encode()).decode(), name
        raise CannotSeal

    def open(self, sealed: str) -> str:
        if not _is_canonical(sealed):
            raise CannotUnseal
        for fernet in self._fernets.values():
            with contextlib.suppress(InvalidToken):
                return fernet.decrypt(sealed).decode()
        raise CannotUnseal


def _is_canonical(sealed: str) -> bool:
    """Return whether the text is the canonical encoding of its bytes. Fernet also accepts appended bytes."""
    try:
        return urlsafe_b64encode(urlsafe_b64decode(sealed)).decode() == sealed
    except ValueError:
        return False


class KeyFileCipher:
    """The `Cipher` port of a journal in a file. Its key file is next to the database, created with the first secret."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cipher: FernetCipher | None = None

    @property
    def key(self) -> str | None:
        return self._read().key

    @property
    def keys(self) -> tuple[str, ...]:
        return self._read().keys

    def derived(self, purpose: str) -> Sequence[bytes]:
        return self._read().derived(purpose)

    def seal(self, text: str) -> tuple[str, str]:
        cipher = self._read()
        if cipher.key is None:
            _make(self._path)
            cipher = self._read()
        return cipher.seal(text)

    def open(self, sealed: str) -> str:
        try:
            return self._read().open(sealed)
        except (CannotSeal, DefinitionError) as error:
            raise CannotUnseal(error.message) from error

    def _read(self) -> FernetCipher:
        """Return the cipher of the file's keys, cached after the file exists. Raises `CannotSeal`."""
        if self._cipher is not None:
            return self._cipher
        try:
            keys = self._path.read_text(encoding="ascii").split()
        except FileNotFoundError:
            return FernetCipher(())  # not cached: another process can create the file
        except (OSError, UnicodeDecodeError) as error:
            raise CannotSeal(sentence(f"The key file {str(self._path)!r} cannot be read: {error}")) from error
        if not keys:
            raise CannotSeal(f"The key file {str(self._path)!r} is empty. Restore its key.")
        if self._path.stat().st_mode & 0o077:
            log.warning("The key file %s can be read by other users. Run chmod 600 on it.", self._path)
        self._cipher = FernetCipher(keys)
        return self._cipher


def _make(path: Path) -> None:
    """Create a key in a new file, atomically. If two processes create one, the first wins."""
    try:
        # created with mode 0600
        with NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name}.") as draft:
            draft.write(Fernet.generate_key() + b"\n")
            draft.flush()
            # before it gets its final name: a crash must not leave an empty key file
            os.fsync(draft.fileno())
            with contextlib.suppress(FileExistsError):  # another process has created it: its key is used
                os.link(draft.name, path)
                _sync_folder(path.parent)
                log.warning(
                    "Created the key file %s for encrypting secrets. Back it up with the database, keep it private.",
                    path,
                )
    except OSError as error:
        raise CannotSeal(sentence(f"The key file {str(path)!r} cannot be created: {error}")) from error


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _fernet(key: str, number: int) -> Fernet:
    try:
        return Fernet(key)
    except ValueError as error:
        raise DefinitionError(
            f"Encryption key {number} is not a Fernet key (32 bytes in URL-safe base64): make one with "
            "`toolwright keys new`."
        ) from error


def _name(key: str) -> str:
    """Return the name of a key, stored with each text that it has encrypted. It reveals nothing about the key."""
    return sha256(b"toolwright key " + key.encode()).hexdigest()[:12]
