"""Draws bar charts. Needs the extra `demo`."""

from collections.abc import Mapping
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDTH, ROW, MARGIN, HEAD, GAP = 1000, 46, 40, 96, 16
PAPER, INK, QUIET, FIRST, OTHER = "#ffffff", "#1f2933", "#7b8794", "#d9480f", "#4c6ef5"


def draw_bars(path: Path, title: str, bars: Mapping[str, float]) -> None:
    """A PNG with one horizontal bar for each entry, labelled with its name and number."""
    image = Image.new("RGB", (WIDTH, HEAD + ROW * len(bars) + MARGIN), PAPER)
    draw = ImageDraw.Draw(image)
    heading, text = ImageFont.load_default(30), ImageFont.load_default(20)
    draw.text((MARGIN, MARGIN), title, font=heading, fill=INK, anchor="lm")
    left = MARGIN + GAP + max(draw.textlength(name, font=text) for name in bars)
    room = WIDTH - MARGIN - left - 70  # the number behind the longest bar fits in 70
    largest = max(bars.values()) or 1.0
    for place, (name, number) in enumerate(bars.items()):
        middle = HEAD + ROW * place + ROW // 2 - 8
        end = left + max(2.0, room * number / largest)
        draw.text((left - GAP, middle), name, font=text, fill=INK, anchor="rm")
        draw.rounded_rectangle((left, middle - 14, end, middle + 14), 5, fill=OTHER if place else FIRST)
        draw.text((end + 10, middle), f"{number:g}", font=text, fill=QUIET, anchor="lm")
    draw.line((left, HEAD - 12, left, HEAD + ROW * len(bars) - 4), fill=QUIET, width=1)
    image.save(path, "PNG")
