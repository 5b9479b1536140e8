#!/usr/bin/env python3
"""An Observer: prints every completed turn of a project, of all its sessions, as one JSON line each, as soon as it completes.

    observe.py --project DIR --state DIR [--interval 60] [--once] [--throughline PROGRAM]

The directory of --state (or $OBSERVE_STATE) is this project's alone: it keeps one small file for each thread, with the
cursor up to which everything has been printed. It sleeps until a turn completes, and looks at all threads every 60 seconds
(--interval) even so. Needs nothing but Python 3.8.

A turn is printed before its cursor is stored, so after a crash or a resync a turn may come again, never not at all. It is
the same turn if thread_sha256, source_sha256, user_sha256 and assistant_sha256 are the same.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

FIRST_RETRY, LAST_RETRY, LATER = 0.25, 5.0, 4  # seconds, and how many times longer each pause is than the one before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", required=True)
    parser.add_argument("--state", default=os.environ.get("OBSERVE_STATE"))
    parser.add_argument("--interval", type=int, default=60, help="the most seconds between rounds, 1 to 3600")
    parser.add_argument("--once", action="store_true", help="one round, for cron and tests")
    parser.add_argument("--throughline", default=os.environ.get("THROUGHLINE", "throughline"))
    args = parser.parse_args()
    if not args.state:
        parser.error("--state or $OBSERVE_STATE is needed")
    observer = Observer(args.throughline, os.path.abspath(args.project), State(args.state))
    while True:
        observer.round()
        if args.once:
            return
        observer.rest(args.interval)


class Observer:
    def __init__(self, throughline, project, state):
        self.throughline, self.project, self.state = throughline, project, state
        self.current = None  # the cursor of the thread with the latest completion
        self.retries = {}  # what is pending or failed: by thread, the delay and when it is over

    def round(self):
        """Reads every thread that has got on, except those that are still to be left alone."""
        name = "observer-threads"
        if self.waits(name):
            return
        answer = self.ask(name)
        if answer["status"] == "error":
            self.current = None
            return self.retry_later(name, answer["code"])
        self.current = answer["threads"][0]["throughCursor"] if answer["threads"] else answer["emptyCursor"]
        names = {f"{thread['host']}-{thread['thread_sha256']}": thread["throughCursor"] for thread in answer["threads"]}
        self.retries = {name: retry for name, retry in self.retries.items() if name in names}
        for name, newest in names.items():
            if not self.waits(name):
                self.follow(name, newest, answer["emptyCursor"])

    def follow(self, name, newest, empty):
        """Prints the turns of one thread from where we are to its cursor `newest`."""
        known = self.state.recall(name)
        after, through, page = known.get("after") or empty, known.get("through"), known.get("page")
        while after != newest:
            if not page:
                through = newest
            answer = self.ask("observer-read", "--after-cursor", after, "--through-cursor", through,
                              *(["--page-token", page] if page else []))
            status = answer["status"]
            if status in ("delta", "thread_switched", "host_switched"):  # between two cursors of one thread: delta
                if answer["historyTruncated"]:
                    say(name, "its oldest turns are no longer retained")
                for turn in answer["turns"]:
                    print(json.dumps(turn))
                sys.stdout.flush()
                page = answer["page"]["nextToken"]
                if not page:
                    after = through
                self.state.remember(name, after, through, page)
            elif status == "resync_required":  # rolled back, replaced, or cut by its host
                came_from_start, after, page = after == empty, empty, None
                self.state.remember(name, after, None, None)
                if came_from_start:  # it changed just now: the next round has a better cursor
                    return self.retry_later(name, status)
                say(name, status)
            elif status == "error" and page and answer["code"] == "E_OBSERVER_READ_INPUT":
                say(name, answer["code"])
                page = None  # the page token does not fit: the series begins again
                self.state.remember(name, after, None, None)
            elif status in ("projection_pending", "error"):  # bodies that are not stored yet, or something to repair
                return self.retry_later(name, answer.get("code", status))
            else:  # snapshot and ambiguous_parent answer a read without cursors: see observe-current.sh
                raise SystemExit(f"observe: {name}: unexpected status {status}")
        self.retries.pop(name, None)

    def ask(self, *arguments):
        """A known state comes on stdout with exit code 0, a hard failure as one JSON line on stderr with exit code 1."""
        command = [self.throughline, *arguments, "--project", self.project, "--json"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode not in (0, 1):
            raise SystemExit(f"observe: {self.throughline} ended with {done.returncode}")
        answer = json.loads(done.stderr if done.returncode else done.stdout)
        answer.setdefault("status", "threads")
        return answer

    def retry_later(self, name, why):
        """Leaves a thread alone for a while, at first 0.25 s, then longer; the others go on meanwhile."""
        say(name, why)
        delay = min(self.retries[name][0] * LATER, LAST_RETRY) if name in self.retries else FIRST_RETRY
        self.retries[name] = delay, time.monotonic() + delay

    def waits(self, name):
        return name in self.retries and time.monotonic() < self.retries[name][1]

    def rest(self, interval):
        """Sleeps until a turn completes or it is time for a round: after the interval, or when something is to be tried
        again before."""
        now = time.monotonic()
        left = max(min([interval, *(until - now for _, until in self.retries.values())]), 0.05)
        if self.current is None or left < 1:
            return time.sleep(left)
        answer = self.ask("observer-wait", "--after-cursor", self.current, "--timeout-seconds", str(int(left)))
        status = answer["status"]
        if status == "ambiguous_parent":  # both hosts completed a turn in the same millisecond: the round reads either
            time.sleep(1)
        elif status == "error":
            say("observer-wait", answer["code"])
            if answer["code"] in ("E_OBSERVER_WAIT_CANCELLED", "E_OBSERVER_WAIT_ARGS"):
                raise SystemExit(1)
            time.sleep(1)


class State:
    """By thread: everything up to the cursor `after` has been printed; with a `page`, so have the pages before it of the
    series from `after` to `through`."""

    def __init__(self, directory):
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self.directory = directory

    def recall(self, name):
        try:
            with open(os.path.join(self.directory, name), encoding="utf-8") as file:
                return json.load(file)
        except (FileNotFoundError, ValueError):
            return {}

    def remember(self, name, after, through, page):
        descriptor, temporary = tempfile.mkstemp(dir=self.directory, prefix=".new-")  # mode 0600
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump({"after": after, "through": through, "page": page}, file)
        os.replace(temporary, os.path.join(self.directory, name))


def say(name, what):
    print(f"observe: {name}: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
