#!/usr/bin/env python3
"""Runs public REST suites against a server, or against one of the built binary that it starts itself.

    tests/rest/run.py SUITE...               # FROSTLINE_BIN or target/debug/frostline, on a repository that is thrown away
    tests/rest/run.py SUITE... --url URL     # a server that runs: EVERYTHING IN IT IS DELETED

A SUITE is a folder with the folders `test` and `api`: `rest-api-spec` of the unpacked archive (docs/testing.md says where it is from).
`out-of-scope.toml` lists what is not tried, with a reason each. The exit status is 1 if a test fails that is in scope, and with
`--all` also if one passes that is listed.
"""

import argparse
import collections
import json
import os
import re
import sys
import tempfile
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "clients")]

import suite  # noqa: E402
from steps import Failed, Run, Server  # noqa: E402

COLUMNS = ["passed", "failed", "out of scope", "skipped"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="+", type=Path, metavar="SUITE")
    parser.add_argument("--url", help="a running server, which is emptied, instead of one of the built binary")
    parser.add_argument("--version", help="the version whose tests these are, where no MANIFEST.MF says it")
    parser.add_argument("--out-of-scope", type=Path, default=HERE / "out-of-scope.toml", metavar="FILE")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="only tests whose `file: name` matches, such as `search/*`")
    parser.add_argument("--all", action="store_true", help="try what is out of scope, too: what passes there must not be listed, and of the rest --json says why not")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--markdown", action="store_true", help="print the tables of docs/rest-suites.md")
    given = parser.parse_args()
    out = suite.OutOfScope(tomllib.loads(given.out_of_scope.read_text()))
    results = []
    with serving(given.url) as url:
        server = Server(url)
        for folder in given.suites:
            results += run(folder.resolve(), server, out, given)
    failed = any(result["outcome"] in ("failed", "listed") for result in results)
    print(json.dumps({"counts": counts(results), "tests": results}, indent=1) if given.json
          else markdown(results, out) if given.markdown else table(results))
    return 1 if failed else 0


def run(folder, server, out, given):
    """The result of each test of a suite."""
    version = given.version or suite.version_of(folder / "test")
    if not version:
        sys.exit(f"{folder} does not say its version: give --version")
    spec, results = suite.Spec(folder / "api"), []
    for test in suite.read(folder / "test"):
        if given.only and not any(fnmatchcase(test.full_name, pattern + "*") for pattern in suite.escaped(given.only)):
            continue
        entry, result = out.entry(test, version), {"suite": test.suite, "test": test.full_name, "version": version}
        results.append(result)
        why = suite.skipped(test, version)
        if why:
            result |= {"outcome": "skipped", "reason": why}
            continue
        if entry:
            result |= {"outcome": "out of scope", "group": entry["group"], "reason": entry["reason"]}
            if not given.all:
                continue
        failure = attempt(test, server, spec, version, out)
        if not failure:
            result |= {"outcome": "listed" if entry and not entry.get("may_pass") else "passed"}
        elif entry:
            result |= {"failure": failure}
        else:
            result |= {"outcome": "failed", "reason": failure}
        if result["outcome"] in ("failed", "listed") and not given.json:
            why = failure or f"it passes, and is listed: {entry['reason']}"
            print(f"FAILED {test.full_name}\n    {why}", file=sys.stderr if given.markdown else sys.stdout, flush=True)
    return results


def attempt(test, server, spec, version, out):
    """Why a test fails; None where it passes."""
    try:
        Run(server, spec, version, out.warnings).test(test)
    except Failed as failure:
        return str(failure)
    finally:
        server.clear(test.calls[0])
    return None


def counts(results):
    """How many tests of each suite and version had each outcome. One that passes has, whatever is listed."""
    counted = collections.defaultdict(collections.Counter)
    for result in results:
        outcome = "passed" if result["outcome"] == "listed" else result["outcome"]
        counted[result["version"], result["suite"]][outcome] += 1
    return [{"version": version, "suite": name, **{column: counted[version, name][column] for column in COLUMNS}}
            for version, name in sorted(counted)]


