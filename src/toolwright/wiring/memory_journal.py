"""A journal in memory that outlives the runtimes which work on it, one after another."""

from toolwright.adapters.bus.memory import MemoryBus
from toolwright.adapters.cipher.memory import MemoryCipher
from toolwright.adapters.files.memory import MemoryFiles
from toolwright.adapters.store.memory.store import MemoryStore


class MemoryJournal:
    """What a runtime keeps in memory: rows, the bytes of files, secrets. Of several at once only one may be open."""

    def __init__(self) -> None:
        self.bus = MemoryBus()
        self.store = MemoryStore(self.bus.publish)
        self.files = MemoryFiles()
        self.cipher = MemoryCipher()
