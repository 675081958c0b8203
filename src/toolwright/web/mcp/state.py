"""The state that a host carries from a question to its answer: sealed, so that nobody can make it up or change it."""

import os

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState

from toolwright.core.errors import CannotSeal, CannotUnseal
from toolwright.core.ports import Cipher

VALID = 3600.0
"""Seconds that a state may be brought back: as long as a question waits for its answer."""

_OWN = "p."


class StateCodec:
    """The SDK's codec over the journal's cipher: every process that has its keys reads what any of them has sealed.

    Where there are no keys, what one process has sealed only that one reads.
    """

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher
        self._own = AESGCMRequestStateCodec([os.urandom(32)])

    def seal(self, payload: bytes) -> str:
        """An opaque token."""
        try:
            return self._cipher.seal(payload.decode())[0]
        except CannotSeal:
            return _OWN + self._own.seal(payload)

    def unseal(self, token: str) -> bytes:
        """What was sealed. Raises `InvalidRequestState`."""
        if token.startswith(_OWN):
            return self._own.unseal(token.removeprefix(_OWN))
        try:
            return self._cipher.open(token).encode()
        except CannotUnseal as error:  # whose words are the operator's, who would look for a lost key
            raise InvalidRequestState("seal") from error
        except ValueError as error:  # no token of the cipher's, such as one that is not ASCII
            raise InvalidRequestState("malformed") from error
