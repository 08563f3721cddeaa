"""The questions of docs/studies/frozen.md, in the language of each engine, and how each answer is reduced to
something that can be compared."""

NEEDLE = "10CCDF79BAE9D400824CBFE7585903C7E0151C3AF042AB6DDD2A9FDF76ECE3E5"
SYSMON = "Microsoft-Windows-Sysmon/Operational"
YEAR = {"gte": "2020-01-01T00:00:00Z", "lt": "2021-01-01T00:00:00Z"}


def message(text):
    return {"match": {"Message": text}}


def dashboard():
    by_event = {"terms": {"field": "EventID", "size": 50}, "aggs": {"last": {"max": {"field": "RecordNumber"}}}}
    by_day = {"date_histogram": {"field": "@timestamp", "fixed_interval": "1d", "min_doc_count": 1}, "aggs": {"event": by_event}}
    filters = [{"term": {"Channel.keyword": SYSMON}}, {"range": {"@timestamp": YEAR}}]
    return {"size": 0, "query": {"bool": {"filter": filters}}, "aggs": {"day": by_day}}


def daily():
    return {"size": 0, "aggs": {"day": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1d", "min_doc_count": 1}}}}


# name: (what is asked, Elasticsearch body, LogsQL)
QUESTIONS = {
    "needle": ("one hash, in any field; the hit with its document", {"size": 10, "query": {"query_string": {"query": NEEDLE}}}, None),
    "word": ("documents with `powershell` in Message", {"size": 0, "query": message("powershell")}, 'i(powershell) | stats count() n'),
    "compound": ("documents with `powershell.exe` in Message", {"size": 0, "query": message("powershell.exe")}, 'i("powershell.exe") | stats count() n'),
    "phrase": ("documents with `Registry value set` in Message", {"size": 0, "query": {"match_phrase": {"Message": "Registry value set"}}}, 'i("Registry value set") | stats count() n'),
    "equals": ("documents with EventID 4658", {"size": 0, "query": {"term": {"EventID": 4658}}}, "EventID:=4658 | stats count() n"),
    "terms": ("top 10 of EventID", {"size": 0, "aggs": {"event": {"terms": {"field": "EventID", "size": 10}}}}, 'EventID:* | stats by (EventID) count() n | sort by (n desc) limit 10'),
    "days": ("documents of each day", daily(), "* | stats by (_time:1d) count() n"),
    "dashboard": ("Sysmon in 2020: days, in them EventIDs, in them the largest RecordNumber", dashboard(),
                  f'_time:2020Z Channel:="{SYSMON}" | stats by (_time:1d, EventID) count() n, max(RecordNumber) last'),
    "wildcard": ("documents whose Image ends in `\\powershell.exe`, any case",
                 {"size": 0, "query": {"wildcard": {"Image.keyword": {"value": "*\\\\powershell.exe", "case_insensitive": True}}}},
                 'Image:~"(?i)\\\\\\\\powershell\\\\.exe$" | stats count() n'),
    "newest": ("the 10 newest documents with `powershell.exe` in Message",
               {"size": 10, "query": message("powershell.exe"), "sort": [{"@timestamp": "desc"}]},
               '_time:<2026Z i("powershell.exe") | sort by (_time desc) limit 10'),
}


def needle_logsql(fields):
    """LogsQL of this version has no filter on any field, so the fields are named one by one."""
    quoted = [f.replace("\\", "\\\\").replace('"', '\\"') for f in fields]
    return " or ".join(f'"{f}":{NEEDLE}' for f in quoted)


def instant(time):
    """A time without its zeros at the end."""
    time = time.rstrip("Z")
    return time.rstrip("0").rstrip(".") if "." in time else time


def of_elasticsearch(name, body):
    """A search response, reduced."""
    aggs = body.get("aggregations", {})
    if name == "terms":
        return sorted([str(b["key"]), b["doc_count"]] for b in aggs["event"]["buckets"])
    if name == "days":
        return sorted([b["key_as_string"][:10], b["doc_count"]] for b in aggs["day"]["buckets"])
    if name == "dashboard":
        return sorted([d["key_as_string"][:10], str(e["key"]), e["doc_count"], None if e["last"]["value"] is None else int(e["last"]["value"])]
                      for d in aggs["day"]["buckets"] for e in d["event"]["buckets"])
    if name == "newest":
        return [instant(h["_source"]["@timestamp"]) for h in body["hits"]["hits"]]
    return body["hits"]["total"]["value"]


def of_logsql(name, rows):
    """The lines of a LogsQL answer, reduced the same way."""
    if name == "terms":
        return sorted([r["EventID"], int(r["n"])] for r in rows)
    if name == "days":
        return sorted([r["_time"][:10], int(r["n"])] for r in rows)
    if name == "dashboard":
        return sorted([r["_time"][:10], r["EventID"], int(r["n"]), int(r["last"]) if r.get("last") else None] for r in rows)
    if name == "newest":
        return [instant(r["_time"]) for r in rows]
    if name == "needle":
        return len(rows)
    return int(rows[0]["n"])
