"""How far the end of a text could be the beginning of a word: exact, and fast also for words of 64 Ki characters."""

_SEED = 8  # characters by which a beginning is looked for
_TRIES = 16  # places where it may turn out to be none, before every character is counted


def open_end(text: str, word: str) -> int:
    """The length of the longest end of the text with which the word begins, but not all of the word."""
    tail = text[max(0, len(text) - len(word) + 1) :]
    place = tail.find(word[:_SEED])
    for _ in range(_TRIES):
        if place < 0:
            return _short_end(tail, word)
        if word.startswith(tail[place:]):
            return len(tail) - place
        place = tail.find(word[:_SEED], place + 1)
    return _counted(tail, word)


def _short_end(tail: str, word: str) -> int:
    """The same where it is shorter than what is looked for."""
    for length in range(min(_SEED - 1, len(tail)), 0, -1):
        if tail.endswith(word[:length]):
            return length
    return 0


def _counted(tail: str, word: str) -> int:
    """The same character by character, in a time that only grows with their number (Knuth, Morris and Pratt)."""
    both = [*word, None, *tail]
    ends = [0]  # for every place, how many characters before it are the first ones again
    for each in both[1:]:
        length = ends[-1]
        while length and both[length] != each:
            length = ends[length - 1]
        ends.append(length + (both[length] == each))
    return ends[-1]
