"""The public REST suites' files: tests of YAML, and the specification of APIs that says how a call is sent."""

import json
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import yaml

# What this runner does of what a test may ask of a runner.
FEATURES = {
    "allowed_warnings", "allowed_warnings_regex", "arbitrary_key", "capabilities", "catch_unauthorized", "close_to", "contains",
    "default_shards", "embedded_stash_key", "headers", "is_after", "no_xpack", "node_selector", "regex", "stash_in_key", "stash_in_path",
    "transform_and_set", "warnings", "warnings_regex", "yaml",
}
# What it cannot do, and what it is not.
UNSUPPORTED = {"spi_on_classpath_jdk9": "asks for a Java runner", "xpack": "asks for what Elastic sells"}


class Misunderstood(Exception):
    """Something in a test or a list that the runner does not know. It is never passed over."""


class Loader(yaml.SafeLoader):
    """YAML as the suites' own runners read it: only true and false are booleans, and no text is a time."""


Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("float", r"^[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$", "-+0123456789."),
    ("int", r"^[-+]?(?:0|[1-9][0-9_]*)$", "-+0123456789"),
    ("merge", r"^<<$", "<"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
]:
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))


@dataclass
class Test:
    """One test, with the setup and teardown of its file."""

    file: str
    name: str
    steps: list
    setup: list = field(default_factory=list)
    teardown: list = field(default_factory=list)
    # What its file requires of a product: the stack that one installs, or a service.
    requires: dict = field(default_factory=dict)

    @property
    def suite(self):
        return self.file.rsplit("/", 1)[0] if "/" in self.file else "."

    @property
    def full_name(self):
        return f"{self.file}: {self.name}"

    def said(self, name):
        return [step[name] for step in self.setup + self.steps if name in step]

    @cached_property
    def calls(self):
        """The APIs that it calls, and every name and text in what it sends."""
        apis, words = set(), set()
        for step in self.setup + self.steps:
            for key, value in (step.get("do") or {}).items():
                if key not in DO_OPTIONS:
                    apis.add(key)
                    gather(value, words)
        return apis, words


DO_OPTIONS = {
    "allowed_warnings", "allowed_warnings_regex", "catch", "headers", "node_selector", "warnings", "warnings_regex",
}


def gather(value, words):
    """The keys and the texts in a value; a text that holds lines of JSON is looked into."""
    if isinstance(value, dict):
        for key, inner in value.items():
            words.add(str(key))
            gather(inner, words)
    elif isinstance(value, list):
        for inner in value:
            gather(inner, words)
    elif isinstance(value, str):
        words.add(value)
        for line in value.splitlines():
            if line.lstrip().startswith("{"):
                try:
                    gather(json.loads(line), words)
                except ValueError:
                    pass


def read(folder):
    """The tests below a folder, in order."""
    tests = []
    for path in sorted(folder.rglob("*.y*ml")):
        file = path.relative_to(folder).as_posix()
        sections = []
        for document in yaml.load_all(path.read_text(), Loader):
            sections += (document or {}).items()
        around = {name: steps for name, steps in sections if name in ("requires", "setup", "teardown")}
        for name, steps in sections:
            if name not in around:
                own = [around.get(kind) or [] for kind in ("setup", "teardown")]
                tests.append(Test(file, name, steps or [], *own, around.get("requires") or {}))
    return tests


def version_of(folder):
    """What version a suite is of: its archive says so."""
    manifest = folder.parents[1] / "META-INF" / "MANIFEST.MF"
    found = re.search(r"^X-Compile-\w+[Ss]earch-Version: *([\d.]+)", manifest.read_text(), re.M) if manifest.is_file() else None
    return found and found[1]


def order(version, current):
    """A version as a sort key. OpenSearch's versions begin again after Elasticsearch 7."""
    parts = [int(part) for part in re.findall(r"\d+", version)[:3]]
    if not parts:
        raise Misunderstood(f"[{version}] is no version")
    follows = int(current.split(".")[0]) < 5 <= parts[0]
    return (0 if follows else 1, *parts)


def in_range(ranges, current):
    """Whether a version is in a list such as ` - 7.1.99, 8.0.0 - `."""
    for pair in ranges.split(","):
        if pair.strip() == "all":
            return True
        if "-" not in pair:
            raise Misunderstood(f"[{pair}] is no range of versions")
        low, high = (end.strip() for end in pair.split("-", 1))
        now = order(current, current)
        if (not low or order(low, current) <= now) and (not high or now <= order(high, current)):
            return True
    return False


def skipped(test, version):
    """Why the suite itself leaves a test out; None where it does not."""
    unknown = set(test.requires) - {"feature_flag", "serverless", "stack"}
    if unknown:
        raise Misunderstood(f"a file requires [{unknown.pop()}]")
    if test.requires.get("stack") is False or "feature_flag" in test.requires:
        return "not for the stack as it is installed"
    for requires in test.said("requires"):
        unknown = set(requires) - {"capabilities", "cluster_features", "reason", "test_runner_features"}
        if unknown:
            raise Misunderstood(f"requires has [{unknown.pop()}]")
        # A server of the suite's version has its features and capabilities.
        why = unsupported(requires.get("test_runner_features"))
        if why:
            return why
    for skip in test.said("skip"):
        unknown = set(skip) - {"awaits_fix", "features", "reason", "version"}
        if unknown:
            raise Misunderstood(f"skip has [{unknown.pop()}]")
        why = unsupported(skip.get("features"))
        if why or "awaits_fix" in skip:
            return why or "awaits a fix"
        if "version" in skip and in_range(str(skip["version"]), version):
            return f"not for version {version}"
    return None


