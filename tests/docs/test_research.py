"""The research example runs offline, served by the command in a separate process."""

import os
import re
import subprocess
import sys
from pathlib import Path

RESEARCH = Path(__file__).parents[2] / "examples" / "research"


def test_the_newsroom_plays_through(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
    environ |= {"PYTHONUNBUFFERED": "1", "TOOLWRIGHT_DATABASE_URL": f"sqlite:///{tmp_path}/journal.db"}
    serve = [sys.executable, "-m", "toolwright.cli", "serve", "app:app", "--port", "0"]
    with subprocess.Popen(
        serve, cwd=RESEARCH, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            assert server.stdout is not None
            address = next(
                found[0] for line in server.stdout if (found := re.search(r"http://[\d.]+:\d+", line))
            )
            play = [sys.executable, "play.py", address]
            played = subprocess.run(
                play, cwd=RESEARCH, capture_output=True, text=True, timeout=60, check=False
            )
        finally:
            server.terminate()
    assert played.returncode == 0, played.stderr
    said = played.stdout.splitlines()
    assert said[:2] == ["Missing: NEWS_KEY for subagent_env_required", "Given: the researcher begins."]
    assert any("Ferries have grown by 13 percent since 2022." in line for line in said)
    assert any("More Ferries Than Ever" in line for line in said)
    assert any("Nina has added: a new line opens in spring." in line for line in said)
    assert "a-key-of-my-own" not in played.stdout
