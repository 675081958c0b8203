"""The mark of a tenv that is a secret."""


class Secret:
    """Marks a tenv as a secret: `Annotated[str, tw.Secret]`. It is kept encrypted and never shown (D4, D6)."""
