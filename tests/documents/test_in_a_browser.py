"""The site in a real browser: its search finds pages, scripts report no errors, and a phone can show it.

Needs Debian's chromium and chromium-driver, which scripts/test-long installs.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from tests.documents.test_questions import QUESTIONS, build_site, keywords
from tests.mount.conftest import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("chromedriver") is None, reason="needs Debian's package chromium-driver"),
]

ASKED = QUESTIONS[::10]
"""Ten or eleven questions."""

NARROW_PX = 400
FOUND_AMONG = 3

BROWSER = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]

SEARCH = """
const input = document.querySelector("[data-md-component=search-query]");
input.focus(); input.value = arguments[0];
input.dispatchEvent(new Event("input", {bubbles: true}));
input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
"""
FOUND = """
const links = document.querySelectorAll(".md-search-result__item > .md-search-result__link");
return Array.from(links, link => link.pathname);
"""


class Driver:
    """One browser window, by the WebDriver protocol."""

    def __init__(self, address: str, profile: Path) -> None:
        self._address = address
        options = {"args": [*BROWSER, f"--user-data-dir={profile}"], "binary": shutil.which("chromium")}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self._ask("session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"session/{made['sessionId']}"

    def _ask(self, path: str, content: Mapping[str, object] | None, method: str = "POST") -> Any:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self._address}/{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def go(self, url: str) -> None:
        self._ask(f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        return self._ask(f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def make_narrow(self, width_px: int) -> None:
        self._ask(f"{self._session}/window/rect", {"width": width_px, "height": 800})

    def errors(self) -> list[str]:
        said = self._ask(f"{self._session}/se/log", {"type": "browser"})
        return [one["message"] for one in said if one["level"] == "SEVERE"]

    def close(self) -> None:
        self._ask(self._session, None, "DELETE")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine alone."""

    class Quiet(SimpleHTTPRequestHandler):
        said: Final[list[object]] = []
        """What it would print of each request."""

        def log_message(self, *told: object) -> None:
            self.said.append(told)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=sys.stderr)
    try:
        until(lambda: listens(port), "the driver answers")
        made = Driver(f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("profile"))
        yield made
        made.close()
    finally:
        program.terminate()
        program.wait()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(build_site(tmp_path_factory.mktemp("site"))) as address:
        yield address


def test_the_search_of_a_browser_finds_the_pages(driver: Driver, site: str) -> None:
    missed = []
    for question in ASKED:
        wanted = f"/{question.page.removesuffix('.md')}.html"
        driver.go(f"{site}/index.html")
        driver.run(SEARCH, " ".join(keywords(question.ask)))
        until(lambda: driver.run(FOUND), f"something is found for {question.ask!r}")
        first = driver.run(FOUND)[:FOUND_AMONG]
        if wanted not in first:
            missed.append((question.ask, wanted, first))
    assert not missed
    assert not driver.errors()


def test_pages_can_be_read_on_a_phone(driver: Driver, site: str) -> None:
    driver.make_narrow(NARROW_PX)
    for page in ("index", "about", "tutorial/shell", "reference/settings", "use/take"):
        driver.go(f"{site}/{page}.html")
        assert driver.run("return document.documentElement.scrollWidth <= window.innerWidth"), page
    assert not driver.errors()
