"""Encryption of secrets: with configured keys, or with a key file that is created once."""

import logging
import multiprocessing
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from toolwright.adapters.cipher import FernetCipher, KeyFileCipher
from toolwright.adapters.memory import MemoryCipher
from toolwright.core.errors import CannotSeal, CannotUnseal, DefinitionError
from toolwright.core.ports import Cipher
from toolwright.wiring.settings import Settings

ONE, TWO = (Fernet.generate_key().decode() for _ in range(2))


@pytest.mark.parametrize("make", [MemoryCipher, lambda: FernetCipher([ONE])], ids=["memory", "fernet"])
def test_what_is_sealed_is_opened_and_does_not_show(make: Callable[[], Cipher]) -> None:
    cipher = make()
    for text in ("", "hunter2-hunter2", "ümläut 😀\n"):
        sealed, key = cipher.seal(text)
        assert cipher.open(sealed) == text
        assert key == cipher.key
        assert not text or text not in sealed
    with pytest.raises(CannotUnseal):
        cipher.open("not sealed by anyone")


@pytest.mark.parametrize("appended", ["x", "-TAMPERED", "=", "\n", "A" * 100])
@pytest.mark.parametrize("text", ["", "x", "hunter2-hunter2", "call_" * 5])
def test_what_is_sealed_and_then_lengthened_is_not_opened(text: str, appended: str) -> None:
    cipher = FernetCipher([ONE])
    sealed, _ = cipher.seal(text)
    with pytest.raises(CannotUnseal):
        cipher.open(sealed + appended)


def test_the_first_key_seals_and_all_open() -> None:
    old, _ = FernetCipher([ONE]).seal("x")
    both = FernetCipher([TWO, ONE])
    assert both.open(old) == "x"
    new, key = both.seal("y")
    assert (FernetCipher([TWO]).open(new), key) == ("y", FernetCipher([TWO]).key)
    with pytest.raises(CannotUnseal):
        FernetCipher([TWO]).open(old)


def test_without_keys_nothing_is_sealed() -> None:
    cipher = FernetCipher(())
    assert cipher.key is None
    with pytest.raises(CannotSeal, match="TOOLWRIGHT_ENCRYPTION_KEYS"):
        cipher.seal("x")


@pytest.mark.parametrize("key", ["", "short", ONE[:-4], "ü" * 44], ids=["none", "short", "cut", "letters"])
def test_what_is_no_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(DefinitionError, match="Encryption key 1 is not a Fernet key") as caught:
        FernetCipher([key])
    assert not key or key not in caught.value.message
    with pytest.raises(DefinitionError, match="encryption key 2") as refused:
        Settings(encryption_keys=(ONE, key))
    assert ONE not in str(refused.value)


def test_settings_do_not_show_keys() -> None:
    assert ONE not in repr(Settings(encryption_keys=(ONE,)))


def test_a_key_file_is_made_for_the_first_secret_private_and_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.db.key"
    cipher = KeyFileCipher(path)
    assert cipher.key is None
    assert not path.exists()
    sealed, key = cipher.seal("x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(path) in caplog.text
    assert path.read_text(encoding="ascii").strip() not in caplog.text
    again = KeyFileCipher(path)
    assert (again.open(sealed), again.key) == ("x", key)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def _seal(path: Path, sealed: "multiprocessing.Queue[str]") -> None:
    sealed.put(KeyFileCipher(path).seal("x")[0])


def test_processes_that_make_the_key_at_once_have_one_key(tmp_path: Path) -> None:
    path = tmp_path / "key"
    context = multiprocessing.get_context("spawn")
    sealed: multiprocessing.Queue[str] = context.Queue()
    made = [context.Process(target=_seal, args=(path, sealed)) for _ in range(4)]
    for process in made:
        process.start()
    texts = [KeyFileCipher(path).open(sealed.get(timeout=60)) for _ in made]
    for process in made:
        process.join()
    assert texts == ["x"] * 4


def test_a_key_file_that_others_can_read_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "key"
    path.write_text(f"{ONE}\n{TWO}\n", encoding="ascii")
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        cipher = KeyFileCipher(path)
        assert cipher.key == FernetCipher([ONE]).key
    assert "can be read by other users" in caplog.text
    assert cipher.open(FernetCipher([TWO]).seal("x")[0]) == "x"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"no key"])
def test_a_broken_key_file_is_reported_and_never_overwritten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises((CannotSeal, DefinitionError)):
        KeyFileCipher(path).seal("x")
    assert path.read_bytes() == content
    with pytest.raises(CannotUnseal):
        KeyFileCipher(path).open("x")


def test_a_key_file_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CannotSeal, match="cannot be created"):
        KeyFileCipher(tmp_path / "nowhere" / "key").seal("x")
