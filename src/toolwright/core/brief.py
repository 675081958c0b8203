"""Other people's words in ours: never longer than somebody can read."""

MOST_WORDS = 2_000  # characters


def brief(text: str, most: int = MOST_WORDS) -> str:
    """The text, cut where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text)} characters)"


def words(error: BaseException) -> str:
    """What an error says, else what it is called."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - a user's error may not even have a text
        said = ""
    return brief(said or type(error).__name__)
