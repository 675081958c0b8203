"""What somebody says, as one element."""

from nicegui.element import Element


class Prose(Element, component="prose.js"):
    """A text with its line breaks, code between fences, and links to the web; nothing in it is markup."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.props["content"] = content
