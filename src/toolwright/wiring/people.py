"""Verifiers of people's tokens: loaded only if configured, because of the libraries that they need."""

from toolwright.adapters.system import check_certificates
from toolwright.core.ports import Clock
from toolwright.web.auth.access import TokenVerifier
from toolwright.web.auth.person_tokens import (
    ExpectedClaims,
    ProviderKeys,
    SharedSecret,
    SignedByProvider,
    over_http,
)
from toolwright.wiring.settings import Settings


def verifier(settings: Settings, clock: Clock) -> TokenVerifier | None:
    """Return the verifier of tokens signed with a shared secret, or by an identity provider.

    Raises `DefinitionError` if the certificates for the provider's URL cannot be read.
    """
    expected = ExpectedClaims(
        claim=settings.jwt_entity_claim, audience=settings.jwt_audience, issuer=settings.jwt_issuer
    )
    if settings.jwt_secret is not None:
        return SharedSecret(settings.jwt_secret, expected, clock)
    if settings.jwt_jwks_url is not None:
        check_certificates()
        return SignedByProvider(ProviderKeys(over_http(settings.jwt_jwks_url), clock), expected, clock)
    return None
