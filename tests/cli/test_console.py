"""`toolwright serve` with the console."""

import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urljoin

import httpx2

from tests.cli.shell import Shell
from tests.cli.test_serve import url_of

HTML = {"accept": "text/html"}
ASSET = re.compile(
    r"""(?:src|href)="([^"]+)"|url\(["']?([^"')]+)|from "(/[^"]+)"|"(/console/_nicegui/[^"]+)" """
)


def test_the_console_is_served_signed_in_to_and_loads_nothing_from_elsewhere(shell: Shell) -> None:
    shell.env |= {"TOOLWRIGHT_CONSOLE": "true", "TOOLWRIGHT_SECRET_KEYS": "sk-of-the-test-which-is-long"}
    with shell.start_anew("serve", "app:app", "--port", "0") as server:
        url = url_of(server)
        with httpx2.Client(
            base_url=url, trust_env=False, timeout=60, headers=HTML, follow_redirects=True
        ) as client:
            assert "Secret key" in client.get("/console").text
            page = client.post("/console/sign-in", data={"secret_key": "sk-of-the-test-which-is-long"}).text
            assets = {urljoin(url, found) for each in ASSET.findall(page) for found in each if found}
            assert len(assets) > 8
            assert [each for each in assets if not each.startswith((f"{url}/console/", "data:"))] == []
            for each in assets:
                assert client.get(each).status_code == 200, each
        server.ctrl_c()
        assert server.end() == 0
    assert "Traceback" not in server.shown
    assert not (shell.folder / ".nicegui").exists()


def test_the_console_is_off_unless_it_is_asked_for(shell: Shell) -> None:
    with shell.start("serve", "app:app", "--port", "0") as server:
        url = url_of(server)
        assert httpx2.get(f"{url}/console/", headers=HTML, trust_env=False, timeout=60).status_code == 404
        server.ctrl_c()
        assert server.end() == 0


def test_without_nicegui_the_server_says_what_to_install(shell: Shell) -> None:
    shell.env |= {"TOOLWRIGHT_CONSOLE": "true", "PYTHONPATH": str(shell.folder)}
    shell.write("sitecustomize.py", "import sys\n\nsys.modules['nicegui'] = None\n")
    with shell.start_anew("serve", "app:app", "--port", "0") as server:
        assert server.end() == 1
    assert (
        "The console needs nicegui, which is not installed: pip install 'toolwright-agents[console]'."
    ) in server.shown
    assert "Traceback" not in server.shown


def test_ctrl_c_does_not_wait_for_pages_that_are_open(shell: Shell) -> None:
    shell.env |= {"TOOLWRIGHT_CONSOLE": "true"}
    with shell.start_anew("serve", "app:app", "--port", "0") as server, ThreadPoolExecutor(1) as pool:
        url = url_of(server)
        polling = f"{url}/console/_nicegui_ws/socket.io/?EIO=4&transport=polling"
        with httpx2.Client(trust_env=False, timeout=20) as client:
            opened = client.get(polling)
            assert opened.status_code == 200
            sid = re.search(r'"sid":"([^"]+)"', opened.text)
            assert sid is not None
            client.post(f"{polling}&sid={sid[1]}", content="40")
            client.get(f"{polling}&sid={sid[1]}")
            waiting = pool.submit(client.get, f"{polling}&sid={sid[1]}")  # no one answers this request
            server.ctrl_c()
            assert server.end() == 0
            waiting.exception(20)
    assert "Traceback" not in server.shown
