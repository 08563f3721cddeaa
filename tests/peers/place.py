"""Does `frostline lab place` plan or refuse every host of hwloc's, with a reason?

python3 place.py --frostline BINARY [--hwloc CHECKOUT] [--out FILE.json]

Hosts are the synthetic descriptions in crates/frostline-lab/fixtures/topology/synthetic.txt, and with --hwloc the dumps and exports that hwloc's own
test suite has (git clone https://github.com/open-mpi/hwloc; its files are not in this repository). Needs lstopo (hwloc-nox). Each host is to hold four
machines of two CPUs, and two of four and one of two, as a plan and for libvirt, QEMU and OpenStack. Of a plan it is checked that no two machines share a
CPU; of what was not placed, and of a refusal, that there is a reason. A panic, a signal or anything else is a failure, and the exit status is 1.
"""
import argparse
import collections
import glob
import json
import os
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SYNTHETIC = os.path.join(HERE, "../../crates/frostline-lab/fixtures/topology/synthetic.txt")
REQUESTS = ["2x4", "4x2,2x1"]
FORMS = [(), ("--emit", "libvirt"), ("--emit", "qemu"), ("--emit", "openstack")]
ALL, NOT_ALL, REFUSED = "all placed", "some not placed", "refused"


def lstopo(arguments, environment):
    """What lstopo exports as XML, or None where it cannot read the dump."""
    for program in ("lstopo-no-graphics", "lstopo"):
        try:
            done = subprocess.run([program, *arguments, "--of", "xml"], capture_output=True, env={**os.environ, **environment}, timeout=120)
        except FileNotFoundError:
            continue
        return done.stdout if done.returncode == 0 and done.stdout.startswith(b"<?xml") else None
    sys.exit("lstopo is not installed: apt-get install hwloc-nox")


def synthetic():
    for line in open(SYNTHETIC, encoding="utf-8"):
        if line.startswith("== "):
            description = line[3:].rsplit(" = ", 1)[0]
            yield f"synthetic {description}", lstopo(["--input", description], {})


def dumps(hwloc, work):
    """Dumps of /proc and /sys, of CPUID, and of both, and XML that hwloc exported."""
    tests = os.path.join(hwloc, "tests/hwloc")
    for kind in ("linux", "x86", "x86+linux"):
        for path in sorted(glob.glob(os.path.join(tests, kind, "*.tar.bz2"))):
            name = os.path.basename(path).removesuffix(".tar.bz2")
            with tarfile.open(path) as archive:
                archive.extractall(os.path.join(work, kind), filter="tar")
                root = os.path.join(work, kind, archive.getnames()[0].split("/")[0])
            if kind == "linux":
                arguments, environment = [], {"HWLOC_FSROOT": root, "HWLOC_DUMPED_HWDATA_DIR": "/var/run/hwloc"}
            elif kind == "x86":
                arguments, environment = [], {"HWLOC_CPUID_PATH": root, "HWLOC_COMPONENTS": "x86,stop"}
            else:
                arguments = []
                environment = {"HWLOC_CPUID_PATH": os.path.join(root, "cpuid"), "HWLOC_FSROOT": os.path.join(root, "linux"),
                               "HWLOC_COMPONENTS": "x86,linux,stop"}
            yield f"{kind}/{name}", lstopo(arguments, {**environment, "HWLOC_THISSYSTEM": "0"})
    for path in sorted(glob.glob(os.path.join(tests, "xml/*.xml"))):
        with open(path, "rb") as file:
            yield f"xml/{os.path.basename(path)}", file.read()


def judged(binary, host, request, form):
    """How it ended, what it said, and why that is wrong, if it is."""
    command = [binary, *(["--json"] if not form else []), "lab", "place", "--host", host, "--vms", request, *form]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return None, "", "it does not end"
    said = done.stderr.strip()
    if "panicked" in said or done.returncode not in (0, 1, 3):
        return None, said, f"exit status {done.returncode}"
    if done.returncode == 1:
        return REFUSED, said, None if said.startswith("frostline: ") and len(said) > 20 else "no reason for the refusal"
    outcome = ALL if done.returncode == 0 else NOT_ALL
    if form:
        return outcome, said, None if done.stdout.strip() else "nothing was emitted"
    plan = json.loads(done.stdout)
    cpus = collections.Counter(cpu for machine in plan["machines"] for cpu in cpus_of(machine))
    if shared := [cpu for cpu, count in cpus.items() if count > 1]:
        return outcome, said, f"machines share the CPUs {shared}"
    if plan["complete"] != (outcome == ALL) or (outcome == NOT_ALL) != bool(plan["unplaced"]):
        return outcome, said, "the exit status and the plan disagree"
    if not all(unplaced["why"] for unplaced in plan["unplaced"]):
        return outcome, said, "no reason for what is not placed"
    return outcome, "; ".join(unplaced["why"] for unplaced in plan["unplaced"]), None


def cpus_of(machine):
    """Those of its cores, with all hardware threads."""
    return [cpu for cell in machine["cells"] for cpu in cell["cpus"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--frostline", required=True)
    parser.add_argument("--hwloc", help="a checkout of github.com/open-mpi/hwloc")
    parser.add_argument("--out", help="every run as JSON")
    arguments = parser.parse_args()
    runs, unread, hosts = [], [], 0
    counts = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as work:
        found = list(synthetic()) + (list(dumps(arguments.hwloc, work)) if arguments.hwloc else [])
        for name, xml in found:
            if xml is None:
                unread.append(name)
                continue
            hosts += 1
            host = os.path.join(work, "host.xml")
            with open(host, "wb") as file:
                file.write(xml)
            for request in REQUESTS:
                for form in FORMS:
                    outcome, said, wrong = judged(arguments.frostline, host, request, form)
                    kind = form[1] if form else "plan"
                    counts[request, kind][outcome] += 1
                    runs.append({"host": name, "request": request, "form": kind, "outcome": outcome, "said": said.replace(work, ""), "wrong": wrong})
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            json.dump({"runs": runs, "unread": unread}, file, indent=1)
    print(f"{hosts} hosts, of which {sum(name.startswith('synthetic ') for name, _ in found)} are synthetic; {len(runs)} runs")
    for (request, kind), outcomes in counts.items():
        print(f"  {request:8} {kind:10} " + ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in (ALL, NOT_ALL, REFUSED)))
    for name in unread:
        print(f"lstopo cannot read {name}")
    refusals = collections.Counter(run["said"].split(": ", 1)[-1] for run in runs if run["outcome"] == REFUSED)
    for said, count in refusals.most_common():
        print(f"refused {count} times: {said}")
    wrong = [run for run in runs if run["wrong"]]
    for run in wrong:
        print(f"WRONG {run['host']}, {run['request']}, {run['form']}: {run['wrong']}: {run['said'][:300]}")
    few = hosts < 20 and ["fewer than 20 hosts"]
    print("\n".join(few or ["every host is planned or refused with a reason" if not wrong else f"{len(wrong)} runs are wrong"]))
    sys.exit(1 if wrong or few else 0)


if __name__ == "__main__":
    main()
