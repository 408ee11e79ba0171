"""Opens the built site in Chromium as a reader would: from a server and from a file (make site-test).

Needs chromium and chromedriver on the path, and selenium (extra `docs`).
"""

import argparse
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "build" / "site" / "html"
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--window-size=1280,1000",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--allow-file-access-from-files",
)
SECONDS = 40
OPENS_IN = 2.0  # seconds for the page of a trace


@contextmanager
def browser() -> Iterator[Any]:
    """A Chromium that notes what it asks for and what its console says."""
    chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if chromium is None or driver is None:
        sys.exit("chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for option in (*OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(option)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            yield opened
        finally:
            opened.quit()


def requests(opened: Any) -> list[str]:
    """The addresses that were asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def complaints(opened: Any) -> list[str]:
    """What the console said that a reader should not see."""
    return [entry["message"] for entry in opened.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def wait(opened: Any, what: Any) -> Any:
    return WebDriverWait(opened, SECONDS).until(what)


@contextmanager
def server(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{served.server_port}/"
    finally:
        served.shutdown()


def visit(opened: Any, start: str) -> None:
    """The start page, a search, the page it finds, its source, and a chapter."""
    opened.get(start + "index.html")
    assert "mindtorch_v2" in opened.title
    box = wait(opened, lambda b: b.find_element(By.CSS_SELECTOR, "input.md-search__input"))
    box.click()
    opened.execute_script("arguments[0].value = 'softma'", box)  # lunr complains of a single letter
    box.send_keys("x")
    found = wait(
        opened,
        lambda b: [
            link
            for link in b.find_elements(By.CSS_SELECTOR, "a.md-search-result__link")
            if "api/softmax.html" in (link.get_attribute("href") or "")
        ],
    )
    opened.execute_script("arguments[0].click()", found[0])
    wait(opened, lambda b: b.find_element(By.CSS_SELECTOR, "h1").text.startswith("torch.softmax"))
    assert opened.find_elements(By.CSS_SELECTOR, ".equation math mfrac"), "the formula is not there"
    assert opened.find_element(By.CSS_SELECTOR, ".equation math").size["height"] > 10, "the formula is not shown"
    assert "tensor([0.2119, 0.2119, 0.5761])" in opened.find_element(By.TAG_NAME, "body").text
    source = next(
        a
        for a in opened.find_elements(By.CSS_SELECTOR, "article a")
        if "/source/_ops/softmax.py" in a.get_attribute("href")
    )
    opened.get(source.get_attribute("href"))
    line = opened.find_element(By.CSS_SELECTOR, "span:target")
    assert 'op("softmax(Tensor self' in line.text, line.text
    opened.get(start + "chapters/04_autograd.html")
    wait(opened, lambda b: "engine" in b.find_element(By.CSS_SELECTOR, "h1").text)
    assert opened.find_elements(By.CSS_SELECTOR, "article .picture svg"), "the chapter has no picture"
    assert "MulBackward0" in opened.find_element(By.TAG_NAME, "article").text, "the chapter shows no results"
    solution = opened.find_element(By.CSS_SELECTOR, "details summary")
    solution.click()
    assert opened.find_element(By.CSS_SELECTOR, "details[open] pre").is_displayed()


def step_through_trace(opened: Any, screenshot: Path | None = None) -> None:
    """The trace of a GPT's training step: opened in time, clicked through, searched."""
    program = ROOT / "examples" / "trace_gpt.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-m", "mindtorch_v2", str(program)], check=True, env=environment)
    opened.get((program.parent / "out" / "trace.html").as_uri())
    ready = float(wait(opened, lambda b: b.find_element(By.TAG_NAME, "body").get_attribute("data-ready"))) / 1000
    assert ready < OPENS_IN, f"the page took {ready:.1f} s"

    def text(name: str) -> str:
        return opened.find_element(By.ID, name).text

    def steps() -> int:
        return int(text("where").split()[1])

    assert steps() == 0 and "GPT" in text("rows") and "backward" in text("rows")
    opened.find_element(By.ID, "next").click()
    assert steps() == 1
    opened.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_RIGHT)
    assert steps() == 2
    box = opened.find_element(By.ID, "find")
    box.send_keys("scaled_dot_product_attention operator")
    assert text("hits").startswith("4 found"), text("hits")  # one for each layer
    box.send_keys(Keys.ENTER)
    assert text("name").startswith("scaled_dot_product_attention") and "GPT.blocks.0" in text("crumbs")
    assert "scaled_dot_product_attention" in opened.find_element(By.CSS_SELECTOR, "#python .here").text
    assert "AutogradCPU" in text("dispatch") and "CPU" in text("dispatch")
    assert "(8,4,64,32)" in text("values") and "@composite(" in text("source")
    if screenshot is not None:
        opened.save_screenshot(str(screenshot))
    runs = opened.find_element(By.CSS_SELECTOR, "#autograd a:last-of-type")
    forward = steps()
    opened.execute_script("arguments[0].click()", runs)  # to where backward runs the node
    assert steps() > forward and "Recorded by" in text("autograd") and text("crumbs").startswith("backward")
    crumb = opened.find_element(By.CSS_SELECTOR, "#crumbs a")
    crumb.click()
    assert text("name").startswith("backward")
    row = next(r for r in opened.find_elements(By.CSS_SELECTOR, ".row") if "NllLoss" in r.text)
    row.click()
    assert "NllLoss" in text("name") and "blocks" in text("alive")
    opened.find_element(By.CSS_SELECTOR, "#memory").click()
    said = complaints(opened)
    assert not said, f"the console says: {said}"
    print(f"ok   trace of a GPT step: ready in {ready:.2f} s, stepped through")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace-only", action="store_true", help="look at the page of a trace and not at the site")
    parser.add_argument("--screenshot", type=Path, help="where to write a picture of the trace")
    options = parser.parse_args()
    with browser() as opened:
        opened.set_window_size(1400, 1000)
        step_through_trace(opened, options.screenshot)
    if options.trace_only:
        return 0
    if not (HTML / "index.html").exists():
        sys.exit("there is no site yet: make site")
    with browser() as opened, server(HTML) as address:
        for start in (address, HTML.as_uri() + "/"):
            begun = time.perf_counter()
            visit(opened, start)
            foreign = [
                url for url in requests(opened) if not url.startswith((start, "data:", "blob:", "chrome", "about:"))
            ]
            assert not foreign, f"asked of other hosts: {foreign}"
            said = complaints(opened)
            assert not said, f"the console says: {said}"
            took = time.perf_counter() - begun
            print(f"ok   {start.partition(':')[0]}: search, reference, source, chapter  {took:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