def unsupported(features):
    """Why this runner cannot do what a test asks of it; None where it can."""
    for name in features.split(",") if isinstance(features, str) else features or []:
        if name.strip() in UNSUPPORTED:
            return UNSUPPORTED[name.strip()]
        if name.strip() not in FEATURES:
            raise Misunderstood(f"the feature [{name.strip()}]")
    return None


class ClientError(Exception):
    """A call that a client would refuse to send."""


@dataclass
class Request:
    method: str
    path: str
    params: dict
    body: bytes | None
    lines: bool


class Spec:
    """The APIs, as the specification's files describe them."""

    def __init__(self, folder):
        self.folder = folder
        common = folder / "_common.json"
        self.common = set(json.loads(common.read_text())["params"]) if common.is_file() else set()
        self.apis = {}

    def api(self, name):
        if name not in self.apis:
            path = self.folder / f"{name}.json"
            if not path.is_file():
                raise Misunderstood(f"the API [{name}]")
            self.apis[name] = json.loads(path.read_text())[name]
        return self.apis[name]

    def request(self, name, arguments):
        """How a call is sent."""
        api, arguments = self.api(name), dict(arguments)
        body = arguments.pop("body", None)
        paths = api["url"]["paths"]
        parts = {part for path in paths for part in path.get("parts", {})}
        given = {key for key, value in arguments.items() if key in parts and value not in (None, "")}
        fitting = [path for path in paths if set(path.get("parts", {})) == given]
        if not fitting:
            raise ClientError(f"[{name}] has no path with {sorted(given)}")
        chosen = min(fitting, key=lambda path: "deprecated" in path)
        url = chosen["path"]
        for part in given:
            url = url.replace("{%s}" % part, quote(text(arguments[part]), safe=",*"))
        params = {key: text(value) for key, value in arguments.items() if key not in parts}
        unknown = set(params) - set(api.get("params", {})) - self.common
        if unknown:
            raise ClientError(f"[{name}] has no parameter [{unknown.pop()}]")
        methods = chosen["methods"]
        # A body is sent as most clients can.
        method = "POST" if body is not None and methods[0] == "GET" and "POST" in methods else methods[0]
        if name in ("index", "create") and "id" not in given and "POST" in methods:
            method = "POST"
        lines = api.get("body", {}) and api["body"].get("serialize") == "bulk"
        return Request(method, url, params, encoded(body, lines), bool(lines))


def text(value):
    """A value in a URL."""
    if isinstance(value, list):
        return ",".join(text(inner) for inner in value)
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def encoded(body, lines):
    if body is None:
        return None
    if lines or isinstance(body, list):
        parts = body if isinstance(body, list) else [body]
        written = [part.rstrip("\n") if isinstance(part, str) else json.dumps(part) for part in parts]
        return "".join(part + "\n" for part in written).encode()
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


class OutOfScope:
    """The list of what is not tried, each entry with a group and a reason, and of what is nevertheless."""

    KEYS = {"api", "except", "file", "group", "may_pass", "reason", "test", "version", "word"}

    def __init__(self, listed):
        self.groups, self.entries, self.in_scope = listed.get("groups", {}), listed.get("out", []), listed.get("in", [])
        # Warnings of the server's own, which the suites cannot know.
        self.warnings = [re.compile(own["warning"]) for own in listed.get("own", [])]
        for entry in self.entries:
            unknown = set(entry) - self.KEYS
            if unknown or not entry.get("reason") or entry.get("group") not in self.groups or not set(entry) - {"except", "group", "may_pass", "reason", "version"}:
                raise Misunderstood(f"an entry out of scope has a group, a reason and what it is about: {entry}")
        for entry in self.in_scope:
            if set(entry) - {"test", "version"} or not entry.get("test"):
                raise Misunderstood(f"an entry in scope has tests: {entry}")

    def entry(self, test, version):
        """The first entry about a test of this version; None where it is in scope."""
        apis, words = test.calls
        named = lambda patterns: any(fnmatchcase(test.full_name, pattern) for pattern in escaped(patterns))  # noqa: E731
        of_version = lambda entries: (entry for entry in entries if version in entry.get("version", [version]))  # noqa: E731
        if any(named(entry["test"]) for entry in of_version(self.in_scope)):
            return None
        for entry in of_version(self.entries):
            about = [
                any(fnmatchcase(test.file, pattern) for pattern in entry.get("file", [])),
                named(entry.get("test", [])),
                any(fnmatchcase(api, pattern) for api in apis for pattern in entry.get("api", [])),
                not words.isdisjoint(entry.get("word", [])),
            ]
            if any(about) and not named(entry.get("except", [])):
                return entry
        return None


def escaped(patterns):
    """Names of tests have brackets of their own: only `*` stands for anything."""
    return [re.sub(r"[\[\]?]", lambda found: f"[{found[0]}]" if found[0] != "]" else "[]]", pattern) for pattern in patterns]
