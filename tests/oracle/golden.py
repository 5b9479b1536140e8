#!/usr/bin/env python3
"""Makes the golden cases of corpus/golden: small stores, calls on them, and the exact bytes that have to come back.

    golden.py            writes corpus/golden/<section>/<name>.json
    golden.py --check    compares them with what would be written; ends with 1 on a difference

A case is a function below. It builds a store step by step, and each call is answered by the oracle, so that the file
holds inputs and expected bytes and nothing has to be computed to use it. tests/it/golden.rs replays the steps with the
program.

Why the bytes are the same on every machine: the program runs inside a fresh directory with HOME=home, a relative path
(which stays relative in digests), and the project is /usr, which exists everywhere. `{ROOT}` in a string stands for
the absolute real path of the fresh directory.

A case is {"about", "env"?, "steps"}; its steps are, one after the other,

    {"write": path, "lines": […], "sep"?: "\\n", "end"?: "\\n", "append"?: true, "mode"?: "0600"}   or "base64" for "lines"
    {"link": path, "to": target}   {"remove": path}   {"rename": [from, to]}   {"mkdir": path, "mode"?}   {"fifo": path}
    {"db": {"version", "sessions": [[session, project]], "bodies": [[session, origin, turn, role, text, created_at]], "sql"?: […]}}
    {"run": [command, …], "exit", "stdout", "stderr"}

"db" replaces the database whole; a value of a body may be {"blob": base64} or, for text that is no UTF-8, {"text_bytes": base64}.
A case asks only for what the contract fixes: where it leaves something to the reader (deeper nesting, repeated keys behind the
exact start of a row of no interest), there is none.
"""
from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from datetime import datetime, timezone

sys.dont_write_bytecode = True
import oracle  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "corpus", "golden")

# ---------------------------------------------------------------- steps, as the harness plays them

SCHEMA_9 = """
CREATE TABLE sessions (session_id TEXT PRIMARY KEY, project_path TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'active',
  created_at INTEGER NOT NULL DEFAULT 0, updated_at INTEGER NOT NULL DEFAULT 0, merged_into TEXT);
CREATE TABLE bodies (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, origin_session_id TEXT NOT NULL,
  turn_number INTEGER NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL, token_count INTEGER, created_at INTEGER NOT NULL,
  UNIQUE(session_id, origin_session_id, turn_number, role));
CREATE INDEX idx_bodies_session_created ON bodies(session_id, created_at);
"""
DATABASE = "home/.throughline/throughline.db"


def fill(value, root):
    """The value with the fresh directory in place of {ROOT}, in every string."""
    if isinstance(value, str):
        return value.replace("{ROOT}", root)
    if isinstance(value, list):
        return [fill(v, root) for v in value]
    if isinstance(value, dict):
        return {k: fill(v, root) for k, v in value.items()}
    return value


def play(step: dict, root: str):
    """Does what a step says, but for calls. The working directory is the fresh directory."""
    step = fill(step, root)
    if "write" in step:
        path = step["write"]
        if os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        data = base64.b64decode(step["base64"]) if "base64" in step else \
            (step.get("sep", "\n").join(step["lines"]) + step.get("end", "\n")).encode()
        with open(path, "ab" if step.get("append") else "wb") as f:
            f.write(data)
        if "mode" in step:
            os.chmod(path, int(step["mode"], 8))
    elif "link" in step:
        os.makedirs(os.path.dirname(step["link"]) or ".", exist_ok=True)
        os.symlink(step["to"], step["link"])
    elif "remove" in step:
        path = step["remove"]
        (shutil.rmtree if os.path.isdir(path) and not os.path.islink(path) else os.remove)(path)
    elif "rename" in step:
        os.makedirs(os.path.dirname(step["rename"][1]) or ".", exist_ok=True)
        os.rename(*step["rename"])
    elif "mkdir" in step:
        os.makedirs(step["mkdir"], exist_ok=True)
        if "mode" in step:
            os.chmod(step["mkdir"], int(step["mode"], 8))
    elif "fifo" in step:
        os.makedirs(os.path.dirname(step["fifo"]) or ".", exist_ok=True)
        os.mkfifo(step["fifo"])
    elif "db" in step:
        database(step["db"])
    else:
        raise ValueError(f"unknown step {step}")


def database(spec: dict):
    """Replaces the database: schema 9 with these rows, then the statements of "sql"."""
    os.makedirs(os.path.dirname(DATABASE), exist_ok=True)
    for end in ("", "-wal", "-shm"):
        if os.path.lexists(DATABASE + end):
            os.remove(DATABASE + end)
    db = sqlite3.connect(DATABASE)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(SCHEMA_9)
    db.executemany("INSERT INTO sessions (session_id, project_path) VALUES (?, ?)", spec["sessions"])
    for row in spec["bodies"]:
        slots = ["CAST(? AS TEXT)" if isinstance(v, dict) and "text_bytes" in v else "?" for v in row]
        values = [base64.b64decode(next(iter(v.values()))) if isinstance(v, dict) else v for v in row]
        db.execute("INSERT INTO bodies (session_id, origin_session_id, turn_number, role, text, created_at) VALUES (" + ", ".join(slots) + ")",
            values)
    for statement in spec.get("sql", []):
        db.execute(statement)
    db.commit()
    db.execute(f"PRAGMA user_version = {spec['version']}")
    db.close()


# ---------------------------------------------------------------- rows

T0 = 1767607200                       # 2026-01-05T10:00:00Z


def ms(sec: float) -> int:
    return round((T0 + sec) * 1000)


def at(sec: float) -> str:
    t = ms(sec)
    return datetime.fromtimestamp(t // 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{t % 1000:03d}Z"


def v7(sec: int, n: int = 0) -> str:
    """A version 7 UUID of that second."""
    h = f"{ms(sec):012x}"
    return f"{h[:8]}-{h[8:]}-7{n:03x}-8abc-{n:012x}"


A, B, C, D = (v7(s) for s in (0, 100, 200, 300))     # thread ids


def compact(value) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def row(sec, kind, payload, ordinal=None) -> str:
    number = {} if ordinal is None else {"ordinal": ordinal}
    return compact({"timestamp": at(sec) if isinstance(sec, (int, float)) else sec, **number, "type": kind, "payload": payload})


def meta(sec, thread, cwd="/usr", **more) -> str:
    return row(sec, "session_meta", {"id": thread, "timestamp": at(sec), "cwd": cwd, "originator": "codex_cli_rs", "cli_version": "0.140.0",
        "source": "cli", **more})


def event(sec, kind, ordinal=None, **fields) -> str:
    return row(sec, "event_msg", {"type": kind, **fields}, ordinal)


def started(sec, turn) -> str:
    return event(sec, "task_started", turn_id=turn)


def prompt(sec, text, **more) -> str:
    return event(sec, "user_message", message=text, **more)


def reply(sec, text, phase="final_answer") -> str:
    return event(sec, "agent_message", message=text, phase=phase)


def finished(sec, turn, last=None, **more) -> str:
    return event(sec, "task_complete", turn_id=turn, last_agent_message=last, **more)


def aborted(sec, turn) -> str:
    return event(sec, "turn_aborted", turn_id=turn, reason="interrupted")


def undone(sec, count) -> str:
    return event(sec, "thread_rolled_back", num_turns=count)


def item(sec, turn, kind, text, ordinal=None) -> str:
    tag = "text" if kind == "UserMessage" else "Text"
    return event(sec, "item_completed", ordinal, turn_id=turn, item={"type": kind, "id": "item", "content": [{"type": tag, "text": text}]})


def said(sec, role, text) -> str:
    """A message as the model gets it; never one of the turn's."""
    return row(sec, "response_item", {"type": "message", "role": role, "content": [{"type": "output_text" if role == "assistant" else "input_text",
        "text": text}]})


def turn(sec, turn_id, ask, answer) -> list:
    """A turn as Codex writes it, complete after two seconds."""
    return [started(sec, turn_id), prompt(sec, ask), reply(sec + 1, answer), finished(sec + 2, turn_id, answer)]


def flat(rows) -> list:
    return [x for r in rows for x in (flat(r) if isinstance(r, (list, tuple)) else [r])]


def restamped(rows, sec) -> list:
    """The rows as a copy that was made at that moment."""
    return [compact({**json.loads(r), "timestamp": at(sec)}) for r in flat(rows)]


def rollout(thread, second=None, folder="home/.codex/sessions/2026/01/05", stamp="2026-01-05T10-00-00") -> str:
    return f"{folder}/rollout-{stamp}-{thread}{'_' + second if second else ''}.jsonl"


FA, FB, FC, FD = map(rollout, (A, B, C, D))


# ---------------------------------------------------------------- receipts and tokens

RECEIPTS = "home/.local/state/throughline/completed-turn-receipts"
PROJECT = oracle.sha256("/usr")
STORE = f"{RECEIPTS}/{PROJECT}.json"


def receipt(number, session, ask, answer, sec, origin=None, **more) -> dict:
    return {"schema_version": "1.0", "host": "claude", "project_sha256": PROJECT, "target_session_id": session,
        "origin_session_id": origin or session,
            "user_sha256": oracle.body_sha256(ask), "assistant_sha256": oracle.body_sha256(answer), "completed_at": ms(sec), "sequence": number,
            **more}


def store(receipts, floor=1, **more) -> dict:
    return {"schema": oracle.STORE_SCHEMA, "project_sha256": PROJECT, "next_sequence": floor + len(receipts), "history_floor": floor,
        "receipts": receipts, **more}


EMPTY = oracle.cursor_of(oracle.EMPTY, PROJECT)


def opened(token: str) -> dict:
    return json.loads(base64.urlsafe_b64decode(token[5:] + "=" * (-len(token[5:]) % 4)))


def sealed(prefix: str, raw) -> str:
    """A token of this value, or of this very spelling."""
    raw = raw if isinstance(raw, str) else compact(raw)
    return prefix + base64.urlsafe_b64encode(raw.encode()).rstrip(b"=").decode()


# ---------------------------------------------------------------- cases

class Case:
    """One case while it is made."""

    def __init__(self, root: str, env: dict):
        self.root, self.env, self.steps = root, env, []
        self.pairs = []                # (session, origin, number, user, assistant, second) that a Claude hook has stored

    def step(self, **step):
        self.steps.append(step)
        play(step, self.root)

    def write(self, path, *rows, **how):
        self.step(write=path, lines=flat(rows), **how)

    def append(self, path, *rows, **how):
        self.step(write=path, lines=flat(rows), append=True, **how)

    def bytes(self, path, data: bytes, **how):
        self.step(write=path, base64=base64.b64encode(data).decode(), **how)

    def receipts(self, value, **how):
        """Writes the receipt store, private as it has to be."""
        self.step(mkdir=RECEIPTS, mode="0700")
        self.write(STORE, value if isinstance(value, str) else compact(value), **{"mode": "0600", **how})

    def claude(self, *pairs, floor=1):
        """The store and, for the next capture, the bodies of these (session, ask, answer, second[, origin])."""
        rows = [receipt(floor + i, s, u, a, sec, *o) for i, (s, u, a, sec, *o) in enumerate(pairs)]
        self.receipts(store(rows, floor))
        self.pairs = [(s, o[0] if o else s, i, u, a, sec) for i, (s, u, a, sec, *o) in enumerate(pairs)]

    def db(self, sessions, bodies, version=9, **more):
        self.step(db={"version": version, "sessions": sessions, "bodies": bodies, **more})

    def capture(self, version=9, **more):
        """A database that holds all that a capture would store of the threads and the Claude pairs by now."""
        sessions, bodies = self.captured()
        self.db(sessions, bodies, version, **more)

    def captured(self) -> tuple[list, list]:
        sessions, bodies = [], []
        for thread, files in sorted(oracle.codex_threads(self.environment()).items()):
            current = oracle.current_file(files)
            if current.cwd is None or not current.root or not current.cwd.startswith("/") or "\0" in current.cwd:
                continue
            session = "codex:" + thread
            sessions.append([session, current.cwd.replace(self.root, "{ROOT}")])
            for i, (number, user, assistant) in enumerate(oracle.stored_turns(current, files)):
                bodies += [[session, session, number, role, text, ms(i)] for role, text in (("user", user), ("assistant", assistant)) if text]
        latest: dict = {}
        for session, origin, number, user, assistant, sec in self.pairs:
            if [session, "/usr"] not in sessions:
                sessions.append([session, "/usr"])
            latest[session] = max(latest.get(session, 0), ms(sec))          # created_at never decreases along a session
            bodies += [[session, origin, number, role, text, latest[session]] for role, text in (("user", user), ("assistant", assistant))]
        return sessions, bodies

    def environment(self) -> oracle.Env:
        env = fill(self.env, self.root)
        return oracle.Env("home", env.get("CODEX_HOME") or None, env.get("XDG_STATE_HOME") or None)

    def run(self, *argv):
        call = oracle.observer_threads if argv[0] == "observer-threads" else oracle.observer_read
        code, out, err = call(self.environment(), [fill(a, self.root) for a in argv[1:]])
        assert self.root not in out + err, "an answer names the fresh directory"
        self.steps.append({"run": list(argv), "exit": code, "stdout": out, "stderr": err})
        return json.loads(out or err)

    def read(self, *argv, after=None, through=None, page=None, limit=None, project="/usr"):
        """observer-read of the project. `wants` of the last answer can be checked by the caller."""
        options = [("--after-cursor", after), ("--through-cursor", through), ("--page-token", page), ("--limit", limit)]
        return self.run("observer-read", "--project", project, *[str(x) for o in options if o[1] is not None for x in o], *argv, "--json")

    def threads(self, *argv, project="/usr"):
        return self.run("observer-threads", "--project", project, "--json", *argv)


CASES: dict = {}


def case(name, about, **env):
    """Registers a case; `env` holds further environment variables of its calls."""
    def register(f):
        assert name not in CASES, name
        CASES[name] = (about, env, f)
        return f
    return register


def asks(answer) -> list:
    """The prompts of an answer's turns; a guard for the cases' own claims."""
    assert answer["status"] in ("snapshot", "delta", "thread_switched", "host_switched"), answer
    return [t["user"] for t in answer["turns"]]


def expect(got, want):
    assert got == want, f"{str(got)[:400]} is not {str(want)[:400]}"


# ---------------------------------------------------------------- codex: what counts as a completed turn

def thread(name, about, rows, want, cwd="/usr", **how):
    """The plainest case: one thread of these rows, captured and read once; `want` are the prompts that have to come."""
    @case(name, about)
    def build(c):
        c.write(FA, meta(0, A, cwd), rows, **how)
        c.capture()
        expect(asks(c.read()), want)


thread("codex/plain-turn", "One thread with one completed turn is a snapshot of one pair.", turn(1, "t1", "rename the flag", "renamed"),
    ["rename the flag"])

thread("codex/abort-closes-the-turn", "An aborted turn is over but no pair, and the next turn has its own answer.",
       [started(1, "t1"), prompt(1, "long job"), reply(2, "working on it", "commentary"), said(3, "user", "<turn_aborted> note"), aborted(3, "t1"),
        finished(4, "t1", "too late"), turn(10, "t2", "second", "done")], ["second"])

thread("codex/abort-without-turn-id", "An abort that names no turn closes the open one.",
       [started(1, "t1"), prompt(1, "first"), reply(2, "half"), event(3, "turn_aborted", reason="interrupted"), reply(4, "stray"),
        finished(5, "t1", "stray"), turn(10, "t2", "second", "done")], ["second"])

thread("codex/abort-of-a-foreign-turn", "An abort whose id names no turn here leaves the open one alone.",
       [started(1, "t1"), prompt(1, "first"), aborted(2, "elsewhere"), reply(3, "answer"), finished(4, "t1"), turn(10, "t2", "second", "done")],
       ["first", "second"])

thread("codex/commentary-joins-the-answer", "Every assistant message of a turn counts, whatever its phase; they are joined by a blank line.",
       [started(1, "t1"), prompt(1, "ask"), reply(2, "looking", "commentary"), reply(3, "the answer"), reply(4, "tidying", "commentary"),
       finished(5, "t1", "looking")], ["ask"])

thread("codex/completion-without-answer", "A completed turn without assistant text is no pair and borrows no other turn's answer.",
       [turn(1, "t1", "one", "answer one"), started(10, "t2"), prompt(10, "two"), finished(11, "t2"), turn(20, "t3", "three", "answer three")],
       ["one", "three"])

thread("codex/last-message-stands-in", "Only a turn without any assistant message takes last_agent_message as its answer.",
       [started(1, "t1"), prompt(1, "one"), finished(2, "t1", "  stands \n in "), started(3, "t2"), prompt(3, "two"), reply(4, "said"),
       finished(5, "t2", "not this"),
        started(6, "t3"), prompt(6, "three"), finished(7, "t3", " \n\t"), started(8, "t4"), prompt(8, "four"), finished(9, "t4", 7)], ["one", "two"])

COMPACTION = [started(20, "tc"), row(21, "compacted", {"message": "summary", "replacement_history": [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]}]}), event(21, "context_compacted"), finished(22, "tc")]

thread("codex/compaction-is-its-own-task", "A compaction task has no prompt and is no pair; the history in its row is not read as messages.",
       [turn(1, "t1", "one", "first"), COMPACTION, turn(30, "t2", "two", "second")], ["one", "two"])

thread("codex/compaction-inside-a-turn", "A compacted row in the middle of a turn changes nothing.",
       [started(1, "t1"), prompt(1, "one"), reply(2, "before"), COMPACTION[1:3], reply(23, "after"), finished(24, "t1")], ["one"])

thread("codex/review-is-no-pair", "A review has no prompt of a person: a real turn, but no pair.",
       [started(1, "t1"), event(1, "entered_review_mode", target={"type": "uncommittedChanges"}), event(9, "exited_review_mode",
       review_output={"overall_explanation": "fine"}),
        said(9, "user", "<user_action> review result"), said(9, "assistant", "summary"), reply(9, "summary"), finished(10, "t1", "summary"),
        turn(20, "t2", "ask", "done")], ["ask"])

thread("codex/shell-turn-is-no-pair", "A turn of a shell command alone has no message and is no pair, but it takes a number.",
       [started(1, "t1"), event(1, "exec_command_end", call_id="c", stdout="x"), finished(2, "t1"), turn(3, "t2", "ask", "done")], ["ask"])

