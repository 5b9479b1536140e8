#!/usr/bin/env python3
"""Measures cold reads against their yardsticks, as ratios of medians of interleaved runs.

    benches/measure.py [--small] [--rounds 15] [--check]

Builds what it needs, makes the corpora once (kept under the target directory), and prints a table. Every run of the
program gets an empty cache directory of its own, so that every read is a cold one; the page cache is warm. With --check
the exit code is 1 when a target is missed. A yardstick that is not installed is left out.
"""
import argparse
import json
import os
import re
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
PEAK_LIMIT = 192 * MIB


@dataclass
class Run:
    """What one process took."""
    seconds: float
    peak: int
    stdout: bytes


@dataclass
class Contender:
    """A command that is measured."""
    name: str
    argv: list
    env: dict = field(default_factory=dict)
    ours: bool = False
    runs: list = field(default_factory=list)
    # The seconds that the command itself printed, where it does.
    printed: list = field(default_factory=list)

    def median(self):
        return statistics.median(run.seconds for run in self.runs)

    def peak(self):
        return max(run.peak for run in self.runs)


@dataclass
class Target:
    """The read may take at most this many times what a yardstick took."""
    yardstick: str
    ratio: float


@dataclass
class Case:
    """One corpus, what is run on it, and what is asked of the read."""
    name: str
    contenders: list
    targets: list


def main():
    args = arguments()
    binaries = build()
    cases = make_cases(args, binaries)
    missed = 0
    for case in cases:
        measure(case, args.rounds)
        missed += report(case)
    if missed:
        print(f"{missed} of the targets missed")
    return 1 if missed and args.check else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="runs of each command (default 15)")
    parser.add_argument("--small", action="store_true", help="small corpora, to see that it works: the ratios mean little")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--only", choices=["tool", "compacted", "many"], action="append", help="only this corpus")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("at least one round")
    return args


# ---------------------------------------------------------------- what is measured

def make_cases(args, binaries):
    folder = binaries.target / "corpus" / ("small" if args.small else "full")
    one = "32MiB" if args.small else "1GiB"
    files, ours, many = ("500", "10", "15MiB") if args.small else ("10000", "200", "300MiB")
    single = ["--files", "1", "--project-files", "1", "--days", "1", "--layout", "legacy", "--bytes", one]
    makers = {
        "tool": lambda: file_case(f"cold read, one {one} rollout", folder / "tool", binaries,
                                  [*single, "--mix", "tool"], Target("corpus scan", 1.25), Target("wc -l", 0.6)),
        "compacted": lambda: file_case(f"cold read, one {one} rollout, compacted rows", folder / "compacted", binaries,
                                       [*single, "--mix", "compacted"], Target("corpus scan", 1.4), Target("wc -l", 0.7)),
        "many": lambda: store_case(f"cold read, {files} rollouts", folder / "many", binaries,
                                   ["--files", files, "--project-files", ours, "--bytes", many], Target("rg -c", 0.8)),
    }
    return [make() for name, make in makers.items() if not args.only or name in args.only]


def file_case(name, folder, binaries, options, *targets):
    make_store(folder, binaries, options)
    rollout = str(next((folder / "home/.codex/sessions").rglob("rollout-*.jsonl")))
    yardsticks = [
        Contender("corpus scan", [binaries.corpus, "scan", rollout, "--threads", "2"]),
        *installed("wc -l", ["wc", "-l", rollout]),
    ]
    return Case(name, [read_of(folder, binaries), *yardsticks], targets)


def store_case(name, folder, binaries, options, *targets):
    make_store(folder, binaries, options)
    sessions = str(folder / "home/.codex/sessions")
    yardsticks = installed("rg -c", ["rg", "-c", '"task_complete"', "--no-ignore", sessions])
    return Case(name, [read_of(folder, binaries), *yardsticks], targets)


