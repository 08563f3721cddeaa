#!/bin/sh
# Starts and stops an S3-compatible server for tests.
#
#   eval "$(tests/s3_server.sh start DIR)"     prints and so sets the environment of the tests
#   tests/s3_server.sh stop DIR
#
# DIR holds the server's data, log and process id. Uses versitygw or moto_server if one is in PATH (S3_SERVER=moto or
# S3_SERVER=versitygw chooses), else installs versitygw with go or moto with pip below DIR.
set -eu

usage() {
    echo "usage: $0 start|stop DIR" >&2
    exit 2
}

[ $# -eq 2 ] || usage
action=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
bucket=${FROSTLINE_TEST_S3_BUCKET:-frostline-test}
wanted=${S3_SERVER:-}
key=frostline
secret=frostline-secret

say() {
    echo "$@" >&2
}

# Sets `server` to the program and `kind` to what it is.
find_server() {
    if [ "$wanted" != moto ]; then
        for server in "$(command -v versitygw || true)" "$dir/bin/versitygw"; do
            [ -n "$server" ] && [ -x "$server" ] && { kind=versitygw; return 0; }
        done
    fi
    if [ "$wanted" != versitygw ]; then
        for server in "$(command -v moto_server || true)" "$dir/venv/bin/moto_server"; do
            [ -n "$server" ] && [ -x "$server" ] && { kind=moto; return 0; }
        done
    fi
    return 1
}

install_server() {
    if [ "$wanted" != moto ] && command -v go >/dev/null; then
        say "installing versitygw with go (once, about a minute)"
        GOBIN="$dir/bin" go install github.com/versity/versitygw/cmd/versitygw@latest >&2 && return 0
    fi
    if [ "$wanted" != versitygw ] && command -v python3 >/dev/null; then
        say "installing moto with pip (once, about a minute)"
        python3 -m venv "$dir/venv" >&2 && "$dir/venv/bin/pip" install -q 'moto[server]' >&2 && return 0
    fi
    return 1
}

free_port() {
    if command -v python3 >/dev/null; then
        python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
    else
        echo $((20000 + $$ % 20000))
    fi
}

# Becomes the server, so that its process id is the one that is kept. versitygw needs extended attributes in DIR's file system.
launch() {
    mkdir -p "$dir/data/$bucket"
    case $kind in
    versitygw) exec "$server" --access "$key" --secret "$secret" --region us-east-1 --port "127.0.0.1:$port" posix "$dir/data" ;;
    moto) exec "$server" -H 127.0.0.1 -p "$port" ;;
    esac
}

answers() {
    python3 - "$port" <<'PY' 2>/dev/null
import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1).close()
PY
}

# versitygw takes each directory for a bucket; moto has to be asked, and asks for no signature.
make_bucket() {
    [ "$kind" = versitygw ] || python3 - "$port" "$bucket" <<'PY'
import sys, urllib.request
port, bucket = sys.argv[1:]
request = urllib.request.Request(f"http://127.0.0.1:{port}/{bucket}", method="PUT", headers={"Host": "s3.amazonaws.com"})
urllib.request.urlopen(request).close()
PY
}

stop() {
    [ -f "$dir/pid" ] || return 0
    pid=$(cat "$dir/pid")
    rm -f "$dir/pid"
    kill "$pid" 2>/dev/null || return 0
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
}

start() {
    stop
    find_server || { install_server && find_server; } || {
        say "no S3 server: install one with"
        say "  go install github.com/versity/versitygw/cmd/versitygw@latest    (and put it in PATH)"
        say "or"
        say "  pip install 'moto[server]'"
        exit 1
    }
    port=$(free_port)
    launch >"$dir/log" 2>&1 &
    echo $! >"$dir/pid"
    tries=0
    until answers; do
        tries=$((tries + 1))
        if [ $tries -gt 150 ] || ! kill -0 "$(cat "$dir/pid")" 2>/dev/null; then
            say "$kind did not start; $dir/log says:"
            tail -5 "$dir/log" >&2
            exit 1
        fi
        sleep 0.2
    done
    make_bucket
    say "$kind answers at http://127.0.0.1:$port, bucket $bucket"
    cat <<ENV
export FROSTLINE_TEST_S3_ENDPOINT=http://127.0.0.1:$port
export FROSTLINE_TEST_S3_BUCKET=$bucket
export AWS_ENDPOINT_URL=http://127.0.0.1:$port
export AWS_ACCESS_KEY_ID=$key
export AWS_SECRET_ACCESS_KEY=$secret
export AWS_REGION=us-east-1
ENV
}

case $action in
start) start ;;
stop) stop ;;
*) usage ;;
esac
