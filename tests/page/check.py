#!/usr/bin/env python3
"""Opens the page of an audit in headless Chromium, from its file, and does with it what a person does.

    check.py --page audit.html [--report audit.json] [--chromium chromium] [--pictures DIR]

Checked: every project has its row, with its numbers; each heading sorts, both ways; the filter and the choice filter; a
project shows its threads; the timeline and the bar are drawn; nothing is written to the console, and nothing is asked of
the network. With --pictures a screenshot in each colour scheme is left there. Ends with 1 at the first thing that is wrong.
Needs nothing but Python and Chromium.
"""
import argparse
import base64
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request


class Browser:
    """A page of Chromium, driven by its debugging protocol."""

    def __init__(self, program, home):
        arguments = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run",
                     "--disable-dev-shm-usage", "--force-device-scale-factor=1", f"--user-data-dir={home}", "--window-size=1400,1100", "about:blank"]
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        said = os.path.join(home, "DevToolsActivePort")
        deadline = time.monotonic() + 60
        while not (os.path.exists(said) and open(said).read().count("\n")):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("Chromium did not start")
            time.sleep(0.05)
        port = int(open(said).read().split("\n")[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            address = next(t for t in json.load(answer) if t["type"] == "page")["webSocketDebuggerUrl"]
        self.socket = connect(port, urllib.parse.urlparse(address).path)
        self.number, self.events = 0, []

    def call(self, method, **params):
        self.number += 1
        send(self.socket, json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = json.loads(receive(self.socket))
            if message.get("id") == self.number:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait_for(self, event):
        while not any(e["method"] == event for e in self.events):
            self.events.append(json.loads(receive(self.socket)))

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def click(self, selector):
        """As a mouse does: where the element is, if nothing lies on it."""
        at = self.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center', inline: 'center'}});"
                        f" const r = e.getBoundingClientRect(); return [r.x + Math.min(r.width / 2, 40), r.y + r.height / 2]; }})()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def type(self, selector, text):
        self.click(selector)
        self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text)

    def end(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait(timeout=30)


# ---------------------------------------------------------------- WebSocket, as much of it as is needed

def connect(port, path):
    s = socket.create_connection(("127.0.0.1", port), timeout=60)
    key = base64.b64encode(os.urandom(16)).decode()
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += s.recv(1)
    if b" 101 " not in answer.split(b"\r\n")[0]:
        raise SystemExit(f"no WebSocket: {answer[:80]!r}")
    return s


def send(s, text):
    data, mask = text.encode(), os.urandom(4)
    size = struct.pack("!B", 0x80 | len(data)) if len(data) < 126 else struct.pack("!BH", 0xFE, len(data)) if len(data) < 65536 else struct.pack("!BQ", 0xFF, len(data))
    s.sendall(b"\x81" + size + mask + bytes(b ^ mask[n % 4] for n, b in enumerate(data)))


def receive(s):
    whole = b""
    while True:
        first, size = exactly(s, 2)
        size &= 0x7F
        if size == 126:
            size, = struct.unpack("!H", exactly(s, 2))
        elif size == 127:
            size, = struct.unpack("!Q", exactly(s, 8))
        whole += exactly(s, size)
        if first & 0x80:
            return whole.decode()


def exactly(s, count):
    data = b""
    while len(data) < count:
        more = s.recv(count - len(data))
        if not more:
            raise SystemExit("Chromium has gone")
        data += more
    return data


# ---------------------------------------------------------------- the checks

PAIRS = 4                                   # the column of this name

def names(browser):
    return browser.value("[...document.querySelectorAll('#projects tbody tr.project td.name')].map(e => e.textContent)")


def cells(browser, column):
    return browser.value(f"[...document.querySelectorAll('#projects tbody tr.project')].map(e => e.children[{column}].textContent)")


def name_of(project):
    if project["root"] is not None:
        return project["root"]
    return f"(unknown path, {project['project_sha256'][:12]}…)" if project["project_sha256"] else "(no directory)"


def same(what, got, want):
    if got != want:
        raise SystemExit(f"{what}\n  got  {got}\n  want {want}")


def check(browser, report):
    projects = report["projects"]
    assert len(projects) > 2, "a report of more projects tells more"
    number = lambda n: f"{n:,}"
    same("projects in the order of the report", names(browser), [name_of(p) for p in projects])
    for column, value in ((PAIRS, lambda p: p["pairs"]), (PAIRS + 1, lambda p: p["turns"]["completed"]), (PAIRS + 2, lambda p: p["turns"]["open"]), (PAIRS + 9, lambda p: p["rows"])):
        same(f"column {column}", cells(browser, column), [number(value(p)) for p in projects])
    same("numbers of everything", browser.value("document.querySelector('#totals li b').textContent"), number(report["totals"]["projects"]))

    click = lambda column: browser.click(f"#projects thead th:nth-child({column + 1}) button")
    sorted_by = lambda column: browser.value(f"document.querySelector('#projects thead th:nth-child({column + 1})').getAttribute('aria-sort')")
    click(PAIRS)
    pairs = [p["pairs"] for p in projects]
    same("the most pairs first", cells(browser, PAIRS), [number(n) for n in sorted(pairs, reverse=True)])
    same("which is said", sorted_by(PAIRS), "descending")
    click(PAIRS)
    same("the fewest pairs first", cells(browser, PAIRS), [number(n) for n in sorted(pairs)])
    same("which is said", sorted_by(PAIRS), "ascending")
    click(0)
    same("by path", names(browser), sorted(name_of(p) for p in projects))
    same("only one column is sorted by", browser.value("document.querySelectorAll('#projects [aria-sort]').length"), 1)

    wanted = projects[-1]
    word = wanted["threads"][0]["thread"]
    browser.type("#filter", word.upper())
    has = lambda p: any(word in (t["thread"], *(c["thread"] for c in t["children"])) for t in p["threads"])
    same("those with that thread", names(browser), sorted(name_of(p) for p in projects if has(p)))
    same("how many these are", browser.value("document.getElementById('shown').textContent").split(" projects")[0],
         f"{sum(map(has, projects))} of {len(projects)}")
    browser.type("#filter", "nothing is called so")
    same("none", names(browser), [])
    browser.type("#filter", " ")
    for only, holds in (("open", lambda p: p["turns"]["open"] > 0), ("unreadable", lambda p: p["unreadable_rows"] > 0), ("unknown", lambda p: bool(p["unknown_types"])),
                        ("bodies", lambda p: p["bodies_present"] != p["pairs"]), ("", lambda p: True)):
        browser.value(f"(() => {{ const e = document.getElementById('only'); e.value = {json.dumps(only)}; e.dispatchEvent(new Event('change')); }})()")
        same(f"only {only or 'all'}", names(browser), sorted(name_of(p) for p in projects if holds(p)))

    first = next(p for p in projects if name_of(p) == names(browser)[0])
    browser.click("#projects tbody tr.project td.name button")
    threads = browser.value("[...document.querySelectorAll('#projects tr.threads .mono')].map(e => e.textContent.replace('└ ', '').replace(' (archived)', ''))")
    same("threads of the first one", threads, [x["thread"] for t in first["threads"] for x in (t, *t["children"])])
    browser.click("#projects tbody tr.project td.name button")
    same("and gone again", browser.value("document.querySelectorAll('#projects tr.threads').length"), 0)

    lines = min(300, sum(len(p["completions"]) for p in projects))
    same("lines of the timeline", browser.value("document.querySelectorAll('#timeline svg line').length"), lines)
    for host in ("codex", "claude"):
        days = sum(len(p["completions"].get(host, {})) for p in projects)
        bars = browser.value(f"document.querySelectorAll('#timeline rect.{host}').length")
        if not 0 < bars <= days:
            raise SystemExit(f"{bars} bars of {host} for {days} days")
    types = {name for p in projects for name in p["row_types"]}
    same("parts of the bar", browser.value("document.querySelectorAll('#types .bar div').length"), min(8, len(types)))
    notes = len(report["unreadable"]) + len(report["files_of_no_thread"]) + sum(len(p["unknown_types"]) for p in projects) + (not report["complete"]) + \
        sum(f["unreadable_rows"] > 0 for p in projects for t in p["threads"] for x in (t, *t["children"]) for f in x["files"])
    same("what is to be looked at", browser.value("document.querySelectorAll('#notes li').length"), min(notes, 301))


def contrast(browser):
    """Texts stand out from what is behind them (WCAG AA)."""
    return browser.value("""(() => {
      const luminance = color => {
        const [r, g, b] = color.match(/[0-9.]+/g).map(Number).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const behind = e => { while (e) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c) && c !== 'transparent') return c; e = e.parentElement; } return 'rgb(255, 255, 255)'; };
      const low = [];
      for (const e of document.querySelectorAll('h1, h2, .soft, .warn, .bad, th, th button, td, td button, option, input, .legend span')) {
        if (!e.textContent.trim() || !e.getClientRects().length) continue;
        const [a, b] = [luminance(getComputedStyle(e).color), luminance(behind(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) low.push(`${e.tagName} ${e.textContent.slice(0, 30)}: ${ratio.toFixed(2)}`);
      }
      return low;
    })()""")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--page", required=True)
    p.add_argument("--report")
    p.add_argument("--chromium", default="chromium")
    p.add_argument("--pictures")
    a = p.parse_args()
    address = "file://" + urllib.parse.quote(os.path.abspath(a.page))
    with tempfile.TemporaryDirectory(prefix="page-", ignore_cleanup_errors=True) as home:
        browser = Browser(a.chromium, home)
        try:
            for domain in ("Page", "Runtime", "Log", "Network"):
                browser.call(f"{domain}.enable")
            browser.call("Page.navigate", url=address)
            browser.wait_for("Page.loadEventFired")
            if a.report:
                with open(a.report) as f:
                    report = json.load(f)
                same("the report in the page", browser.value("report"), report)
            check(browser, browser.value("report"))
            for scheme in ("light", "dark"):
                browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                same(f"colours of the {scheme} scheme", contrast(browser), [])
                if a.pictures:
                    whole = {"x": 0, "y": 0, "width": 1400, "height": 1500, "scale": 1}
                    picture = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip=whole)["data"]
                    with open(os.path.join(a.pictures, f"audit-{scheme}.png"), "wb") as f:
                        f.write(base64.b64decode(picture))
            said = [e for e in browser.events if e["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")]
            same("on the console", said, [])
            asked = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
            same("asked for", [url for url in asked if not url.startswith("data:")], [address])
        finally:
            browser.end()
    print("the page is as it should be")


if __name__ == "__main__":
    sys.exit(main())