def read_of(folder, binaries):
    argv = [binaries.throughline, "observer-read", "--project", str(folder / "proj"), "--json"]
    env = {k: v for k, v in os.environ.items() if k not in ("CODEX_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    return Contender("observer-read", argv, env | {"HOME": str(folder / "home")}, ours=True)


def installed(name, argv):
    if shutil.which(argv[0]) is None:
        print(f"{argv[0]} is not installed: left out")
        return []
    return [Contender(name, argv)]


# ---------------------------------------------------------------- building and making

@dataclass
class Binaries:
    target: Path
    throughline: str
    corpus: str


def build():
    subprocess.run(["cargo", "build", "--release", "--quiet", "--bin", "throughline", "--bin", "corpus", "--workspace"],
                   cwd=ROOT, check=True)
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"],
                              cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    target = Path(json.loads(metadata)["target_directory"])
    return Binaries(target, str(target / "release/throughline"), str(target / "release/corpus"))


def make_store(folder, binaries, options):
    """Makes the store unless it was made whole with the same options."""
    argv = ["store", "--seed", SEED, *options]
    stamp = folder / "made.json"
    if stamp.exists() and json.loads(stamp.read_text()) == argv:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"making {folder.name} ({' '.join(options)})", flush=True)
    subprocess.run([binaries.corpus, *argv, "--out", str(folder)], check=True, stdout=subprocess.DEVNULL)
    stamp.write_text(json.dumps(argv))


# ---------------------------------------------------------------- measuring

def measure(case, rounds):
    """One run of each to warm the page cache, then rounds of one run each, in turn."""
    for contender in case.contenders:
        run(contender)
    for _ in range(rounds):
        for contender in case.contenders:
            result = run(contender)
            contender.runs.append(result)
            printed = re.search(rb"in ([0-9.]+) s$", result.stdout.strip())
            if printed:
                contender.printed.append(float(printed[1]))


def run(contender):
    if not contender.ours:
        return timed(contender.argv, None)
    with tempfile.TemporaryDirectory(prefix="measure-cache-") as cache:
        result = timed(contender.argv, contender.env | {"XDG_CACHE_HOME": cache})
    status = json.loads(result.stdout)["status"]
    if status != "snapshot":
        sys.exit(f"the read answered {status}")
    return result


def timed(argv, env):
    """Runs to the end; the peak of resident memory comes with the exit status (of small processes it is this one's own,
    which they shared until they began)."""
    with tempfile.TemporaryFile() as out:
        start = time.perf_counter()
        child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"{argv[0]} {argv[1]}: exit code {child.returncode}")
        out.seek(0)
        return Run(seconds, usage.ru_maxrss * RSS_UNIT, out.read())


# ---------------------------------------------------------------- reporting

def report(case):
    """Prints the table of a case and how many targets it missed."""
    ours = next(c for c in case.contenders if c.ours)
    print(f"\n{case.name} ({len(ours.runs)} rounds)")
    print(f"  {'':<26}{'median':>12}{'best':>12}{'peak RSS':>12}{'read is':>10}")
    for c in case.contenders:
        best = min(r.seconds for r in c.runs)
        print(f"  {c.name:<26}{ms(c.median())}{ms(best)}{c.peak() / MIB:>8.1f} MiB{ratio(ours, c)}")
        if c.printed:
            print(f"  {'  as it says itself':<26}{ms(statistics.median(c.printed))}{ms(min(c.printed))}")
    return sum(not met for met in [*judged(case, ours), judge("peak RSS, MiB", ours.peak() / MIB, PEAK_LIMIT / MIB)])


def judged(case, ours):
    for target in case.targets:
        yardstick = next((c for c in case.contenders if c.name == target.yardstick), None)
        if yardstick is None:
            print(f"  {target.yardstick}: not measured")
        else:
            yield judge(f"times {target.yardstick}", ours.median() / yardstick.median(), target.ratio)


def judge(what, value, most):
    met = value <= most
    print(f"  {what:<26}{value:>9.2f}, at most {most:g}: {'met' if met else 'MISSED'}")
    return met


def ms(seconds):
    return f"{seconds * 1000:>9.1f} ms"


def ratio(ours, other):
    return "" if ours is other else f"{ours.median() / other.median():>9.2f}x"


if __name__ == "__main__":
    sys.exit(main())
