"""The steps of one test: calls, and what is claimed of their answers."""

import base64
import json
import re
from urllib.parse import quote

import urllib3
import yaml

from suite import DO_OPTIONS, ClientError, Loader, Misunderstood, in_range

MISSING = object()
STATUSES = {
    "bad_request": 400, "unauthorized": 401, "forbidden": 403, "missing": 404, "request_timeout": 408, "conflict": 409,
    "unavailable": 503,
}
WARNING = re.compile(r'^299 \S+ "((?:[^"\\]|\\.)*)"')


class Failed(Exception):
    """A claim that does not hold."""


class Server:
    """A server by its URL."""

    # What tests make beside indices: the APIs that make it, where it is listed and deleted, and where its names are in the list.
    KINDS = [
        ("index_template", "/_index_template", "index_templates"), ("component_template", "/_component_template", "component_templates"),
        ("put_template", "/_template", None), ("ingest.", "/_ingest/pipeline", None), ("search_pipeline.", "/_search/pipeline", None),
        ("snapshot.", "/_snapshot", None), ("script", "/_scripts", None),
    ]

    def __init__(self, url):
        self.url = url.rstrip("/")
        # A server may close a connection between two requests.
        retries = urllib3.Retry(total=3, allowed_methods=None, redirect=False, status=0, backoff_factor=0.1, raise_on_status=False)
        self.pool = urllib3.PoolManager(retries=retries, timeout=120)

    def send(self, method, path, params=None, body=None, headers=None):
        media = {"Content-Type": "application/json"} if body is not None else {}
        try:
            return self.pool.request_encode_url(
                method, self.url + path, fields=params or None, body=body, headers={**media, **(headers or {})}, redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise Failed(f"{method} {path} has no answer: {error}") from error

    def names(self, path, member):
        answer = self.send("GET", path)
        found = answer.json() if answer.status == 200 else {}
        found = found.get(member, []) if member else list(found)
        return [entry["name"] if isinstance(entry, dict) else entry for entry in found]

    def clear(self, apis):
        """Deletes everything that a test can have made with these APIs."""
        if any("template" in api or "data_stream" in api for api in apis):
            for name in self.names("/_data_stream", "data_streams"):
                self.send("DELETE", f"/_data_stream/{name}")
        indices = self.send("GET", "/_cat/indices", {"format": "json", "h": "index", "expand_wildcards": "all"})
        for row in indices.json() if indices.status == 200 else []:
            index = "/" + quote(row["index"])
            if self.send("DELETE", index).status == 403:
                self.send("PUT", index + "/_settings", body=json.dumps({"index.blocks.read_only": None, "index.blocks.metadata": None}))
                self.send("DELETE", index)
        for kind, path, member in self.KINDS:
            for name in self.names(path, member) if any(kind in api for api in apis) else []:
                if kind == "snapshot.":
                    self.send("DELETE", f"{path}/{name}/*")
                self.send("DELETE", f"{path}/{name}")
        if "cluster.put_settings" in apis:
            settings = self.send("GET", "/_cluster/settings")
            settings = settings.json() if settings.status == 200 else {}
            reset = {kind: {f"{key}.*": None for key in settings.get(kind, {})} for kind in ("persistent", "transient")}
            self.send("PUT", "/_cluster/settings", body=json.dumps({kind: keys for kind, keys in reset.items() if keys}))


class Run:
    """One test against a server."""

    def __init__(self, server, spec, version, own_warnings=()):
        self.server, self.spec, self.version, self.own_warnings = server, spec, version, own_warnings
        self.stash, self.response, self.body, self.status = {}, MISSING, "", None

    def test(self, test):
        try:
            self.steps(test.setup)
            self.response = MISSING
            self.steps(test.steps)
        finally:
            self.steps(test.teardown, forgiving=True)

    def steps(self, steps, forgiving=False):
        for step in steps:
            if len(step) != 1:
                raise Misunderstood(f"a step with {list(step)}")
            (name, argument), = step.items()
            if name not in STEPS:
                raise Misunderstood(f"the step [{name}]")
            try:
                STEPS[name](self, argument)
            except Failed:
                if not forgiving:
                    raise

    # Calls.

    def do(self, argument):
        # Of several calls in one step the suites' own runners make the last.
        calls = [key for key in argument if key not in DO_OPTIONS][-1:]
        if not calls:
            raise Misunderstood("a step without a call")
        selector = argument.get("node_selector") or {}
        unknown = set(selector) - {"version", "attribute"}
        if unknown:
            raise Misunderstood(f"node_selector has [{unknown.pop()}]")
        if "version" in selector and not in_range(selector["version"], self.version):
            raise Failed(f"no node is of a version in [{selector['version']}]")
        catch = argument.get("catch")
        given = self.filled(argument[calls[0]] or {})
        ignored = given.pop("ignore", [])
        ignored = [int(status) for status in (ignored if isinstance(ignored, list) else [ignored])]
        if catch == "param":
            # A client refuses to send it, and no server is asked.
            return
        try:
            request = self.spec.request(calls[0], given)
        except ClientError as error:
            raise Failed(f"the client refuses the call: {error}") from None
        headers = {name: str(value) for name, value in self.filled(argument.get("headers") or {}).items()}
        if request.lines:
            headers.setdefault("Content-Type", "application/x-ndjson")
        answer = self.server.send(request.method, request.path, request.params, request.body, headers)
        self.take(request.method, answer)
        said = f"{request.method} {request.path} {request.params or ''}: {answer.status} {self.body[:600]}"
        self.check_status(catch, ignored, request.method, said)
        if not (catch and answer.status >= 400):
            self.check_warnings(answer, argument)

    def take(self, method, answer):
        self.status, self.body = answer.status, answer.data.decode()
        media = answer.headers.get("Content-Type", "")
        if method == "HEAD":
            self.response = answer.status < 300
        elif "json" in media:
            self.response = json.loads(self.body) if self.body else None
        elif "yaml" in media:
            self.response = yaml.load(self.body, Loader)
        else:
            self.response = self.body
        self.stash["body"] = self.body if isinstance(self.response, str) else self.response

    def check_status(self, catch, ignored, method, said):
        status = self.status
        if catch is None:
            # A HEAD that finds nothing is an answer.
            if status >= 300 and status not in ignored and not (method == "HEAD" and status == 404):
                raise Failed(said)
        elif catch.startswith("/"):
            error = self.response.get("error", MISSING) if isinstance(self.response, dict) else MISSING
            if status < 400 or error is MISSING:
                raise Failed(f"an error is expected: {said}")
            if not re.search(self.filled(catch)[1:-1], as_java(error)):
                raise Failed(f"the error is not {catch}: {said}")
        elif catch == "request":
            if status < 400 or status in STATUSES.values():
                raise Failed(f"an error without a name is expected: {said}")
        elif catch.endswith("_exception"):
            error = self.response.get("error", {}) if isinstance(self.response, dict) else {}
            if not isinstance(error, dict) or error.get("type") != catch:
                raise Failed(f"[{catch}] is expected: {said}")
        elif catch not in STATUSES:
            raise Misunderstood(f"catch [{catch}]")
        elif status != STATUSES[catch]:
            raise Failed(f"[{catch}] is expected: {said}")

    def check_warnings(self, answer, argument):
        said = [found[1].replace('\\"', '"').replace("\\\\", "\\") for header in answer.headers.getlist("Warning")
                if (found := WARNING.match(header))]
        wanted, allowed = list(argument.get("warnings") or []), list(argument.get("allowed_warnings") or [])
        patterns = list(argument.get("allowed_warnings_regex") or []) + list(argument.get("warnings_regex") or [])
        missing = [text for text in wanted if text not in said]
        missing += [pattern for pattern in argument.get("warnings_regex") or [] if not any(re.search(pattern, text) for text in said)]
        if missing:
            raise Failed(f"it does not warn of [{missing[0]}], but of {said}")
        for text in said:
            known = text in wanted or text in allowed or any(re.search(pattern, text) for pattern in patterns)
            if not known and not any(own.search(text) for own in self.own_warnings):
                raise Failed(f"it warns unexpectedly: {text}")

    # Values.

    def filled(self, value):
        """A value with what was stashed in it."""
        if isinstance(value, dict):
            return {self.filled(key): self.filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(inner) for inner in value]
        if not isinstance(value, str) or "$" not in value:
            return value
        if value.startswith("$") and (name := value[1:].strip("{}")) in self.stash:
            return self.stash[name]
        return re.sub(r"\$\{(\w+)\}", lambda found: str(self.stash.get(found[1], found[0])), value)

    def get(self, path):
        """What the last answer has at a path; MISSING where it has nothing there."""
        if path == "$body":
            return self.response if not isinstance(self.response, (dict, list)) else self.response
        found = self.response
        steps = [part.replace("\\.", ".") for part in re.split(r"(?<!\\)\.", str(path)) if part]
        if steps and steps[0] == "$body":
            steps = steps[1:]
        for step in steps:
            step = str(self.filled(step))
            if isinstance(found, dict):
                found = next(iter(found), MISSING) if step == "_arbitrary_key_" else found.get(step, MISSING)
            elif isinstance(found, list) and re.fullmatch(r"\d+", step) and int(step) < len(found):
                found = found[int(step)]
            else:
                return MISSING
        return found

    def pairs(self, argument):
        return [(path, self.get(path), self.filled(wanted)) for path, wanted in argument.items()]

    # Claims.

    def match(self, argument):
        for path, found, wanted in self.pairs(argument):
            if isinstance(wanted, str) and len(wanted.strip()) > 1 and wanted.strip()[0] == wanted.strip()[-1] == "/":
                text = found if isinstance(found, str) else self.body if path == "$body" else as_java(found)
                if found is MISSING or not re.search(verbose(wanted.strip()[1:-1]), text, re.VERBOSE):
                    raise Failed(f"{path} is {shown(found)}, which does not match {wanted.strip()}")
            elif not same(found, wanted):
                raise Failed(f"{path} is {shown(found)}, not {shown(wanted)}")

    def is_true(self, path):
        found = self.get(path)
        if found is MISSING or found is None or as_java(found).lower() in ("", "false", "0"):
            raise Failed(f"{path} is {shown(found)}, which is not true")

    def is_false(self, path):
        found = self.get(path)
        if found is not MISSING and found is not None and as_java(found).lower() not in ("", "false", "0"):
            raise Failed(f"{path} is {shown(found)}, which is not false")

    def exists(self, path):
        if self.get(path) is MISSING:
            raise Failed(f"{path} is not there")

    def length(self, argument):
        for path, found, wanted in self.pairs(argument):
            if not isinstance(found, (str, list, dict)) or len(found) != int(wanted):
                raise Failed(f"{path} is {shown(found)}, whose length is not {wanted}")

    def compare(self, argument, holds, words):
        for path, found, wanted in self.pairs(argument):
            if isinstance(wanted, str) and not isinstance(found, str):
                wanted = float(wanted)
            if type(found) is bool or not isinstance(found, (int, float, str)) or not holds(found, wanted):
                raise Failed(f"{path} is {shown(found)}, which is not {words} {wanted}")

    def contains(self, argument):
        for path, found, wanted in self.pairs(argument):
            if isinstance(found, str) and isinstance(wanted, str):
                holds = wanted in found
            else:
                holds = isinstance(found, list) and any(includes(item, wanted) for item in found)
            if not holds:
                raise Failed(f"{path} is {shown(found)}, which does not contain {shown(wanted)}")

    def close_to(self, argument):
        for path, found, wanted in self.pairs(argument):
            if not isinstance(found, (int, float)) or abs(found - wanted["value"]) > wanted["error"]:
                raise Failed(f"{path} is {shown(found)}, which is not within {wanted['error']} of {wanted['value']}")

    def set(self, argument):
        for path, name in argument.items():
            found = self.get(path)
            if found is MISSING:
                raise Failed(f"{path} is not there")
            self.stash[name] = found

    def transform_and_set(self, argument):
        for name, formula in argument.items():
            called = re.fullmatch(r"#base64EncodeCredentials\(([^,]+),([^)]+)\)", formula)
            if not called:
                raise Misunderstood(f"the formula [{formula}]")
            pair = ":".join(str(self.get(path.strip())) for path in called.groups())
            self.stash[name] = base64.b64encode(pair.encode()).decode()

    def not_exists(self, path):
        if self.get(path) is not MISSING:
            raise Failed(f"{path} is there")

    def decided(self, argument):
        """Decided before the test runs."""


STEPS = {
    "close_to": Run.close_to, "contains": Run.contains, "do": Run.do, "exists": Run.exists, "is_false": Run.is_false,
    "is_true": Run.is_true, "length": Run.length, "match": Run.match, "not_exists": Run.not_exists, "requires": Run.decided,
    "set": Run.set, "skip": Run.decided, "transform_and_set": Run.transform_and_set,
    "gt": lambda run, argument: run.compare(argument, lambda a, b: a > b, "greater than"),
    "gte": lambda run, argument: run.compare(argument, lambda a, b: a >= b, "at least"),
    "lt": lambda run, argument: run.compare(argument, lambda a, b: a < b, "less than"),
    "lte": lambda run, argument: run.compare(argument, lambda a, b: a <= b, "at most"),
}


def same(found, wanted):
    """Whether two values are equal. Numbers are compared as numbers; true is no number."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == {str(key) for key in wanted} and all(same(found[str(key)], value) for key, value in wanted.items())
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, (int, float)) and isinstance(wanted, (int, float)):
        return found == wanted if type(found) is type(wanted) else float(found) == float(wanted)
    return found == wanted or (found is MISSING and wanted is None)


def includes(item, wanted):
    if isinstance(item, dict) and isinstance(wanted, dict):
        return all(key in item and same(item[key], value) for key, value in wanted.items())
    return same(item, wanted)


def as_java(value):
    """A value as the text that the suites' expressions are written for, Java's."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}={as_java(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_java, value)) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def verbose(pattern):
    """Java's free spacing, in which spaces do not count inside brackets either, in Python's."""
    return re.sub(r"(?<!\\)\[(?:\\.|[^\]\\])*\]", lambda found: re.sub(r"(?<!\\)[ \n]", "", found[0]), pattern)


def shown(value):
    return "missing" if value is MISSING else json.dumps(value)[:300]
