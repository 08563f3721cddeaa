"""Does `frostline lab measure` find the limits of emulated volumes, without being told?

sudo python3 measured.py --frostline BINARY [--as elasticsearch|postgres|frostline-cache] [--seconds 90] [--out FILE.json]

Four volumes with ext4: an st1 of 2 TiB and a gp3 of 500 GiB, each with an empty and with a full bucket (a gp3 has none). The full bucket of st1 is divided
by 100, so that it empties during the watch. `lab measure` knows only the directories; the price adds what the class has, with which its limit, its knee and
its bucket are compared here. The exit status is 1 if one of them is more than 5 % away, or if a bucket is found where there is none. Ten minutes on a
quiet machine; root, FUSE, loop devices, mkfs.ext4 and fio.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

TIME_SCALE = 100
VOLUMES = [
    ("st1-drained", "st1:2TiB", ["--drained"]),
    ("gp3-drained", "gp3:500GiB", ["--drained"]),
    ("st1-full", "st1:2TiB", []),
    ("gp3-full", "gp3:500GiB", []),
]
WITHIN = 0.05


def attached(frostline, data, name, spec, options):
    """The process that keeps a volume, and its device. Ctrl-C does not reach it: what is on it is unmounted before."""
    command = [frostline, "--data", data, "lab", "volume", spec, "--time-scale", str(TIME_SCALE), "--device-mib", "600", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, start_new_session=True)
    device = process.stdout.readline().strip()
    if not device:
        sys.exit(f"{name}: no volume: exit status {process.wait()}")
    return process, device


def checks(measured, full):
    """What was found, what the class has, and the difference; None where there is none to find."""
    cost, watched, knee = measured["cost"], measured["watched"], measured["knee"]
    burst = watched["burst"]
    yield "limit", watched["sustained"]["iops"], cost["promised_iops"]
    yield "knee", knee and knee["iops"], cost["promised_iops"]
    bucket = cost["promised_bucket_requests"]
    yield "bucket", burst and burst["bucket_requests"], bucket / TIME_SCALE if bucket and full else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--frostline", required=True)
    parser.add_argument("--as", dest="load", default="elasticsearch", choices=["elasticsearch", "postgres", "frostline-cache"])
    parser.add_argument("--seconds", default="90", help="of watching each volume")
    parser.add_argument("--out", help="what lab measure printed")
    arguments = parser.parse_args()
    missing = [tool for tool in ("fio", "mkfs.ext4", "mount", "losetup") if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        sys.exit(f"needs root{''.join(f', {tool}' for tool in missing)}")
    frostline = os.path.abspath(arguments.frostline)
    work = tempfile.mkdtemp(prefix="frostline-measured-", dir="/var/tmp")
    data, volumes, mounts, measuring = os.path.join(work, "data"), [], [], None
    try:
        command = [frostline, "--data", data, "--json", "lab", "measure"]
        for name, spec, options in VOLUMES:
            process, device = attached(frostline, data, name, spec, options)
            volumes.append(process)
            at = os.path.join(work, name)
            os.mkdir(at)
            subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
            subprocess.run(["mount", device, at], check=True)
            mounts.append(at)
            command.append(at)
        command += ["--as", arguments.load, "--data-mib", "256", "--watch", arguments.seconds]
        for _, spec, _ in VOLUMES:
            command += ["--price", spec]
        measuring = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        printed = measuring.communicate()[0]
    finally:
        # After Ctrl-C it removes its files first.
        if measuring and measuring.poll() is None:
            measuring.send_signal(signal.SIGINT)
            measuring.communicate()
        for at in mounts:
            subprocess.run(["umount", at], check=False)
        for process in volumes:
            process.terminate()
            process.wait()
        shutil.rmtree(work, ignore_errors=True)
    if measuring.returncode != 0:
        sys.exit(f"lab measure: exit status {measuring.returncode}")
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write(printed)
    wrong = 0
    print(f"{'volume':12} {'':7} {'found':>9} {'is':>9}")
    for (name, _, options), measured in zip(VOLUMES, json.loads(printed)["paths"]):
        for what, found, real in checks(measured, not options):
            if found is None and real is None:
                verdict = "none"
            elif found is None or real is None:
                verdict = "WRONG: not found" if found is None else "WRONG: there is none"
            else:
                off = found / real - 1
                verdict = f"{100 * off:+.1f} %" if abs(off) <= WITHIN else f"WRONG: {100 * off:+.1f} %"
            wrong += verdict.startswith("WRONG")
            show = [f"{value:9.1f}" if value is not None else f"{'-':>9}" for value in (found, real)]
            print(f"{name:12} {what:7} {show[0]} {show[1]}  {verdict}")
    print("all within 5 %" if not wrong else f"{wrong} are wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
