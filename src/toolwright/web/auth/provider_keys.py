"""The keys of an identity provider: fetched when needed, kept while it is away, never asked for too often."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import httpx

from toolwright.core.errors import KeysUnavailable
from toolwright.core.ports import Clock
from toolwright.core.text import sentence
from toolwright.web.auth.public_keys import PublicKey, choose, read_keys

log = logging.getLogger("toolwright.web")

LIFE = 600.0  # seconds after which keys are looked at again: so a key that was withdrawn is forgotten
PAUSE = 10.0  # seconds between two fetches at the least, whatever kids callers make up
FIRST_PAUSE = 1.0  # the same while there were never any keys
OK = 200
PATIENCE = 5.0  # seconds for one fetch
LARGEST = 256 * 1024  # bytes of a key set

Fetch: TypeAlias = Callable[[], Awaitable[bytes]]  # raises `KeysUnavailable`


class ProviderKeys:
    """The provider's keys by id. Whatever many callers want, one fetch at a time is made for all of them."""

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: Sequence[PublicKey] = ()
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The key, None if the provider has no such. Raises `KeysUnavailable` if there were never any."""
        if not self._keys or self._is_old:
            await self._refresh()
        if not self._keys:
            raise KeysUnavailable
        found = choose(self._keys, kid, algorithm)
        if found is None and kid is not None and all(key.kid != kid for key in self._keys):
            await self._refresh()
            found = choose(self._keys, kid, algorithm)
        return found

    @property
    def _is_old(self) -> bool:
        """Old keys are renewed by one caller; the others go on with them meanwhile."""
        return self._clock.monotonic() - self._fetched_at >= LIFE and not self._fetching.locked()

    async def _refresh(self) -> None:
        async with self._fetching:
            pause = PAUSE if self._keys else FIRST_PAUSE
            if self._clock.monotonic() - self._tried_at < pause:
                return
            try:
                keys = read_keys(await self._fetch())
            except KeysUnavailable as error:
                log.warning("The keys of people's tokens cannot be fetched: %s", error)
                return
            finally:
                self._tried_at = self._clock.monotonic()
            if not keys:
                log.warning("The key set of people's tokens has no key that can be used: the last ones stay.")
                return
            self._keys, self._fetched_at = keys, self._clock.monotonic()


def over_http(url: str) -> Fetch:
    """Fetches the key set at that URL: within a time, up to a size, without following redirects."""
    context = httpx.create_ssl_context()  # once: it takes a while

    async def fetch() -> bytes:
        try:
            async with (
                asyncio.timeout(PATIENCE),
                httpx.AsyncClient(verify=context, timeout=PATIENCE) as client,
            ):
                return await _read(client, url)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            raise KeysUnavailable(sentence(f"{url}: {str(error) or type(error).__name__}")) from error

    return fetch


async def _read(client: httpx.AsyncClient, url: str) -> bytes:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with client.stream("GET", url, headers=headers) as response:
        if response.status_code != OK:
            raise KeysUnavailable(f"{url} answers {response.status_code}.")
        body = b""
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > LARGEST:
                raise KeysUnavailable(f"{url} answers with more than {LARGEST} bytes.")
        return body