def reasons(results):
    """How many tests are out of scope for which reason, by version."""
    return collections.Counter(
        (result["group"], result["reason"], result["version"]) for result in results if result["outcome"] == "out of scope"
    )


def markdown(results, out):
    """The same for the documentation: the suites of all versions beside each other."""
    versions = sorted({result["version"] for result in results})
    by_suite = {(row["version"], row["suite"]): row for row in counts(results)}
    names = sorted({name for _, name in by_suite})
    cells = lambda row: " | ".join(str(row[column]) for column in COLUMNS) if row else " | ".join([""] * len(COLUMNS))  # noqa: E731
    heads = [f"{version}: {column}" if at == 0 else column for version in versions for at, column in enumerate(COLUMNS)]
    total = lambda version: {column: sum(row[column] for key, row in by_suite.items() if key[0] == version) for column in COLUMNS}  # noqa: E731
    lines = [f"| suite | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    lines += [f"| {name} | " + " | ".join(cells(by_suite.get((version, name))) for version in versions) + " |" for name in names]
    lines += ["| **all** | " + " | ".join(cells(total(version)) for version in versions) + " |"]
    counted = reasons(results)
    for group, about in out.groups.items():
        own = sorted({reason for name, reason, _ in counted if name == group})
        sums = ", ".join(f"{sum(n for key, n in counted.items() if key[0] == group and key[2] == version)} of {version}" for version in versions)
        lines += ["", f"**{group}** ({sums}): {about}", "", f"| reason | {' | '.join(versions)} |", "|---|" + "--:|" * len(versions)]
        lines += [f"| {reason} | " + " | ".join(str(counted[group, reason, version]) for version in versions) + " |" for reason in own]
    return "\n".join(lines)


def table(results):
    """The counts, and how many tests are out of scope for which reason."""
    lines, rows = [], counts(results)
    for version in sorted({row["version"] for row in rows}):
        own = [row for row in rows if row["version"] == version]
        total = {"suite": "all", **{column: sum(row[column] for row in own) for column in COLUMNS}}
        width = max(len(row["suite"]) for row in own)
        lines.append(f"\n{version:<{width}}" + "".join(f"{column:>14}" for column in COLUMNS))
        lines += [f"{row['suite']:<{width}}" + "".join(f"{row[column]:>14}" for column in COLUMNS) for row in [*own, total]]
        found = sorted((group, reason, count) for (group, reason, of), count in reasons(results).items() if of == version)
        lines += [""] + [f"{count:>5}  {group}: {reason}" for group, reason, count in found]
    return "\n".join(lines)


class serving:
    """A server: the one at a URL, or one of the built binary on a repository of its own."""

    def __init__(self, url):
        self.url, self.server, self.folder = url, None, None

    def __enter__(self):
        if self.url:
            return self.url
        import frostline
        import server

        root = HERE.parents[1]
        target = Path(os.environ.get("CARGO_TARGET_DIR") or root / "target")
        binary = Path(os.environ.get("FROSTLINE_BIN") or target / "debug" / "frostline")
        if not binary.is_file():
            sys.exit(f"{binary} is not there: run `cargo build -p frostline`, or set FROSTLINE_BIN")
        self.folder = tempfile.TemporaryDirectory(prefix="frostline-rest-")
        repository = frostline.Frostline(binary.resolve(), Path(self.folder.name) / "repo", Path(self.folder.name) / "data")
        self.server = server.Server(repository)
        return self.server.url

    def __exit__(self, *_):
        if self.server:
            self.server.stop()
            log = self.server.log.read_text(errors="replace")
            self.folder.cleanup()
            if re.search("panicked", log):
                sys.exit("the server panicked:\n" + "\n".join(line for line in log.splitlines() if "panicked" in line))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except suite.Misunderstood as error:
        sys.exit(f"not understood: {error}")
