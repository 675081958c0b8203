"""Tokens as issuers sign them, and as attackers do; and an identity provider on a loopback port."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

SECRET = "a-secret-that-is-long-enough-for-hs256"
OTHER = "another-secret-of-the-same-sort-of-length"
Claims = dict[str, Any]  # any JSON, including claims that no issuer writes


def claims(name: Any = "ada", **more: Any) -> Claims:  # any JSON
    return {"sub": name, "exp": int(time.time()) + 86_400, **more}


def signed(given: Claims | None = None, key: Any = SECRET, algorithm: str = "HS256", **header: Any) -> str:
    """Return a token signed by PyJWT; keys and headers are PyJWT's."""
    return jwt.encode(claims() if given is None else given, key, algorithm=algorithm, headers=header or None)


def raw(header: object, payload: object, key: bytes | None = SECRET.encode()) -> str:
    """Return a token that is assembled manually, with a valid HS256 signature, or none."""
    parts = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in (header, payload)]
    body = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = b"" if key is None else hmac.new(key, body, hashlib.sha256).digest()
    return (body + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def rsa_key(bits: int = 2048, number: int = 0) -> rsa.RSAPrivateKey:
    return _rsa_key(bits, number)


@cache
def _rsa_key(bits: int, _: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(key: Any, kid: str | None = "k1", **more: Any) -> Claims:  # a private key of any of the three kinds
    kinds: dict[type, Callable[..., Any]] = {
        rsa.RSAPrivateKey: RSAAlgorithm.to_jwk,
        ec.EllipticCurvePrivateKey: ECAlgorithm.to_jwk,
        ed25519.Ed25519PrivateKey: OKPAlgorithm.to_jwk,
    }
    [convert] = [one for kind, one in kinds.items() if isinstance(key, kind)]
    shown: Claims = convert(key.public_key(), as_dict=True)
    return {**shown, **({} if kid is None else {"kid": kid}), **more}


@dataclass
class Provider:
    """An identity provider with configurable answers that counts its requests."""

    keys: list[Claims] = field(default_factory=list[Claims])
    status: int = 200
    body: bytes | None = None
    asked: int = 0
    heads: list[str] = field(default_factory=list[str])
    open: asyncio.Event = field(default_factory=asyncio.Event)
    came: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        self.asked += 1
        self.came.release()
        await self.open.wait()
        body = json.dumps({"keys": self.keys}).encode() if self.body is None else self.body
        head = f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(body)}\r\nLocation: /other\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        writer.close()


@asynccontextmanager
async def provider(*keys: Claims) -> AsyncGenerator[Provider]:
    made = Provider(list(keys))
    made.open.set()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/jwks.json"
        yield made
        made.open.set()
