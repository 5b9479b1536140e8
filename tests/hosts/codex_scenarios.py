#!/usr/bin/env python3
"""codex_scenarios.py HOME CODEX [NAME…]: real Codex sessions through `codex app-server` against model.py; prints a line per scenario.

HOME gets .codex/ (config.toml must be there, see README) and proj/. Scenarios that a version does not know are reported as FAILED.
"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from appserver import AppServer

home, codex, only = sys.argv[1], sys.argv[2], sys.argv[3:]
proj = os.path.join(home, "proj")
os.makedirs(proj, exist_ok=True)
s = AppServer([codex, "app-server"], {"HOME": home, "CODEX_HOME": home + "/.codex", "STUB_KEY": "x", "PATH": os.environ["PATH"]}, proj)


def start():
    return s.call("thread/start", {"cwd": proj, "approvalPolicy": "never", "sandbox": "danger-full-access"})["thread"]["id"]


def ended(t):
    s.wait("turn/completed", pred=lambda p: p.get("threadId") == t)


def words(text):
    return [{"type": "text", "text": text}]


def plain():
    t = start(); s.turn(t, "first question"); s.turn(t, "run a tool please")

def steer():
    t = start(); k = s.turn(t, "slow question", wait=False); time.sleep(1)
    s.call("turn/steer", {"threadId": t, "expectedTurnId": k, "input": words("also this, steered")}); ended(t)

def interrupt():
    t = start(); k = s.turn(t, "slow question to stop", wait=False); time.sleep(1)
    s.call("turn/interrupt", {"threadId": t, "turnId": k}); ended(t); s.turn(t, "after the stop")

def revert():                      # paginated threads: a second and third file
    t = start(); ids = [s.turn(t, f"question {i}") for i in range(4)]
    s.call("thread/revert", {"threadId": t, "beforeTurnId": ids[3]}); s.turn(t, "A after the first revert"); b = s.turn(t, "B after the first revert")
    s.call("thread/revert", {"threadId": t, "beforeTurnId": b}); s.turn(t, "C after the second revert")
    s.call("thread/revert", {"threadId": t, "beforeTurnId": ids[1]}); s.turn(t, "D after the third revert")

def rollback():                    # legacy threads: a marker row
    t = start(); [s.turn(t, f"question {i}") for i in range(4)]
    s.call("thread/rollback", {"threadId": t, "numTurns": 2}); s.turn(t, "after the rollback")

def rollback_over_compaction():
    t = start(); s.turn(t, "question 0"); s.turn(t, "question 1"); s.call("thread/compact/start", {"threadId": t}); time.sleep(3)
    s.turn(t, "question 2"); s.call("thread/rollback", {"threadId": t, "numTurns": 2}); s.turn(t, "after the rollback")

def rollback_of_steered():
    t = start(); s.turn(t, "question 0"); k = s.turn(t, "slow question 1", wait=False); time.sleep(1)
    s.call("turn/steer", {"threadId": t, "expectedTurnId": k, "input": words("steered")}); ended(t)
    s.call("thread/rollback", {"threadId": t, "numTurns": 1}); s.turn(t, "after the rollback")

def fork():
    t = start(); [s.turn(t, f"question {i}") for i in range(3)]
    f = s.call("thread/fork", {"threadId": t})["thread"]["id"]; s.turn(f, "in the fork"); s.turn(t, "in the parent again")

def compact():
    t = start(); s.turn(t, "before compaction"); s.call("thread/compact/start", {"threadId": t}); time.sleep(3); s.turn(t, "after compaction")

def shell():
    t = start(); s.call("thread/shellCommand", {"threadId": t, "command": "echo from-the-user"}); time.sleep(2); s.turn(t, "after the shell command")

def review():
    t = start(); s.turn(t, "before review"); s.call("review/start", {"threadId": t, "target": {"type": "custom", "instructions": "look at it"}})
    time.sleep(4); s.turn(t, "after review")

def archive():
    t = start(); s.turn(t, "to be archived"); s.call("thread/archive", {"threadId": t})

def image():
    t = start(); png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    s.call("turn/start", {"threadId": t, "input": [{"type": "image", "url": png}]}); ended(t); s.turn(t, "words after the image")


for f in (plain, steer, interrupt, revert, rollback, rollback_over_compaction, rollback_of_steered, fork, compact, shell, review, archive, image):
    if not only or f.__name__ in only:
        try:
            f(); print(f.__name__, "ok", flush=True)
        except Exception as e:
            print(f.__name__, "FAILED", repr(e)[:160], flush=True)
s.close()
