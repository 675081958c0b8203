"""Addresses as they may be shown."""

from urllib.parse import urlsplit, urlunsplit


def shown_url(url: str) -> str:
    """The URL without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{host}", query=""))
