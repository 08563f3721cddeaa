#!/bin/sh
# Shows the doctor at work on a bottleneck that this script makes: all packets of a path of virtual hops are
# received on one CPU. The doctor must find it (rule N05), its fix is applied by the doctor itself, and
# throughput is measured with and without the fix in one interleaved run.
#
#     scripts/doctor-steering.sh DOCTOR [ROUNDS]
#
# NICE=-10 favours it on a host that others use, too.
# DOCTOR is a program with the doctor's command line, such as target/debug/examples/doctor. Needs root, ip,
# ethtool, iperf3 and python3. Everything is made in network namespaces of its own, which are removed at the end.
set -eu

doctor=$1
rounds=${2:-8}
hops=6
seconds=3
name=steer$$
port=5400
work=$(mktemp -d)
made=0

clean() {
    i=0
    while [ "$i" -lt "$made" ]; do
        ip netns del "$name-$i" 2>/dev/null || :
        i=$((i + 1))
    done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

at() {
    space=$1
    shift
    ip netns exec "$name-$space" "$@"
}

# A chain of namespaces: 0 sends, the last one receives, those between forward.
i=0
while [ "$i" -le "$hops" ]; do
    made=$((i + 1))
    ip netns add "$name-$i"
    ip -n "$name-$i" link set lo up
    at "$i" sysctl -qw net.ipv4.ip_forward=1
    if [ "$i" -gt 0 ]; then
        before=$((i - 1))
        ip link add "r$i" netns "$name-$before" type veth peer name "l$i" netns "$name-$i"
        ip -n "$name-$before" addr add "10.77.$i.1/24" dev "r$i"
        ip -n "$name-$i" addr add "10.77.$i.2/24" dev "l$i"
        ip -n "$name-$before" link set "r$i" up
        ip -n "$name-$i" link set "l$i" up
        # Packets as on a wire: without offloads each of 1,500 bytes is handled by itself.
        at "$before" ethtool -K "r$i" tso off gso off gro off >/dev/null
        at "$i" ethtool -K "l$i" tso off gso off gro off >/dev/null
        ip -n "$name-$before" route add default via "10.77.$i.2"
        k=1
        while [ "$k" -lt "$i" ]; do
            ip -n "$name-$i" route add "10.77.$k.0/24" via "10.77.$i.1"
            k=$((k + 1))
        done
    fi
    i=$((i + 1))
done

# Gb/s that arrive; the sender is on CPU 0, so that CPU 0 also receives for the whole path.
measure() {
    port=$((port + 1))
    at "$hops" nice -n "${NICE:-0}" iperf3 -s -1 -D -p "$port"
    tries=0
    until at "$hops" ss -Hltn "sport = :$port" | grep -q .; do
        tries=$((tries + 1))
        [ "$tries" -lt 500 ] || { echo "iperf3 does not listen" >&2; exit 1; }
    done
    at 0 nice -n "${NICE:-0}" taskset -c 0 iperf3 -c "10.77.$hops.2" -p "$port" -P 4 -t "$1" -J |
        python3 -c 'import json,sys; print("%.3f" % (json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 1e9))'
}

# Returns once packets flow.
flows() {
    from=$(at 1 cat /sys/class/net/l1/statistics/rx_packets)
    tries=0
    until [ "$(at 1 cat /sys/class/net/l1/statistics/rx_packets)" -gt $((from + 20000)) ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 2000 ] || { echo "no packets flow" >&2; exit 1; }
    done
}

echo "1. examine under load"
measure 15 >"$work/load" &
load=$!
flows
at 1 "$doctor" --interval 5000 --json >"$work/report.json"
wait "$load"
python3 - "$work/report.json" <<'P'
import json, sys
found = [f for f in json.load(open(sys.argv[1]))["findings"] if f["rule"] in ("N05", "N06")]
for f in found:
    print("   %s %s: %s" % (f["rule"], f["object"], f["observed"]))
sys.exit(0 if any(f["rule"] == "N05" and f["object"] == "l1" for f in found) else "N05 did not find l1")
P

echo "2. apply the doctor's fix under load"
measure 15 >"$work/load" &
load=$!
flows
at 1 "$doctor" fix --apply N05 --undo "$work/undo.sh" --interval 5000
wait "$load"

echo "3. measure, interleaved (Gb/s)"
i=0
while [ "$i" -lt "$rounds" ]; do
    # The order changes from round to round, so that drift of the host favours neither.
    for what in $([ $((i % 2)) -eq 0 ] && echo "undo fix" || echo "fix undo"); do
        at 1 sh "$work/undo.sh" "$what" 2>/dev/null
        echo "$what $(measure "$seconds")" >>"$work/results"
    done
    i=$((i + 1))
done
python3 - "$work/results" <<'P'
import random, statistics, sys
before, after = [], []
for line in open(sys.argv[1]):
    what, value = line.split()
    (after if what == "fix" else before).append(float(value))
ratios = [a / b for a, b in zip(after, before)]
draw = random.Random(1)
medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(10000))
print("   before:", " ".join("%.2f" % v for v in before))
print("   after: ", " ".join("%.2f" % v for v in after))
print("   ratio: %.2f (95 %% interval %.2f to %.2f, %d rounds)" % (statistics.median(ratios), medians[250], medians[9750], len(ratios)))
P
