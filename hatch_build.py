"""Documentation in the package: README for an index, and `llms.txt` and `llms-full.txt` for coding agents.

`make docs` writes the last two into the site. `llms.txt` lists the pages with their first sentences (llmstxt.org),
`llms-full.txt` has their whole text.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).parent
DOCS = ROOT / "docs"
GROUP = re.compile(r"^  - (\w+):\n((?:      - \S+\n)+)", re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
PROGRAM = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
SENTENCE = re.compile(r"[\w`*].*?(?:\.(?=\s)|\Z)")


class CustomMetadataHook(MetadataHookInterface):
    """Makes the package's description from README: an index of packages has none of the files that it links to."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description to README without relative links and images."""
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        text = re.sub(
            r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", re.sub(r"!\[[^]]*\]\([^)]*\)\n*", "", readme)
        )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the pages and both files to the wheel. A checkout has the pages by the link `src/toolwright/docs`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write both files to a temporary folder, from which the wheel takes them."""
        if version == "editable":
            return
        included = {page: page.relative_to(DOCS) for _, pages in groups() for page in pages}
        self._folder = Path(mkdtemp())
        included |= {path: Path(path.name) for path in write(self._folder)}
        for path, name in included.items():
            build_data["force_include"][str(path)] = f"toolwright/docs/{name.as_posix()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        if version != "editable":
            rmtree(self._folder)


def groups() -> Iterator[tuple[str, list[Path]]]:
    """Yield the groups of the contents in mkdocs.yml with their pages."""
    for name, entries in GROUP.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8")):
        yield name, [DOCS / each for each in re.findall(r"- (\S+)", entries)]


def text_of(page: Path) -> str:
    """Return the page without comments, among them the markers of the reference."""
    return COMMENT.sub("", page.read_text(encoding="utf-8")).strip()


def line_of(page: Path) -> str:
    """Return the page's title, as a link, with the first sentence of its first paragraph."""
    title, *paragraphs = PROGRAM.sub("", text_of(page)).split("\n\n")
    sentences = [SENTENCE.match(" ".join(each.split())) for each in paragraphs]
    first = next((each[0] for each in sentences if each), "")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", first)
    return f"- [{title.lstrip('# ')}]({page.relative_to(DOCS)}): {plain}"


def write(folder: Path) -> list[Path]:
    """Write `llms.txt` and `llms-full.txt` into the folder, and return their paths."""
    about = " ".join(text_of(DOCS / "index.md").split("\n\n")[1].split())
    sections = [f"## {name}\n\n" + "\n".join(map(line_of, pages)) for name, pages in groups()]
    index = "\n\n".join([f"# Toolwright\n\n> {about}", *sections])
    whole = "\n\n".join(
        f'<page path="{page.relative_to(DOCS)}">\n\n{text_of(page)}\n\n</page>'
        for _, pages in groups()
        for page in pages
    )
    texts = {folder / "llms.txt": index, folder / "llms-full.txt": whole}
    for path, text in texts.items():
        path.write_text(text + "\n", encoding="utf-8")
    return list(texts)


if __name__ == "__main__":
    site = Path(sys.argv[1])
    write(site)
    for page in (page for _, pages in groups() for page in pages):
        (site / page.relative_to(DOCS)).write_text(text_of(page) + "\n", encoding="utf-8")
