"""Polls: a read with a cursor at the end of what there was, as an Observer makes them several times a second."""
import json
import sys
import tempfile
import time
from dataclasses import dataclass

from harness import Store

# Stamps taken sooner than this after a write prove nothing yet, so what was written then is looked at again.
SETTLED_SECONDS = 2.2
# How long after an append a poll is early.
EARLY_SECONDS = 0.2


@dataclass
class Poll:
    """One row of the table of targets: what happens before each poll, and what the poll finds."""
    name: str
    # At most so many empty processes.
    most: float | None
    store: Store
    # What `corpus append` does before each poll.
    append: tuple = ()
    # A poll between the append and the timed one takes in what was appended; the timed one is early and finds nothing.
    early: bool = False
    # The turns that are appended once, and found by every poll.
    behind: int = 0
    # The turns that each poll finds.
    turns: int = 0


def of(args, store):
    """The polls that are asked for; `store` makes the store of this name."""
    turn, more = ("--turns", "1"), ("--bytes", "10KiB")
    small = ", small" if args.small else ""
    rows = [
        ("many", f"poll, nothing changed, 10,000 rollouts{small}", 3, {}),
        ("many", f"poll after one appended turn, 10,000 rollouts{small}", 4, {"append": turn, "turns": 1}),
        ("tool", f"poll, nothing new, 0.2 s after an append, 1 GiB{small}", 3, {"append": turn, "early": True}),
        ("ours", f"poll, nothing changed, 10,000 of this project{small}", 12, {}),
        ("open", f"poll, 200 MB turn open, 10 KB appended{small}", 4, {"append": more}),
        ("long", f"poll after an appended turn, 10,000 turns{small}", 6, {"append": turn, "turns": 1}),
        ("long", f"delta of 10 turns out of 10,000{small}", 5, {"behind": 10, "turns": 10}),
    ]
    for name, what, most, rest in rows:
        if not args.only or name in args.only:
            yield Poll(what, most, store(name), **rest)


def argv(built, store):
    return [built.throughline, "observer-read", "--project", store.project, "--json"]


def cache_folder():
    return tempfile.TemporaryDirectory(prefix="bench-cache-")


def expect(stdout, status, turns=None):
    """The answer, if it is what it should be: a number that was measured on another answer would mean nothing."""
    answer = json.loads(stdout)
    found = (answer["status"], len(answer["turns"]))
    if answer["status"] != status or turns not in (None, found[1]):
        sys.exit(f"the read answered {found}, not {(status, turns)}")
    return answer


class Polling:
    """A poll and what stands around it."""

    def __init__(self, poll, spawner, argv, cache):
        self.poll, self.spawner, self.argv = poll, spawner, argv
        self.env = poll.store.env(cache)
        self.cursor = None

    def begin(self):
        """Reads, and polls until all that can be remembered is: the files have not been written for a while."""
        self.cursor = expect(self.spawner.run(self.argv, self.env).stdout, "snapshot")["throughCursor"]
        if self.poll.behind:
            self.poll.store.append("--turns", str(self.poll.behind))
        time.sleep(SETTLED_SECONDS)
        for _ in range(2):
            self.read()

    def prepare(self):
        """What has to happen in front of the next timed poll."""
        appended = time.monotonic()
        if self.poll.append:
            self.poll.store.append(*self.poll.append)
            appended = time.monotonic()
        if self.poll.early:
            self.cursor = expect(self.read().stdout, "delta", 1)["throughCursor"]
            time.sleep(max(0, appended + EARLY_SECONDS - time.monotonic()))

    def next(self):
        """The timed poll."""
        run = self.read()
        answer = expect(run.stdout, "delta", self.poll.turns)
        if not self.poll.behind:
            self.cursor = answer["throughCursor"]
        run.stdout = b""
        return run

    def read(self):
        return self.spawner.run(self.command(), self.env)

    def command(self):
        return [*self.argv, "--after-cursor", self.cursor]
