"""Components that show the images and the files of a call."""

import re
from collections.abc import Sequence
from typing import Final

from nicegui.element import Element

from toolwright.core.json_value import JSON
from toolwright.core.results.content import AttachmentRef
from toolwright.core.spaces.tool_ui import ShownCall, Submit
from toolwright.core.text import brief
from toolwright.web.console.tool_ui.facts import CallFacts
from toolwright.web.console.tool_ui.parts import arguments, outcome, text_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, file_url, size, words
from toolwright.web.routes.files import SHOWN

LARGEST_INLINE: Final = 5 * 1024 * 1024  # bytes of an image within the arguments
MOST_SHOWN: Final = 50  # files of one call
_RASTER: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_INLINE: Final = ("url", "src", "image", "dataUrl", "data_url", "data")
_CAPTION: Final = ("caption", "title", "alt", "description")


async def draw_image(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """The images among the attachments of the result, else the one that the arguments hold as a `data:` URL."""
    call = facts.call
    caption = text_of(call.args, *_CAPTION)
    inline = inline_image(call.args) or inline_image(call.result)
    if inline is not None:
        _picture(inline, brief(caption or call.name, 300))
    if caption is not None:
        words(brief(caption, 400), "p", "quiet small")
    draw_attachments(call)
    if inline is None and not call.attachments:
        await arguments(call, but=_CAPTION)
    if call.status == "error" or (inline is None and not call.attachments):
        await outcome(call)


async def draw_file(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """The attachments of the result: name, size, type and where to get them."""
    call = facts.call
    draw_attachments(call, pictures=False)
    if not call.attachments:
        await arguments(call)
    if call.status == "error" or not call.attachments:
        await outcome(call)


def draw_attachments(call: ShownCall, *, pictures: bool = True) -> None:
    """The attachments, those that a browser may show as pictures, unless they are to be listed alone."""
    shown: Sequence[AttachmentRef] = call.attachments[:MOST_SHOWN]
    for each in shown:
        url = None if call.thread_id is None else file_url(call.thread_id, each.path, call.id)
        _draw(each, url, as_picture=pictures and is_picture(each))
    if len(call.attachments) > len(shown):
        words(f"And {len(call.attachments) - len(shown)} more.", "p", "quiet small")


def is_picture(attachment: AttachmentRef) -> bool:
    """Whether a browser may show it in place."""
    return attachment.mime_type.startswith("image/") and attachment.mime_type in SHOWN


def inline_image(described: JSON) -> str | None:
    """The `data:` URL of a picture, of a type in which no script can be, None if there is none."""
    given = [described.get(name) for name in _INLINE] if isinstance(described, dict) else [described]
    texts = [each for each in given if isinstance(each, str) and len(each) <= LARGEST_INLINE * 4 // 3 + 64]
    return next((each for each in texts if each.startswith("data:") and _RASTER.fullmatch(each)), None)


def _draw(attachment: AttachmentRef, url: str | None, *, as_picture: bool) -> None:
    with box("figure", "file"):
        if url is not None and as_picture:
            with _link(url):
                _picture(url, brief(attachment.description or attachment.name, 300))
        with box("figcaption", "row"):
            if url is None:
                words(brief(attachment.name, 200), "span", "title")
            else:
                with _link(url):
                    words(brief(attachment.name, 200))
            words(f"{brief(attachment.mime_type, 80)}, {size(attachment.size)}", "span", "quiet small")
        if attachment.description and not as_picture:
            words(brief(attachment.description, 400), "div", "quiet small")


def _link(url: str) -> Element:
    anchor = box("a")
    anchor.props["href"], anchor.props["target"], anchor.props["rel"] = url, "_blank", "noopener"
    return anchor


def _picture(url: str, alt: str) -> None:
    picture = box("img", "thumbnail")
    picture.props["src"], picture.props["alt"], picture.props["loading"] = url, alt, "lazy"
