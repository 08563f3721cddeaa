"""A server of the built binary, and the official clients of it."""

import json
import signal
import subprocess
import urllib.request

DOCUMENTS = 5_000


def documents():
    """What most tests of clients search: one document a second, with fields whose counts are easy to say."""
    for n in range(DOCUMENTS):
        yield {
            "@timestamp": f"2024-05-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z", "n": n, "status": [200, 404, 500][n % 3],
            "message": f"request {n} of user{n % 7}", "host": {"name": f"web-{n % 4}"},
        }


class Server:
    """`frostline serve` on a port of its own."""

    def __init__(self, frostline, *options, listen="127.0.0.1:0"):
        self.process = subprocess.Popen(
            frostline.command("serve", "--listen", listen, *options),
            env=frostline.clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=open(frostline.data.parent / "serve.log", "ab"),
        )
        self.log = frostline.data.parent / "serve.log"
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        listening = line.decode()
        while not listening.rstrip().endswith("}"):
            listening += self.process.stdout.readline().decode()
        told = json.loads(listening)
        self.url, self.first_key = f"http://{told['listening']}", told["first_key"]
        self.told = told

    def stop(self):
        """Ends it as a service manager does; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def ask(self, method, path, body=None, headers=None):
        """A request without a client's help: status, headers, body."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()
