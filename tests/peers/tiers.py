"""Prints the table of docs/studies/tiers.md from what `frostline bench tiers --json` printed.

python3 tiers.py docs/studies/tiers.json
"""
import json
import sys

TIERS = {"hot": "hot", "cold": "cold", "frozen5": "frozen, 5 %", "frozen05": "frozen, 0.5 %"}
QUESTIONS = {
    "needle_first": "needle, first",
    "needle_repeat": "needle, repeat",
    "dashboard_first": "dashboard, first",
    "dashboard_repeat": "dashboard, repeat",
    "dashboard_country": "dashboard, for one country",
    "dashboard_results": "dashboard, repeat, result cache",
}
FURTHER = [
    ("mount", "frozen5", "mount", "all but hot"),
    ("restore", "hot", "restore (copy every object)", "hot"),
    ("restore", "cold", "fetch all, after the mount", "cold"),
]


def milliseconds(ms):
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}"


def published(ms):
    if ms is None:
        return "–"
    if ms >= 600_000:
        return f"{ms / 60_000:.1f} min"
    return f"{ms / 1_000:.3g} s" if ms >= 1_000 else f"{ms:.0f} ms"


def size(count):
    for unit, name in (1e6, "MB"), (1e3, "kB"):
        if count >= unit:
            return f"{count / unit:.3g} {name}" if count < 1_000 * unit else f"{count / unit:,.0f} {name}"
    return str(count)


def line(name, tier, cell):
    median = cell["median"]
    ms = f"{milliseconds(median['ms'])} ({milliseconds(cell['ms_min'])}–{milliseconds(cell['ms_max'])})"
    return f"| {name} | {tier} | {published(cell['published_ms'])} | {ms} | {median['gets']} | {size(median['bytes_fetched'])} | {size(median['bytes_used'])} |"


def main(path):
    with open(path) as f:
        cells = {(cell["row"], cell["tier"]): cell for cell in json.load(f)["cells"]}
    print("| query | tier | published | here, ms: median (least–most) | GETs | fetched | used |\n|---|---|---|---|---|---|---|")
    for row, name in QUESTIONS.items():
        for tier, shown in TIERS.items():
            print(line(name if tier == "hot" else "", shown, cells[row, tier]))
    for row, tier, name, shown in FURTHER:
        print(line(name, shown, cells[row, tier]))


main(*sys.argv[1:])
