#!/usr/bin/env python3
"""Compares `throughline audit` with the oracle over random stores that change step by step.

    audittest.py --bin target/release/throughline [--seeds 50] [--first 1] [--steps 12] [--keep]

After every step everything is read twice, the second time with what the first one remembered; both have to say what the
oracle's threads, turns, rows and database come to. Prints the first difference of each failing world and ends with 1 if
there was any.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import claude
import oracle
from claudetest import Transcript
from world import World

UNDONE = []
plain_rollback = oracle.rolled_back


def noting_rollback(turns, pending, n):
    """What the oracle does, noting which turns went."""
    before = list(turns)
    plain_rollback(turns, pending, n)
    UNDONE.extend(t for t in before[len(turns):] if t.number is not None)


oracle.rolled_back = noting_rollback


def run(binary, w, argv):
    env = {"HOME": w.home, "PATH": "/usr/bin:/bin", "CODEX_HOME": w.codex_home, "XDG_STATE_HOME": w.state_home, "XDG_CACHE_HOME": w.cache_home}
    env = {k: v for k, v in env.items() if v}
    p = subprocess.run([binary, "audit", *argv], env=env, cwd=w.project, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return p.returncode, json.loads(p.stdout), p.stderr.decode("utf-8", "replace")


# ---------------------------------------------------------------- rows

SPELLED = re.compile(r'\{"timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",(?:"ordinal":\d+,)?"type":"([a-z0-9_]+)"(?:,"payload":\{"type":"([a-z0-9_]+)")?', re.ASCII)
MATTER = {"task_started", "turn_started", "task_complete", "turn_complete", "turn_aborted", "thread_rolled_back", "user_message", "agent_message", "item_completed"}


def passed_over(text):
    """The row of a line that is passed over by its first bytes: it counts as readable if it ends in }, whatever stands between."""
    m = SPELLED.match(text)
    if not m or not text.endswith("}") or oracle.ROW_START in text[1:]:
        return None
    kind, inner = m.groups()
    matters = kind == "session_meta" or (kind == "event_msg" and (inner is None or inner in MATTER))
    return None if matters else {"type": kind, "payload": {"type": inner}}


def pieces(data):
    """(rows, unreadable pieces) of a rollout, as oracle.rollout_rows reads them; but for rows that are passed over."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = b"   " + data[3:]
    lines, rows, bad = data.split(b"\n"), [], 0
    for n, line in enumerate(lines):
        last, text, pos, failures = n == len(lines) - 1, line.decode("utf-8", "replace"), 0, 0
        passed = passed_over(text)
        if passed:
            rows.append(passed)
            continue
        while failures < (1 if last else 8):
            pos = oracle.skip_blank(text, pos)
            if pos >= len(text):
                break
            try:
                value, pos = oracle.DECODER.raw_decode(text, pos)
                if isinstance(value, dict):
                    rows.append(oracle.scrub(value))
            except (ValueError, RecursionError):
                failures += 1
                bad += not last
                pos = text.find(oracle.ROW_START, pos + 1)
                if pos < 0:
                    break
    return rows, bad


def name_of(row):
    kind = row.get("type") if isinstance(row.get("type"), str) else ""
    inner = oracle.obj(row.get("payload")).get("type")
    if kind in ("event_msg", "response_item") and isinstance(inner, str) and inner:
        return f"{kind}/{inner}"
    if not kind and isinstance(row.get("record_type"), str):
        return f"record_type/{row['record_type']}"
    if not kind and "id" in row and "timestamp" in row:
        return "(header)"
    return kind or "(none)"


# ---------------------------------------------------------------- Codex

