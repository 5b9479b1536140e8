#!/usr/bin/env python3
"""Drives `codex app-server` over stdio: AppServer(cmd, env, cwd) with call(method, params), turn(), and event waiting."""
import json, os, subprocess, sys, threading, time, queue
class AppServer:
    def __init__(self, cmd, env, cwd):
        self.p = subprocess.Popen(cmd, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(os.path.join(env["HOME"], "app.err"), "ab"))
        self.q, self.n, self.events = queue.Queue(), 0, []
        threading.Thread(target=self.reader, daemon=True).start()
        self.call("initialize", {"clientInfo": {"name": "driver", "title": "driver", "version": "1"}, "capabilities": {"experimentalApi": True}})
        self.send({"method": "initialized"})
    def reader(self):
        for line in self.p.stdout:
            try: self.q.put(json.loads(line))
            except ValueError: pass
        self.q.put(None)
    def send(self, m): self.p.stdin.write((json.dumps(m) + "\n").encode()); self.p.stdin.flush()
    def call(self, method, params, timeout=30):
        self.n += 1; k = self.n; self.send({"id": k, "method": method, "params": params}); end = time.time() + timeout
        while time.time() < end:
            m = self.q.get(timeout=max(0.1, end - time.time()))
            if m is None: raise RuntimeError("server ended")
            if m.get("id") == k and "method" not in m:
                if "error" in m: raise RuntimeError(f"{method}: {m['error']}")
                return m["result"]
            self.note(m)
        raise TimeoutError(method)
    def note(self, m):
        self.events.append(m)
        if "id" in m and "method" in m:      # a server request: approve
            self.send({"id": m["id"], "result": {"decision": "accept"}})
    def wait(self, method, timeout=30, pred=lambda p: True):
        for i, m in enumerate(self.events):
            if m.get("method") == method and pred(m.get("params", {})): return self.events.pop(i)["params"]
        end = time.time() + timeout
        while time.time() < end:
            try: m = self.q.get(timeout=max(0.05, end - time.time()))
            except queue.Empty: break
            if m is None: raise RuntimeError("server ended")
            if m.get("method") == method and pred(m.get("params", {})): return m["params"]
            self.note(m)
        raise TimeoutError(method)
    def turn(self, thread, text, wait=True):
        r = self.call("turn/start", {"threadId": thread, "input": [{"type": "text", "text": text}]})
        turn = r["turn"]["id"]               # a compaction or a review before it may have completed as a turn of its own
        if wait: self.wait("turn/completed", pred=lambda p: p.get("threadId") == thread and p.get("turn", {}).get("id", turn) == turn)
        return turn
    def close(self):
        try: self.p.stdin.close(); self.p.wait(timeout=10)
        except Exception: self.p.kill()
