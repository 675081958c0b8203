"""Why an HTTP request brought no answer, in words for a model."""


class HttpFailure(Exception):
    """A request that failed; the words hold nothing of what was filled into it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class AddressRefused(Exception):
    """The host leads to an address to which no request may go."""
