"""`python -m tests.behaviour`: prints every statement with its source and tests; exits with 1 if one has no test."""

import sys
from collections.abc import Iterator, Sequence

from tests.behaviour.cover import gaps
from tests.behaviour.manifest import Document, documents, statements
from tests.behaviour.proofs import Proofs, collect


def table(chosen: Sequence[Document], proofs: Proofs) -> Iterator[str]:
    """Return the report as lines of Markdown."""
    for document in chosen:
        yield f"## {document.document}, {document.title}"
        yield ""
        yield "| id | statement | source | tests |"
        yield "|---|---|---|---|"
        for each in statements(document):
            said = f"{each.requirement.says} ({each.requirement.level})"
            yield f"| {each.id} | {said} | {each.source} | {_tests(each.requirement.elsewhere, each.id, proofs)} |"
        yield ""


def _tests(elsewhere: str | None, id: str, proofs: Proofs) -> str:
    if elsewhere is not None:
        return f"elsewhere: {elsewhere}"
    return "<br>".join(test.removeprefix("tests/") for test in proofs.tests.get(id, ())) or "none"


def main() -> int:
    chosen, proofs = documents(), collect()
    print("\n".join(table(chosen, proofs)))
    found = gaps(chosen, proofs)
    every = [each for document in chosen for each in statements(document)]
    elsewhere = [each for each in every if each.requirement.elsewhere is not None]
    proven = {each.id for each in every} & set(proofs.tests)
    tests = {test for each in proven for test in proofs.tests[each]}
    print(f"{len(every)} statements: {len(proven)} proven by {len(tests)} tests, {len(elsewhere)} elsewhere.")
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
