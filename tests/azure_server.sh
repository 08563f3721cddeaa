#!/bin/sh
# Starts and stops Azurite, the emulator of Azure Blob Storage, for tests.
#
#   eval "$(tests/azure_server.sh start DIR)"     prints and so sets the environment of the tests
#   tests/azure_server.sh stop DIR
#
# DIR holds the log and the process id. Azurite is installed with npm below the user's cache folder, once. Without
# npm nothing is started, that is said, and the test says that it is skipped.
set -eu

[ $# -eq 2 ] || { echo "usage: $0 start|stop DIR" >&2; exit 2; }
mkdir -p "$2"
dir=$(cd "$2" && pwd)
azurite="${XDG_CACHE_HOME:-$HOME/.cache}/frostline/azurite"
program="$azurite/node_modules/.bin/azurite-blob"
# Azurite's well-known account, the same everywhere.
account=devstoreaccount1
key='Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='

stop() {
    [ -f "$dir/azurite.pid" ] || return 0
    pid=$(cat "$dir/azurite.pid")
    rm -f "$dir/azurite.pid"
    kill "$pid" 2>/dev/null || return 0
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
}

# Makes the container, with a shared-key signature; fails while the server does not answer yet.
make_container() {
    python3 - "$1" "$account" "$key" 2>/dev/null <<'PY'
import base64, datetime, hashlib, hmac, sys, urllib.request
endpoint, account, key = sys.argv[1:]
date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
signed = "PUT" + "\n" * 12 + "".join(f"{k}:{v}\n" for k, v in headers.items())
signed += f"/{account}/{account}/frostline-test\nrestype:container"
signature = base64.b64encode(hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()).decode()
headers |= {"Authorization": f"SharedKey {account}:{signature}", "Content-Length": "0"}
request = urllib.request.Request(f"{endpoint}/frostline-test?restype=container", method="PUT", headers=headers)
urllib.request.urlopen(request, timeout=5).close()
PY
}

start() {
    stop
    if [ ! -x "$program" ]; then
        command -v npm >/dev/null || { echo "no npm, so no Azurite: install nodejs and npm to test Azure Blob Storage" >&2; return 0; }
        echo "installing Azurite with npm (once, about half a minute)" >&2
        npm install --silent --no-fund --no-audit --prefix "$azurite" azurite@3 >&2
    fi
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    "$program" --silent --inMemoryPersistence --disableTelemetry --skipApiVersionCheck --blobHost 127.0.0.1 --blobPort "$port" >"$dir/azurite.log" 2>&1 &
    echo $! >"$dir/azurite.pid"
    endpoint="http://127.0.0.1:$port/$account"
    tries=0
    until make_container "$endpoint"; do
        tries=$((tries + 1))
        if [ $tries -gt 150 ] || ! kill -0 "$(cat "$dir/azurite.pid")" 2>/dev/null; then
            echo "Azurite did not start; $dir/azurite.log says:" >&2
            tail -5 "$dir/azurite.log" >&2
            exit 1
        fi
        sleep 0.2
    done
    echo "Azurite answers at $endpoint" >&2
    echo "export FROSTLINE_TEST_AZURE='DefaultEndpointsProtocol=http;AccountName=$account;AccountKey=$key;BlobEndpoint=$endpoint'"
}

case $1 in
start) start ;;
stop) stop ;;
*) echo "usage: $0 start|stop DIR" >&2; exit 2 ;;
esac
