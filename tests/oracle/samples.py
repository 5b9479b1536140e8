#!/usr/bin/env python3
"""Makes expected.json beside the recordings in corpus/samples: what the oracle says about them.

    samples.py            writes the files
    samples.py --check    compares them with what would be written; ends with 1 on a difference

codex: each recording is a store of its own, and all of them together are one more. The file holds everything that
tests/it/samples.rs needs to build these stores and to compare answers byte for byte: the name of the rollout, the rows
of the database, the calls with what comes back.

claude and claude-real: of each transcript its turns, which parsers/tests/transcripts.rs compares with its own. (What is
expected of codex-real is known from the script that was played there.)

Why the bytes are the same on every machine: the stores are read inside a fresh directory with HOME=home, a relative
path (which stays relative in digests), and the project of the recordings is replaced by /usr, which is a real directory
everywhere.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile

import claude
import oracle

SAMPLES = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "corpus", "samples"))
CODEX, CLAUDE, CLAUDE_REAL = (os.path.join(SAMPLES, name) for name in ("codex", "claude", "claude-real"))

RECORDED_PROJECT, PROJECT = "/work/app", "/usr"
ENV = oracle.Env("home")
# Of a recording that does not say whose it is.
NO_THREAD = "00000000-0000-4000-8000-000000000001"
COMMANDS = {"observer-threads": oracle.observer_threads, "observer-read": oracle.observer_read}


def recordings() -> dict[str, bytes]:
    found = {}
    for name in sorted(n for n in os.listdir(CODEX) if n.endswith(".jsonl")):
        with open(os.path.join(CODEX, name), "rb") as f:
            found[name] = f.read().replace(RECORDED_PROJECT.encode(), PROJECT.encode())
    return found


def rollout_name(data: bytes) -> str:
    first = json.loads(data.split(b"\n", 1)[0])
    thread = first["payload"]["id"] if first.get("type") == "session_meta" else NO_THREAD
    return f"home/.codex/sessions/rollout-2026-01-05T10-00-00-{thread}.jsonl"


def rows_of(path: str, data: bytes) -> dict:
    """The session and its bodies, [turn_number, role, text, created_at], as a capture stores them; {} of no thread."""
    rollout = oracle.parse_rollout(path, path[-len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.jsonl"):-len(".jsonl")], data)
    if not rollout.identified:
        return {}
    sides = [(n, role, text) for n, *texts in oracle.stored_turns(rollout, [rollout])
             for role, text in zip(("user", "assistant"), texts) if text is not None]
    bodies = [[n, role, text, at] for at, (n, role, text) in enumerate(sides, 1)]
    return {"session": "codex:" + rollout.thread, "bodies": bodies}


def build(recorded: dict[str, bytes]):
    """Writes the store into the working directory."""
    os.makedirs("home/.codex/sessions")
    os.makedirs("home/.throughline")
    db = oracle.sqlite3.connect("home/.throughline/throughline.db")
    db.execute("CREATE TABLE sessions (session_id, project_path)")
    db.execute("CREATE TABLE bodies (id INTEGER PRIMARY KEY, session_id, origin_session_id, turn_number, role, text, created_at)")
    for data in recorded.values():
        path = rollout_name(data)
        with open(path, "wb") as f:
            f.write(data)
        rows = rows_of(path, data)
        if rows:
            session = rows["session"]
            db.execute("INSERT INTO sessions VALUES (?, ?)", (session, PROJECT))
            db.executemany("INSERT INTO bodies (session_id, origin_session_id, turn_number, role, text, created_at) VALUES (?, ?, ?, ?, ?, ?)",
                           [(session, session, *row) for row in rows["bodies"]])
    db.commit()
    db.execute("PRAGMA user_version = 9")
    db.close()


def call(argv: list[str]) -> dict:
    code, out, err = COMMANDS[argv[0]](ENV, argv[1:])
    assert (code, err) == (0, ""), (argv, err)
    return {"argv": argv, "stdout": out}


def calls(recorded: dict[str, bytes]) -> list[dict]:
    """The threads, the current one's turns, and each thread's turns from its start."""
    project = ["--project", PROJECT]
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as root:
        os.chdir(root)
        try:
            build(recorded)
            made = [call(["observer-threads", *project, "--json"]), call(["observer-read", *project, "--limit", "100", "--json"])]
            answer = json.loads(made[0]["stdout"])
            for thread in answer["threads"]:
                cursors = ["--after-cursor", answer["emptyCursor"], "--through-cursor", thread["throughCursor"]]
                made.append(call(["observer-read", *project, *cursors, "--limit", "100", "--json"]))
        finally:
            os.chdir(here)
    return made


def answers() -> str:
    """What is expected of the recordings of Codex."""
    recorded = recordings()
    alone = {name: {"rollout": rollout_name(data), "stored": rows_of(rollout_name(data), data), "calls": calls({name: data})}
             for name, data in recorded.items()}
    return as_text({"project": PROJECT, "alone": alone, "together": calls(recorded)})


def turns_of(folder: str) -> dict:
    """The turns of each transcript in a folder: both texts, the number under which it is stored, whether it completed."""
    found = {}
    for name in sorted(n for n in os.listdir(folder) if n.endswith(".jsonl") and n != "payloads.jsonl"):
        with open(os.path.join(folder, name), "rb") as f:
            found[name] = [summary(turn) for turn in claude.turns(f.read())]
    return found


def summary(turn: claude.Turn) -> dict:
    number, answer = (turn.answer() or (None, None))[:2]
    return {"answer": answer, "completed": turn.completed(), "number": number, "user": turn.user()}


def turns() -> str:
    """What is expected of people's transcripts."""
    return as_text(turns_of(CLAUDE))


def turns_by_version() -> str:
    """What is expected of the transcripts that known versions wrote."""
    versions = sorted(n for n in os.listdir(CLAUDE_REAL) if os.path.isdir(os.path.join(CLAUDE_REAL, n)))
    return as_text({version: turns_of(os.path.join(CLAUDE_REAL, version)) for version in versions})


def as_text(value) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


EXPECTED = {CODEX: answers, CLAUDE: turns, CLAUDE_REAL: turns_by_version}


def main():
    arguments = argparse.ArgumentParser(description="What the oracle says about the recordings in corpus/samples.")
    arguments.add_argument("--check", action="store_true", help="compare, write nothing")
    check = arguments.parse_args().check
    for folder, expected in EXPECTED.items():
        path, made = os.path.join(folder, "expected.json"), expected()
        if not check:
            with open(path, "w", encoding="utf-8") as f:
                f.write(made)
            continue
        with open(path, encoding="utf-8") as f:
            if f.read() != made:
                sys.exit(f"{os.path.relpath(path)} is not what the oracle says")


if __name__ == "__main__":
    main()
