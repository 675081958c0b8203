"""Compares manifests and tests in both directions."""

from collections.abc import Sequence

from tests.behaviour.manifest import Document, faults, statements
from tests.behaviour.proofs import Proofs


def gaps(documents: Sequence[Document], proofs: Proofs) -> list[str]:
    """Return what is missing on either side, one sentence each; empty if every statement is proven."""
    found = list(proofs.faults)
    known: dict[str, str | None] = {}
    names = [document.document for document in documents]
    found += [f"{name}: has two manifests" for name in sorted({one for one in names if names.count(one) > 1})]
    for document in documents:
        found += faults(document)
        known |= {each.id: each.requirement.elsewhere for each in statements(document)}
    for each, elsewhere in known.items():
        if elsewhere is None and each not in proofs.tests:
            found.append(f"{each}: no test carries it")
        if elsewhere is not None and each in proofs.tests:
            found.append(f"{each}: is said to be proven elsewhere, but {proofs.tests[each][0]} carries it")
    found += [
        f"{each}: {tests[0]} carries it, but no manifest has it"
        for each, tests in proofs.tests.items()
        if each not in known
    ]
    return found
