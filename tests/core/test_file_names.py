"""External names and paths: in every case the stored name is one safe segment (D19)."""

import asyncio
import random
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.behaviour.marks import requirement

from toolwright.core.errors import InvalidRequest
from toolwright.core.files import ANY_TYPE, checked_path, clean_mime_type, fold, free_path, safe_name

HOSTILE = [
    "", " ", ".", "..", "...", "/", "//", "\\", "../", "..\\", "../../etc/passwd", "..\\..\\windows\\win.ini",
    "/etc/passwd", "C:\\boot.ini", "c:/boot.ini", "\\\\server\\share\\x", "file:///etc/passwd", "~/.ssh/id_rsa",
    "a/../../b", "a\\..\\..\\b", "....//....//x", "..%2f..%2fx", "%2e%2e%2fx", "..;/x", "x/", "x\\", "./x", ".x",
    "..x", "x.", "x..", "x ", " x", "x. .", ". x", "a\x00b", "\x00", "x\x00.png", "x.png\x00.exe", "a\nb", "a\rb",
    "a\r\nSet-Cookie: x", "a\tb", "\x1b[31mred", "\x7f", "\x85", "a\u2028b", "a\u2029b", "\u202egnp.exe",
    "invoice\u202efdp.exe", "\u200bhidden", "zero\u200dwidth", "\ufeffbom", "\U000e0041tag", "\ud800", "x\udc00y",
    "con", "CON", "con.txt", "nul", "NUL.png", "aux.", "com1", "COM9.log", "lpt1", "prn.pdf", "conin$", "CONOUT$",
    'a"b', "a'b", "a<b>c", "a|b", "a?b", "a*b", "a:b", "a;b", "a&b", "$(rm -rf)", "`id`", "-rf", "--help", "!x",
    "#x", "a b", "x" * 300, "x" * 300 + ".png", "." * 300, "ü" * 200, "😀" * 100, "x." + "y" * 300, "a" * 254 + ".b",
    "é.png", "e\u0301.png", "ﬁle.txt", "file.txt", "FILE.TXT", "Straße.txt", "STRASSE.TXT", "İ.txt", "ı.txt", "K.txt",
    "\u212a.txt", "ς.txt", "σ.txt", "Σ.txt", "①.txt", "1.txt", "ｆｕｌｌ.txt", "full.txt", "a\u00a0b.txt", "\u3000.txt",
    ".env", ".htaccess", ".git/config", "index.html", "x.svg", "x.js", "x.php", "x.tar.gz", "x.", "no-extension",
    "name.with.many.dots.txt", "تقرير.pdf", "报告.pdf", "отчёт.pdf", "📄.pdf", "a\u0300\u0301\u0302" * 20, "\u0378x",
    "\ue000private", "\uffff", "../" * 100 + "x", "x" + "/" * 300 + "y", "a/b/c/d.png", "a\\b\\c\\d.png", "a/b\\c/d",
]  # fmt: skip
while len(HOSTILE) < 220:
    chance = random.Random(len(HOSTILE))
    alphabet = "./\\\x00\n\u202e\ud800 :%aA\u0301é.."
    HOSTILE.append("".join(chance.choices(alphabet, k=chance.randint(1, 40))))


def is_safe(name: str) -> bool:
    return (
        0 < len(name.encode()) <= 200
        and name not in (".", "..")
        and not name.startswith(".")
        and name == name.strip(" .")
        and not any(each in name for each in '/\\<>:"|?*')
        and all(unicodedata.category(each) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for each in name)
    )


@requirement("S2-5.2-4")
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_name_becomes_one_safe_segment(number: int) -> None:
    name = safe_name(HOSTILE[number])
    assert is_safe(name), (HOSTILE[number], name)
    assert safe_name(name) == name
    assert checked_path(f"/attachments/{name}") == f"/attachments/{name}"


@requirement("S2-5.2-4")
@given(st.text())
def test_any_name_becomes_one_safe_segment(text: str) -> None:
    assert is_safe(safe_name(text))


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("chart.png", "chart.png"), ("../../etc/passwd", "passwd"), ("C:\\x\\y.txt", "y.txt"), ("con.txt", "_con.txt"),
        (".env", "env"), ("invoice\u202efdp.exe", "invoicefdp.exe"), ("", "file"), ("e\u0301.png", "é.png"),
    ],
)  # fmt: skip
def test_a_name_stays_as_near_to_itself_as_is_safe(given_name: str, kept: str) -> None:
    assert safe_name(given_name) == kept


def test_hostile_names_all_find_a_place_of_their_own() -> None:
    taken: set[str] = set()
    for name in HOSTILE:
        path = free(safe_name(name), taken)
        assert fold(path) not in taken
        assert is_safe(path.removeprefix("/attachments/"))
        taken.add(fold(path))
    assert len(taken) == len(HOSTILE)


def test_a_taken_name_is_numbered_before_its_extension() -> None:
    taken = {fold("/attachments/chart.png"), fold("/attachments/chart-2.png")}
    assert free("CHART.png", taken) == "/attachments/CHART-3.png"


@pytest.mark.parametrize("there", [1, 15, 16, 17, 31, 32, 33, 100, 1_000, 1_023, 1_024, 10_000, 99_999])
def test_the_next_number_of_very_many_files_is_found_in_a_few_questions(there: int) -> None:
    names = ["chart.png", *[f"chart-{number}.png" for number in range(2, there + 1)]]
    asked: list[int] = []
    path = free("chart.png", {fold(f"/attachments/{name}") for name in names}, asked)
    assert path == f"/attachments/chart-{there + 1}.png"
    assert sum(asked) <= 200


def free(name: str, taken: set[str], asked: list[int] | None = None) -> str:
    """Return the free path among taken ones. `asked` receives the number of paths of each question."""

    async def those(paths: Sequence[str]) -> set[str]:
        if asked is not None:
            asked.append(len(paths))
        return taken & set(paths)

    return asyncio.run(free_path(name, those))


@pytest.mark.parametrize(
    ("one", "other"), [("É.png", "e\u0301.PNG"), ("ﬁle", "FILE"), ("Straße", "STRASSE"), ("ｆull", "full")]
)
def test_names_that_fold_to_the_same_are_equal(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@requirement("S2-5.2-4")
@pytest.mark.parametrize(
    "path",
    [
        "", "/", "a//b", "../a", "/a/../b", "./a", "a/", "a\x00", "a\\b", "a\u202eb", "x" * 300, "a\n", " a", "\ud800",
        "/".join("ab" * 600), 3, None, b"a",
    ],
)  # fmt: skip
def test_a_path_that_is_not_plain_is_refused(path: object) -> None:
    with pytest.raises(InvalidRequest):
        checked_path(path)


def test_a_plain_path_is_made_absolute_and_normal() -> None:
    assert checked_path("notes/e\u0301.txt") == "/notes/é.txt"
    assert checked_path("/a/b-2 c.txt") == "/a/b-2 c.txt"


@pytest.mark.parametrize(
    ("given_type", "kept"),
    [
        ("image/png", "image/png"), ("IMAGE/PNG; q=1", "image/png"), ("image/svg+xml", "image/svg+xml"),
        ("png", ANY_TYPE), ("image/png\r\nX: y", ANY_TYPE), ("", ANY_TYPE), ("a/b/c", ANY_TYPE), ("text/ü", ANY_TYPE),
    ],
)  # fmt: skip
def test_a_mime_type_is_fit_for_a_header(given_type: str, kept: str) -> None:
    assert clean_mime_type(given_type) == kept