thread("codex/image-only-turn", "A prompt without text makes no pair.",
       [started(1, "t1"), prompt(1, "", images=["data:"]), reply(2, "a cat"), finished(3, "t1"),
        started(4, "t2"), event(4, "item_completed", turn_id="t2", item={"type": "UserMessage", "content": [{"type": "image", "url": "data:"}]}),
        reply(5, "a dog"), finished(6, "t2"),
        turn(7, "t3", "and this", "a bird")], ["and this"])

thread("codex/response-items-are-no-messages", "Text that stands only in response_item rows belongs to the model's input, not to the turn; where an event tells it too it counts once.",
       [started(1, "t1"), said(1, "user", "<environment_context>x</environment_context>"), said(1, "user", "real ask"), said(2, "assistant",
       "answer"), finished(3, "t1"),
        started(4, "t2"), said(4, "user", "told twice"), prompt(4, "told twice"), said(5, "assistant", "yes"), reply(5, "yes"),
        finished(6, "t2", "yes")], ["told twice"])

thread("codex/injected-preamble", "A user text that starts with the instructions heading is not a prompt, as event or as item.",
       [said(0, "developer", "rules"), said(0, "user", "# AGENTS.md instructions\nbe brief"), started(1, "t1"),
       prompt(1, "# AGENTS.md instructions for /usr\n\nbe brief"),
        item(1, "t1", "UserMessage", "\n # AGENTS.md\u00a0instructions again"), prompt(1, "real ask"), reply(2, "real answer"), finished(3, "t1")],
        ["real ask"])

thread("codex/hook-feedback-is-no-prompt", "What a hook wrote back as a user message is no prompt; the turn goes on.",
       [started(1, "t1"), prompt(1, "ask"), reply(2, "first"), prompt(3, '  <hook_prompt hook_run_id="stop:1">please check</hook_prompt>'),
        item(3, "t1", "UserMessage", "<hook_prompt>again</hook_prompt>"), item(3, "t1", "HookPrompt", "please check"), reply(4, "second"),
        finished(5, "t1")], ["ask"])

thread("codex/answered-question-joins-the-turn", "A reply to the agent's question is of the same turn: told only to the model it is no message, told as an item it joins the prompt.",
       [started(1, "t1"), prompt(1, "ask"), said(2, "user", "<send_user_message_question_reply>yes"), item(3, "t1", "UserMessage", "yes, sure"),
       reply(4, "done"), finished(5, "t1")],
       ["ask\n\nyes, sure"])

thread("codex/steering-joins-the-turn", "A second prompt while the turn runs joins the first by a blank line.",
       [started(1, "t1"), prompt(1, "ask"), reply(2, "looking"), prompt(3, "also that"), reply(4, "both done"), finished(5, "t1")],
       ["ask\n\nalso that"])

thread("codex/turn-completes-once", "A second completion of the same turn adds nothing and changes nothing.",
       [turn(1, "t1", "one", "first"), finished(9, "t1", "again"), started(10, "t2"), finished(11, "t1", "again"), prompt(12, "two"),
       reply(13, "second"), finished(14, "t2")], ["one", "two"])

thread("codex/turn-block-repeated", "The whole block of a turn written again, with new times, is a second turn with a number of its own.",
       [turn(1, "t1", "one", "first"), restamped(turn(1, "t1", "one", "first"), 60)], ["one", "one"])


@case("codex/appears-whole", "No rollout while the first turn runs is no candidate; a file that appears with a whole turn is read at once.")
def _(c):
    c.step(mkdir="home/.codex/sessions/2026/01/05")
    first = c.read()
    c.write(FA, meta(0, A), turn(1, "t1", "one", "first"))
    c.capture()
    expect(asks(c.read(after=first["throughCursor"])), ["one"])


thread("codex/rows-without-type", "Rows of unknown shape between the rows of a turn change nothing.",
       [started(1, "t1"), "{}", "[]", "null", '"text"', "7", "true", '{"payload":[{"type":"task_complete","turn_id":"t1"}]}',
       '{"type":"world_state","payload":{}}', '{"type":"event_msg"}',
        '{"type":"event_msg","payload":null}', '{"type":"event_msg","payload":[{"type":"task_complete","turn_id":"t1"}]}',
        '{"type":["event_msg"],"payload":{"type":"task_complete"}}',
        '{"timestamp":"2026-01-05T10:00:01.000Z","type":"event_msg","payload":{"type":["task_complete"]}}', prompt(2, "ask"), reply(3, "done"),
        finished(4, "t1")], ["ask"])

thread("codex/other-names-of-the-markers", "turn_started and turn_complete are the same events under newer names.",
       [event(1, "turn_started", turn_id="t1"), prompt(1, "one"), reply(2, "first"), event(3, "turn_complete", turn_id="t1"),
        started(4, "t2"), prompt(4, "two"), reply(5, "second"), event(6, "turn_complete", turn_id="t2", last_agent_message=None)], ["one", "two"])

thread("codex/no-markers", "A file of an older build without turn markers has no completed turn; a turn after the update is one, with the number 1.",
       [prompt(1, "old"), reply(2, "old answer"), prompt(3, "old two"), reply(4, "old answer two"), turn(60, "t1", "new", "done")],
       ["old\n\nold two\n\nnew"])

thread("codex/prompt-before-the-turn", "Messages in front of task_started belong to that turn from the first prompt on; assistant text in front of it belongs to none.",
       [reply(0, "stray"), prompt(1, "early"), reply(1, "at once"), started(2, "t1"), reply(3, "done"), finished(4, "t1"),
        reply(5, "stray too"), started(6, "t2"), prompt(7, "two"), reply(8, "second"), finished(9, "t2")], ["early", "two"])

thread("codex/turn-left-open", "A new turn leaves the open one unfinished; its own completion may still come by id.",
       [started(1, "t1"), prompt(1, "one"), reply(2, "first"), started(3, "t2"), prompt(3, "two"), reply(4, "second"), finished(5, "t2"),
        started(6, "t3"), prompt(6, "three"), reply(7, "third"), finished(8, "t1")], ["two", "one"])

thread("codex/order-of-completion", "The chain is in the order of the completion rows, not in that of the starts; numbers stay those of the starts.",
       [started(1, "t1"), prompt(1, "one"), started(2, "t2"), prompt(2, "two"), item(3, "t1", "AgentMessage", "first"), item(3, "t2", "AgentMessage",
       "second"),
        finished(4, "t2"), finished(5, "t1")], ["two", "one"])

thread("codex/same-id-twice", "An id names the open turn first, else the latest turn that has it.",
       [started(1, "t1"), prompt(1, "one"), reply(1, "first"), started(2, "t1"), prompt(2, "two"), reply(2, "second"), started(3, "t2"),
       prompt(3, "three"), reply(3, "third"),
        finished(4, "t1"), finished(5, "t2"), finished(6, "t1")], ["two", "three"])

thread("codex/completion-without-id", "A completion without an id, or while the open turn has none, is the open turn's.",
       [started(1, "t1"), prompt(1, "one"), reply(2, "first"), event(3, "task_complete", last_agent_message=None),
        event(4, "task_started"), prompt(4, "two"), reply(5, "second"), finished(6, "whatever"), event(7, "task_started", turn_id=5),
        prompt(7, "three"), reply(8, "third"),
        event(9, "task_complete", turn_id=None)], ["one", "two", "three"])

thread("codex/completion-of-a-foreign-turn", "A completion whose id names no turn here changes nothing.",
       [finished(0, "t0", "early"), started(1, "t1"), prompt(1, "one"), finished(2, "elsewhere", "foreign"), reply(3, "first"), finished(4, "t1")],
       ["one"])

thread("codex/failed-turn", "A completion with an error object closes the turn without a pair; any other error value is none.",
       [started(1, "t1"), prompt(1, "one"), reply(2, "half"), finished(3, "t1", error={"message": "usage limit"}), finished(4, "t1", "late"),
        started(5, "t2"), prompt(5, "two"), reply(5, "a"), finished(6, "t2", error=None), started(7, "t3"), prompt(7, "three"), reply(7, "a"),
        finished(8, "t3", error={}),
        started(9, "t4"), prompt(9, "four"), reply(9, "a"), finished(10, "t4", error="text"), started(11, "t5"), prompt(11, "five"), reply(11, "a"),
        finished(12, "t5", error=False)],
       ["two", "four", "five"])

thread("codex/nothing-joins-a-closed-turn", "An event after the completion waits for the next turn, an item for the closed turn is dropped.",
       [turn(1, "t1", "one", "first"), item(4, "t1", "AgentMessage", "late"), item(4, "t1", "UserMessage", "late prompt"),
       reply(5, "belongs to none"), prompt(6, "two"),
        started(7, "t2"), item(8, "t1", "AgentMessage", "later"), reply(8, "second"), finished(9, "t2")], ["one", "two"])

# -- paginated layout

thread("codex/paginated", "Where messages are items they carry the turn's text.",
       [event(1, "task_started", 1, turn_id="t1"), item(1, "t1", "UserMessage", "ask", 2), item(2, "t1", "Reasoning", "hm", 3),
       item(3, "t1", "AgentMessage", "done", 4),
        event(4, "task_complete", 5, turn_id="t1", last_agent_message="done")], ["ask"])

thread("codex/item-and-event-count-once", "The same text running from one role, once as event and once as item, counts once, in either order.",
       [started(1, "t1"), prompt(1, "ask  this"), item(1, "t1", "UserMessage", "ask this"), item(2, "t1", "AgentMessage", "done"), reply(2, " done "),
       finished(3, "t1"),
        started(4, "t2"), item(4, "t2", "UserMessage", "two"), prompt(4, "two"), reply(5, "second"), item(5, "t2", "AgentMessage", "second"),
        finished(6, "t2")], ["ask this", "two"])

thread("codex/honest-repeats-in-a-turn", "The same text twice in the same shape is said twice; event, item, event is said twice.",
       [started(1, "t1"), prompt(1, "go"), prompt(1, "go"), reply(2, "ok"), item(2, "t1", "AgentMessage", "ok"), reply(2, "ok"), finished(3, "t1")],
       ["go\n\ngo"])

thread("codex/repeats-with-something-between", "A message of the other role between event and item ends the run: both count.",
       [started(1, "t1"), prompt(1, "go"), reply(2, "ok"), item(3, "t1", "UserMessage", "go"), finished(4, "t1")], ["go\n\ngo"])

thread("codex/plan-item", "A plan is assistant text.",
       [started(1, "t1"), prompt(1, "plan it"), event(2, "item_completed", turn_id="t1", item={"type": "Plan", "id": "p",
       "text": "1. look\n2. leap"}), finished(3, "t1"),
        started(4, "t2"), prompt(4, "and now"), event(5, "item_completed", turn_id="t2", item={"type": "Plan", "text": None,
        "content": [{"text": "no"}]}), reply(6, "done"), finished(7, "t2")],
       ["plan it", "and now"])

thread("codex/parts-of-an-item", "The texts of an item's parts are joined without a separator; parts without text do not count.",
       [started(1, "t1"), event(1, "item_completed", turn_id="t1", item={"type": "UserMessage", "content": [{"type": "text", "text": "a"},
       {"type": "image"}, None, 7, {"text": 5}, {"text": "b "}]}),
        event(2, "item_completed", turn_id="t1", item={"type": "AgentMessage", "content": [{"type": "Text", "text": "c"},
        {"type": "Other", "text": "d"}]}),
        event(2, "item_completed", turn_id="t1", item={"type": "AgentMessage", "content": "not a list"}), event(2, "item_completed", turn_id="t1",
        item=["AgentMessage"]), finished(3, "t1")], ["ab"])

thread("codex/item-goes-to-its-turn", "An item goes to the turn that its id names, an event to the open one.",
       [started(1, "t1"), item(1, "t1", "UserMessage", "one"), started(2, "t2"), item(2, "t2", "UserMessage", "two"), item(3, "t1", "AgentMessage",
       "first"), reply(4, "second"),
        event(4, "item_completed", item={"type": "AgentMessage", "content": [{"text": "also the open one's"}]}), finished(5, "t1"),
        finished(6, "t2")], ["one", "two"])

thread("codex/foreign-item", "An item of a turn that is not here is dropped; before any turn it waits like an event.",
       [item(0, "t9", "UserMessage", "waits"), started(1, "t1"), item(1, "t8", "UserMessage", "dropped"), reply(2, "first"), finished(3, "t1"),
        item(4, "t2", "UserMessage", "dropped too"), started(5, "t2"), item(5, "t2", "UserMessage", "two"), reply(6, "second"), finished(7, "t2")],
        ["waits", "two"])

thread("codex/two-turns-at-once", "Two turns run interleaved; each gets its own items and completes by its own id.",
       [started(1, "t1"), item(1, "t1", "UserMessage", "one"), started(2, "t2"), item(2, "t2", "UserMessage", "two"), item(3, "t1", "AgentMessage",
       "first"),
        aborted(4, "t2"), item(5, "t2", "AgentMessage", "late"), item(6, "t1", "AgentMessage", "more"), finished(7, "t1"), turn(9, "t3", "three",
        "third")], ["one", "three"])

# -- rollback

ONE, TWO, THREE = turn(1, "t1", "one", "first"), turn(11, "t2", "two", "second"), turn(31, "t3", "three", "third")

thread("codex/rollback", "A rollback of N undoes everything from the N-th last prompt on.", [ONE, TWO, THREE, undone(40, 2), turn(50, "t4", "four",
    "fourth")], ["one", "four"])
thread("codex/rollbacks-add-up", "Every rollback counts from what the one before has left.", [ONE, TWO, THREE, undone(40, 1), undone(41, 1),
    turn(50, "t4", "four", "fourth")], ["one", "four"])
thread("codex/rollback-over-a-compaction", "A turn without a prompt does not count, and goes with the prompt in front of it.", [ONE, TWO, COMPACTION,
    THREE, undone(40, 2), turn(50, "t4", "four", "fourth")], ["one", "four"])
thread("codex/rollback-behind-a-compaction", "A turn without a prompt behind the last undone one goes too.", [ONE, TWO, COMPACTION, undone(40, 1),
    turn(50, "t4", "four", "fourth")], ["one", "four"])
thread("codex/rollback-of-nothing", "A rollback of 0, of a negative, missing or unreadable number undoes no turn.",
       [ONE, undone(3, 0), undone(4, -1), undone(5, None), undone(6, "1"), undone(7, [1]), undone(8, True), event(9, "thread_rolled_back"), TWO],
       ["one", "two"])
thread("codex/rollback-of-everything", "A number beyond the prompts undoes them all, and what comes then counts.", [ONE, TWO, undone(20, 2**53 - 1),
    THREE], ["three"])
thread("codex/rollback-beyond-whole-numbers", "A number above 2^53-1 is no whole number of the contract: nothing is undone.",
    [ONE, TWO, undone(20, 2**53), undone(21, 1e300), THREE], ["one", "two", "three"])
thread("codex/rollback-as-a-float", "2.0 is a whole number, 1.5 is none, 1e0 is one.",
       [ONE, TWO, THREE, undone(40, 1.5), turn(50, "t4", "four", "fourth"), undone(60, 2.0), turn(61, "t5", "five", "fifth"),
       undone(70, 0).replace(":0}", ":1e0}"), turn(71, "t6", "six", "sixth")],
       ["one", "two", "six"])
thread("codex/rollback-of-a-steered-turn", "Each prompt counts: undoing one of two takes the whole turn, undoing two takes only that turn.",
       [ONE, started(11, "t2"), prompt(11, "two"), prompt(12, "and more"), reply(13, "second"), finished(14, "t2"), undone(15, 2),
        started(16, "t3"), prompt(16, "three"), prompt(17, "and more"), reply(18, "third"), finished(19, "t3"), undone(20, 1), turn(30, "t4", "four",
        "fourth")], ["one", "four"])
thread("codex/rollback-of-an-image-prompt", "A prompt without text counts as one.",
       [ONE, started(11, "t2"), prompt(11, ""), reply(12, "a cat"), finished(13, "t2"), undone(14, 1), TWO,
        started(21, "t3"), event(21, "item_completed", turn_id="t3", item={"type": "UserMessage", "content": [{"type": "image"}]}),
        reply(22, "a dog"), finished(23, "t3"), undone(24, 2), THREE],
       ["one", "three"])
thread("codex/rollback-does-not-count-the-injected", "Injected user texts are no prompts for a rollback either.",
       [ONE, started(11, "t2"), prompt(11, "# AGENTS.md instructions x"), prompt(11, "two"), prompt(12, "<hook_prompt>x</hook_prompt>"),
       reply(13, "second"), finished(14, "t2"), undone(15, 1), THREE], ["one", "three"])
thread("codex/rollback-of-a-waiting-prompt", "A prompt that waits for its turn counts, and is dropped whatever N is.",
       [ONE, prompt(11, "waits"), undone(12, 1), TWO, prompt(21, "waits too"), undone(22, 0), started(23, "t3"), reply(24, "no prompt left"),
       finished(25, "t3"), turn(31, "t4", "four", "fourth")],
       ["one", "two", "four"])
thread("codex/rollback-of-the-open-turn", "A turn that still runs is undone like the others; its completion then names no turn.",
       [ONE, started(11, "t2"), prompt(11, "two"), reply(12, "half"), undone(13, 1), item(14, "t2", "AgentMessage", "late"), finished(14, "t2",
       "late"),
        prompt(15, "three"), started(16, "t3"), reply(17, "third"), finished(18, "t3")], ["one", "three"])
thread("codex/rollback-behind-a-shell-turn", "A rollback of 1 behind a turn without a prompt takes the last question.",
       [ONE, TWO, started(21, "ts"), event(21, "exec_command_end", stdout="x"), finished(22, "ts"), undone(23, 1), THREE], ["one", "three"])
thread("codex/late-answer-after-a-rollback", "Assistant text between a rollback and the next turn belongs to no turn that completes.",
       [ONE, TWO, undone(20, 1), reply(21, "late answer"), started(22, "t3"), prompt(23, "three"), reply(24, "third"), finished(25, "t3")],
       ["one", "three"])


