#!/usr/bin/env python3
"""The session-name check with the real Claude Code, from a fresh clone:

    tests/hosts/session_name.py --bin target/release/throughline [--claude PROGRAM | --version 2.1.332]

A session that shows its name goes through; one that does not is denied its tool, or the end of its turn, and told why. The
agent is the real program, which is installed by npm into target/hosts where it is missing; its model is a script in this
file, on loopback. Nothing leaves the machine but that installation, and everything is written below a temporary home.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAME = "Session - fix the parser"
BLOCK = f"```\n{NAME}\n```"
# The agent writes its transcript a little later than it goes on; a model takes longer than that.
THINKING = 0.5


def text(said):
    return {"type": "text", "text": said}


def bash(command):
    return {"type": "tool_use", "id": "toolu_" + uuid.uuid4().hex[:20], "name": "Bash", "input": {"command": command, "description": "runs it"}}


class Model(ThreadingHTTPServer):
    """Answers each request of the agent with the next step of a script; behind its end with the last one again."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = [[text("nothing to do")]]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, request):
        if not any(tool.get("name") == "Bash" for tool in request.get("tools", [])):
            return [text("no words")]                       # a title, a summary: not the conversation
        time.sleep(THINKING)
        step = sum(message.get("role") == "assistant" for message in request.get("messages", []))
        return self.script[min(step, len(self.script) - 1)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_): pass

    def do_HEAD(self): self.whole({})

    def do_GET(self): self.whole({})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if not self.path.split("?")[0].endswith("/messages"):
            return self.whole({"input_tokens": 1})
        blocks = self.server.answer(request)
        stop = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
        message = {"id": "msg_" + uuid.uuid4().hex[:24], "type": "message", "role": "assistant", "model": request.get("model"),
                   "content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        self.streamed(message) if request.get("stream") else self.whole(message)

    def whole(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def streamed(self, message):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        self.event("message_start", message={**message, "content": [], "stop_reason": None})
        for index, block in enumerate(message["content"]):
            empty, deltas = {
                "text": lambda: ({"text": ""}, [{"type": "text_delta", "text": block["text"]}]),
                "thinking": lambda: ({"thinking": "", "signature": ""}, [{"type": "thinking_delta", "thinking": block["thinking"]},
                                                                        {"type": "signature_delta", "signature": "c2lnbmVk"}]),
                "tool_use": lambda: ({"input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]),
            }[block["type"]]()
            self.event("content_block_start", index=index, content_block={**block, **empty})
            for delta in deltas:
                self.event("content_block_delta", index=index, delta=delta)
            self.event("content_block_stop", index=index)
        self.event("message_delta", delta={"stop_reason": message["stop_reason"], "stop_sequence": None}, usage=message["usage"])
        self.event("message_stop")

    def event(self, name, **members):
        self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **members})}\n\n".encode())
        self.wfile.flush()


class Home:
    """A user's home with the hooks registered, in which sessions run."""

    def __init__(self, root, program, claude, model):
        self.root, self.claude, self.model = root, claude, model
        self.project = os.path.join(root, "project")
        os.makedirs(self.project)
        # Where the hooks and the agent find it; a build directory would be warned of.
        self.program = os.path.join(root, "bin", "throughline")
        os.makedirs(os.path.dirname(self.program))
        shutil.copy(program, self.program)
        node = os.path.dirname(shutil.which("node") or "/usr/bin/node")
        self.env = {"HOME": root, "PATH": f"{os.path.dirname(self.program)}:{node}:/usr/bin:/bin", "TERM": "xterm", "ANTHROPIC_API_KEY": "stub",
                    "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_address[1]}", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        self.throughline("install", "--claude", "--session-name")

    def throughline(self, *arguments):
        return subprocess.run([self.program, *arguments], env=self.env, cwd=self.project, check=True, capture_output=True, text=True).stdout

    def session(self, *script):
        """Runs one session on this script; its id, its tools' answers in order, and whether each was an error."""
        self.model.script = script
        session = str(uuid.uuid4())
        done = subprocess.run([self.claude, "-p", "fix the parser", "--session-id", session, "--allowedTools", "Bash"],
                              env=self.env, cwd=self.project, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done
        rows = [json.loads(line) for line in self.transcript(session).splitlines()]
        contents = [row["message"]["content"] for row in rows if row.get("type") == "user"]
        results = [block for content in contents if isinstance(content, list) for block in content if block.get("type") == "tool_result"]
        return session, [(told(result["content"]), result.get("is_error") is True) for result in results]

    def transcript(self, session):
        for folder, _, names in os.walk(os.path.join(self.root, ".claude", "projects")):
            if session + ".jsonl" in names:
                with open(os.path.join(folder, session + ".jsonl")) as f:
                    return f.read()
        raise AssertionError("the session left no transcript")

    def status(self, session):
        return json.loads(self.throughline("session-name", "status", "--session", session, "--json"))["status"]

    def diagnostics(self):
        """What the hooks have logged since the last call: verdict and reason, or what was observed."""
        path = os.path.join(self.root, ".local/state/throughline/hook-diagnostics.jsonl")
        if not os.path.exists(path):
            return []
        with open(path) as f:
            lines = [json.loads(line) for line in f]
        os.remove(path)
        return [(line["event"], line["verdict"], line["reason"]) if "verdict" in line else line["session_name"] for line in lines]


def told(content):
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)


def observed(required, present):
    return {"observed": {"required": required, "present": present}}


SET_TASK = [bash("throughline session-name set-task 'fix the parser'")]
RETRY = [bash("throughline session-name retry")]
ECHO = bash("echo the tool has run")


def shown(home):
    """A session that shows its name, behind a thought, goes through."""
    session, results = home.session(SET_TASK, [{"type": "thinking", "thinking": "how to begin?"}, text(BLOCK + "\nI begin."), ECHO], [text("done")])
    assert [error for _, error in results] == [False, False] and "the tool has run" in results[1][0], results
    assert home.status(session) == "shown"
    # Where the reply is not on disk yet when its tool is asked for, it is seen at the end of the turn.
    log = home.diagnostics()
    assert log in ([observed(False, True)], [("pre-tool-use", "unavailable", "no_visible_reply"), observed(True, True)]), log


def denied(home):
    """A session that shows something else is denied its tool and told why; what it is told repairs it."""
    session, results = home.session(SET_TASK, [text("I begin."), ECHO], [text("I try again."), ECHO], RETRY, [text(BLOCK), ECHO], [text("done")])
    refused = [content for content, error in results if error]
    assert refused and all(BLOCK in content and "session-name retry" in content for content in refused), results
    # The first tool may come before the reply is on disk; the second cannot.
    assert results[2] == (refused[-1], True), results
    assert "the tool has run" in results[4][0] and not results[4][1], results
    assert home.status(session) == "shown"
    log = home.diagnostics()
    assert log.count(("pre-tool-use", "absent", "refused")) == len(refused), log


def stopped(home):
    """A session that ends its turn without its name is told to go on, and why."""
    session, results = home.session(SET_TASK, [text("I have done it.")], RETRY, [text(BLOCK + "\nI have done it.")])
    feedback = [row for row in map(json.loads, home.transcript(session).splitlines()) if "Stop hook feedback" in json.dumps(row)]
    assert feedback and BLOCK in told(feedback[0]["message"]["content"]), feedback
    assert len(results) == 2 and home.status(session) == "shown", results
    assert home.diagnostics() == [observed(True, False), ("stop", "absent", "refused"), observed(True, True)]


def let_go(home):
    """One that never shows it is let go."""
    session, _ = home.session(SET_TASK, [text("I have done it.")])
    assert home.status(session) == "pending"
    log = home.diagnostics()
    assert log.count(("stop", "absent", "refused")) == 5 and log[-1] == ("stop", "absent", "let_go"), log


def stored(home):
    """The turns of all of them are stored, whatever became of the check."""
    turns = json.loads(home.throughline("observer-read", "--project", home.project, "--json"))["turns"]
    threads = json.loads(home.throughline("observer-threads", "--project", home.project, "--json"))["threads"]
    assert turns and len(threads) == 4, (turns, threads)


def installed(version):
    """The agent, installed where it is missing."""
    directory = os.path.join(ROOT, "target", "hosts", version)
    program = os.path.join(directory, "node_modules", ".bin", "claude")
    if not os.path.exists(program):
        subprocess.run(["npm", "install", "--no-fund", "--no-audit", "--prefix", directory, f"@anthropic-ai/claude-code@{version}"], check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="the throughline to test")
    parser.add_argument("--claude", help="the agent's program")
    parser.add_argument("--version", default="2.1.332", help="the agent's version, where it is to be installed")
    arguments = parser.parse_args()
    claude = os.path.abspath(arguments.claude) if arguments.claude else installed(arguments.version)
    root = os.path.realpath(tempfile.mkdtemp(prefix="session-name-"))
    home = Home(root, os.path.abspath(arguments.bin), claude, Model())
    for scenario in (shown, denied, stopped, let_go, stored):
        try:
            scenario(home)
        except AssertionError as failure:
            print(f"{scenario.__name__}: FAILED: {failure}\n  its home is kept in {root}")
            sys.exit(1)
        print(f"{scenario.__name__}: {scenario.__doc__}")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
