"""Sample of sentences of README and documentation, to be read against the rules for language.

`python -m tests.docs.sample SEED [COUNT]` prints the sentences with their pages; the same seed gives the same sample.
"""

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASIDE = re.compile(
    r"```.*?```|<!-- (?!end).*?-->.*?<!-- end -->|^---\n.*?\n---$|^(?:#|!\[).*?$", re.DOTALL | re.MULTILINE
)
"""Code, generated entries, headings and pictures: not sentences of a page."""
END = re.compile(r"(?<=[.:?!])\s+(?=[A-Z`*\[])")


def pages() -> Iterator[Path]:
    """Yield the pages that readers are led to: all but the decisions."""
    yield ROOT / "README.md"
    yield from sorted(each for each in (ROOT / "docs").rglob("*.md") if each.parent.name != "decisions")


def sentences(page: Path) -> Iterator[str]:
    """Yield the sentences of paragraphs, items and cells of tables."""
    text = ASIDE.sub("\n\n", page.read_text(encoding="utf-8"))
    for block in re.split(r"\n\s*\n|^\s*[-*] |^\s*\d+\. |\|", text, flags=re.MULTILINE):
        for sentence in END.split(" ".join(block.split())):
            if len(sentence.split()) >= 6:
                yield sentence


def sample(seed: int, count: int = 150) -> list[tuple[Path, str]]:
    """Return that many sentences with their pages, in the order of the pages."""
    every = [(page, sentence) for page in pages() for sentence in sentences(page)]
    chosen = sorted(random.Random(seed).sample(range(len(every)), count))
    return [every[index] for index in chosen]


if __name__ == "__main__":
    for number, (page, sentence) in enumerate(sample(*map(int, sys.argv[1:])), 1):
        print(f"{number}. {page.relative_to(ROOT)}: {sentence}")
