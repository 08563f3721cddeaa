#!/bin/bash
# What a search server asks of its disk while it takes documents, merges and searches, and what `lab decide` says for it (root):
#   needs.sh BINARY DEVICE EVENTS.ndjson OUT        OPENSEARCH is the server's URL, whose data is on the file system of DEVICE
# The traces go to OUT. It ends with an error if a phase has no requests, no need or nothing to buy.
set -euo pipefail
frostline=$1 device=$2 events=$3 out=$4
url=${OPENSEARCH:-http://127.0.0.1:9200}
here=$(dirname "$(readlink -f "$0")")
curl -sfo /dev/null "$url" || { echo "no server answers at $url" >&2; exit 1; }
mkdir -p "$out"
"$here/opensearch_index.sh" needs
python3 "$here/requests.py" --url "$url" --index needs --device "$device" --events "$events" --out "$out"
for phase in load merge search; do
    need=$("$frostline" lab need --from fio-log "$out/$phase.log")
    answer=$("$frostline" lab decide --need "$need" --capacity 2TiB | head -n 1)
    printf '%s: %s requests\n  need: %s\n  %s\n' "$phase" "$(wc -l < "$out/$phase.log")" "$need" "$answer"
    case $answer in Buy*) ;; *) echo "$phase: nothing to buy" >&2; exit 1 ;; esac
done
