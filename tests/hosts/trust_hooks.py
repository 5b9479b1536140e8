#!/usr/bin/env python3
"""trust_hooks.py HOME CODEX: does what the user does on Codex's screen: every hook of HOME/.codex/hooks.json becomes trusted (in config.toml). Run it again when a hook changes."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from appserver import AppServer

home, codex = sys.argv[1:3]
proj = os.path.join(home, "proj")
os.makedirs(proj, exist_ok=True)
s = AppServer([codex, "app-server"], {"HOME": home, "CODEX_HOME": home + "/.codex", "STUB_KEY": "x", "PATH": os.environ["PATH"]}, proj)


def hooks(v):
    """Every object with a key and a currentHash, wherever it stands."""
    if isinstance(v, dict):
        if "key" in v and "currentHash" in v:
            yield v["key"], v["currentHash"]
        v = list(v.values())
    for x in v if isinstance(v, list) else []:
        yield from hooks(x)


try:
    found = dict(hooks(s.call("hooks/list", {"cwds": [proj]})))
except RuntimeError as e:
    if "unknown variant" not in str(e): raise
    print("this version asks for no trust"); sys.exit()
finally:
    s.close()
path = os.path.join(home, ".codex", "config.toml")
text = open(path).read().split("\n# trusted hooks\n")[0]
with open(path, "w") as f:
    f.write(text + "\n# trusted hooks\n" + "".join(f'[hooks.state."{k}"]\ntrusted_hash = "{h}"\n' for k, h in found.items()))
print(len(found), "hooks trusted")
