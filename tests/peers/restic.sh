#!/usr/bin/env bash
# Snapshots beside restic: the first, one after 1 % of the 8 KiB pages changed, and a restore, in turn, over directories.
# `restic.sh FROSTLINE DIR [ROUNDS]` writes about 4 GB below DIR. Run it as root: caches are dropped before each step.
set -euo pipefail
frostline=$(realpath "$1")
mkdir -p "$2"
cd "$2"
rounds=${3:-3}
export HOME=$PWD/home RESTIC_PASSWORD=x FROSTLINE_DATA=$PWD/data
mkdir -p "$HOME"

cat > pages.py <<'END'
"""`pages.py make DIR` writes table-like files; `pages.py change DIR SEED` changes 1 % of their pages."""
import glob, os, random, sys

PAGE = 8192


def page(seed, words):
    rng, out = random.Random(seed), bytearray()
    while len(out) < PAGE:
        row = (rng.getrandbits(40), *rng.choices(words, k=3), rng.getrandbits(30), rng.getrandbits(6))
        out += b"%d|%s %s %s|%010d.%02d\n" % row
    return bytes(out[:PAGE])


def make(folder):
    rng = random.Random(7)
    words = [b"%x" % rng.getrandbits(40) for _ in range(20000)]
    pool = [page(seed, words) for seed in range(6000)]
    os.makedirs(folder + "/base/5")
    for number in range(7):
        with open(f"{folder}/base/5/{16384 + number}", "wb") as file:
            for _ in range(16384):
                one = bytearray(rng.choice(pool))
                one[0:16], one[4096:5596] = os.urandom(16), os.urandom(1500)
                file.write(one)
    for number in range(1500):
        os.makedirs(f"{folder}/small/{number % 50}", exist_ok=True)
        with open(f"{folder}/small/{number % 50}/{number}", "wb") as file:
            file.write(b" ".join(rng.choices(words, k=rng.randrange(20, 2000))))


def change(folder, seed):
    rng = random.Random(int(seed))
    for path in sorted(glob.glob(folder + "/base/5/*")):
        pages = os.path.getsize(path) // PAGE
        with open(path, "r+b") as file:
            for number in sorted(rng.sample(range(pages), pages // 100)):
                file.seek(number * PAGE + 100)
                file.write(os.urandom(3000))


{"make": make, "change": change}[sys.argv[1]](*sys.argv[2:])
END

# step NAME COMMAND...: with cold caches; elapsed and processor seconds
step() {
  sync
  echo 3 > /proc/sys/vm/drop_caches
  /usr/bin/time -a -o times -f "$1 %e s, processor %U + %S s, %M KB" "${@:2}" > /dev/null
}
# The second of the two goes first in every other round.
both() { if (( round % 2 )); then "$1"; "$2"; else "$2"; "$1"; fi; }
ours_store() { step "frostline $what" "$frostline" --repo ours volume snapshot work --name d; }
restic_store() { step "restic $what" restic -q -r theirs backup work; }
ours_restore() { step "frostline restore" "$frostline" --repo ours volume restore d out-ours; }
restic_restore() { step "restic restore" restic -q -r theirs restore latest --target out-theirs; }

[ -d source ] || python3 pages.py make source
for round in $(seq "$rounds"); do
  rm -rf ours theirs work out-ours out-theirs
  cp -a source work
  restic -q init -r theirs > /dev/null
  echo "round $round" >> times
  what=first
  both ours_store restic_store
  du -sb work ours theirs >> times
  python3 pages.py change work "$round"
  what=second
  both ours_store restic_store
  du -sb ours theirs >> times
  both ours_restore restic_restore
  diff -r work out-ours
  diff -r work out-theirs/work
done
cat times
