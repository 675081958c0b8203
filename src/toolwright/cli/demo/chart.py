"""Bar charts as SVG, written without a library."""

from collections.abc import Mapping
from html import escape
from pathlib import Path

WIDTH, ROW, MARGIN, HEAD, GAP = 1000, 46, 40, 96, 16
PAPER, INK, QUIET, FIRST, OTHER = "#ffffff", "#1f2933", "#7b8794", "#d9480f", "#4c6ef5"
LETTER = 11  # width of a letter of the labels, about


def draw_bars(path: Path, title: str, bars: Mapping[str, float]) -> None:
    """Write an SVG with one horizontal bar for each entry, labelled with its name and number."""
    left = MARGIN + GAP + max(LETTER * len(name) for name in bars)
    room = WIDTH - MARGIN - left - 70  # the number behind the longest bar fits in 70
    largest = max(bars.values()) or 1.0
    height, end = HEAD + ROW * len(bars) + MARGIN, HEAD + ROW * len(bars) - 4
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="20" dominant-baseline="middle">',
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        f'<text x="{MARGIN}" y="{MARGIN}" font-size="30" fill="{INK}">{escape(title)}</text>',
        f'<line x1="{left}" y1="{HEAD - 12}" x2="{left}" y2="{end}" stroke="{QUIET}"/>',
    ]
    for place, (name, number) in enumerate(bars.items()):
        middle, width = HEAD + ROW * place + ROW // 2 - 8, max(2.0, room * number / largest)
        drawn += [
            f'<text x="{left - GAP}" y="{middle}" fill="{INK}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{left}" y="{middle - 14}" width="{width:.1f}" height="28" rx="5" '
            f'fill="{OTHER if place else FIRST}"/>',
            f'<text x="{left + width + 10:.1f}" y="{middle}" fill="{QUIET}">{number:g}</text>',
        ]
    path.write_text("\n".join([*drawn, "</svg>", ""]), encoding="utf-8")