@case("codex/rollback-under-a-cursor", "A cursor behind the point of a rollback does not hold any more; one in front of it does.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    one = c.read()["throughCursor"]
    c.append(FA, TWO)
    c.capture()
    two = c.read(after=one)["throughCursor"]
    c.append(FA, undone(20, 1), THREE)
    c.capture()
    expect(c.read(after=two)["status"], "resync_required")
    expect(asks(c.read(after=one)), ["three"])


# ---------------------------------------------------------------- forks: copies, bases, file families

PARENT = [meta(0, A), turn(1, v7(1), "one", "first"), turn(9, v7(9), "two", "second")]


@case("forks/copy-with-new-times", "A fork's file starts with its parent's rows under the time of the copy: those turns are the parent's, only later ones are the fork's.")
def _(c):
    c.write(FA, PARENT)
    c.write(FB, meta(100, B, forked_from_id=A), restamped(PARENT, 100), turn(120, v7(120), "own", "done"))
    c.capture()
    expect(asks(c.read()), ["own"])
    expect(len(c.threads()["threads"]), 2)


@case("forks/copy-with-old-times", "The same with the copied rows' own times, and turn numbers that count the copied turns.")
def _(c):
    c.write(FB, meta(100, B, forked_from_id=A), PARENT, turn(120, v7(120), "own", "done"))
    c.capture()
    answer = c.read()
    expect(asks(answer), ["own"])
    expect(answer["turns"][0]["source_sha256"], oracle.sha256(f"{FB}\0" + "3"))


@case("forks/copy-only", "A fork without a turn of its own is no candidate.")
def _(c):
    c.write(FA, PARENT)
    c.write(FB, meta(100, B, forked_from_id=A), restamped(PARENT, 100))
    c.capture()
    expect(asks(c.read()), ["one", "two"])
    expect(len(c.threads()["threads"]), 1)


@case("forks/copy-known-by-a-second-meta", "Another id in a later session_meta tells a copied history as well; turns without a version 7 id stay.")
def _(c):
    c.write(FB, meta(100, B), restamped(PARENT, 100), turn(110, "t1", "old style id", "kept"), turn(120, v7(120), "own", "done"))
    c.capture()
    expect(asks(c.read()), ["old style id", "own"])


@case("forks/no-fork-keeps-old-turns", "Without a sign of a copy a turn older than its thread is the thread's.")
def _(c):
    c.write(FB, meta(100, B, forked_from_id=""), meta(100, B), turn(101, v7(1), "one", "first"), turn(120, v7(120), "own", "done"))
    c.write(FC, meta(200, C, forked_from_id=None), turn(90, v7(2), "two", "second"))
    c.capture()
    expect(asks(c.read()), ["one", "own"])
    expect(len(c.threads()["threads"]), 2)


@case("forks/old-thread-id", "A thread whose id is no version 7 UUID cannot tell copies by age: all its turns stay.")
def _(c):
    old = "6f1c2b3a-0000-4000-8000-00000000c0de"
    c.write(rollout(old), meta(100, old, forked_from_id=A), PARENT[1:], turn(120, v7(120), "own", "done"))
    c.capture()
    expect(asks(c.read()), ["one", "two", "own"])


@case("forks/rollback-in-a-fork", "A rollback behind a copy counts the copied prompts too.")
def _(c):
    c.write(FB, meta(100, B, forked_from_id=A), PARENT, turn(120, v7(120), "own", "done"), undone(130, 2), turn(140, v7(140), "own two", "done"))
    c.capture()
    expect(asks(c.read()), ["own two"])


@case("forks/by-reference", "A fork that names another thread's file as its base inherits nothing.")
def _(c):
    c.write(FA, PARENT)
    size = os.path.getsize(FA)
    c.write(FB, meta(100, B, history_mode="paginated", history_base={"thread_id": A, "end_ordinal_exclusive": 12, "end_byte_offset": size}),
        turn(120, v7(120), "own", "done"))
    c.write(FC, meta(200, C, history_base={"thread_id": B, "end_byte_offset": 10}), turn(220, v7(220), "own of c", "done"))
    c.capture()
    expect(asks(c.read()), ["own of c"])
    expect(len(c.threads()["threads"]), 3)
    c.step(remove=FA)
    expect(asks(c.read()), ["own of c"])


@case("forks/id-is-not-session-id", "session_id is the root of the agent tree; the thread's id is payload.id.")
def _(c):
    for i, (path, one) in enumerate(((FA, A), (FB, B), (FC, C))):
        c.write(path, meta(0, one, session_id=D), turn(1 + 10 * i, "t1", f"ask {i}", "done"))
    c.capture()
    expect(asks(c.read()), ["ask 2"])
    expect(len(c.threads()["threads"]), 3)


@case("forks/id-beats-the-name", "The id in session_meta is the thread's, whatever the file name says.")
def _(c):
    c.write(FA, meta(0, B), turn(1, "t1", "ask", "done"))
    c.capture()
    expect(c.read()["thread_sha256"], oracle.sha256(B))


@case("forks/id-that-is-no-uuid", "An id that is no lowercase UUID (a path, empty, with a line feed, upper case) is not taken: the first UUID of the name is.")
def _(c):
    for i, (one, bad) in enumerate(((A, "../../tmp/x"), (B, "a\nb"), (C, ""), (D, D.upper()), (v7(400), 7), (v7(500), None),
        (v7(600), v7(600) + "\n"))):
        c.write(rollout(one, v7(700 + i)), meta(0, bad), turn(1 + 10 * i, "t1", f"ask {i}", "done"))
    c.capture()
    expect({t["thread_sha256"] for t in c.threads()["threads"]}, {oracle.sha256(v7(100 * i)) for i in range(7)})
    expect(asks(c.read()), ["ask 6"])


@case("forks/sub-agents", "A thread with a parent, a thread source other than user, or a source of its host's own is never a parent; null and empty fields are not set.")
def _(c):
    marks = [{"source": {"subagent": {"other": "guardian"}}, "thread_source": "subagent", "parent_thread_id": A},
        {"thread_source": "guardian_review"}, {"source": {"subagent": "review"}},
             {"thread_source": "new_label"}, {"parent_thread_id": A}, {"source": {"internal": {}}}, {"thread_source": ["user"]}]
    for i, more in enumerate(marks):
        one = v7(1000 + i)
        c.write(rollout(one), meta(0, one, **more), turn(100 + i, "t1", f"machine {i}", "done"))
    c.write(FB, meta(0, B, parent_thread_id=None, thread_source="user", source={"custom": "x"}), turn(50, "t1", "person", "done"))
    c.write(FC, meta(0, C, parent_thread_id="", thread_source="", source="subagent"), turn(40, "t1", "person too", "done"))
    c.capture()
    expect(asks(c.read()), ["person"])
    expect(len(c.threads()["threads"]), 2)


@case("forks/sub-agent-with-a-copy", "A sub-agent's file with its parent's meta behind its own stays a sub-agent's.")
def _(c):
    c.write(FB, meta(100, B, forked_from_id=A, parent_thread_id=A, source={"subagent": {"thread_spawn": {"depth": 1}}}), meta(100, A),
        turn(120, v7(120), "task", "done"))
    c.capture()
    expect(c.read()["host"], None)


@case("forks/meta-repeated", "The same session_meta again, even inside a turn, changes nothing; a later one with another cwd does not move the thread.")
def _(c):
    c.write(FA, meta(0, A), started(1, v7(1)), prompt(1, "ask"), meta(2, A, "/elsewhere"), reply(3, "done"), finished(4, v7(1)))
    c.capture()
    expect(asks(c.read()), ["ask"])


@case("forks/long-header", "A first row longer than any window that one might peek through still tells its thread and directory, which stand at its end.")
def _(c):
    c.write(FA, row(0, "session_meta", {"base_instructions": {"text": "x" * 17_000}, "cwd": "/usr", "id": B}), ONE)
    c.capture()
    expect(c.read()["thread_sha256"], oracle.sha256(B))


@case("forks/header-comes-later", "An empty file and one with half a header say nothing; the header then decides, here for a sub-agent and a root thread.")
def _(c):
    sub, root = meta(0, A, parent_thread_id=B), meta(0, B)
    c.write(FA, "", end="")
    c.write(FB, "", end="")
    c.read()
    c.write(FA, sub[:40], end="")
    c.write(FB, root[:100], end="")
    c.read()
    c.append(FA, sub[40:], turn(9, "t1", "machine", "done"))
    c.append(FB, root[100:], turn(1, "t1", "person", "done"))
    c.capture()
    expect(asks(c.read()), ["person"])


@case("forks/first-row-is-no-meta", "A file whose first readable object is no session_meta has no identity; a wrong day folder does not matter.")
def _(c):
    c.write(FA, turn(1, "t1", "lost", "done"), meta(0, A), turn(10, "t2", "lost too", "done"))
    c.write(rollout(B, folder="home/.codex/sessions/2025/03/01"), meta(0, B), turn(5, "t1", "found", "done"))
    c.write(FC, "{}", meta(0, C), turn(50, "t1", "lost as well", "done"))
    c.write(FD, "[]", "7", '{"timestamp":"broken', meta(0, D), turn(3, "t1", "behind rubbish", "done"))
    c.capture()
    expect(asks(c.read()), ["found"])
    expect(len(c.threads()["threads"]), 2)


def revert(second, base, offset, *rows, one=A, cwd="/usr", sec=200, **more):
    """A second file of a thread that continues the first bytes of another."""
    return rollout(one, second), [meta(sec, one, cwd, history_mode="paginated", history_base={"thread_id": base, "end_ordinal_exclusive": 1,
        "end_byte_offset": offset}, **more), *rows]


@case("forks/base-is-cut", "A file that continues an older one of its thread has the pairs in front of the offset, then its own; what the old file says behind it is gone.")
def _(c):
    first = [meta(0, A), ONE]
    c.write(FA, first, TWO)
    c.capture()
    old = c.read()["throughCursor"]
    c.write(*revert(B, A, sum(len(r) + 1 for r in flat(first)), turn(201, "t9", "another two", "done")))
    c.capture()
    answer = c.read()
    expect(asks(answer), ["one", "another two"])
    expect(c.read(after=old)["status"], "resync_required")
    c.append(FA, turn(300, "t3", "of nobody", "done"))
    expect(c.read(after=answer["throughCursor"])["status"], "delta")


@case("forks/base-cut-in-a-line", "An offset inside a row cuts that row off; a turn that is not complete in front of it is no pair.")
def _(c):
    rows = flat([meta(0, A), ONE, TWO])
    c.write(FA, rows)
    c.write(*revert(B, A, sum(len(r) + 1 for r in rows) - 5, turn(201, "t9", "new", "done")))
    c.capture()
    expect(asks(c.read()), ["one", "new"])


@case("forks/base-cut-in-a-turn", "A turn of the base that was open at the offset is not closed by the file that continues it.")
def _(c):
    rows = flat([meta(0, A), ONE, TWO])
    c.write(FA, rows)
    c.write(*revert(B, A, sum(len(r) + 1 for r in rows[:7]), reply(201, "stray"), finished(202, "t2", "second"), undone(203, 5),
        turn(210, "t9", "new", "done")))
    c.capture()
    expect(asks(c.read()), ["one", "new"])


@case("forks/base-offset-behind-the-end", "An offset behind the end takes the whole base, one of 0 or below takes nothing of it.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.write(*revert(B, A, 10**9, turn(201, "t9", "new", "done")))
    c.write(FC, meta(0, C), TWO)
    c.write(*revert(v7(201), C, -4, turn(190, "t9", "new of c", "done"), one=C))
    c.capture()
    expect(asks(c.read()), ["one", "new"])
    expect([opened(t["throughCursor"])["length"] for t in c.threads()["threads"]], [2, 1])


@case("forks/base-chain", "A base has a base: three files of one thread make one chain, each cut at its offset.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO)
    path, rows = revert(B, A, sum(len(r) + 1 for r in flat([meta(0, A), ONE])), turn(201, "t8", "middle", "done"), turn(211, "t9", "dropped", "done"))
    c.write(path, rows)
    c.write(*revert(C, B, sum(len(r) + 1 for r in flat(rows[:2])), turn(301, "t9", "last", "done"), sec=300))
    c.capture()
    expect(asks(c.read()), ["one", "middle", "last"])


@case("forks/base-of-itself", "A base that names the file itself and a missing base are none; in a circle of two files each counts once.")
def _(c):
    c.write(*revert(A, A, 10**6, turn(201, "t1", "names itself", "done")))
    c.write(*revert(v7(101), v7(102), 10**6, turn(211, "t1", "circle one", "done"), one=B))
    c.write(*revert(v7(102), v7(101), 10**6, turn(221, "t1", "circle two", "done"), one=B))
    c.write(*revert(v7(301), v7(999), 10**6, turn(231, "t1", "base is missing", "done"), one=C))
    c.capture()
    expect(asks(c.read()), ["base is missing"])
    expect([opened(t["throughCursor"])["length"] for t in c.threads()["threads"]], [1, 2, 1])


@case("forks/base-of-another-directory", "A base of the same thread counts wherever its own cwd points; the current file's cwd decides.")
def _(c):
    c.write(FA, meta(0, A, "/elsewhere"), ONE)
    c.write(*revert(B, A, 10**6, turn(201, "t9", "new", "done")))
    c.capture()
    expect(asks(c.read()), ["one", "new"])
    c.write(*revert(C, B, 10**6, turn(301, "t9", "moved", "done"), cwd="/elsewhere", sec=300))
    expect(c.read()["host"], None)


@case("forks/base-with-odd-fields", "A base whose id is no string or whose offset is no whole number is none.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.write(rollout(A, B), meta(200, A, history_base={"thread_id": A, "end_byte_offset": "900"}), turn(201, "t9", "new", "done"))
    c.write(FC, meta(0, C), TWO)
    c.write(rollout(C, D), meta(200, C, history_base=["x"]), turn(150, "t9", "new of c", "done"))
    c.capture()
    expect(asks(c.read()), ["new"])


@case("forks/newest-file-wins", "Of two files of one thread without a base the one with the greater rollout id is current, not the longer one, not the later one.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO, THREE)
    c.write(rollout(A, B), meta(100, A), turn(5, "t9", "in the newer file", "done"))
    c.capture()
    first = c.read()
    expect(asks(first), ["in the newer file"])
    c.append(rollout(A, B), turn(15, "t10", "next", "done"))
    c.capture()
    expect(asks(c.read(after=first["throughCursor"])), ["next"])


@case("forks/copies-in-two-folders", "Of two copies with one rollout id the one with the latest completion counts, then the greater path.")
def _(c):
    other = rollout(A, folder="home/.codex/sessions/2026/01/04")
    c.write(FA, meta(0, A), ONE)
    c.write(other, meta(0, A), ONE, TWO)
    c.capture()
    expect(asks(c.read()), ["one", "two"])
    c.append(FA, TWO)
    expect(c.read()["turns"][0]["source_sha256"], oracle.sha256(f"{FA}\0" + "1"))


@case("forks/torn-newer-file", "A newer file of the thread that does not say yet what it is takes nothing away from the older one.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.write(rollout(A, B), meta(100, A)[:60], end="")
    c.write(rollout(A, C), "\0" * 40, end="")
    c.capture()
    expect(asks(c.read()), ["one"])


def frame(*blocks: bytes) -> bytes:
    """A zstd frame of these blocks as they are: the same bytes from every version of the program, which packs them better."""
    head = bytes.fromhex("28b52ffd" "00" "38")
    return head + b"".join((len(b) << 3 | (i == len(blocks))).to_bytes(3, "little") + b for i, b in enumerate(blocks, 1))


def lines(*rows) -> bytes:
    return "".join(r + "\n" for r in flat(rows)).encode()


PACKED = base64.b64decode(     # what `zstd -19` made of the rows of forks/packed
    "KLUv/QRobQgANtAxHlCNczPA+GKvScNxG9ImGmUy073yE6AL++TFzBKzBigAKgAoAAojiU5f116pPeiYl8++k6S/rsjMJVkyiUIqTCoGQQrOPknavJLrTwIt"
    "sg90zh5h63OQi/DrkakAxFlPxVkoQsnMg5LZGJSmeRCLhsmzP+4T9ift2ovUsx21uTlYG2Kp9dvHMoCqOvs6kYL89VySwCx59riPr3NsLnICgKpqzRp9bW80"
    "SdAZxIXw0xbpY200R8fot5AK9sGzry+kzCu1uEwxARkAJUPgZYM5W4Q324hdGNJn4rhqaTl8KphsHMjbeuvDga1m9l21KOi73OaQ0Im4QZIos47ZMda+K1b8"
    "DgUPN06yLg/dbCli")


@case("forks/packed", "An idle rollout is packed and later unpacked again: its path in digests stays the plain one, and no cursor notices.")
def _(c):
    data = lines(meta(0, A), ONE)
    c.bytes(FA, data)
    c.capture()
    one = c.read()["throughCursor"]
    assert subprocess.run(["zstd", "-dcq"], input=PACKED, capture_output=True, check=True).stdout == data
    c.bytes(FA + ".zst", PACKED)
    c.step(remove=FA)
    expect(c.read(after=one)["status"], "delta")
    c.bytes(FA, data + lines(TWO))
    c.step(remove=FA + ".zst")
    c.capture()
    expect(asks(c.read(after=one)), ["two"])


@case("forks/plain-beats-packed", "Where both spellings exist the plain file is read.")
def _(c):
    c.bytes(FA, lines(meta(0, A), ONE, TWO))
    c.bytes(FA + ".zst", frame(lines(meta(0, A), THREE)))
    c.capture()
    expect(asks(c.read()), ["one", "two"])


@case("forks/packed-and-damaged", "Of a damaged stream counts what can be decoded: whole frames in front of rubbish, the blocks in front of a cut; a stream of rubbish alone is no thread's file.")
def _(c):
    c.bytes(FA + ".zst", frame(lines(meta(0, A)), lines(ONE)) + frame(lines(TWO)) + b"\x00rubbish")
    c.bytes(FB + ".zst", b"not a stream at all")
    c.bytes(FC + ".zst", b"")
    cut = lines(meta(0, D), turn(3, "t1", "in front of the cut", "done"))
    c.bytes(FD + ".zst", frame(cut, lines(TWO))[:len(cut) + 9])
    c.capture()
    expect(asks(c.read()), ["one", "two"])
    expect(len(c.threads()["threads"]), 2)


@case("forks/packed-base", "A base may be packed; its offset counts unpacked bytes.")
def _(c):
    c.bytes(FA + ".zst", frame(lines(meta(0, A)), lines(ONE, TWO)))
    c.write(*revert(B, A, len(lines(meta(0, A), ONE)), turn(201, "t9", "new", "done")))
    c.capture()
    expect(asks(c.read()), ["one", "new"])


# ---------------------------------------------------------------- projects: whose thread it is

def placed(name, about, cwds, want, project="/usr"):
    """One thread for each cwd, a second apart; `want` are the cwds whose threads are the project's."""
    @case(name, about)
    def build(c):
        for i, cwd in enumerate(cwds):
            one = v7(i)
            c.write(rollout(one), meta(0, one, cwd), turn(1 + i, "t1", f"in {compact(cwd)}", "done"))
        c.capture()
        ours = {t["thread_sha256"] for t in c.threads(project=project)["threads"]}
        expect(ours, {oracle.sha256(v7(cwds.index(w))) for w in want})
        expect(asks(c.read(project=project)), [f"in {compact(want[-1])}"] if want else [])


placed("projects/below-and-above", "A thread in a directory below the project is the project's; one above it or beside it is not.",
       ["/usr", "/usr/bin", "/usr/bin/gone/deeper", "/", "/etc"], ["/usr", "/usr/bin", "/usr/bin/gone/deeper"])
placed("projects/nested-project", "Asked for a directory below, the threads of the one above do not count.", ["/usr/bin", "/usr", "/usr/lib"],
    ["/usr/bin"], project="/usr/bin")
placed("projects/prefix-sibling", "Whole components are compared: a sibling whose name only starts like the project's is another, spelled with any of the signs that folder names fold into one.",
       ["/usr", "/usr-x", "/usr_x", "/usr.x", "/usrx", "/usr x"], ["/usr"])
placed("projects/spellings", "A trailing slash, doubled slashes, dots and dots behind a directory that exists name the same place.",
       ["/usr/", "//usr", "/usr//bin/", "/usr/./", "/usr/bin/..", "/usr/gone/../bin", "/dev/../usr", "/usr/../etc"],
       ["/usr/", "//usr", "/usr//bin/", "/usr/./", "/usr/bin/..", "/usr/gone/../bin", "/dev/../usr"])
placed("projects/no-project", "A cwd that is relative, empty, null, no string, of another system's form or with U+0000 is no project's, and no error.",
       ["/usr", ".", "usr", "", None, 42, ["/usr"], {"path": "/usr"}, True, "file:///usr", "\\\\?\\C:\\usr", "~/usr", "/usr\0", "/usr/bin\0x",
       " /usr"], ["/usr"])
placed("projects/gone-directory", "A directory that no longer exists is still below the project.", ["/usr/gone", "/usr/gone/deeper/",
    "/usr/gone/../../etc"], ["/usr/gone", "/usr/gone/deeper/"])
placed("projects/unicode", "Composed and decomposed names, spaces and emoji are compared as they are.",
       ["/usr/caf\u00e9 kit", "/usr/cafe\u0301 kit", "/\u016dsr", "/usr/\u00fcn\u00ef \U0001f642/a b", "/usr\u00a0"], ["/usr/caf\u00e9 kit",
       "/usr/cafe\u0301 kit", "/usr/\u00fcn\u00ef \U0001f642/a b"])
placed("projects/root-directory", "Asked for the root directory, every thread with an absolute cwd counts.", ["/", "/usr", "relative", "/gone"],
    ["/", "/usr", "/gone"], project="/")


@case("projects/links", "Links are followed on both sides, in the part of a path that exists; the cursor is that of the real path.")
def _(c):
    c.step(link="link", to="/usr")
    c.step(link="inner", to="link/bin")
    c.step(link="circle", to="circle")
    c.step(link="dangling", to="/usr/gone")
    for i, cwd in enumerate(("{ROOT}/link", "{ROOT}/link/gone", "{ROOT}/inner/..", "{ROOT}/dangling/deeper", "{ROOT}/circle/bin", "{ROOT}")):
        c.write(rollout(v7(i)), meta(0, v7(i), cwd), turn(1 + i, "t1", f"thread {i}", "done"))
    c.capture()
    expect(len(c.threads()["threads"]), 4)
    direct = c.read()
    expect(asks(direct), ["thread 3"])
    linked = c.read(project="{ROOT}/link")
    expect(linked, direct)
    expect(c.read(after=direct["throughCursor"], project="{ROOT}/inner/../")["status"], "delta")
    expect(asks(c.read(project="{ROOT}/inner")), [])


@case("projects/missing-cwd", "A session_meta without cwd, or with a cwd only in nested fields, is no project's; nested ids and directories are traps.")
def _(c):
    c.write(FA, row(0, "session_meta", {"id": A, "git": {"cwd": "/usr"}}), turn(1, "t1", "one", "done"))
    c.write(FB, row(0, "session_meta", {"provenance": {"id": A, "cwd": "/elsewhere"}, "git": {"cwd": "/elsewhere"}, "id": B, "cwd": "/usr",
        "cwds": ["/elsewhere"]}), turn(2, "t1", "two", "done"))
    c.write(FC, compact({"timestamp": at(0), "type": "session_meta", "cwd": "/usr", "id": C, "payload": {}}), turn(3, "t1", "three", "done"))
    c.write(FD, row(0, "session_meta", [{"cwd": "/usr"}]), turn(4, "t1", "four", "done"))
    c.capture()
    expect(asks(c.read()), ["two"])


@case("projects/codex-home-below-dots", "CODEX_HOME may be relative; // and . and .. collapse as text in digests, and a leading ./ goes.",
    CODEX_HOME="./over//there/../codex/.")
def _(c):
    path = rollout(A, folder="over/codex/sessions/2026/01/05")
    c.step(mkdir="over/there")
    c.write(path, meta(0, A), ONE)
    c.capture()
    expect(c.read()["turns"][0]["source_sha256"], oracle.sha256(f"{path}\0" + "1"))


@case("projects/codex-home-empty", "An empty CODEX_HOME or XDG_STATE_HOME is not set.", CODEX_HOME="", XDG_STATE_HOME="")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.claude(("s-1", "claude ask", "claude answer", 1))
    c.capture()
    expect(asks(c.read()), ["one"])
    expect(len(c.threads()["threads"]), 2)


@case("projects/codex-home-is-a-link", "CODEX_HOME may be a link; its spelling stays in the digests.", CODEX_HOME="shared")
def _(c):
    c.write(rollout(A, folder="real/sessions/2026/01/05"), meta(0, A), ONE)
    c.step(link="shared", to="real")
    c.capture()
    expect(c.read()["turns"][0]["source_sha256"], oracle.sha256(rollout(A, folder="shared/sessions/2026/01/05") + "\0" + "1"))


@case("projects/codex-home-is-a-file", "A CODEX_HOME without a sessions directory, because it is a file, has no candidates.", CODEX_HOME="odd")
def _(c):
    c.write("odd", "x")
    c.write(FA, meta(0, A), ONE)
    c.capture()
    expect(c.read()["host"], None)


@case("projects/state-home", "XDG_STATE_HOME moves the receipt store; nothing is looked for at the default place then.",
    XDG_STATE_HOME="{ROOT}/state")
def _(c):
    folder = "state/throughline/completed-turn-receipts"
    c.claude(("s-0", "old place", "done", 100))
    c.step(mkdir=folder, mode="0700")
    c.write(f"{folder}/{PROJECT}.json", compact(store([receipt(1, "s-1", "new place", "done", 5)])), mode="0600")
    c.pairs = [("s-1", "s-1", 1, "new place", "done", 5)]
    c.capture()
    expect(asks(c.read()), ["new place"])
    expect(len(c.threads()["threads"]), 1)


# ---------------------------------------------------------------- cursors: reading on while files change

@case("cursors/poll-turn-by-turn", "Each poll brings exactly what was completed since the one before, once.")
def _(c):
    c.write(FA, meta(0, A))
    cursor = c.read()["throughCursor"]
    for i, rows in enumerate((ONE, [], TWO[:2], TWO[2:], THREE + turn(50, "t4", "four", "fourth"))):
        if rows:
            c.append(FA, rows)
            c.capture()
        answer = c.read(after=cursor)
        expect(asks(answer), [["one"], [], [], ["two"], ["three", "four"]][i])
        cursor = answer["throughCursor"]


@case("cursors/broken-line-is-passed", "A terminated line that is broken holds nothing back and is told of once at most: never.")
def _(c):
    c.write(FA, meta(0, A), ONE, '{"type":"event_msg","payload":')
    c.capture()
    one = c.read()
    c.append(FA, TWO)
    c.capture()
    two = c.read(after=one["throughCursor"])
    expect(asks(two), ["two"])
    expect(asks(c.read(after=two["throughCursor"])), [])


@case("cursors/half-line", "A row that is written in two pieces counts when it is whole; the half changes nothing.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO[:-1])
    c.append(FA, TWO[-1][:50], end="")
    c.capture()
    one = c.read()
    expect(asks(one), ["one"])
    c.append(FA, TWO[-1][50:])
    expect(asks(c.read(after=one["throughCursor"])), ["two"])


@case("cursors/last-line-without-end", "A whole object at the end counts without its line feed, once: the line feed and later rows bring it no second time.")
def _(c):
    c.write(FA, meta(0, A), ONE, end="")
    c.capture()
    one = c.read()
    expect(asks(one), ["one"])
    c.append(FA, "", end="\n")
    expect(asks(c.read(after=one["throughCursor"])), [])
    c.append(FA, TWO, end="")
    c.capture()
    two = c.read(after=one["throughCursor"])
    expect(asks(two), ["two"])
    c.append(FA, "", THREE)
    c.capture()
    expect(asks(c.read(after=two["throughCursor"])), ["three"])


@case("cursors/bytes-behind-an-unterminated-object", "Of the last line the whole objects at its start count and more bytes behind them change nothing, neither rubbish nor a whole row behind rubbish.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO[:-1])
    c.append(FA, TWO[-1] + prompt(20, "also counts") + '{"timestamp":"2026-01-05T10:00:20', end="")
    c.capture()
    expect(asks(c.read()), ["one", "two"])
    c.append(FA, started(21, "t9") + reply(22, "x") + finished(23, "t9"), end="")
    expect(asks(c.read()), ["one", "two"])
    c.append(FA, "", end="\n")
    c.capture()
    expect(asks(c.read()), ["one", "two", "also counts"])


@case("cursors/crlf-and-emoji", "Line ends of CR LF and characters of several bytes move no position.")
def _(c):
    c.write(FA, meta(0, A), turn(1, "t1", "\U0001f680 \u6771\u4eac", "r\u00e9ponse \U0001f642"), sep="\r\n", end="\r\n")
    c.capture()
    one = c.read()
    expect(asks(one), ["\U0001f680 \u6771\u4eac"])
    c.append(FA, turn(11, "t2", "\U0001f469\u200d\U0001f4bb", "\u0645\u0631\u062d\u0628\u0627"), sep="\r\n", end="\r\n")
    c.capture()
    expect(asks(c.read(after=one["throughCursor"])), ["\U0001f469\u200d\U0001f4bb"])


@case("cursors/truncated-and-grown", "A file that was emptied and grew past its old size again holds another chain: the cursor does not hold.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    one = c.read()["throughCursor"]
    c.write(FA, "", end="")
    expect(c.read(after=one)["status"], "resync_required")
    c.write(FA, meta(0, A), turn(60, "t1", "something else", "done"), turn(70, "t2", "and more", "done"))
    c.capture()
    expect(c.read(after=one)["status"], "resync_required")
    expect(asks(c.read()), ["something else", "and more"])


@case("cursors/shrunk-to-a-prefix", "A file cut back to an earlier turn takes that turn's cursor again, and not the later one.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    one = c.read()["throughCursor"]
    c.append(FA, TWO)
    c.capture()
    two = c.read(after=one)["throughCursor"]
    c.write(FA, meta(0, A), ONE)
    expect(c.read(after=two)["status"], "resync_required")
    expect(asks(c.read(after=one)), [])
    c.append(FA, THREE)
    c.capture()
    expect(asks(c.read(after=one)), ["three"])


@case("cursors/replaced-by-an-equal-size", "A file replaced by one of the same name and size with one word changed is another chain.")
def _(c):
    c.write(FA, meta(0, A), turn(1, "t1", "alpha", "done"))
    c.capture()
    first = c.read()["throughCursor"]
    c.write("next", meta(0, A), turn(1, "t1", "omega", "done"))
    c.step(rename=["next", FA])
    c.capture()
    expect(c.read(after=first)["status"], "resync_required")
    c.write(FA, meta(0, A), turn(1, "t1", "alpha", "done"))
    c.capture()
    expect(asks(c.read(after=first)), [])


@case("cursors/row-inserted-at-the-top", "A row of no interest put in near the top moves no pair: nothing is new.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO)
    c.capture()
    two = c.read()["throughCursor"]
    c.write(FA, meta(0, A), event(0, "token_count", info={}), ONE, TWO)
    expect(asks(c.read(after=two)), [])


@case("cursors/repeated-honest-messages", "Five turns of equal texts and equal times are five pairs, with turn ids or without.")
def _(c):
    c.write(FA, meta(0, A), [restamped(turn(0, f"t{i}", "continue", "ok"), 7) for i in range(5)])
    c.capture()
    with_ids = c.read()
    expect(asks(with_ids), ["continue"] * 5)
    bare = [event(7, "task_started"), prompt(7, "continue"), reply(7, "ok"), event(7, "task_complete")]
    c.write(FA, meta(0, A), bare * 5)
    expect(c.read(after=with_ids["throughCursor"])["status"], "delta")


@case("cursors/half-line-then-replaced", "Half a row is forgotten when the file is replaced by one that starts with the other half.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO[:-1])
    c.append(FA, TWO[-1][:60], end="")
    c.capture()
    one = c.read()["throughCursor"]
    c.write(FA, TWO[-1][60:], meta(0, A), ONE, turn(90, "t9", "nine", "done"))
    c.capture()
    expect(asks(c.read(after=one)), ["nine"])


@case("cursors/archived", "A rollout that was moved to the archive is gone: the cursor does not hold, and holds again when it comes back. Half a row in between does no harm.")
def _(c):
    there = "home/.codex/archived_sessions/" + os.path.basename(FA)
    c.write(FA, meta(0, A), ONE, TWO[:-1])
    c.append(FA, TWO[-1][:60], end="")
    c.capture()
    one = c.read()["throughCursor"]
    c.step(rename=[FA, there])
    expect(c.read(after=one)["status"], "resync_required")
    c.append(there, TWO[-1][60:])
    expect(c.read()["throughCursor"], EMPTY)
    c.step(rename=[there, FA])
    expect(asks(c.read(after=one)), ["two"])


@case("cursors/moved-to-another-folder", "The path is part of each pair: a rollout moved to another day folder is another chain.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    one = c.read()["throughCursor"]
    c.step(rename=[FA, rollout(A, folder="home/.codex/sessions/2026/01/06")])
    expect(c.read(after=one)["status"], "resync_required")


@case("cursors/earlier-turn-edited", "A change in a pair that was already told ends the cursor, even when the file only grew otherwise.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO)
    c.capture()
    two = c.read()["throughCursor"]
    c.write(FA, meta(0, A), [r.replace("first", "other") for r in ONE], TWO, THREE)
    c.capture()
    expect(c.read(after=two)["status"], "resync_required")


# ---------------------------------------------------------------- lines: broken and unusual ones

thread("lines/two-objects-on-one-line", "Several objects on one line are each a row, with blanks or nothing between.",
       [started(1, "t1") + prompt(1, "one") + " \t" + reply(2, "first") + finished(3, "t1") + "  ", '7 [] "x"' + started(4, "t2") + prompt(5, "two"),
       reply(6, "second"), finished(7, "t2")], ["one", "two"])

thread("lines/cut-row-then-a-whole-one", "After something unreadable, reading goes on at the next row start of that line.",
       [started(1, "t1"), prompt(1, "one"), reply(2, "never written")[:70] + reply(2, "first"),
       '{"timestamp":"2026-01-05T10:00:03.0' + '{"timestamp":"2026' + finished(3, "t1"),
        "rubbish " + started(4, "t2") + " more rubbish " + prompt(5, "two") + "}" + reply(6, "second"), finished(7, "t2")], ["one", "two"])

thread("lines/completion-behind-a-row-of-no-interest", "A completion behind a half-written row of a type that does not matter is real.",
       [started(1, "t1"), prompt(1, "one"), reply(2, "first"), said(2, "assistant", "cut short " * 20)[:150] + finished(3, "t1"), started(4, "t2"),
       prompt(5, "two"), reply(6, "second"),
        row(6, "compacted", {"message": "s"})[:-6] + finished(7, "t2")], ["one", "two"])

thread("lines/eight-failures", "A line is given up at its 8th unreadable piece: a whole row behind seven counts, one behind eight is lost.",
       [started(1, "t1"), prompt(1, "one"), '{"timestamp":"' * 7 + reply(2, "seven"), '{"timestamp":"' * 8 + reply(2, "eight"),
       "x" + '{"timestamp":"' * 7 + reply(2, "eight too"), finished(3, "t1")], ["one"])

thread("lines/row-start-inside-a-string", "A row start inside a string of a readable row is text; text that looks like rows completes nothing.",
       [started(1, "t1"), prompt(1, "what is " + finished(1, "t1", "no")), row(2, "response_item", {"type": "function_call_output",
       "output": "\n".join([finished(2, "t1", "no"), aborted(2, "t1")])}),
        reply(3, "it says " + finished(1, "t1")), finished(4, "t1")], ["what is " + finished(1, "t1", "no")])

thread("lines/control-characters", "An unescaped control character in a string makes the row unreadable; an escaped one does not.",
       [started(1, "t1"), prompt(1, "one"), reply(2, "a\\tb").replace("\\\\t", "\t"), reply(2, "a\\u0001b").replace("\\\\u0001", "\x01"),
       reply(3, "c\u0002d"), finished(4, "t1")], ["one"])

thread("lines/no-json-numbers", "NaN, Infinity and a number with a leading zero are not JSON: such rows are broken.",
       [started(1, "t1"), prompt(1, "one"), reply(2, "no")[:-1] + ',"x":NaN}', reply(2, "no")[:-1] + ',"x":-Infinity}',
       reply(2, "no")[:-1] + ',"x":01}', reply(2, "no")[:-1] + ",}", reply(3, "first"), finished(4, "t1")],
       ["one"])

thread("lines/numbers-out-of-range", "Numbers of any length and kind in parts that do not matter are no error.",
       [started(1, "t1"), prompt(1, "one")[:-1] + ',"ordinal":1e2}', reply(2, "first")[:-1] + ',"ordinal":99999999999999999999}',
       reply(2, "more")[:-1] + ',"x":[1e400,-1e400,-0,18446744073709551616,1e-999,'
        + "9" * 400 + "]}", finished(4, "t1", duration_ms=-1)], ["one"])

thread("lines/ordinals-are-ignored", "Ordinals that repeat, are missing or are floats change nothing: the order in the file counts.",
       [event(1, "task_started", 1, turn_id="t1"), item(1, "t1", "UserMessage", "one", 1), item(2, "t1", "AgentMessage", "first", 1),
       event(3, "task_complete", 2.0, turn_id="t1"),
        started(4, "t2"), item(5, "t2", "UserMessage", "two", 9), item(6, "t2", "AgentMessage", "second", 3), finished(7, "t2")], ["one", "two"])

thread("lines/repeated-keys", "Of equal keys the last wins, at every level.",
       [started(1, "t1"), prompt(1, "one"), reply(2, "no").replace('"message":"no"', '"message":"no","message":"first"'),
       reply(2, "event no more")[:-1] + ',"type":"other"}',
        '{"type":"other","timestamp":"x","type":"event_msg","payload":{"type":"user_message","message":"no"},'
        '"payload":{"message":"more","type":"x","type":"agent_message"}}',
        finished(3, "t1").replace('"turn_id":"t1"', '"turn_id":"elsewhere","turn_id":"t1"')], ["one"])

thread("lines/other-spellings", "Blanks, another key order and escapes for letters spell the same rows.",
       ['{ "payload" : {"turn_id":"t1" ,\t"type":"task\\u005fstarted"} , "type": "\\u0065vent_msg", "timestamp":"2026-01-05T10:00:01.000Z" }',
        '  {"type":"event_msg","payload":{"message":"\\u006fne \\/ \\u00e9\\ud83d\\ude80","\\u0074ype":"user_message"}}',
        '{"payload":{"type":"agent_message","message":"first"},"type":"event_msg"}\t',
        '{"type":"event_msg","\\u0074imestamp":"2026-01-05T10:00:03\\u002e000Z","payload":{"type":"task_complete","turn_id":"\\u00741"}}'],
        ["one / \u00e9\U0001f680"])

thread("lines/lone-surrogates", "An unpaired surrogate escape reads as U+FFFD, a pair stays a pair, an escaped backslash stays what it is; a key may hold one too.",
       [started(1, "t1"), '{"timestamp":"2026-01-05T10:00:01.000Z","type":"event_msg","payload":{"type":"user_message","message":"a \\ud83d b \\ude00\\ud83d c \\ud83d\\ude00 d \\\\ud83d","k\\ud83d":1}}',
        '{"timestamp":"2026-01-05T10:00:03.000Z","type":"event_msg","payload":{"type":"task_complete","turn_id":"t1","last_agent_message":"done \\ud83d"}}'],
       ["a \ufffd b \ufffd\ufffd c \U0001f600 d \\ud83d"])

NESTED = "[" * 500 + "]" * 500

thread("lines/deep-nesting", "Nesting of 500 levels in a part that does not matter is no error, in arrays and in objects.",
       [started(1, "t1"), prompt(1, "one")[:-2] + ',"extra":' + NESTED + "}}", reply(2, "first")[:-1] + ',"extra":' + '{"a":' * 500 + "1" + "}" * 501,
       finished(3, "t1")[:-2] + ',"extra":' + NESTED + "}}"], ["one"])

thread("lines/other-types", "A field of another type than expected is as if it were not there; its neighbours count.",
       [started(1, "t1"), prompt(1, "one"), *[event(1, "agent_message", message=x) for x in (None, 7, ["x"], {"text": "x"}, True)],
       event(1, "agent_message"), row(1, "event_msg", "agent_message"), row(1, "event_msg", 7),
        *[event(2, "item_completed", turn_id="t1", item=x) for x in (None, 7, "AgentMessage", {"type": "AgentMessage", "content": {"text": "x"}},
        {"type": "AgentMessage", "content": [["x"]]}, {"type": 5})],
        event(2, "item_completed", turn_id=5, item={"type": "AgentMessage", "content": [{"text": "to the open one"}]}), finished(4, "t1")], ["one"])

thread("lines/user-message-of-another-type", "A user message whose text is no string is a prompt without text, like an image: no text, but it counts for a rollback.",
       [ONE, started(11, "t2"), event(11, "user_message", message=None), event(11, "user_message", message=["x"]), reply(12, "second"),
       finished(13, "t2"), undone(14, 2), TWO], ["one", "two"])

thread("lines/unknown-types", "Rows of types to come, at both levels, are passed over.",
       [started(1, "t1"), prompt(1, "one"), [row(1, f"future_{i}", {"type": "task_complete", "turn_id": "t1"}) for i in range(5)],
       [event(2, f"future_{i}", turn_id="t1", message="x") for i in range(5)],
        row(2, "turn_context", {"cwd": "/elsewhere"}), reply(2, "first"), finished(3, "t1")], ["one"])

thread("lines/goes-on-after-bad-lines", "Broken rows cost themselves only; a turn whose completion is broken stays unfinished.",
       [flat([turn(10 * i, f"t{i}", f"ask {i}", "done") for i in range(6)])[:11], finished(22, "t2")[:70],
       flat([turn(10 * i, f"t{i}", f"ask {i}", "done") for i in range(3, 6)])], ["ask 0", "ask 1", "ask 3", "ask 4", "ask 5"])

thread("lines/blank-lines", "Empty lines and lines of blanks are no rows; only LF ends a row, not U+2028 or U+0085 in a text.",
       ["", "   ", "\t", "\r", started(1, "t1"), "", prompt(1, "one\u2028line\u0085end"), reply(2, "first"), "", finished(3, "t1"), "", ""],
       ["one line\u0085end"])

thread("lines/nul-holes", "NUL bytes between rows are blank: a hole in front of a row, a line of them, a tail of them.",
       [started(1, "t1"), "\0" * 100 + prompt(1, "one"), "\0" * 50, reply(2, "first") + "\0\0" + reply(2, "more"), "\0 \0\r" + finished(3,
       "t1") + "\0", "\0" * 30], ["one"], end="")


@case("lines/nul-tail-is-filled", "A tail of NUL bytes that is later overwritten by real rows of the same length is read anew.")
def _(c):
    tail = lines(TWO)
    head = lines(meta(0, A), ONE)
    c.bytes(FA, head + b"\0" * len(tail))
    c.capture()
    one = c.read()["throughCursor"]
    c.bytes(FA, head + tail)
    c.capture()
    expect(asks(c.read(after=one)), ["two"])


@case("lines/invalid-utf8", "Bytes that are no UTF-8 read as U+FFFD inside a row and break only their own line otherwise.")
def _(c):
    c.bytes(FA, lines(meta(0, A), ONE) + b'{"timestamp":"2026-01-05T10:00:05.000Z","type":"event_msg","payload":{"type":"agent_message","message":"\xe6\x87\n'
            + lines(started(11, "t2"), prompt(11, "XX")).replace(b"XX", b"cut \xe6\x87 and \xff\xc0\x80 and \xed\xa0\x80 end") + lines(reply(12,
            "second"), finished(13, "t2")))
    c.capture()
    expect(len(asks(c.read())), 2)


@case("lines/byte-order-mark", "A UTF-8 byte order mark at the start of the file is blank; in the middle it is something unreadable in front of a row start.")
def _(c):
    c.bytes(FA, b"\xef\xbb\xbf" + lines(meta(0, A), started(1, "t1")) + b"\xef\xbb\xbf" + lines(prompt(1, "one"), reply(2, "first"),
        finished(3, "t1")))
    c.capture()
    expect(asks(c.read()), ["one"])


@case("lines/utf-16", "A file saved as UTF-16 has no readable row: no candidate, no error.")
def _(c):
    c.bytes(FA, lines(meta(0, A), ONE).decode().encode("utf-16"))
    c.write(FB, meta(0, B), TWO)
    c.capture()
    expect(asks(c.read()), ["two"])


@case("lines/mark-then-hole-then-meta", "The first readable object may stand behind a mark, a hole, broken lines and values that are no objects.")
def _(c):
    c.bytes(FA, b"\xef\xbb\xbf\0\0\0" + lines("[1]", "null", "{broken", "\0\0", meta(0, A)[:50] + meta(0, A), ONE))
    c.capture()
    expect(asks(c.read()), ["one"])


# ---------------------------------------------------------------- times

def timed(name, about, stamps, **more):
    """A turn for each time of a completion row; `stamps` maps it to milliseconds, or None where it is no time."""
    @case(name, about)
    def build(c):
        rows = [[started(1, f"t{i}"), prompt(1, f"at {s}"), reply(1, "done"), row(s, "event_msg", {"type": "task_complete",
            "turn_id": f"t{i}"})] for i, s in enumerate(stamps)]
        c.write(FA, meta(0, A), rows)
        c.capture()
        answer = c.read("--limit", "100")
        expect([(t["user"], t["completed_at"]) for t in answer["turns"]], [(oracle.fold(f"at {s}"), v) for s, v in stamps.items() if v is not None])


timed("times/forms", "Times may have small letters, an offset and any number of digits of a fraction, of which three count.",
      {"2026-01-05T10:00:00Z": ms(0), "2026-01-05t10:00:00.5z": ms(0.5), "2026-01-05T10:00:00.999999999Z": ms(0.999),
      "2026-01-05T10:00:00.0019Z": ms(0.001), "2026-01-05T12:30:00+02:30": ms(0),
       "2026-01-05T00:00:00.25-10:00": ms(0.25), "2026-01-04T10:01:00-23:59": ms(0), "2026-01-05T10:00:00-00:00": ms(0),
       "2024-02-29T00:00:00Z": 1709164800000, "2000-02-29T23:59:59Z": 951868799000,
       "1970-01-01T00:00:00Z": 0, "1970-01-01T00:30:00+00:30": 0, "1969-12-31T23:00:00-02:00": 3600000, "9999-12-31T23:59:59.999Z": 253402300799999})
timed("times/no-times", "What is not exactly such a time is none: the turn is closed without a completion. No leap second, no date that does not exist, nothing before the epoch.",
      dict.fromkeys(["2026-01-05 10:00:00Z", "2026-01-05T10:00:00", "2026-01-05T10:00Z", "2026-01-05T10:00:00.Z", "2026-01-05T10:00:00,5Z",
      "2026-01-05T10:00:00+0200", "2026-01-05T10:00:00+02", "2026-01-05T10:00:00+24:00",
                     "2026-01-05T10:00:00+01:60", "2026-01-05T10:00:60Z", "2016-12-31T23:59:60Z", "2026-01-05T24:00:00Z", "2026-01-05T10:60:00Z",
                     "2026-02-29T10:00:00Z", "1900-02-29T00:00:00Z", "2026-13-01T10:00:00Z",
                     "2026-00-10T10:00:00Z", "2026-01-00T10:00:00Z", "2026-04-31T10:00:00Z", "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+00:01",
                     "26-01-05T10:00:00Z", "+002026-01-05T10:00:00Z", "20260105T100000Z",
                     " 2026-01-05T10:00:00Z", "2026-01-05T10:00:00Z ", "2026-01-05T10:00:00Z\n", "\u0662\u0660\u0662\u0666-01-05T10:00:00Z",
                     "2026-01-05T10:00:00\u2212 02:00", "2026-01-05T10:00:00.\u0665Z", "0000-01-01T00:00:00Z",
                     "now", ""]) | {"2026-01-05T10:00:09Z": ms(9)})


@case("times/completed-at-stands-in", "Without a time of the row payload.completed_at counts, in whole seconds; a time of the row goes before it.")
def _(c):
    def done(i, stamp, value):
        return [started(1, f"t{i}"), prompt(1, f"ask {i}"), reply(1, "done"), compact({"timestamp": stamp, "type": "event_msg",
            "payload": {"type": "task_complete", "turn_id": f"t{i}", "completed_at": value}})]
    values = [T0, float(T0), 0, T0 + 0.5, -1, str(T0), None, True, 2**53, (2**53 - 1) // 1000, [T0]]
    c.write(FA, meta(0, A), [done(i, "never", v) for i, v in enumerate(values)], done(20, at(5), T0), done(21, None, T0), done(22, T0, T0 + 1),
            [started(1, "t23"), prompt(1, "ask 23"), reply(1, "done"), compact({"type": "event_msg", "payload": {"type": "task_complete",
            "turn_id": "t23", "completed_at": T0}})])
    c.capture()
    expect([(t["user"], t["completed_at"]) for t in c.read("--limit", "100")["turns"]],
           [("ask 0", ms(0)), ("ask 1", ms(0)), ("ask 2", 0), ("ask 9", (2**53 - 1) // 1000 * 1000), ("ask 20", ms(5)), ("ask 21", ms(0)),
           ("ask 22", ms(1)), ("ask 23", ms(0))])


@case("times/clock-goes-back", "A completion with an earlier time than the one before it comes all the same, in its place; the latest completion of a chain is that of its last pair.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    one = c.read()["throughCursor"]
    c.append(FA, turn(-3600, "t2", "an hour earlier", "done"))
    c.capture()
    two = c.read(after=one)
    expect(asks(two), ["an hour earlier"])
    c.append(FA, turn(4, "t3", "three", "done"))
    c.capture()
    expect(asks(c.read(after=two["throughCursor"])), ["three"])
    c.write(FB, meta(0, B), turn(2, "t1", "other thread", "done"))
    c.append(FA, turn(-7200, "t4", "back again", "done"))
    c.capture()
    expect(asks(c.read()), ["other thread"])


@case("times/future", "A time of years to come is told as it is written, and makes its thread the current one.")
def _(c):
    c.write(FA, meta(0, A), ONE, turn(160_000_000, "t2", "from 2031", "done"))
    c.write(FB, meta(0, B), TWO)
    c.capture()
    expect(asks(c.read()), ["one", "from 2031"])


@case("times/instants-not-strings", "Times are compared as instants: 00:30 at +02:00 is before 23:30 of the day before at Z.")
def _(c):
    c.write(FA, meta(0, A), ONE[:-1], row("2026-01-05T23:30:00Z", "event_msg", {"type": "task_complete", "turn_id": "t1"}))
    c.write(FB, meta(0, B), TWO[:-1], row("2026-01-06T00:30:00+02:00", "event_msg", {"type": "task_complete", "turn_id": "t2"}))
    c.capture()
    expect(asks(c.read()), ["one"])


@case("times/names-prove-nothing", "Folders and the time in a file name are local and may be any: only rows tell times.")
def _(c):
    c.write(rollout(A, folder="home/.codex/sessions/2026/13/40", stamp="2031-99-99T99-99-99"), meta(0, A), ONE)
    c.write(rollout(B, folder="home/.codex/sessions", stamp="2020-01-01T23-59-58"), meta(0, B), TWO)
    c.write(rollout(C, folder="home/.codex/sessions/any/depth/at/all", stamp="2026-01-05T22-00-00"), meta(0, C), turn(5, "t1", "deep", "done"))
    c.capture()
    expect(asks(c.read()), ["two"])
    expect(len(c.threads()["threads"]), 3)


# ---------------------------------------------------------------- files

@case("files/names-that-are-no-rollouts", "Only exact names are rollouts: no milliseconds, upper case, other ends, missing parts or hidden files; archived_sessions is not searched.")
def _(c):
    folder = "home/.codex/sessions/2026/01/05"
    good = os.path.basename(rollout(D))
    odd = [f"{D}.jsonl", "rollout-x.jsonl", good + ".bak", good + "~", "." + good + ".swp", "." + good, good.replace("T10", " 10"),
        good.replace("10-00-00-", "10-00-00-123Z-"), good.upper(), good.replace(D, D.upper()),
           good.replace(".jsonl", ".json"), good.replace(".jsonl", "_.jsonl"), good.replace(".jsonl", f"_{A}_{B}.jsonl"), good.replace("rollout-",
           "rollout_"), good.replace("2026-01", "2026-1"), good + ".gz", good + ".zst.part",
           good.replace(D, D[:-1]), "x" + good, good.replace("2026", "\u0662\u0660\u0662\u0666")]
    for i, name in enumerate(odd):
        c.write(f"{folder}/{name}", meta(0, D), turn(100 + i, "t1", f"wrong {i}", "done"))
    c.write(f"home/.codex/archived_sessions/{good}", meta(0, D), turn(99, "t1", "archived", "done"))
    c.write(f"home/.codex/{good}", meta(0, D), turn(99, "t1", "beside", "done"))
    c.write(FA, meta(0, A), ONE)
    c.capture()
    expect(asks(c.read()), ["one"])
    expect(len(c.threads()["threads"]), 1)


@case("files/no-regular-files", "A pipe, a directory and links named like rollouts are no candidates and block nothing; a real rollout inside such a directory is found.")
def _(c):
    c.write("elsewhere.jsonl", meta(0, D), turn(50, "t1", "through a link", "done"))
    c.step(fifo=FB)
    c.step(fifo=rollout(v7(900)) + ".zst")
    c.step(link=FD, to="{ROOT}/elsewhere.jsonl")
    c.step(link=rollout(v7(901)), to="/dev/zero")
    c.step(link=rollout(v7(902)), to="nowhere")
    c.write(rollout(A, folder=FC), meta(0, A), ONE)
    c.capture()
    expect(asks(c.read()), ["one"])


@case("files/pipe-beside-packed", "A pipe in the place of the plain file is no plain file: the packed one is read.")
def _(c):
    c.step(fifo=FA)
    c.bytes(FA + ".zst", frame(lines(meta(0, A), ONE)))
    c.capture()
    expect(asks(c.read()), ["one"])


@case("files/sessions-is-a-link", "sessions itself may be a link; links below it are not followed, so a circle does no harm.")
def _(c):
    c.write(rollout(A, folder="real/2026/01/05"), meta(0, A), ONE)
    c.write(rollout(B, folder="other"), meta(0, B), TWO)
    c.step(link="home/.codex/sessions", to="../../real")
    c.step(link="real/2026/01/05/loop", to="..")
    c.step(link="real/2027", to="../other")
    c.capture()
    answer = c.read()
    expect(asks(answer), ["one"])
    expect(answer["turns"][0]["source_sha256"], oracle.sha256(FA + "\0" + "1"))


@case("files/sessions-link-to-nothing", "A link to nothing in the place of sessions is no sessions; a link to itself, or a file, cannot be listed and fails the read.")
def _(c):
    c.step(link="home/.codex/sessions", to="gone")
    expect(c.read()["throughCursor"], EMPTY)
    c.step(remove="home/.codex/sessions")
    c.step(link="home/.codex/sessions", to="sessions")
    expect(c.read()["code"], "E_OBSERVER_READ_INTERNAL")
    c.step(remove="home/.codex/sessions")
    c.write("home/.codex/sessions", "not a directory")
    expect(c.read()["code"], "E_OBSERVER_READ_INTERNAL")
    expect(c.threads()["code"], "E_OBSERVER_THREADS_INTERNAL")


@case("files/other-programs-files", "Files of other programs in the tree, and rollouts in near forms without a header, change nothing.")
def _(c):
    c.write("home/.codex/sessions/session_index.jsonl", meta(0, D), turn(50, "t1", "index", "done"))
    c.write("home/.codex/sessions/2026/01/05/notes.txt", "notes")
    c.write("home/.codex/history.jsonl", '{"session_id":"x","text":"y"}')
    c.write(FB, compact({"id": B, "timestamp": at(0), "instructions": None}), compact({"type": "message", "role": "user", "content": []}),
        turn(60, "t1", "bare layout", "done"))
    c.write(FA, meta(0, A), ONE)
    c.capture()
    expect(asks(c.read()), ["one"])


@case("files/odd-folder-names", "Folders may have any name; the path stands in the digests as it is.")
def _(c):
    folder = "home/.codex/sessions/a b/\U0001f680\n%20/rollout"
    c.write(rollout(A, folder=folder), meta(0, A), ONE)
    c.capture()
    expect(c.read()["turns"][0]["source_sha256"], oracle.sha256(rollout(A, folder=folder) + "\0" + "1"))


@case("files/removed-thread", "When the current thread's file goes, the next one is current; the old cursor does not hold even so.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.write(FB, meta(0, B), TWO)
    c.capture()
    two = c.read()["throughCursor"]
    c.step(remove=FB)
    expect(c.read(after=two)["status"], "resync_required")
    expect(asks(c.read()), ["one"])


# ---------------------------------------------------------------- text: bodies and their digests

def told(name, about, pairs, want, limit=None):
    """Claude pairs with these bodies in the database; `want` are (user, assistant, truncated)."""
    @case(name, about)
    def build(c):
        c.claude(*[("s-1", u, a, i) for i, (u, a) in enumerate(pairs)])
        c.capture()
        expect([(t["user"], t["assistant"], t["truncated"]) for t in c.read(limit=limit)["turns"]], want)


ROCKET = "\U0001f680"
told("text/limit-of-a-body", "A body of 1200 UTF-16 units is whole; of a longer one the last 1200 come, and the turn is marked.",
     [("x" + "y" * 1199, "z"), ("x" + "y" * 1200, "z"), ("z", "x" + "y" * 1200)], [("x" + "y" * 1199, "z", False), ("y" * 1200, "z", True),
     ("z", "y" * 1200, True)])
told("text/cut-inside-a-surrogate-pair", "A cut never leaves half a surrogate pair: the character at the cut goes whole.",
     [(ROCKET * 601, "z"), ("z", ROCKET * 600 + "y"), ("y" + ROCKET * 599 + "x", "z")], [(ROCKET * 600, "z", True), ("z", ROCKET * 599 + "y", True),
     ("y" + ROCKET * 599 + "x", "z", False)])
told("text/limit-of-a-page", "4000 units are spent in the order of the turns, the user's first; turns that get nothing are told all the same.",
     [("a" * 1200, "b" * 1300), ("c" * 1000, "d" * 700), ("e", "f"), ("", "")], [("a" * 1200, "b" * 1200, True), ("c" * 1000, "d" * 600, True),
     ("", "", True), ("", "", False)])
told("text/limit-of-a-page-inside-a-pair", "One unit that is left is too little for a pair of surrogates and is then spent on what follows.",
     [("a" * 1200, "b" * 1200), ("c" * 1200, "d" * 399), (ROCKET, "yz")], [("a" * 1200, "b" * 1200, False), ("c" * 1200, "d" * 399, False),
     ("", "z", True)])
told("text/line-ends", "CR LF and CR become LF; white space goes at both ends and stays inside.",
     [("\r\n a\r\nb\rc\n\rd \n", "\tx  y\t")], [("a\nb\nc\n\nd", "x  y", False)])
told("text/white-space-at-the-ends", "The white space that is trimmed is ECMAScript's, with U+FEFF, without U+0085, U+180E and U+200B.",
     [("\t\v\f\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeffone\ufeff\u3000", "\u0085two\u200b"), ("\u180e", "\u001c\u001fx\u001c")],
     [("one", "\u0085two\u200b", False), ("\u180e", "\u001c\u001fx\u001c", False)])
told("text/composed", "Bodies are told and hashed in NFC: decomposed letters, conjoining Jamo, singletons.",
     [("cafe\u0301 \u1100\u1161\u11a8 \u212b", "A\u0308\u0323 \ufb01 \u0344")], [("caf\u00e9 \uac01 \u00c5", "\u1ea0\u0308 \ufb01 \u0308\u0301",
     False)])
told("text/nul-in-a-body", "Text behind U+0000 is kept.", [("before\0behind", "\0")], [("before\0behind", "\0", False)])
told("text/escapes-in-the-answer", "Control characters, quotes and line separators are escaped or told as they are, as compact JSON.",
     [("\u0001\b\f\n\t\"\\/", "\u007f\u2028\u2029<>&'\u00ad\U0010ffff")], [("\u0001\b\f\n\t\"\\/", "\u007f\u2028\u2029<>&'\u00ad\U0010ffff", False)])

thread("text/folded", "Every run of white space in a Codex message becomes one space; U+0085 and U+200B are none.",
       [started(1, "t1"), prompt(1, " a\n\n b\t\u00a0c\u3000d\u2028\u2029e\ufeff f\u0085g\u200bh \r\n"), reply(2, "\u2003x\u1680\u202f\u205f\vy\fz"),
       finished(3, "t1")], ["a b c d e f\u0085g\u200bh"])

thread("text/codex-composed", "A Codex message is folded, then composed: the bodies and the hashes are those of the composed text.",
       [started(1, "t1"), prompt(1, "cafe\u0301"), reply(2, "e\u0301"), finished(3, "t1"), started(4, "t2"), prompt(4, "caf\u00e9"),
       reply(5, "\u00e9"), finished(6, "t2")], ["caf\u00e9", "caf\u00e9"])

thread("text/codex-nul", "U+0000 in a Codex message is text, and so are other control characters.",
       [started(1, "t1"), prompt(1, "a\0b\u001bc"), reply(2, "\0x"), finished(3, "t1")], ["a\0b\u001bc"])

thread("text/codex-long", "Long Codex texts are cut like any other.", [turn(1, "t1", "q" * 1190 + ROCKET * 6, "w" * 1201)], ["q" * 1188 + ROCKET * 6])


# ---------------------------------------------------------------- status

@case("status/empty-project", "A project without any completed pair is a snapshot of nothing, with the cursor of the empty chain, and no delta.")
def _(c):
    answer = c.read()
    expect((answer["status"], answer["host"], answer["throughCursor"]), ("snapshot", None, EMPTY))
    c.write(FA, meta(0, A), started(1, "t1"), prompt(1, "running"))
    answer = c.read(after=EMPTY)
    expect((answer["status"], answer["turns"], answer["throughCursor"]), ("delta", [], EMPTY))
    c.read(through=EMPTY)


@case("status/delta-from-empty", "From the empty baseline everything of the current thread is the delta.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO)
    c.capture()
    answer = c.read(after=EMPTY)
    expect((answer["status"], asks(answer)), ("delta", ["one", "two"]))


@case("status/snapshot-limits", "A snapshot has the newest entries of the chain, ten unless a limit says otherwise, is complete, and says whether there are older ones.")
def _(c):
    c.write(FA, meta(0, A), [turn(10 * i, f"t{i}", f"ask {i}", "done") for i in range(12)])
    c.capture()
    answer = c.read()
    expect((asks(answer), answer["historyTruncated"], answer["page"]), ([f"ask {i}" for i in range(2, 12)], True, {"complete": True,
        "nextToken": None}))
    expect(asks(c.read(limit=1)), ["ask 11"])
    expect(c.read(limit=11)["historyTruncated"], True)
    expect(c.read(limit=12)["historyTruncated"], False)
    expect(len(asks(c.read(limit=100))), 12)


@case("status/pages", "A delta longer than the limit comes in pages; each token leads to the next and the last page has none. Any limit may follow any.")
def _(c):
    c.write(FA, meta(0, A), [turn(10 * i, f"t{i}", f"ask {i}", "done") for i in range(6)])
    c.capture()
    first = c.read(after=EMPTY, limit=2)
    expect((asks(first), first["page"]["complete"]), (["ask 0", "ask 1"], False))
    through = first["throughCursor"]
    second = c.read(after=EMPTY, through=through, page=first["page"]["nextToken"], limit=3)
    expect(asks(second), ["ask 2", "ask 3", "ask 4"])
    last = c.read(after=EMPTY, through=through, page=second["page"]["nextToken"], limit=3)
    expect((asks(last), last["page"]), (["ask 5"], {"complete": True, "nextToken": None}))
    exact = c.read(after=EMPTY, through=through, page=first["page"]["nextToken"], limit=4)
    expect(exact["page"]["complete"], True)


@case("status/pages-while-turns-complete", "A given through cursor fixes the series: what completes later is left for the next read, and a page token stays good.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO)
    c.capture()
    first = c.read(after=EMPTY, limit=1)
    through = first["throughCursor"]
    c.append(FA, THREE)
    c.capture()
    second = c.read(after=EMPTY, through=through, page=first["page"]["nextToken"], limit=5)
    expect((asks(second), second["throughCursor"], second["page"]["complete"]), (["two"], through, True))
    expect(asks(c.read(after=through)), ["three"])
    expect(asks(c.read(through=through)), ["one", "two"])


@case("status/thread-switched", "When another thread is current its whole chain comes, paged; afterwards it is a delta again. The first thread's rest is read by its own cursors.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    one = c.read()["throughCursor"]
    c.append(FA, TWO)
    c.write(FB, meta(100, B), turn(101, "t1", "b one", "done"), turn(111, "t2", "b two", "done"))
    c.capture()
    switched = c.read(after=one, limit=1)
    expect((switched["status"], asks(switched), switched["historyTruncated"]), ("thread_switched", ["b one"], False))
    rest = c.read(after=one, through=switched["throughCursor"], page=switched["page"]["nextToken"])
    expect((rest["status"], asks(rest)), ("thread_switched", ["b two"]))
    expect(c.read(after=switched["throughCursor"])["status"], "delta")
    own = next(t["throughCursor"] for t in c.threads()["threads"] if t["thread_sha256"] == oracle.sha256(A))
    left = c.read(after=one, through=own)
    expect((left["status"], asks(left)), ("delta", ["two"]))


@case("status/host-switched", "When the other host has the latest completion the status says so, in both directions.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    codex = c.read()["throughCursor"]
    c.claude(("s-1", "claude one", "done", 50))
    c.capture()
    answer = c.read(after=codex)
    expect((answer["status"], answer["host"], asks(answer)), ("host_switched", "claude", ["claude one"]))
    c.append(FA, turn(60, "t2", "two", "done"))
    c.capture()
    back = c.read(after=answer["throughCursor"])
    expect((back["status"], back["host"], asks(back)), ("host_switched", "codex", ["one", "two"]))


@case("status/ambiguous-parent", "When two hosts have their latest completion at the same time there is no telling which is current; a given through cursor asks for no parent.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.claude(("s-1", "claude one", "done", 3))
    c.capture()
    for answer in (c.read(), c.read(after=EMPTY), c.read(after="nonsense", limit=5)):
        expect((answer["status"], answer["host"], answer["throughCursor"], answer["turns"]), ("ambiguous_parent", None, None, []))
    for t in c.threads()["threads"]:
        expect(c.read(after=EMPTY, through=t["throughCursor"])["host"], t["host"])


@case("status/tie-inside-a-host", "A tie inside one host goes to the greater digest of the thread id, and is not ambiguous; a tie further back is none.")
def _(c):
    c.claude(("s-1", "claude one", "done", 1))
    for one in (A, B, C):
        c.write(rollout(one), meta(0, one), turn(-9, "t0", f"before in {one}", "done"), turn(1, "t1", f"in {one}", "done"))
    c.capture()
    expect(c.read()["thread_sha256"], max(map(oracle.sha256, (A, B, C))))
    c.claude(("s-1", "claude one", "done", 3), ("s-2", "claude two", "done", 4), ("s-3", "claude three", "done", 4), ("s-4", "claude four", "done",
        4))
    c.capture()
    expect(c.read()["thread_sha256"], max(oracle.sha256(f"s-{i}") for i in (2, 3, 4)))


@case("status/resync-thread-gone", "An after cursor of a thread that is gone is resync_required, even when another thread is current; so is a through cursor of it.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    one = c.read()["throughCursor"]
    c.write(FB, meta(100, B), turn(101, "t1", "b one", "done"))
    c.step(remove=FA)
    c.capture()
    answer = c.read(after=one)
    expect((answer["status"], answer["host"], answer["thread_sha256"], answer["afterCursor"], answer["throughCursor"]), ("resync_required", None,
        None, one, None))
    expect(c.read(through=one)["status"], "resync_required")
    expect(c.read(after=EMPTY, through=one)["status"], "resync_required")


@case("status/resync-rolled-back", "An after cursor longer than its thread's chain does not hold, current or not.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO)
    c.capture()
    two = c.read()["throughCursor"]
    c.append(FA, undone(50, 1))
    expect(c.read(after=two)["status"], "resync_required")
    c.write(FB, meta(100, B), turn(101, "t1", "b one", "done"))
    c.capture()
    expect(c.read(after=two)["status"], "resync_required")


@case("status/resync-emptied-project", "When a project has no pair left every cursor but the empty one is resync_required; the empty one still holds.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    one = c.read()["throughCursor"]
    c.append(FA, undone(50, 1))
    expect(c.read(after=one)["status"], "resync_required")
    expect(c.read(after=EMPTY)["status"], "delta")
    expect(c.read(after=one, through=EMPTY)["status"], "resync_required")


@case("status/after-longer-than-through", "An after cursor beyond the given through cursor is resync_required; the same one is an empty delta; one of another thread reads the whole through chain.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.write(FB, meta(0, B), turn(-20, "t1", "b one", "done"))
    c.capture()
    one = c.read()["throughCursor"]
    c.append(FA, TWO)
    c.capture()
    two = c.read()["throughCursor"]
    expect(c.read(after=two, through=one)["status"], "resync_required")
    expect(asks(c.read(after=one, through=one)), [])
    expect(asks(c.read(after=one, through=two)), ["two"])
    other = c.threads()["threads"][1]["throughCursor"]
    answer = c.read(after=two, through=other)
    expect((answer["status"], asks(answer)), ("thread_switched", ["b one"]))
    expect(c.read(after=one, through=EMPTY)["status"], "resync_required")
    expect(c.read(after=EMPTY, through=EMPTY)["status"], "delta")


@case("status/cursor-of-another-project", "A cursor made for another directory does not hold, not even for one below or above.")
def _(c):
    c.write(FA, meta(0, A, "/usr/bin"), ONE)
    c.capture()
    below = c.read(project="/usr/bin")["throughCursor"]
    above = c.read()["throughCursor"]
    expect(c.read(after=below)["status"], "resync_required")
    expect(c.read(after=above, project="/usr/bin")["status"], "resync_required")
    expect(c.read(through=below)["status"], "resync_required")


@case("status/history-truncated", "A chain whose start is no longer retained says so on a switch and on a delta from the empty baseline; a delta of its own cursor and a whole snapshot do not.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    codex = c.read()["throughCursor"]
    c.claude(("s-1", "claude five", "done", 50), ("s-2", "claude six", "done", 51), ("s-1", "claude seven", "done", 52), floor=5)
    c.capture()
    for after, status in ((codex, "host_switched"), (EMPTY, "delta")):
        answer = c.read(after=after)
        expect((answer["status"], asks(answer), answer["historyTruncated"]), (status, ["claude five", "claude seven"], True))
    first = c.read(after=EMPTY, limit=1)
    expect(c.read(after=EMPTY, through=first["throughCursor"], page=first["page"]["nextToken"])["historyTruncated"], True)
    own = c.read()
    expect((own["status"], own["historyTruncated"]), ("snapshot", False))
    expect(c.read(limit=1)["historyTruncated"], True)
    expect(c.read(after=own["throughCursor"])["historyTruncated"], False)
    other = next(t["throughCursor"] for t in c.threads()["threads"] if t["thread_sha256"] == oracle.sha256("s-2"))
    answer = c.read(after=own["throughCursor"], through=other)
    expect((answer["status"], answer["historyTruncated"]), ("thread_switched", True))


@case("status/floor-above-the-cursor", "A cursor from before the store dropped its oldest receipts does not hold, even with the same chain; one with a floor above the store's does.")
def _(c):
    rows = [("s-1", "one", "done", 1), ("s-1", "two", "done", 2)]
    c.claude(*rows, floor=5)
    c.capture()
    cursor = c.read()["throughCursor"]
    c.claude(*rows[1:], floor=6)
    expect(c.read(after=cursor)["status"], "resync_required")
    low = sealed("tlc1.", {**opened(c.read()["throughCursor"]), "history_floor": 5})
    expect(c.read(after=low)["status"], "resync_required")
    high = sealed("tlc1.", {**opened(low), "history_floor": 9})
    expect(c.read(after=high)["status"], "delta")


@case("status/order-of-work", "Page token, then through, then after: what is wrong first decides.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO)
    c.capture()
    whole = c.read()["throughCursor"]
    token = {"schema": oracle.PAGE_SCHEMA, "project_sha256": PROJECT, "after_sha256": "", "through_sha256": "", "offset": 0,
        "offset_prefix_sha256": oracle.prefix_sha256([])}

    def page(after, through, **more):
        return sealed("tlp1.", {**token, "after_sha256": oracle.sha256(after), "through_sha256": oracle.sha256(through), **more})
    expect(c.read(after="bad", through="worse", page="tlp1.x")["code"], "E_OBSERVER_READ_INPUT")
    expect(c.read(after="bad", through="worse", page=page("bad", "worse"))["status"], "resync_required")
    expect(c.read(after="bad", through=whole, page=page("bad", whole))["status"], "resync_required")
    expect(c.read(after=whole, through=whole, page=page(whole, whole))["status"], "delta")
    expect(c.read(after=EMPTY, through=whole, page=page(EMPTY, whole))["status"], "delta")
    expect(c.read(after=EMPTY, through=whole, page=page(EMPTY, whole, offset=3))["code"], "E_OBSERVER_READ_INPUT")
    c.receipts("{}")
    expect(c.read(after="bad", through="worse", page="tlp1.x")["code"], "E_OBSERVER_READ_INTERNAL")


# ---------------------------------------------------------------- tokens

@case("tokens/cursor-spellings", "A cursor has one canonical spelling; the same values written otherwise, or with padding or spare bits, do not hold.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    good = c.read()["throughCursor"]
    value, raw = opened(good), compact(opened(good))
    abc = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(good[5:]) % 4, "the token has spare bits"
    bad = [json.dumps(value), compact(dict(reversed(value.items()))), raw.replace('":1,', '":1.0,'), raw.replace('":1,', '":1e0,'),
        raw.replace("sha256", "\\u0073ha256", 1), raw + " ", "\n" + raw,
           raw[:-1] + ',"length":1}', raw[:-1] + ',"more":1}', compact({k: v for k, v in value.items() if k != "length"}), "[" + raw + "]", raw[:-1],
           raw + raw, ""]
    bad = [sealed("tlc1.", x) for x in bad] + [good + "=", good + "==", good[:-1] + abc[abc.index(good[-1]) ^ 1], good[:-1], good + "A",
        good.replace("tlc1.", "tlc2."), "TLC1." + good[5:], "tlp1." + good[5:], " " + good, good + " ",
           good + "\n", good[:50] + "+" + good[51:], good[:50] + "\u00e9" + good[51:], good[5:], "tlc1.", "x"]
    for token in bad:
        answer = c.read(after=token)
        expect((answer["status"], answer["afterCursor"]), ("resync_required", token))
    expect(c.read(through=bad[0])["status"], "resync_required")
    expect(c.read(after=good)["status"], "delta")


@case("tokens/cursor-values", "A cursor with a value out of bounds, or with a value that its kind cannot have, does not hold.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    value, empty = opened(c.read()["throughCursor"]), opened(EMPTY)
    changes = [{"schema": "throughline.observer_cursor.v2"}, {"schema": None}, {"project_sha256": oracle.sha256("/")},
        {"project_sha256": PROJECT.upper()}, {"host": "other"}, {"host": None}, {"host": "claude"},
               {"thread_sha256": None}, {"thread_sha256": value["thread_sha256"].upper()}, {"thread_sha256": oracle.sha256(B)},
               {"thread_sha256": value["thread_sha256"][:-1]}, {"history_floor": 0}, {"history_floor": -1},
               {"history_floor": "1"}, {"history_floor": 2**53}, {"history_floor": True}, {"length": 0}, {"length": 2}, {"length": -1},
               {"length": 2**53 - 1}, {"length": 2**53}, {"length": True}, {"length": None},
               {"prefix_sha256": value["prefix_sha256"].upper()}, {"prefix_sha256": oracle.prefix_sha256([])}, {"prefix_sha256": ""}]
    for change in changes:
        expect(c.read(after=sealed("tlc1.", {**value, **change}))["status"], "resync_required")
    for change in ({"history_floor": 2}, {"length": 1}, {"thread_sha256": value["thread_sha256"]}, {"host": "codex"},
        {"prefix_sha256": value["prefix_sha256"]}):
        expect(c.read(after=sealed("tlc1.", {**empty, **change}))["status"], "resync_required")
    expect(c.read(after=sealed("tlc1.", {**value, "history_floor": 2**53 - 1}))["status"], "delta")


@case("tokens/page-tokens", "A page token that is not exactly of this series is an input error: other cursors, another place, another project, another spelling, rubbish.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO, THREE)
    c.capture()
    first = c.read(after=EMPTY, limit=1)
    through, good = first["throughCursor"], first["page"]["nextToken"]
    value = opened(good)
    changes = [{"schema": "throughline.observer_page.v2"}, {"project_sha256": oracle.sha256("/")}, {"after_sha256": oracle.sha256(through)},
        {"through_sha256": oracle.sha256(EMPTY)}, {"offset": 0}, {"offset": 2}, {"offset": 4},
               {"offset": -1}, {"offset": 2**53}, {"offset": "1"}, {"offset": True}, {"offset_prefix_sha256": oracle.prefix_sha256([])},
               {"offset_prefix_sha256": value["offset_prefix_sha256"].upper()}, {"offset_prefix_sha256": None}, {"more": 1}]
    bad = [sealed("tlp1.", {**value, **x}) for x in changes] + [sealed("tlp1.", json.dumps(value)),
        sealed("tlp1.", compact(value).replace('"offset":1', '"offset":1.0')), sealed("tlp1.", dict(reversed(value.items()))), sealed("tlp1.", "[]"),
                                                                good + "=", good[:-1], "tlc1." + good[5:], "tlp1.", "rubbish", EMPTY]
    for token in bad:
        expect(c.read(after=EMPTY, through=through, page=token)["code"], "E_OBSERVER_READ_INPUT")
    expect(c.read(after=through, through=through, page=good)["code"], "E_OBSERVER_READ_INPUT")
    expect(c.read(after=EMPTY, through=EMPTY, page=good)["code"], "E_OBSERVER_READ_INPUT")
    expect(asks(c.read(after=EMPTY, through=through, page=good)), ["two", "three"])


@case("tokens/page-at-the-ends", "A page token for the very start or the very end of the series is good: the end has no entries.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO)
    c.capture()
    first = c.read(after=EMPTY, limit=1)
    through, value = first["throughCursor"], opened(first["page"]["nextToken"])
    expect(asks(c.read(after=EMPTY, through=through, page=sealed("tlp1.", {**value, "offset": 0, "offset_prefix_sha256": oracle.prefix_sha256([])}))),
        ["one", "two"])
    end = sealed("tlp1.", {**value, "offset": 2, "offset_prefix_sha256": opened(through)["prefix_sha256"]})
    answer = c.read(after=EMPTY, through=through, page=end)
    expect((answer["status"], answer["turns"], answer["page"]["complete"]), ("delta", [], True))


@case("tokens/page-of-an-edited-chain", "A page token of a series whose through cursor no longer holds is resync_required: the token itself still names these cursors.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO)
    c.capture()
    first = c.read(after=EMPTY, limit=1)
    c.append(FA, undone(30, 1))
    expect(c.read(after=EMPTY, through=first["throughCursor"], page=first["page"]["nextToken"])["status"], "resync_required")


@case("tokens/long-cursor", "A cursor longer than 4096 units is not looked into.")
def _(c):
    value = sealed("tlc1.", {**opened(EMPTY), "schema": "x" * 3100})
    assert len(value) > 4096
    expect(c.read(after=value)["status"], "resync_required")


# ---------------------------------------------------------------- arguments

def refused(name, about, *argvs, code="ARGS"):
    @case(name, about)
    def build(c):
        c.step(mkdir="file")
        c.write("plain", "x")
        for argv in argvs:
            expect(c.run("observer-read", *argv)["code"], f"E_OBSERVER_READ_{code}")


OK = ["--project", "/usr", "--json"]
refused("arguments/missing", "--project and --json are required.", [], ["--json"], ["--project", "/usr"], ["--limit", "5", "--json"],
    ["--project", "--json"], ["--json", "--project"])
refused("arguments/repeated", "Each option stands at most once, even with the same value.", OK + ["--json"], OK + ["--project", "/usr"],
    OK + ["--limit", "5", "--limit", "5"], OK + ["--after-cursor", "a", "--after-cursor", "a"],
        OK + ["--through-cursor", "a", "--through-cursor", "b"], OK + ["--after-cursor", "a", "--through-cursor", "b", "--page-token", "x",
        "--page-token", "x"])
refused("arguments/unknown", "Unknown options, other forms of known ones and positional arguments are refused.", OK + ["--what"], OK + ["x"],
    OK + [""], OK + ["--"], OK + ["-"], OK + ["-h"], OK + ["--help"], ["--help", "--json"], OK + ["-j"],
        ["--project=/usr", "--json"], ["--project", "/usr", "--json=true"], OK + ["--limit=5"], ["--proj", "/usr", "--json"], ["--PROJECT", "/usr",
        "--json"], ["-p", "/usr", "--json"], ["/usr", "--json"], OK + ["--", "x"])
refused("arguments/no-other-sources", "There is no option for a database, a home, a store or a session.", OK + ["--db", "x.db"], OK + ["--codex-home",
    "x"], OK + ["--state-home", "x"], OK + ["--store", "x"], OK + ["--session", "x"], OK + ["--host", "codex"],
        OK + ["--timeout-seconds", "5"])
refused("arguments/values", "A value may not be missing, empty or begin with a dash.", OK + ["--limit"], OK + ["--limit", ""], OK + ["--after-cursor",
    ""], OK + ["--after-cursor", "-x"], OK + ["--after-cursor"], OK + ["--through-cursor", "--limit"],
        ["--project", "", "--json"], ["--project", "-x", "--json"], OK + ["--after-cursor", "a", "--through-cursor", "b", "--page-token", ""],
        OK + ["--after-cursor", "a", "--through-cursor", "b", "--page-token", "-"])
refused("arguments/limit", "A limit is 1 to 100 in ASCII digits.", *[OK + ["--limit", x] for x in ("0", "101", "000", "-1", "+5", " 5", "5 ", "1.0",
    "1e1", "0x5", "\u0663", "five", "99999999999999999999999999", "5\n", "1_0")])
refused("arguments/page-token-needs-cursors", "A page token needs both cursors.", OK + ["--page-token", "x"], OK + ["--page-token", "x",
    "--after-cursor", "a"], OK + ["--through-cursor", "a", "--page-token", "x"])
refused("arguments/before-the-project", "Wrong arguments are told before a wrong project.", ["--project", "relative"], ["--project", "/no/such/dir",
    "--json", "--limit", "0"], ["--project", "/no/such/dir", "--json", "x"])
refused("arguments/project", "The project has to be an absolute existing directory.", *[["--project", p, "--json"] for p in ("usr", ".", "./file",
    "file", "/no/such/dir", "/usr/gone", "{ROOT}/plain", "{ROOT}/plain/", "{ROOT}/file/gone/..", "~", " /usr")], code="INPUT")


@case("arguments/accepted", "The order of options is free, a limit may have leading zeros, and odd cursors are no syntax error.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    for argv in (["--json", "--limit", "007", "--project", "/usr"], ["--limit", "100", "--json", "--project", "/usr/"], ["--project", "//usr/./",
        "--limit", "00000000000000000000000000000000001", "--json"], ["--project", "/usr/bin/..", "--json"]):
        expect(asks(c.run("observer-read", *argv)), ["one"])
    expect(c.run("observer-read", "--after-cursor", "a b", "--project", "/usr", "--json")["status"], "resync_required")


# ---------------------------------------------------------------- receipts

@case("receipts/one-session", "The receipts of one Claude session are its chain: source and origin are those of the receipt, bodies those of the target session.")
def _(c):
    c.claude(("s-1", "one", "first", 1), ("s-1", "two", "second", 2))
    c.capture()
    one = c.read(limit=1)
    expect((one["host"], asks(one), one["historyTruncated"]), ("claude", ["two"], True))
    expect(one["turns"][0]["source_sha256"], oracle.sha256("claude:2"))
    expect(asks(c.read(after=EMPTY)), ["one", "two"])


@case("receipts/sessions-apart", "Receipts of several sessions are several threads; the order in each is that of the sequence, whatever the times say.")
def _(c):
    c.claude(("s-1", "one", "done", 9), ("s-2", "two", "done", 5), ("s-1", "three", "done", 3), ("s-2", "four", "done", 4))
    c.capture()
    expect(asks(c.read()), ["two", "four"])
    expect(asks(c.read(through=c.threads()["threads"][1]["throughCursor"])), ["one", "three"])


@case("receipts/merged-origin", "A session that goes on in another has its own origin in the pairs; the database is asked under the target.")
def _(c):
    c.claude(("s-2", "from the first", "done", 1, "s-1"), ("s-2", "own", "done", 2))
    c.capture()
    answer = c.read()
    expect(asks(answer), ["from the first", "own"])
    expect([t["origin_sha256"] for t in answer["turns"]], [oracle.sha256("s-1"), oracle.sha256("s-2")])


@case("receipts/other-spelling", "The store is JSON of any spelling: blanks, key order, floats that are whole, repeated keys of which the last wins, ids with lone surrogates.")
def _(c):
    value = store([receipt(1, "s-1", "one", "done", 1), receipt(2, "s-\\ud83d", "two", "done", 2)])
    text = json.dumps(dict(reversed(value.items())), indent=1).replace('"sequence": 2',
        '"sequence": 7, "sequence": 2.0').replace('"next_sequence": 3', '"next_sequence": 3.0').replace("s-\\\\ud83d", "s-\\ud83d") \
        .replace('"history_floor": 1', '"history_floor": 1e0').replace(f'"completed_at": {ms(2)}', f'"completed_at": {ms(2)}.0')
    c.receipts(text)
    c.pairs = [("s-1", "s-1", 1, "one", "done", 1), ("s-\ufffd", "s-\ufffd", 2, "two", "done", 2)]
    c.capture()
    expect(asks(c.read()), ["two"])


@case("receipts/empty-store", "A store without receipts has no candidate, with any floor.")
def _(c):
    c.receipts(store([]))
    expect(c.read()["throughCursor"], EMPTY)
    c.receipts(store([], floor=7))
    expect(c.read()["throughCursor"], EMPTY)


@case("receipts/other-projects-store", "A store is found by the digest of exactly this project: one of a directory below is not looked at, however broken.")
def _(c):
    c.claude(("s-1", "one", "done", 1))
    c.write(f"{RECEIPTS}/{oracle.sha256('/usr/bin')}.json", "broken", mode="0644")
    c.capture()
    expect(asks(c.read()), ["one"])
    expect(c.read(project="/usr/bin")["code"], "E_OBSERVER_READ_INTERNAL")


GOOD = [receipt(1, "s-1", "one", "first", 1), receipt(2, "s-1", "two", "second", 2)]


def damaged(name, about, *values, **how):
    """Each of these stores fails the read; the good one in front shows that nothing else is wrong."""
    @case("receipts/" + name, about)
    def build(c):
        c.receipts(store(GOOD))
        expect(c.read()["status"], "projection_pending")
        for value in values:
            c.receipts(value, **how)
            expect(c.read()["code"], "E_OBSERVER_READ_INTERNAL")
        expect(c.threads()["code"], "E_OBSERVER_THREADS_INTERNAL")


damaged("broken-json", "A store that is no JSON fails the read.", "", "{", compact(store(GOOD))[:-1], compact(store(GOOD)) + "x",
    compact(store(GOOD)) * 2, "\0" * 50, compact(store(GOOD)).replace('"next_sequence":3', '"next_sequence":NaN'))
damaged("another-shape", "A store of another shape, with a key too many or too few, or of another schema fails the read.", "[]", "null", "7", "{}",
    store(GOOD, more=1), {k: v for k, v in store(GOOD).items() if k != "history_floor"},
        store(GOOD, schema="throughline.completed_turn_receipts.v2"), {**store(GOOD), "receipts": {}}, {**store(GOOD), "receipts": None},
        store(GOOD, project_sha256=oracle.sha256("/")), store(GOOD, project_sha256=PROJECT.upper()))
damaged("gap-in-the-sequence", "Sequences run from the floor without a gap, in order.", store([GOOD[0], {**GOOD[1], "sequence": 3}], next_sequence=4),
    store([GOOD[0], {**GOOD[1], "sequence": 1}]), store(GOOD[::-1]), store([GOOD[0], {**GOOD[1], "sequence": "2"}]),
        store([GOOD[0], {**GOOD[1], "sequence": 2.5}]))
damaged("wrong-floor", "The floor is at least 1 and the sequence of the first receipt.", store(GOOD, history_floor=2),
    store([{**g, "sequence": i} for i, g in enumerate(GOOD)], floor=0), store(GOOD, history_floor=1.5), store(GOOD, history_floor=None),
    store(GOOD, history_floor=True),
        store([], floor=0), store([], floor=-1))
damaged("wrong-next-sequence", "The next sequence follows the last receipt.", store(GOOD, next_sequence=2), store(GOOD, next_sequence=4),
    store(GOOD, next_sequence="3"), store([], next_sequence=2), store(GOOD, next_sequence=2**53))
damaged("pair-twice", "No pair of one origin stands twice, under whatever session or time; under another origin it may.",
    store([GOOD[0], {**GOOD[0], "sequence": 2}]), store([GOOD[0], {**GOOD[0], "sequence": 2, "target_session_id": "s-2", "completed_at": 5}]))
damaged("wrong-receipt", "A receipt with a key too many or too few or with a value out of bounds fails the read.", *[store([GOOD[0], x]) for x in (
    {**GOOD[1], "more": 1}, {k: v for k, v in GOOD[1].items() if k != "host"}, {**GOOD[1], "schema_version": "1.1"},
    {**GOOD[1], "schema_version": 1.0}, {**GOOD[1], "host": "codex"}, {**GOOD[1], "project_sha256": oracle.sha256("/")},
    {**GOOD[1], "target_session_id": ""}, {**GOOD[1], "origin_session_id": ""}, {**GOOD[1], "target_session_id": None},
    {**GOOD[1], "origin_session_id": 7}, {**GOOD[1], "user_sha256": GOOD[1]["user_sha256"].upper()},
    {**GOOD[1], "assistant_sha256": GOOD[1]["assistant_sha256"][1:]}, {**GOOD[1], "user_sha256": None}, {**GOOD[1], "completed_at": -1},
    {**GOOD[1], "completed_at": 1.5}, {**GOOD[1], "completed_at": "1"}, {**GOOD[1], "completed_at": 2**53},
    {**GOOD[1], "completed_at": None}, None, [], "x")])
damaged("long-id", "An id of more than 4096 UTF-16 units fails the read.", store([GOOD[0], {**GOOD[1], "target_session_id": ROCKET * 2048 + "x"}]))
damaged("readable-by-others", "A store file that is not 0600 fails the read.", store(GOOD), mode="0644")
damaged("not-even-writable", "Nor does 0400 or any other mode do.", store(GOOD), mode="0400")


@case("receipts/longest-id", "An id of exactly 4096 UTF-16 units is one.")
def _(c):
    c.claude((ROCKET * 2048, "one", "done", 1, "o"))
    c.capture()
    expect(asks(c.read()), ["one"])


@case("receipts/same-pair-of-two-origins", "The same two texts under two origins, or with one side different, are two receipts.")
def _(c):
    c.claude(("s-1", "one", "done", 1), ("s-1", "one", "done", 2, "s-0"), ("s-1", "one", "other", 3), ("s-1", "done", "one", 4))
    c.capture()
    expect(asks(c.read()), ["one", "one", "one", "done"])


@case("receipts/open-folder", "A folder of the store that is not 0700 fails the read.")
def _(c):
    c.claude(("s-1", "one", "done", 1))
    for mode in ("0755", "0770", "0500"):
        c.step(mkdir=RECEIPTS, mode=mode)
        expect(c.read()["code"], "E_OBSERVER_READ_INTERNAL")
    c.step(mkdir=RECEIPTS, mode="0700")
    c.capture()
    expect(asks(c.read()), ["one"])


@case("receipts/linked-file", "A store file that is a link fails the read, wherever it leads, even to nothing.")
def _(c):
    c.claude(("s-1", "one", "done", 1))
    c.step(rename=[STORE, "aside.json"])
    c.step(link=STORE, to="{ROOT}/aside.json")
    expect(c.read()["code"], "E_OBSERVER_READ_INTERNAL")
    c.step(remove="aside.json")
    expect(c.read()["code"], "E_OBSERVER_READ_INTERNAL")


@case("receipts/linked-folder", "A folder of the store that is a link fails the read; a link further up does not.")
def _(c):
    c.claude(("s-1", "one", "done", 1))
    c.capture()
    c.step(rename=["home/.local/state", "elsewhere"])
    c.step(link="home/.local/state", to="{ROOT}/elsewhere")
    expect(asks(c.read()), ["one"])
    c.step(rename=["elsewhere/throughline/completed-turn-receipts", "elsewhere/store"])
    c.step(link="elsewhere/throughline/completed-turn-receipts", to="../store")
    expect(c.read()["code"], "E_OBSERVER_READ_INTERNAL")


@case("receipts/no-file", "A directory or a pipe in the place of the store file fails the read.")
def _(c):
    c.step(mkdir=RECEIPTS, mode="0700")
    c.step(mkdir=STORE, mode="0600")
    expect(c.read()["code"], "E_OBSERVER_READ_INTERNAL")
    c.step(remove=STORE)
    c.step(fifo=STORE)
    expect(c.read()["code"], "E_OBSERVER_READ_INTERNAL")
    c.step(remove=STORE)
    expect(c.read()["throughCursor"], EMPTY)


# ---------------------------------------------------------------- database

SESSION = "codex:" + A
OURS = [[SESSION, "/usr"]]


def bodies(number, ask, answer, sec, session=SESSION, origin=None, roles=("user", "assistant")) -> list:
    return [[session, origin or session, number, role, text, ms(sec)] for role, text in zip(roles, (ask, answer)) if text is not None]


def stored(name, about, sessions, rows, want, version=9, answers=None, **more):
    """A thread of two pairs, and these rows in the database; `want` is the status or the error's last part."""
    @case("database/" + name, about)
    def build(c):
        c.write(FA, meta(0, A), ONE, TWO)
        c.db(sessions, rows, version, **more)
        answer = c.read()
        expect(answer["status"] if answer["status"] != "error" else answer["code"].removeprefix("E_OBSERVER_READ_"), want)
        if want == "projection_pending":
            expect((answer["host"], answer["throughCursor"], answer["turns"], answer["page"]), ("codex", None, [], {"complete": False,
                "nextToken": None}))


BOTH = bodies(1, "one", "first", 3) + bodies(2, "two", "second", 13)


@case("database/pending-without-a-file", "Without a database file, or with a link to nothing, a page with entries is pending; a page without entries is not.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    answer = c.read()
    expect((answer["status"], answer["host"], answer["throughCursor"], answer["page"]), ("projection_pending", "codex", None, {"complete": False,
        "nextToken": None}))
    cursor = c.threads()["threads"][0]["throughCursor"]
    expect(c.read(after=cursor)["status"], "delta")
    expect(c.read(after=EMPTY)["status"], "projection_pending")
    c.step(link=DATABASE, to="gone.db")
    expect(c.read()["status"], "projection_pending")


stored("pending-without-a-session", "Without a row of the session the page is pending, even where its bodies are there.", [["codex:" + B, "/usr"],
    [A, "/usr"]], BOTH, "projection_pending")
stored("pending-without-a-pair", "All or nothing: a page with one pair that is not stored yet is pending.", OURS, bodies(1, "one", "first", 3),
    "projection_pending")
stored("pending-without-one-side", "A pair needs both roles of one turn number.", OURS, bodies(1, "one", "first", 3) + bodies(2, "two", None,
    13) + bodies(3, None, "second", 13), "projection_pending")
stored("pending-with-another-text", "The texts have to have the hashes of the chain.", OURS, bodies(1, "one", "first", 3) + bodies(2, "two!",
    "second", 13), "projection_pending")
stored("pending-with-another-origin", "The origin has to be the thread's.", OURS, bodies(1, "one", "first", 3) + bodies(2, "two", "second", 13,
    origin=A), "projection_pending")
stored("pending-in-another-order", "The pairs have to stand in the order of the chain.", OURS, bodies(1, "one", "first", 13) + bodies(2, "two",
    "second", 3), "projection_pending")
stored("pending-with-another-sessions-pair", "Bodies of another session do not count.", OURS + [["codex:" + B, "/usr"]], bodies(1, "one", "first",
    3) + bodies(2, "two", "second", 13, session="codex:" + B, origin=SESSION), "projection_pending")
stored("other-pairs-between", "Other pairs, halves and other roles may stand between, before and behind.", OURS,
       bodies(9, "x", "y", 1) + bodies(1, "one", "first", 3) + bodies(5, "two", "first", 4) + bodies(6, "half", None, 5) + bodies(2, "two", "second",
       13) + bodies(7, "one", "first", 20) + bodies(8, "s", "t", 6, roles=("system", "tool")), "snapshot")
stored("ordered-by-id-at-one-time", "At equal times the greater id comes later, whatever the turn numbers.", OURS, bodies(2, "one", "first",
    3) + bodies(1, "two", "second", 3), "snapshot")
stored("ordered-by-the-later-row", "A pair stands at the later of its two rows: here the first is complete only after the second.", OURS,
       [bodies(1, "one", "first", 3)[0]] + bodies(2, "two", "second", 13) + [[SESSION, SESSION, 1, "assistant", "first", ms(20)]],
       "projection_pending")
stored("roles-in-either-order", "The assistant's row may come first.", OURS, bodies(1, "one", "first", 3)[::-1] + bodies(2, "two", "second",
    13)[::-1], "snapshot")
stored("texts-are-normalised", "Stored texts are compared and told after composition, line ends and trimming.", OURS, bodies(1, " one\r\n",
    "first\u3000", 3) + bodies(2, "\ufefftwo", "\n\nsecond", 13), "snapshot")
stored("blob-is-no-text", "A text that is a blob does not count.", OURS, bodies(1, "one", "first", 3) + bodies(2, "two",
    {"blob": base64.b64encode(b"second").decode()}, 13), "projection_pending")
stored("blob-between", "Rows that do not count do not stand in the way: a blob, a turn number or time that is no integer.", OURS,
       bodies(1, "one", "first", 3) + bodies(7, {"blob": "AAEC"}, "x", 4) + bodies("seven", "x", "y", 5) + bodies(1.5, "x", "y",
       5) + [[SESSION, SESSION, 8, "user", "x", "late"], [SESSION, SESSION, 8, "assistant", "y", 2.5]] + bodies(2, "two", "second", 13), "snapshot")
stored("odd-numbers-do-not-count", "A pair whose turn number or time is no integer does not count.", OURS,
       bodies(1, "one", "first", 3) + bodies("two", "two", "second", 13) + [[SESSION, SESSION, 3, "user", "two", ms(13)], [SESSION, SESSION, 3,
       "assistant", "second", "late"]] + bodies(4.5, "two", "second", 13), "projection_pending")
stored("schema-10", "Schema 10 is read.", OURS, BOTH, "snapshot", version=10)
stored("schema-12", "Schema 12 is read.", OURS, BOTH, "snapshot", version=12)
stored("schema-8", "Schema 8 is not supported.", OURS, BOTH, "DB_SCHEMA", version=8)
stored("schema-13", "Nor is schema 13, whether or not there is a session.", [], [], "DB_SCHEMA", version=13)
stored("session-of-a-directory-below", "A session row's project may be below the project, or a link to it, or be gone.",
    [[SESSION, "/usr/gone/deeper/"]], BOTH, "snapshot")
stored("session-of-another-project", "A session row of another project is an error, not a pending page, even without bodies.", [[SESSION, "/usr-x"]],
    [], "DB_PROJECT")
stored("session-of-the-directory-above", "So is one of the directory above.", [[SESSION, "/"]], BOTH, "DB_PROJECT")
stored("session-with-a-relative-path", "So is one with a relative path, or an empty one.", [[SESSION, "usr"]], BOTH, "DB_PROJECT")
stored("table-is-missing", "A database that cannot be asked is an I/O error.", OURS, BOTH, "DB_IO", sql=["DROP TABLE bodies"])
stored("sessions-table-is-missing", "So is one without a table of sessions.", OURS, BOTH, "DB_IO", sql=["DROP TABLE sessions"])


@case("database/invalid-utf8", "Bytes of a stored text that are no UTF-8 read as U+FFFD, as those of a rollout do.")
def _(c):
    c.bytes(FA, lines(meta(0, A), started(1, "t1"), prompt(1, "cut X")).replace(b"X", b"\xe6\x87") + lines(reply(2, "first"), finished(3, "t1")))
    c.db(OURS, [[SESSION, SESSION, 1, "user", {"text_bytes": base64.b64encode(b"cut \xe6\x87").decode()}, ms(3)], [SESSION, SESSION, 1, "assistant",
        "first", ms(3)]])
    expect(asks(c.read()), ["cut \ufffd"])


@case("database/repeated-pairs-one-to-one", "Three equal pairs of the chain need three stored ones.")
def _(c):
    c.write(FA, meta(0, A), [turn(10 * i, f"t{i}", "go", "ok") for i in range(3)])
    c.db(OURS, bodies(1, "go", "ok", 3) + bodies(2, "go", "ok", 13))
    expect(c.read()["status"], "projection_pending")
    expect(asks(c.read(limit=2)), ["go", "go"])
    c.db(OURS, bodies(1, "go", "ok", 3) + bodies(2, "go", "ok", 13) + bodies(3, "go", "ok", 23))
    expect(asks(c.read()), ["go"] * 3)


@case("database/only-the-page-counts", "Only the pairs of the page have to be there: a snapshot of the newest, a page of a delta. A pending delta keeps its after cursor.")
def _(c):
    c.write(FA, meta(0, A), ONE, TWO, THREE)
    c.db(OURS, bodies(2, "two", "second", 13))
    expect(c.read(limit=2)["status"], "projection_pending")
    answer = c.read(after=EMPTY, limit=1)
    expect((answer["status"], answer["afterCursor"]), ("projection_pending", EMPTY))
    c.db(OURS, bodies(1, "one", "first", 3) + bodies(2, "two", "second", 13))
    first = c.read(after=EMPTY, limit=2)
    expect(asks(first), ["one", "two"])
    expect(c.read(after=EMPTY, through=first["throughCursor"], page=first["page"]["nextToken"])["status"], "projection_pending")


@case("database/pending-after-a-switch", "A switch whose bodies are not stored yet is pending and keeps what it says of a lost start.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.capture()
    one = c.read()["throughCursor"]
    c.claude(("s-1", "claude", "done", 50), floor=9)
    answer = c.read(after=one)
    expect((answer["status"], answer["host"], answer["historyTruncated"]), ("projection_pending", "claude", True))


@case("database/no-database", "A file that is no database, or a directory, is an I/O error; an empty file is a database of schema 0.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.write(DATABASE, "this is not a database, " * 100)
    expect(c.read()["code"], "E_OBSERVER_READ_DB_IO")
    cursor = c.threads()["threads"][0]["throughCursor"]
    expect(c.read(after=cursor)["status"], "delta")
    c.step(remove=DATABASE)
    c.step(mkdir=DATABASE)
    expect(c.read()["code"], "E_OBSERVER_READ_DB_IO")
    c.step(remove=DATABASE)
    c.write(DATABASE, "", end="")
    expect(c.read()["code"], "E_OBSERVER_READ_DB_SCHEMA")


@case("database/linked-project", "The session row's path is resolved like any other.")
def _(c):
    c.step(link="link", to="/usr")
    c.write(FA, meta(0, A), ONE)
    c.db([[SESSION, "{ROOT}/link/bin"]], BOTH)
    expect(asks(c.read()), ["one"])
    c.db([[SESSION, "{ROOT}"]], BOTH)
    expect(c.read()["code"], "E_OBSERVER_READ_DB_PROJECT")


# ---------------------------------------------------------------- observer-threads

@case("threads/list", "Every thread of both hosts with its through cursor, the latest completion first, then the greater digest; the database is not asked.")
def _(c):
    c.claude(("s-1", "one", "done", 5), ("s-2", "two", "done", 3), ("s-1", "three", "done", 4))
    c.write(FA, meta(0, A), ONE)
    c.write(FB, meta(0, B), ONE)
    c.write(FC, meta(0, C, "/elsewhere"), THREE)
    c.write(DATABASE, "broken")
    answer = c.threads()
    expect([t["last_completed_at"] for t in answer["threads"]], [ms(4), ms(3), ms(3), ms(3)])
    expect(answer["emptyCursor"], EMPTY)
    tied = [t["thread_sha256"] for t in answer["threads"][1:]]
    expect(tied, sorted(tied, reverse=True))


@case("threads/empty", "A project without pairs has no threads, and the cursor of the empty chain.")
def _(c):
    expect(c.threads(), {"schema": oracle.THREADS_SCHEMA, "emptyCursor": EMPTY, "threads": []})
    expect(c.threads(project="/usr/bin/..")["emptyCursor"], EMPTY)


@case("threads/read-each-by-its-own", "With two sessions at work nothing is missed by reading each thread by its own after and through cursor.")
def _(c):
    c.write(FA, meta(0, A), ONE)
    c.write(FB, meta(0, B), turn(5, "t1", "b one", "done"))
    c.capture()
    mine = {t["thread_sha256"]: t["throughCursor"] for t in c.threads()["threads"]}
    c.append(FA, TWO)
    c.append(FB, turn(15, "t2", "b two", "done"))
    c.write(FC, meta(0, C), turn(16, "t1", "c one", "done"))
    c.capture()
    listed = c.threads()
    got = [asks(c.read(after=mine.get(t["thread_sha256"], listed["emptyCursor"]), through=t["throughCursor"])) for t in listed["threads"]]
    expect(got, [["c one"], ["b two"], ["two"]])


@case("threads/arguments", "observer-threads takes a project and --json, nothing else, and has its own errors.")
def _(c):
    for argv in ([], ["--json"], ["--project", "/usr"], OK + ["--limit", "1"], OK + ["--after-cursor", "a"], OK + ["--through-cursor", "a"],
        OK + ["--page-token", "a"], OK + ["--json"], OK + ["x"], ["--project=/usr", "--json"], ["--project", "", "--json"],
                 ["--project", "-x", "--json"]):
        expect(c.run("observer-threads", *argv)["code"], "E_OBSERVER_THREADS_ARGS")
    for path in ("usr", "/no/such/dir"):
        expect(c.threads(project=path)["code"], "E_OBSERVER_THREADS_INPUT")


# ---------------------------------------------------------------- writing

INVISIBLE = re.compile("[\u007f-\u00a0\u1680\u2000-\u200f\u2028-\u202f\u205f\u2060\u3000\u0300-\u036f\ufeff\ufffd]")


def render(name) -> str:
    about, env, build = CASES[name]
    here = os.getcwd()
    root = os.path.realpath(tempfile.mkdtemp(prefix="golden-"))
    try:
        os.chdir(root)
        c = Case(root, env)
        build(c)
    except AssertionError as e:
        raise SystemExit(f"{name}: {e}")
    finally:
        os.chdir(here)
        shutil.rmtree(root, ignore_errors=True)
    document = {"about": about, **({"env": env} if env else {}), "steps": c.steps}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    return INVISIBLE.sub(lambda m: f"\\u{ord(m.group()):04x}", text) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="compare, write nothing")
    a = p.parse_args()
    want = {name + ".json": render(name) for name in CASES}
    have = {}
    for folder, _, names in os.walk(GOLDEN):
        for n in names:
            path = os.path.join(folder, n)
            with open(path, encoding="utf-8") as f:
                have[os.path.relpath(path, GOLDEN)] = f.read()
    wrong = sorted(n for n in want.keys() | have.keys() if want.get(n) != have.get(n))
    if a.check:
        for n in wrong:
            print(f"{n}: {'differs' if n in want and n in have else 'is missing' if n in want else 'is of no case'}")
        print(f"{len(want)} cases, {len(wrong)} wrong")
        sys.exit(bool(wrong))
    for n in wrong:
        path = os.path.join(GOLDEN, n)
        if n in want:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(want[n])
        else:
            os.remove(path)
    print(f"{len(want)} cases, {len(wrong)} written")


if __name__ == "__main__":
    main()
