"""What `benches/check` and `benches/peers` share: building, making stores, and timing processes fairly."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEED = "1"
MIB = 1 << 20
# KiB in ru_maxrss on Linux, bytes on macOS.
RSS_UNIT = 1 if sys.platform == "darwin" else 1024

# What a store was made with, and how often it was appended to; it is there once the store is whole.
MADE = "made.json"
# A store that has grown more often is made anew: it is not any more what a target is about.
MOST_APPENDS = 100
# More than any answer.
PRINTED_BYTES = MIB


# ---------------------------------------------------------------- building and making

@dataclass
class Binaries:
    """What is built here."""
    target: Path
    throughline: str
    corpus: str


def binaries():
    subprocess.run(["cargo", "build", "--release", "--quiet", "--bin", "throughline", "--bin", "corpus", "--workspace"],
                   cwd=ROOT, check=True)
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"],
                              cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    target = Path(json.loads(metadata)["target_directory"])
    return Binaries(target, str(target / "release/throughline"), str(target / "release/corpus"))


def stages_program():
    """The built program of the stages."""
    argv = ["cargo", "bench", "--quiet", "--package", "corpus", "--bench", "stages", "--no-run", "--message-format", "json"]
    lines = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    built = (json.loads(line) for line in lines)
    return next(b["executable"] for b in built if b["reason"] == "compiler-artifact" and b["target"]["name"] == "stages")


@dataclass
class Store:
    """A store that `corpus` made."""
    folder: Path
    corpus: str

    @property
    def home(self):
        return self.folder / "home"

    @property
    def project(self):
        return str(self.folder / "proj")

    @property
    def sessions(self):
        return self.home / ".codex/sessions"

    def rollouts(self):
        return sorted(str(path) for path in self.sessions.rglob("rollout-*.jsonl"))

    def append(self, *what):
        made = self.folder / MADE
        stamp = json.loads(made.read_text())
        made.write_text(json.dumps(stamp | {"appends": stamp["appends"] + 1}))
        argv = [self.corpus, "append", "--store", str(self.folder), *what]
        if subprocess.run(argv, stdout=subprocess.DEVNULL).returncode:
            made.unlink(missing_ok=True)
            sys.exit(f"{self.folder.name} cannot go on; the next time it is made anew")

    def env(self, cache):
        """The environment of a program that is to see this store and nothing else of the user's."""
        env = {key: value for key, value in os.environ.items() if key not in ("XDG_STATE_HOME", "THROUGHLINE_CACHE")}
        return env | {"HOME": str(self.home), "CODEX_HOME": str(self.home / ".codex"), "XDG_CACHE_HOME": str(cache)}


def make_store(built, folder, options):
    """Makes the store unless it was made whole with the same options, and is still about what it was."""
    argv = ["store", "--seed", SEED, *options]
    stamp = folder / MADE
    made = json.loads(stamp.read_text()) if stamp.exists() else None
    if not isinstance(made, dict) or made["argv"] != argv or made["appends"] > MOST_APPENDS:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"making {folder.name} ({' '.join(options)})", flush=True)
        subprocess.run([built.corpus, *argv, "--out", str(folder)], check=True, stdout=subprocess.DEVNULL)
        stamp.write_text(json.dumps({"argv": argv, "appends": 0}))
    return Store(folder, built.corpus)


# ---------------------------------------------------------------- timing

@dataclass
class Run:
    """What one process took."""
    seconds: float
    peak: int
    stdout: bytes


@dataclass
class Series:
    """The runs of one command."""
    runs: list = field(default_factory=list)

    def median(self):
        return statistics.median(run.seconds for run in self.runs)

    def best(self):
        return min(run.seconds for run in self.runs)

    def peak(self):
        return max(run.peak for run in self.runs)


class Failed(Exception):
    """A command ended with an error."""


class Spawner:
    """Runs commands from start to end, all in the same way.

    They are spawned without a copy of this process, whose size would otherwise be part of what a small one costs. The
    peak of resident memory comes with the exit status; no process has less than this one had when it was spawned.
    """

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="bench-")
        self.out = os.path.join(self.folder.name, "stdout")

    def spawn(self, argv, env, quiet=False):
        files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                 (os.POSIX_SPAWN_OPEN, 1, self.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
        if quiet:
            files.append((os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0))
        return os.posix_spawn(argv[0], argv, env, file_actions=files)

    def run(self, argv, env, quiet=False):
        """Runs a command to its end; `quiet` says that what it has to say besides its answer is of no interest."""
        argv = [shutil.which(argv[0]) or argv[0], *argv[1:]]
        start = time.perf_counter()
        pid = self.spawn(argv, env, quiet)
        _, status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - start
        code = os.waitstatus_to_exitcode(status)
        if code:
            raise Failed(f"{' '.join(argv[:2])}: exit code {code}")
        return Run(seconds, usage.ru_maxrss * RSS_UNIT, self.printed())

    def printed(self):
        """The end of what was printed: an answer whole, but not all that a peer prints."""
        with open(self.out, "rb") as out:
            out.seek(max(0, os.path.getsize(self.out) - PRINTED_BYTES))
            return out.read()

    def private_peak(self, argv, env):
        """The most memory besides mapped pages, as seen by looking again and again. None where there is no /proc."""
        if not os.path.isdir("/proc/self"):
            return None
        pid = self.spawn([shutil.which(argv[0]) or argv[0], *argv[1:]], env)
        peak = 0
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            peak = max(peak, private_bytes(pid))
        os.waitpid(pid, 0)
        return peak


def private_bytes(pid):
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("RssAnon:"))


# ---------------------------------------------------------------- targets

@dataclass
class Verdict:
    """A row of the table of targets; no target, or nothing measured, is neither met nor missed."""
    work: str
    beside: str
    measured: float | None
    most: float | None

    def is_missed(self):
        return None not in (self.measured, self.most) and self.measured > self.most

    def __str__(self):
        if None in (self.measured, self.most):
            said = "" if self.measured is not None else "not measured"
        else:
            said = "MISSED" if self.is_missed() else "met"
        measured, most = ("-" if value is None else f"{value:.2f}" for value in (self.measured, self.most))
        return f"{self.work:<62}{self.beside:<18}{measured:>10}{most:>10}  {said}"
