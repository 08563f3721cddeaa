#!/usr/bin/env python3
"""Draws mutants by seed and runs the tests against each: tests/mutants/run.py DIR [--seed N] [--count N].

`cargo mutants` lists what can be changed; `graft-mutants` puts the drawn ones into a copy of the tree below DIR, each
behind a number, and one build has them all. Each mutant then runs the unit tests of its crate, and where they pass the
proofs of frostline-proof. A test that fails, a crash or a hang kills it. The outcome is DIR/results.jsonl.
"""

import argparse
import json
import os
import random
import re
import resource
import subprocess
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FILES = {
    "select": ["crates/frostline-query/src/select.rs", "crates/frostline-query/src/select/**"],
    "filter": [
        "crates/frostline-query/src/filter.rs",
        "crates/frostline-query/src/filter/**",
        "crates/frostline-query/src/prune.rs",
    ],
    "digest": ["crates/frostline-split/src/digest.rs", "crates/frostline-query/src/agg/digest.rs"],
    "tokenizer": ["crates/frostline-split/src/tokenizer.rs"],
    "pipeline": ["crates/frostline-ingest/src/pipeline.rs", "crates/frostline-ingest/src/pipeline/**"],
    "commit": ["crates/frostline-commits/src/**", "crates/frostline-catalog/src/commit.rs"],
    "vacuum": ["crates/frostline-catalog/src/vacuum.rs", "crates/frostline-catalog/src/vacuum/**"],
}
SWITCH = """
pub(crate) fn mutant(number: u32) -> bool {
    static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *ON.get_or_init(|| std::env::var("FROSTLINE_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0)) == number
}
"""
# Further crates whose tests run against a crate's mutants.
BESIDE = {
    "frostline_split": ["frostline_query"],
    "frostline_query": [],
    "frostline_commits": ["frostline_catalog", "frostline_ingest"],
    "frostline_catalog": ["frostline_ingest"],
    "frostline_ingest": [],
}
# Run only where the others pass.
SLOW = [
    "a_higher_level_is_used_for_the_columns",
    "groups_and_bytes_change_no_answer",
    "pages_by_time_open_no_split",
    "pages_end_by_values_and_those_of_long_texts",
    "searches_agree_with_a_look_at_every_document",
    "select_agrees_with_a_scan",
    "what_is_no_json_or_too_deep_is_refused",
]
LANES = int(os.environ.get("LANES", "2"))
MEMORY_BYTES = 8 << 30
PACKAGES = ["frostline-split", "frostline-query", "frostline-ingest", "frostline-commits", "frostline-catalog"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, help="directory for the copy of the tree")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of earlier results to run again")
    options = parser.parse_args()
    tree = options.dir / "tree"
    if not tree.exists():
        subprocess.run(["git", "clone", "-q", "--shared", ROOT, tree], check=True)
    mutants = build(tree, options)
    programs = [line.split("\t") for line in (options.dir / "programs").read_text().splitlines()]
    if options.only:
        mutants = [mutant for mutant in mutants if mutant["number"] in options.only]
    run_all(mutants[: options.count], dict(programs), tree, options)


def drawn(tree, seed):
    mutants = []
    for area, patterns in FILES.items():
        named = [word for pattern in patterns for word in ("-f", pattern)]
        listed = subprocess.run(
            ["cargo", "mutants", "--list", "--json", "-e", "**/testing.rs", *named], cwd=tree, check=True, capture_output=True
        )
        for mutant in json.loads(listed.stdout):
            # What is computed when the program is built has no switch.
            if mutant["function"]:
                mutants.append({"area": area} | {key: mutant[key] for key in ("file", "genre", "name", "package", "replacement", "span")})
    mutants.sort(key=lambda mutant: mutant["name"])
    random.Random(seed).shuffle(mutants)
    print(f"{len(mutants)} mutants listed")
    return [{"number": number} | mutant for number, mutant in enumerate(mutants, 1)]


def build(tree, options):
    """Builds the tests with the drawn mutants, without those that do not compile."""
    kept = options.dir / "built.json"
    if kept.exists():
        return json.loads(kept.read_text())
    subprocess.run(["git", "checkout", "-q", "."], cwd=tree, check=True)
    every = drawn(tree, options.seed)
    grafting = ["cargo", "run", "-q", "--release", "--manifest-path", HERE / "Cargo.toml", "--"]
    known = options.dir / "refused.json"
    refused = set(json.loads(known.read_text())) if known.exists() else set()
    while True:
        wanted = [mutant for mutant in every if mutant["number"] not in refused][: options.count]
        subprocess.run(["git", "checkout", "-q", "."], cwd=tree, check=True)
        (options.dir / "list.json").write_text(json.dumps(wanted))
        grafted = subprocess.run([*grafting, tree, options.dir / "list.json"], check=True, capture_output=True, text=True)
        placed = {int(line) for line in grafted.stdout.split()}
        for package in PACKAGES:
            with (tree / "crates" / package / "src/lib.rs").open("a") as lib:
                lib.write(SWITCH)
        manifest = tree / "Cargo.toml"
        manifest.write_text(re.sub(r'= ("deny"|"warn"|\{ level = "(deny|warn)")', lambda m: m[0].replace("deny", "allow").replace("warn", "allow"), manifest.read_text()))
        missing = {mutant["number"] for mutant in wanted} - placed
        wrong, programs = compile_tests(tree, every)
        print(f"{len(missing)} mutants have no place, {len(wrong)} do not compile")
        if not missing and not wrong:
            (options.dir / "programs").write_text("".join(f"{name}\t{path}\n" for name, path in programs.items()))
            kept.write_text(json.dumps(wanted))
            return wanted
        refused |= missing | wrong
        known.write_text(json.dumps(sorted(refused)))


