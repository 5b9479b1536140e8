"""The stores that are measured on: made once, and kept below the target directory."""
import harness

ONE = ["--files", "1", "--project-files", "1", "--days", "1", "--layout", "legacy"]
# What each store is made with: in full, and small.
SIZES = {
    "tool": ([*ONE, "--mix", "tool", "--bytes", "1GiB"], [*ONE, "--mix", "tool", "--bytes", "32MiB"]),
    "compacted": ([*ONE, "--mix", "compacted", "--bytes", "1GiB"], [*ONE, "--mix", "compacted", "--bytes", "32MiB"]),
    "many": (["--files", "10000", "--project-files", "200", "--bytes", "300MiB"],
             ["--files", "500", "--project-files", "10", "--bytes", "15MiB"]),
    "ours": (["--files", "10000", "--project-files", "10000", "--bytes", "300MiB"],
             ["--files", "500", "--project-files", "500", "--bytes", "15MiB"]),
    "open": ([*ONE, "--bytes", "8MiB", "--open-turn", "200MiB"], [*ONE, "--bytes", "1MiB", "--open-turn", "8MiB"]),
    "long": ([*ONE, "--bytes", "64MiB", "--turns", "10000"], [*ONE, "--bytes", "2MiB", "--turns", "300"]),
}


def of(name, args, built):
    """The store of this name, made unless it is there."""
    folder = built.target / "corpus" / ("small" if args.small else "full") / name
    return harness.make_store(built, folder, SIZES[name][args.small])
