#!/usr/bin/env python3
"""claude_scenarios.py HOME CLAUDE PORT [HOOK…]: real Claude Code sessions in print mode against model.py; prints a line per scenario.

The model writes its log to HOME/model.log. HOOK: commands to register for Stop, PreToolUse, UserPromptSubmit and SessionStart in HOME/.claude/settings.json (none: the file is left as it is).
"""
import json
import os
import subprocess
import sys
import time

home, claude, port, hooks = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
proj = os.path.join(home, "proj")
os.makedirs(proj, exist_ok=True)
os.makedirs(os.path.join(home, ".claude"), exist_ok=True)
events = ("Stop", "PreToolUse", "UserPromptSubmit", "SessionStart")
if hooks:
    with open(os.path.join(home, ".claude", "settings.json"), "w") as f:
        json.dump({"hooks": {e: [{"hooks": [{"type": "command", "command": h} for h in hooks]}] for e in events}}, f)
os.makedirs(os.path.join(proj, ".claude", "skills", "greet"), exist_ok=True)
with open(os.path.join(proj, ".claude", "skills", "greet", "SKILL.md"), "w") as f:
    f.write("---\nname: greet\ndescription: greets someone\n---\nGreet $ARGUMENTS and answer.\n")
env = {"HOME": home, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "stub", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
       "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "PATH": os.environ["PATH"], "TERM": "xterm"}


def run(name, *args, stdin=""):
    try:
        p = subprocess.run([claude, *args], env=env, cwd=proj, input=stdin.encode(), capture_output=True, timeout=90)
        print(name, "ok" if p.returncode == 0 else f"exit {p.returncode}", " ".join((p.stdout or p.stderr).decode(errors="replace").split())[-80:], flush=True)
    except Exception as e:
        print(name, "FAILED", repr(e)[:160], flush=True)


def streamed(*texts):
    return "".join(json.dumps({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": t}]}}) + "\n" for t in texts)


def interrupted():
    """Two prompts by stream-json; the first is interrupted while the model thinks."""
    p = subprocess.Popen([claude, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"], env=env, cwd=proj,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    def send(text):
        p.stdin.write(text.encode()); p.stdin.flush()
    def ended():                              # each turn ends with a row of this type
        for line in p.stdout:
            if json.loads(line).get("type") == "result": return
    before = asked(); send(streamed("slow question to interrupt"))
    until = time.time() + 60
    while asked() == before and time.time() < until: time.sleep(0.05)
    send(json.dumps({"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}) + "\n"); ended()
    send(streamed("after the interrupt")); ended()
    p.stdin.close()
    print("interrupt", "ok" if p.wait(timeout=60) == 0 else f"exit {p.returncode}", flush=True)


def asked():
    """How many times the model was asked, by its log in HOME."""
    with open(os.path.join(home, "model.log")) as f:
        return sum("/messages" in line and "count_tokens" not in line for line in f)


run("print", "-p", "first question", "--allowedTools", "Bash")
run("tool", "-p", "please run a tool and answer", "--allowedTools", "Bash", "--continue")
run("stream", "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", stdin=streamed("streamed 0", "streamed 1", "streamed 2"))
block = os.path.join(home, "block")       # a hook may look for this file and block one Stop
open(block, "w").close()
run("blocked", "-p", "question that gets blocked once", "--allowedTools", "Bash")
os.remove(block)
context = os.path.join(home, "context")   # and for this one: it adds context to one Stop
open(context, "w").close()
run("context", "-p", "question whose Stop hook adds context")
os.remove(context)
run("skill", "-p", "/greet the world")
interrupted()
run("compact", "-p", "/compact", "--continue")
run("after", "-p", "after the compaction", "--continue")
run("fork", "-p", "in the fork", "--continue", "--fork-session")
