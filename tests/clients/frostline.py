"""The built binary, run from outside."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
from dataclasses import dataclass

DONE, FAILED, MISUSED, PARTIAL, STOPPED = 0, 1, 2, 3, 130


@dataclass
class Outcome:
    """What a run left: exit status and output."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self):
        return json.loads(self.stdout)

    def __str__(self):
        return f"exit status {self.status}\n{self.stdout[:2000]}\n{self.stderr[:4000]}"


class Frostline:
    """A repository and a data directory, and the commands over them."""

    def __init__(self, binary, repo, data, environment=None):
        self.binary, self.repo, self.data = binary, repo, data
        self.environment = environment or {}

    def command(self, *arguments):
        return [str(word) for word in (self.binary, "--repo", self.repo, "--data", self.data, "--json", *arguments)]

    def clean_environment(self):
        """Nothing of the caller's configuration or credentials."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FROSTLINE_", "OTEL_", "AWS_", "GOOGLE_", "AZURE_"))}
        return {**kept, "HOME": str(self.data), "XDG_CONFIG_HOME": str(self.data), **self.environment}

    def run(self, *arguments, stdin=None, timeout=600):
        stdin = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            self.command(*arguments), input=stdin or b"", capture_output=True, env=self.clean_environment(), timeout=timeout
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ok(self, *arguments, stdin=None):
        """The JSON that a command prints; it must succeed."""
        outcome = self.run(*arguments, stdin=stdin)
        assert outcome.status == DONE, f"{arguments}: {outcome}"
        return outcome.json if outcome.stdout.strip() else None

    def fails(self, *arguments, status=FAILED, says=(), stdin=None):
        """A command that must fail with this status and say all of these words; returns what it says."""
        outcome = self.run(*arguments, stdin=stdin)
        assert outcome.status == status, f"{arguments}: {outcome}"
        for words in says:
            assert words.lower() in outcome.stderr.lower(), f"{arguments} does not say {words!r}: {outcome}"
        assert "panicked" not in outcome.stderr, outcome
        return outcome.stderr

    def ingest(self, index, documents, *options):
        """Takes in documents given as lines or as objects."""
        lines = [line if isinstance(line, str) else json.dumps(line) for line in documents]
        return self.ok("ingest", "--index", index, "--format", "ndjson", *options, "-", stdin="\n".join(lines) + "\n")

    def search(self, index, body):
        return self.ok("search", "--index", index, "--body", "-", stdin=json.dumps(body))

    def sql(self, query):
        return self.ok("sql", query)["rows"]

    def start(self, *arguments):
        """A run that goes on beside the test."""
        return subprocess.Popen(
            self.command(*arguments), env=self.clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @contextlib.contextmanager
    def start_at_a_terminal(self, *arguments, columns=80, shell=()):
        """A run at a terminal of its own, without --json, and the other end of that terminal."""
        ours, its = pty.openpty()
        termios.tcsetwinsize(its, (24, columns))
        process = subprocess.Popen(
            [*shell, *(word for word in self.command(*arguments) if word != "--json")],
            env={**self.clean_environment(), "TERM": "xterm"}, stdin=its, stdout=its, stderr=its, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(its)
        with contextlib.closing(open(ours, "r+b", buffering=0)) as terminal, process:
            try:
                yield process, terminal
            finally:
                process.kill()

    def killed_after(self, seconds, *arguments):
        """Runs a command and kills it after so long; whether it was killed before it ended."""
        process = self.start(*arguments)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        return process.wait() == -signal.SIGKILL