def compile_tests(tree, every):
    names = [word for package in [*PACKAGES, "frostline-proof"] for word in ("-p", package)]
    command = ["cargo", "test", "--no-run", "--no-fail-fast", "--message-format=json", *names]
    # Cargo takes two checkouts of a workspace for one, so the copy has a target directory of its own.
    own = os.environ | {"CARGO_TARGET_DIR": str(tree.parent / "target")}
    compiled = subprocess.run(command, cwd=tree, env=own, capture_output=True, text=True)
    wrong, programs = set(), {}
    for line in compiled.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message.get("executable"):
            programs[message["target"]["name"]] = message["executable"]
        if message["reason"] != "compiler-message" or message["message"]["level"] != "error":
            continue
        for span in message["message"]["spans"]:
            lines = (tree / span["file_name"]).read_text().splitlines()
            # The switch of a mutant stands on the line of its text or a few before it.
            for number in range(span["line_start"], max(0, span["line_start"] - 8), -1):
                found = re.findall(r"mutant\((\d+)u32\)", lines[number - 1])
                if found:
                    wrong |= {int(one) for one in found}
                    break
            else:
                print(message["message"]["rendered"])
    if compiled.returncode and not wrong:
        raise SystemExit(compiled.stderr)
    return wrong, programs


def checks(mutant, programs):
    """The programs that test a mutant, the quickest first: a name, a command and the package whose folder they run in."""
    own = mutant["package"].replace("-", "_")
    proof = programs["proof"]

    def tests(package, *arguments):
        # A test that reads the sources finds the switches.
        return [programs[package], "--skip", "layers::", *arguments], package.replace("_", "-")

    answers = own in ("frostline_split", "frostline_query")
    if answers:
        yield "recipes", [proof, "recipes"], "frostline-proof"
    yield own, *tests(own, *(word for name in SLOW for word in ("--skip", name)))
    if answers:
        yield "ways", [proof, "ways", "--skip", "recipes"], "frostline-proof"
        yield f"{own}, slow tests", *tests(own, *SLOW)
    for package in BESIDE[own]:
        yield package, *tests(package)
    if not answers:
        yield "simulation", [proof, "simulation"], "frostline-proof"


def run(command, cwd, environment, limit_s):
    """The first test that fails, "a crash" or "a hang"; nothing where all pass."""
    program = subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )
    hung = threading.Event()
    alarm = threading.Timer(limit_s, lambda: (hung.set(), program.kill()))
    alarm.start()
    try:
        for line in program.stdout:
            if failed := re.match(r"test (\S+)( - should panic)? \.\.\. FAILED", line):
                return failed[1]
        status = program.wait()
    finally:
        alarm.cancel()
        program.kill()
        program.wait()
    return "a hang" if hung.is_set() else "a crash" if status else None


def verdict(mutant, programs, limits, tree, scratch):
    environment = os.environ | {"FROSTLINE_MUTANT": str(mutant["number"]), "TMPDIR": str(scratch), "RUST_BACKTRACE": "0"}
    for name, command, package in checks(mutant, programs):
        if failed := run(command, tree / "crates" / package, environment, limits[name]):
            return {"killed_by": name, "test": failed}
    return {"killed_by": None}


def usual_times(programs, tree, options):
    """How long each program may take: several times what it takes without a mutant."""
    kept = options.dir / "limits.json"
    if kept.exists():
        return json.loads(kept.read_text())
    limits = {}
    for package in PACKAGES:
        for name, command, folder in checks({"package": package}, programs):
            if name in limits:
                continue
            start = time.time()
            if failed := run(command, tree / "crates" / folder, os.environ | {"RUST_BACKTRACE": "0"}, 600):
                raise SystemExit(f"{name} fails without a mutant: {failed}")
            limits[name] = 20 + 4 * (time.time() - start)
    kept.write_text(json.dumps(limits))
    return limits


def run_all(mutants, programs, tree, options):
    limits = usual_times(programs, tree, options)
    lock, left = threading.Lock(), list(reversed(mutants))
    out = options.dir / "results.jsonl"
    done = {json.loads(line)["number"] for line in out.read_text().splitlines()} if out.exists() and not options.only else set()

    def work(lane):
        scratch = options.dir / f"tmp{lane}"
        scratch.mkdir(exist_ok=True)
        while True:
            with lock:
                if not left:
                    return
                mutant = left.pop()
            if mutant["number"] in done:
                continue
            start = time.time()
            result = verdict(mutant, programs, limits, tree, scratch)
            with lock, out.open("a") as file:
                result = {key: mutant[key] for key in ("number", "area", "name")} | result
                file.write(json.dumps(result) + "\n")
                print(f"{time.time() - start:6.1f} s  {result['killed_by'] or 'SURVIVED':18} {mutant['name']}", flush=True)

    lanes = [threading.Thread(target=work, args=(lane,)) for lane in range(LANES)]
    [lane.start() for lane in lanes]
    [lane.join() for lane in lanes]


if __name__ == "__main__":
    main()