def read_rollout(path, thread, data):
    """The oracle's rollout, with its numbers of turns."""
    UNDONE.clear()
    r = oracle.parse_rollout(path, thread, data)
    if not r.identified:
        return r, None
    rows, _ = pieces(data)
    metas = [oracle.obj(x.get("payload")) for x in rows if x.get("type") == "session_meta"]
    forked = bool(r.meta.get("forked_from_id")) or any(x.get("id") not in (None, r.thread) for x in metas)
    everything = [t for t in oracle.assemble(rows) if t.number is not None]
    own = [t for t in r.turns if t.number is not None]
    undone = UNDONE[:len(UNDONE) // 2]                   # it was assembled twice
    return r, collections.Counter({
        "completed": sum(t.completed_at is not None for t in own),
        "open": sum(not t.closed for t in own),
        "over": sum(t.closed and t.completed_at is None for t in own),
        "rolled_back": sum(not (forked and oracle.inherited(t, r.thread)) for t in undone),
        "inherited": len(everything) - len(own),
        "unpaired": sum(t.completed_at is not None and not (t.text("user") and t.text("assistant")) for t in own),
        "user": sum(len(t.text("user").encode()) for t in own),
        "assistant": sum(len(t.text("assistant").encode()) for t in own),
    })


def codex_threads(w):
    """Thread id -> what an audit has to say of it; and the files of no thread."""
    root = os.path.normpath(w.sessions())
    found, lone = {}, []
    for path, named, packed in oracle.rollout_files(root):
        data = oracle.rollout_bytes(path, packed)
        r, _ = read_rollout(path, named, data)
        (found.setdefault(r.thread, []) if r.identified else lone).append((r, path + (".zst" if packed else ""), data))
    threads = {}
    for thread, files in found.items():
        rollouts = [r for r, _, _ in files]
        current = oracle.current_file(rollouts)
        counts = collections.Counter()
        for part in oracle.parts_of(current, rollouts):
            counts.update(read_rollout(part.path, part.thread, part.data)[1] or {})
        chain = oracle.chain_of(current, rollouts)
        threads["codex", thread] = {
            "cwd": current.cwd, "sub_agent": not current.root, "chain": chain, "counts": counts, "session": "codex:" + thread,
            "files": {path: (len(pieces(data)[0]), pieces(data)[1]) for _, path, data in files},
            "types": collections.Counter(name_of(x) for _, _, data in files for x in pieces(data)[0]),
            "writers": sorted({x["payload"]["cli_version"] for _, _, data in files for x in pieces(data)[0]
                               if x.get("type") == "session_meta" and isinstance(oracle.obj(x.get("payload")).get("cli_version"), str)}),
        }
    return threads, {path: (len(pieces(data)[0]), pieces(data)[1]) for _, path, data in lone}


# ---------------------------------------------------------------- Claude

def claude_threads(w, transcripts, paths):
    threads = {}
    for c in oracle.claude_candidates(w.env, w.project):
        threads["claude", c.session] = {"cwd": None, "sub_agent": False, "chain": c.chain, "counts": collections.Counter(), "session": c.session,
                                        "files": {}, "types": collections.Counter(), "writers": [], "store": w.project}
    for t in transcripts:
        with open(t.path, "rb") as f:
            data = f.read()
        turns, rows = claude.turns(data), list(claude.rows(data))
        key = "claude", t.session
        got = threads.setdefault(key, {"cwd": None, "sub_agent": False, "chain": [], "session": t.session, "store": None})
        over = [x for x in turns if not x.completed()]
        got["counts"] = collections.Counter({
            "completed": len(turns) - len(over), "open": sum(not x.aborted and not x.failed for x in over), "over": sum(x.aborted or x.failed for x in over),
            "user": sum(len(x.user().encode()) for x in turns), "assistant": sum(len(x.answer()[1].encode()) for x in turns if x.answer())})
        got["files"] = {t.path: (sum(x is not None for x in rows), sum(x is None for x in rows))}
        got["types"] = collections.Counter((x["type"] if isinstance(x.get("type"), str) else "") or "(none)" for x in rows if x is not None)
        got["writers"] = sorted({x["version"] for x in rows if x is not None and x.get("type") in ("user", "assistant", "attachment") and isinstance(x.get("version"), str)})
        got["cwd"] = next((x["cwd"] for x in rows if x is not None and x.get("type") in ("user", "assistant", "attachment") and isinstance(x.get("cwd"), str)), None)
    for (_, session), got in threads.items():
        if got["store"]:
            known = [p for p in [*paths.values(), got["cwd"]] if oracle.canonical(p) == oracle.canonical(got["store"])]
            got["cwd"] = min(known, default=paths.get(session))
        else:
            got["cwd"] = paths.get(session) or got["cwd"]
    return threads


# ---------------------------------------------------------------- all of it

def present(w, session, chain):
    """How many entries have their bodies; each pair in the database stands for one."""
    path = os.path.join(w.home, ".throughline", "throughline.db")
    if not os.path.exists(path) or not chain:
        return 0
    import sqlite3
    db = sqlite3.connect(path)
    row = db.execute("SELECT project_path FROM sessions WHERE session_id = ?", (session,)).fetchone()
    db.close()
    if row is None:
        return 0
    inside, oracle.inside = oracle.inside, lambda *_: True                 # whose project it is does not matter here
    stored = collections.Counter(tuple(map(oracle.body_sha256, pair)) for pair in oracle.db_pairs(path, session, w.project))
    oracle.inside = inside
    wanted = collections.Counter((e["origin_sha256"], e["user_sha256"], e["assistant_sha256"]) for e in chain)
    return sum((stored & wanted).values())


def root_of(cwd, git):
    at = oracle.canonical(cwd)
    if at is None:
        return None
    up = at
    while git and up:
        if os.path.lexists(up + "/.git"):
            return up
        up = os.path.dirname(up) if up != "/" else ""
    return at


def expected(w, transcripts, git):
    threads, lone = codex_threads(w)
    threads.update(claude_threads(w, transcripts, database_paths(w)))
    projects = collections.defaultdict(dict)
    for key, t in threads.items():
        t["bodies"] = present(w, t["session"], t["chain"])
        root = root_of(t["cwd"], git)
        projects[(root, None) if root is not None else (None, oracle.sha256(oracle.canonical(w.project)) if t.get("store") else None)][key] = t
    return projects, lone


def database_paths(w):
    path = os.path.join(w.home, ".throughline", "throughline.db")
    if not os.path.exists(path):
        return {}
    import sqlite3
    db = sqlite3.connect(path)
    found = dict(db.execute("SELECT session_id, project_path FROM sessions").fetchall())
    db.close()
    return found


def current_of(threads):
    cands = [oracle.Candidate(h, oracle.sha256(i), t["chain"], 1, i) for (h, i), t in threads.items() if t["chain"] and not t["sub_agent"]]
    latest = oracle.select_latest(cands)
    if latest is None or latest == "ambiguous":
        return None, latest == "ambiguous"
    return {"host": latest.host, "thread": latest.session}, False


def difference(report, projects, lone, complete=True):
    """The first difference between a report and what was expected."""
    if report["complete"] is not complete:
        return f"complete is {report['complete']}"
    got = {(p["root"], None if p["root"] is not None else p["project_sha256"]): p for p in report["projects"]}
    if set(got) != set(projects):
        return f"projects: want {sorted(map(str, projects))}\n  got {sorted(map(str, got))}"
    for key, want in projects.items():
        p = got[key]
        if key[0] is not None and p["project_sha256"] != oracle.sha256(key[0].rstrip("/")):
            return f"{key}: digest {p['project_sha256']}"
        current, ambiguous = current_of(want)
        if (p["current"], p["ambiguous"]) != (current, ambiguous):
            return f"{key}: current {p['current']}, {p['ambiguous']}; want {current}, {ambiguous}"
        threads = {(t["host"], t["thread"]): t for t in p["threads"]}
        if set(threads) != set(want):
            return f"{key}: threads: want {sorted(want)}\n  got {sorted(threads)}"
        types = collections.Counter()
        for name, t in want.items():
            problem = thread_difference(threads[name], t)
            if problem:
                return f"{key}: {name}: {problem}"
            types.update(t["types"])
        if {k: v["rows"] for k, v in p["row_types"].items()} != dict(types):
            return f"{key}: types {p['row_types']}; want {types}"
        if p["pairs"] != sum(len(t["chain"]) for t in want.values() if not t["sub_agent"]):
            return f"{key}: {p['pairs']} pairs"
        if sum(n for days in p["completions"].values() for n in days.values()) != p["pairs"]:
            return f"{key}: completions {p['completions']}"
    files = {f["path"]: (f["rows"], f["unreadable_rows"]) for f in report["files_of_no_thread"]}
    if files != lone:
        return f"files of no thread: want {lone}\n  got {files}"
    every = [f for p in projects.values() for t in p.values() for f in t["files"].items()] + list(lone.items())
    totals = report["totals"]
    want = {"projects": len(projects), "threads": sum(not t["sub_agent"] for p in projects.values() for t in p.values()),
            "pairs": sum(len(t["chain"]) for p in projects.values() for t in p.values() if not t["sub_agent"]),
            "bytes": sum(os.path.getsize(path) for path, _ in every), "rows": sum(rows for _, (rows, _) in every),
            "unreadable_files": len(report["unreadable"]), "unreadable_rows": sum(bad for _, (_, bad) in every)}
    return None if totals == want else f"totals: want {want}\n  got {totals}"


def thread_difference(got, want):
    counts, turns = want["counts"], got["turns"]
    for key in ("completed", "open", "rolled_back", "inherited", "unpaired"):
        if turns[key] != counts[key]:
            return f"{key}: {turns[key]}; want {counts[key]}"
    if turns["aborted"] + turns["failed"] != counts["over"]:
        return f"aborted and failed: {turns}; want {counts['over']}"
    chain = want["chain"]
    facts = {"pairs": len(chain), "first_completed_at": chain[0]["completed_at"] if chain else None, "last_completed_at": chain[-1]["completed_at"] if chain else None,
             "cwd": want["cwd"], "sub_agent": want["sub_agent"], "bodies_present": want["bodies"], "writers": want["writers"],
             "text_bytes": {"user": counts["user"], "assistant": counts["assistant"]}, "receipts": len(chain) if got["host"] == "claude" else 0}
    for key, fact in facts.items():
        if got[key] != fact:
            return f"{key}: {got[key]!r}; want {fact!r}"
    files = {f["path"]: (f["rows"], f["unreadable_rows"]) for f in got["files"]}
    if files != want["files"]:
        return f"files: {files}; want {want['files']}"
    if any(f["bytes"] != os.path.getsize(f["path"]) for f in got["files"]):
        return "the size of a file"
    if any(f["unreadable_rows"] != sum(f["unreadable"].values()) for f in got["files"]):
        return "unreadable rows by kind"
    return None


def change_transcripts(w, r, transcripts, seed):
    """A transcript of a session, with receipts or without, goes on."""
    if len(transcripts) < 3 and r.random() < 0.3:
        session = ["s-1", "s-2", f"11111111-2222-3333-4444-{seed:012x}"][len(transcripts)]
        path = os.path.join(w.home, ".claude", "projects", "-some-folder", session + ".jsonl")
        transcripts.append(Transcript(path, seed * 10 + len(transcripts), session))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        transcripts[-1].turn()
    for t in transcripts:
        for _ in range(r.randint(0, 2)):
            r.choice([t.turn, t.odd, t.again, t.killed])()


def world(binary, seed, steps, keep):
    root = os.path.realpath(tempfile.mkdtemp(prefix=f"audittest-{seed}-"))
    w, r, transcripts, done, count = World(root, seed), random.Random(seed * 3 + 1), [], [], 0
    try:
        for _ in range(steps):
            done.append(w.step())
            change_transcripts(w, r, transcripts, seed)
            if r.random() < 0.2:
                os.makedirs(os.path.join(r.choice([w.root, w.project, w.project + "-sibling"]), ".git"), exist_ok=True)
            if w.db_version not in oracle.DB_SCHEMA_VERSIONS or "damage" == done[-1]:
                continue                                  # what cannot be read is another test's
            git = r.random() < 0.7
            projects, lone = expected(w, transcripts, git)
            for _ in range(2):
                count += 1
                code, report, err = run(binary, w, ["--format", "json"] + ([] if git else ["--no-git"]))
                problem = difference(report, projects, lone)
                damaged = [u for u in report["unreadable"] if "zstd" not in u["reason"]]
                if not problem and (err or damaged or code != bool(report["unreadable"])):
                    problem = f"exit {code}, {err!r}, {report['unreadable']}"
                if problem:
                    print(f"seed {seed}, after {' '.join(done)}, git {git}\n  {problem}\n  world kept in {root}")
                    keep = True
                    return count, False
        return count, True
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", required=True)
    p.add_argument("--seeds", type=int, default=50)
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--keep", action="store_true")
    a = p.parse_args()
    total = failed = 0
    for seed in range(a.first, a.first + a.seeds):
        count, ok = world(os.path.abspath(a.bin), seed, a.steps, a.keep)
        total, failed = total + count, failed + (not ok)
    print(f"{total} audits of {a.seeds} worlds: {a.seeds - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
