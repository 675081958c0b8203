"""A real PgBouncer in transaction mode in front of the tests' Postgres, if `make .venv/.pgbouncer` has fetched one."""

import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).parents[2] / ".venv" / "pgbouncer" / "root"
LIBRARIES = ROOT / "usr" / "lib" / "x86_64-linux-gnu"
MISSING = not ROOT.parent.with_name(".pgbouncer").exists()
IGNORED = (
    "idle_in_transaction_session_timeout, jit, tcp_keepalives_idle, tcp_keepalives_interval, tcp_keepalives_count, "
    "plan_cache_mode, enable_seqscan, statement_timeout, synchronous_commit, lock_timeout"
)
"""The session settings that PgBouncer must ignore, as in the guide."""


class PgBouncer:
    """A pooler of few sessions. `url` points through it to the database of `direct`."""

    def __init__(self, direct: str, port: int) -> None:
        parts = urlsplit(direct)
        sockets = Path(parse_qs(parts.query)["host"][0])
        self._folder = tempfile.TemporaryDirectory(prefix="toolwright-pgbouncer-")
        self._port = port
        self.url = f"postgresql://{parts.username}:none@127.0.0.1:{port}{parts.path}"
        lines = [
            "[databases]",
            f"* = host={sockets} user={parts.username}",
            "[pgbouncer]",
            "listen_addr = 127.0.0.1",
            f"listen_port = {port}",
            "unix_socket_dir =",
            "auth_type = any",
            "pool_mode = transaction",
            "max_prepared_statements = 200",
            "default_pool_size = 5",
            f"ignore_startup_parameters = {IGNORED}",
        ]
        if os.geteuid() == 0:
            lines.append(f"user = {sockets.owner()}")
        folder = Path(self._folder.name)
        folder.chmod(0o755)
        self._settings = folder / "pgbouncer.ini"
        self._settings.write_text("\n".join(lines), encoding="utf-8")

    def __enter__(self) -> "PgBouncer":
        loader = str(LIBRARIES / "ld-linux-x86-64.so.2")
        program = str(ROOT / "usr" / "sbin" / "pgbouncer")
        command = [loader, "--library-path", str(LIBRARIES), program, str(self._settings)]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port)).close()
            except ConnectionRefusedError:
                assert time.monotonic() < deadline and self._process.poll() is None
                time.sleep(0.02)
            else:
                return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()
