"""Filters, sorts and aggregations over real and made documents give what DuckDB gives over the same NDJSON.

The second half of each line of a table is what docs/semantics.md says the first half means, in SQL.
"""

import json
from collections import Counter

import pytest

import answers
from corpora import SHARED_START, each, found
from oracle import canonical, has, inside, moment, text, word

HITS_SHOWN = 300
DOT_PHP = "regexp_matches(lower(t), '\\.php($|/)')"
FROM_400 = "n >= 400"


def said(field, value):
    """The documents with a value of the field that is this text."""
    return has(field, f"t = {text(value)}")


EVENTS = [
    ({"match_all": {}}, "true"),
    ({"term": {"EventID": 10}}, has("EventID", "n = 10")),
    ({"term": {"EventID": "4658"}}, has("EventID", "n = 4658")),
    ({"terms": {"EventID": [1, 3, 4688, 99999]}}, has("EventID", "n IN (1, 3, 4688)")),
    ({"term": {"Task": 10}}, has("Task", "t = '10'")),
    ({"term": {"Channel": "Security"}}, has("Channel", "t = 'Security'")),
    ({"term": {"Channel.keyword": "security"}}, has("Channel", "t = 'security'")),
    ({"term": {"Channel": {"value": "SECURITY", "case_insensitive": True}}}, has("Channel", "lower(t) = 'security'")),
    ({"terms": {"Hostname": ["MORDORDC.theshire.local", "nobody"]}}, has("Hostname", "t = 'MORDORDC.theshire.local'")),
    ({"match": {"Image.keyword": "C:\\Windows\\System32\\svchost.exe"}}, has("Image", "t = 'C:\\Windows\\System32\\svchost.exe'")),
    ({"match": {"Image": "svchost"}}, has("Image", word("svchost"))),
    ({"match": {"Message": {"query": "registry created", "operator": "and"}}}, has("Message", f"{word('registry')} AND {word('created')}")),
    ({"match": {"Message": "pipeline handle"}}, has("Message", f"{word('pipeline')} OR {word('handle')}")),
    ({"match_phrase": {"Message": "process accessed"}}, has("Message", "regexp_matches(t, '(?i)\\bprocess[^\\pL\\pN_]+accessed\\b')")),
    ({"prefix": {"Image.keyword": "C:\\Program Files"}}, has("Image", "starts_with(t, 'C:\\Program Files')")),
    ({"wildcard": {"Image.keyword": "*\\\\power*.exe"}}, has("Image", "regexp_full_match(t, '(?s).*\\\\power.*\\.exe')")),
    ({"wildcard": {"TargetImage.keyword": {"value": "c:\\\\windows\\\\*LSASS.exe", "case_insensitive": True}}}, has("TargetImage", "regexp_full_match(lower(t), 'c:\\\\windows\\\\.*lsass\\.exe')")),
    ({"regexp": {"GrantedAccess.keyword": "0x[0-9]{4}"}}, has("GrantedAccess", "regexp_full_match(t, '0x[0-9]{4}')")),
    ({"range": {"RecordNumber": {"gte": 100_000, "lt": 200_000}}}, has("RecordNumber", "n >= 100000 AND n < 200000")),
    ({"range": {"SeverityValue": {"gt": 2}}}, has("SeverityValue", "n > 2")),
    ({"range": {"Hostname.keyword": {"gte": "M", "lt": "W"}}}, has("Hostname", "t >= 'M' AND t < 'W'")),
    ({"range": {"@timestamp": {"gte": "2020-01-01", "lt": "2021-01-01"}}}, f"us >= {moment('2020-01-01')} AND us < {moment('2021-01-01')}"),
    ({"range": {"@timestamp": {"gt": "2020-09-22", "lte": "2020-10-18"}}}, f"us >= {moment('2020-09-23')} AND us < {moment('2020-10-19')}"),
    ({"range": {"TimeCreated": {"gte": "2023-01-01T00:00:00Z"}}}, has("TimeCreated", f"us >= {moment('2023-01-01')} OR (kind = 'text' AND t >= '2023-01-01T00:00:00Z')")),
    ({"exists": {"field": "ProcessGuid"}}, has("ProcessGuid")),
    ({"bool": {"must_not": {"exists": {"field": "@timestamp"}}}}, "us IS NULL"),
    ({"exists": {"field": "winlog"}}, "doc IN (SELECT doc FROM vals WHERE starts_with(field, 'winlog.') OR field = 'winlog')"),
    ({"term": {"IpAddress": "::1"}}, has("IpAddress", "ip = 1")),
    ({"term": {"SourceAddress": "172.18.0.0/16"}}, has("SourceAddress", inside("172.18.0.0/16"))),
    ({"bool": {"filter": [{"term": {"EventID": 12}}, {"match": {"Image": "svchost"}}], "must_not": {"term": {"Hostname": "MORDORDC.theshire.local"}}}},
     f"{has('EventID', 'n = 12')} AND {has('Image', word('svchost'))} AND NOT {said('Hostname', 'MORDORDC.theshire.local')}"),
    ({"bool": {"should": [{"term": {"EventID": 1}}, {"exists": {"field": "Hashes"}}, {"exists": {"field": "Image"}}], "minimum_should_match": 2}},
     f"({has('EventID', 'n = 1')})::INT + ({has('Hashes')})::INT + ({has('Image')})::INT >= 2"),
    ({"query_string": {"query": "EventID:(1 OR 3) AND NOT Image:svchost"}}, f"{has('EventID', 'n IN (1, 3)')} AND NOT {has('Image', word('svchost'))}"),
    ({"query_string": {"query": "mimikatz"}}, f"doc IN (SELECT doc FROM vals WHERE {word('mimikatz')})"),
    ({"query_string": {"query": "EventID:[4600 TO 4700] -Channel:Security"}}, f"{has('EventID', 'n BETWEEN 4600 AND 4700')} AND NOT {has('Channel', word('security'))}"),
]

WEBLOGS = [
    ({"term": {"response": 404}}, has("response", "n = 404")),
    ({"range": {"response": {"gte": 400, "lt": 500}}}, has("response", "n >= 400 AND n < 500")),
    ({"range": {"bytes": {"gt": 1_000_000}}}, has("bytes", "n > 1000000")),
    ({"bool": {"must_not": {"exists": {"field": "bytes"}}}}, f"NOT {has('bytes')}"),
    ({"term": {"clientip": "66.249.73.135"}}, has("clientip", inside("66.249.73.135/32"))),
    ({"term": {"clientip": "66.249.0.0/16"}}, has("clientip", inside("66.249.0.0/16"))),
    ({"range": {"clientip": {"gte": "66.249.73.0", "lte": "66.249.73.255"}}}, has("clientip", inside("66.249.73.0/24"))),
    ({"match": {"agent": "googlebot"}}, has("agent", word("googlebot"))),
    ({"match": {"agent": {"query": "windows firefox", "operator": "and"}}}, has("agent", f"{word('windows')} AND {word('firefox')}")),
    ({"match_phrase": {"agent": "Windows NT 6.1"}}, has("agent", "regexp_matches(t, '(?i)(^|[^\\pL\\pN_])windows[^\\pL\\pN_]+nt[^\\pL\\pN_]+6[^\\pL\\pN_]+1($|[^\\pL\\pN_])')")),
    ({"prefix": {"path.keyword": "/presentations/"}}, has("path", "starts_with(t, '/presentations/')")),
    ({"wildcard": {"path.keyword": "*.p?g"}}, has("path", "regexp_full_match(t, '(?s).*\\.p.g')")),
    ({"regexp": {"path.keyword": "/images/.*(png|jpg)"}}, has("path", "regexp_full_match(t, '/images/.*(png|jpg)')")),
    ({"term": {"path": "/favicon.ico"}}, has("path", "t = '/favicon.ico'")),
    ({"match": {"path": "/favicon.ico"}}, has("path", "regexp_matches(lower(t), '(^|/)favicon\\.ico($|/)')")),
    ({"range": {"@timestamp": {"gte": "2015-05-18T12:00:00Z", "lt": "2015-05-18T13:00:00Z"}}}, f"us >= {moment('2015-05-18T12:00:00Z')} AND us < {moment('2015-05-18T13:00:00Z')}"),
    ({"range": {"@timestamp": {"gte": "2015-05-18T14:00:00", "lt": "2015-05-18T15:00:00", "time_zone": "+02:00"}}}, f"us >= {moment('2015-05-18T12:00:00Z')} AND us < {moment('2015-05-18T13:00:00Z')}"),
    ({"range": {"@timestamp": {"gte": "2015-05-20||-1d/d", "lte": "2015-05-18||+1d/d"}}}, f"us >= {moment('2015-05-19')} AND us < {moment('2015-05-20')}"),
    ({"query_string": {"query": "response:404 AND path:*.php"}}, f"{has('response', 'n = 404')} AND {has('path', DOT_PHP)}"),
    ({"bool": {"filter": [{"term": {"verb": "POST"}}], "should": [{"term": {"response": 200}}]}}, has("verb", "t = 'POST'")),
    ({"constant_score": {"filter": {"term": {"httpversion": "1.0"}}}}, has("httpversion", "t = '1.0'")),
    ({"dis_max": {"queries": [{"term": {"response": 500}}, {"term": {"response": 403}}]}}, has("response", "n IN (500, 403)")),
]

MIXED = [
    ({"term": {"status": 404}}, has("status", "n = 404 OR t = '404'")),
    ({"term": {"status": "404"}}, has("status", "n = 404 OR t = '404'")),
    ({"term": {"status": 404.5}}, has("status", "n = 404.5")),
    ({"range": {"status": {"gte": 300, "lt": 405}}}, has("status", "n >= 300 AND n < 405")),
    ({"term": {"count": 2**53 + 1}}, has("count", f"i = {2**53 + 1}")),
    ({"term": {"count": 2**53}}, has("count", f"i = {2**53}")),
    ({"range": {"count": {"gt": 2**53}}}, has("count", f"i > {2**53} OR (kind = 'double' AND n > {2**53})")),
    ({"range": {"count": {"gte": 2**63 - 1}}}, has("count", f"i >= {2**63 - 1} OR (kind = 'double' AND n >= {2**63 - 1})")),
    ({"term": {"count": 2**63}}, has("count", "kind = 'double' AND n = 9223372036854775808")),
    ({"term": {"count": 2**63 - 1}}, has("count", f"i = {2**63 - 1}")),
    ({"range": {"count": {"gte": 2**63}}}, has("count", "kind = 'double' AND n >= 9223372036854775808")),
    ({"range": {"count": {"gt": 500, "lt": 2**63}}}, has("count", "i > 500")),
    ({"range": {"count": {"gt": 500, "lt": 1e19}}}, has("count", "i > 500 OR (kind = 'double' AND n < 1e19)")),
    ({"range": {"count": {"gt": -1e19, "lt": 0}}}, has("count", "i < 0")),
    ({"range": {"count": {"lte": -(2**63)}}}, has("count", f"i = {-(2**63)}")),
    ({"range": {"count": {"gt": -1.5, "lt": 0.5}}}, has("count", "i IN (-1, 0)")),
    ({"range": {"size": {"gte": 99.5, "lt": 100.5}}}, has("size", "n >= 99.5 AND n < 100.5")),
    ({"range": {"ratio": {"lt": 0}}}, has("ratio", "n < 0")),
    ({"term": {"flag": True}}, has("flag", "t = 'true'")),
    ({"term": {"flag": "false"}}, has("flag", "t = 'false'")),
    ({"term": {"flag": "no"}}, has("flag", "t = 'no'")),
    ({"term": {"host.name": "ünï"}}, has("host.name", "t = 'ünï'")),
    ({"term": {"host": "bare"}}, has("host", "t = 'bare'")),
    ({"exists": {"field": "host"}}, "doc IN (SELECT doc FROM vals WHERE field = 'host' OR starts_with(field, 'host.'))"),
    ({"term": {"tags": "two"}}, has("tags", "t = 'two'")),
    ({"bool": {"must_not": {"term": {"tags": "one"}}}}, f"NOT {said('tags', 'one')}"),
    ({"exists": {"field": "tags"}}, has("tags")),
    ({"bool": {"filter": [{"term": {"users.name": "a"}}, {"range": {"users.age": {"gte": 28}}}]}}, f"{said('users.name', 'a')} AND {has('users.age', 'n >= 28')}"),
    ({"term": {"numbers": 1}}, has("numbers", "n = 1 OR t = '1'")),
    ({"range": {"numbers": {"gt": 0.4, "lt": 0.9}}}, has("numbers", "(n > 0.4 AND n < 0.9) OR (kind = 'text' AND t > '0.4' AND t < '0.9')")),
    ({"range": {"numbers": {"gt": 1, "lt": 3}}}, has("numbers", "n > 1 AND n < 3")),
    ({"term": {"address": "10.0.0.1"}}, has("address", inside("10.0.0.1/32"))),
    ({"term": {"address": "10.0.0.0/8"}}, has("address", inside("10.0.0.0/8"))),
    ({"term": {"address": "::/64"}}, has("address", inside("::/64"))),
    ({"range": {"address": {"gt": "10.0.0.12", "lt": "192.168.1.7"}}}, has("address", f"(ip > {0xffff_0a00_000c} AND ip < {0xffff_c0a8_0107})")),
    ({"term": {"address": "-"}}, has("address", "t = '-'")),
    ({"term": {"when": "2020-02-29"}}, has("when", f"us >= {moment('2020-02-29')} AND us < {moment('2020-03-01')}")),
    ({"range": {"when": {"gte": "2016", "lt": "2017"}}}, has("when", f"us >= {moment('2016-01-01')} AND us < {moment('2017-01-01')}")),
    ({"range": {"when": {"gte": 1_500_000_000_000, "lte": "2018-06-30"}}}, has("when", f"us >= 1500000000000000 AND us < {moment('2018-07-01')}")),
    ({"range": {"when": {"gte": "01/02/2019", "lt": "15/02/2019", "format": "dd/MM/yyyy", "time_zone": "Europe/Berlin"}}}, has("when", f"us >= {moment('2019-01-31T23:00:00Z')} AND us < {moment('2019-02-14T23:00:00Z')}")),
    ({"term": {"path": SHARED_START + "3"}}, has("path", f"t = {text(SHARED_START + '3')}")),
    ({"prefix": {"path.keyword": SHARED_START[:100]}}, has("path", f"starts_with(t, {text(SHARED_START[:100])})")),
    ({"prefix": {"path.keyword": SHARED_START[:64]}}, has("path", f"starts_with(t, {text(SHARED_START[:64])})")),
    ({"wildcard": {"path.keyword": SHARED_START[:66] + "*4"}}, has("path", f"starts_with(t, {text(SHARED_START[:66])}) AND ends_with(t, '4')")),
    ({"range": {"path.keyword": {"gte": SHARED_START + "1", "lt": SHARED_START + "3"}}}, has("path", f"t >= {text(SHARED_START + '1')} AND t < {text(SHARED_START + '3')}")),
    ({"term": {"path": "x" * 128}}, has("path", "t = repeat('x', 128)")),
    ({"term": {"path": "x" * 30_000}}, has("path", "t = repeat('x', 30000)")),
    ({"term": {"Message": ""}}, has("Message", "t = ''")),
    ({"term": {"message": "timeout"}}, has("message", "t = 'timeout'")),
    ({"match": {"message": "GRÜSSE grüße"}}, has("message", word("grüße"))),
    ({"match": {"message": "東京"}}, has("message", word("東京"))),
    ({"match": {"message": "ops@example.org"}}, has("message", "list_contains(string_split(t, ' '), 'ops@example.org')")),
    ({"match": {"message": "cmd.exe"}}, has("message", "contains(t, 'cmd.exe')")),
    ({"match": {"message": "c:\\windows\\cmd.exe"}}, has("message", "contains(t, 'C:\\Windows\\cmd.exe')")),
    ({"match_phrase": {"message": "error timeout"}}, has("message", "contains(' ' || t || ' ', ' error timeout ')")),
    ({"match": {"message": {"query": "alpha beta gamma", "minimum_should_match": 2}}}, has("message", f"({word('alpha')})::INT + ({word('beta')})::INT + ({word('gamma')})::INT >= 2")),
    ({"wildcard": {"message": "ti*out"}}, has("message", word("timeout"))),
    ({"prefix": {"status": "40"}}, has("status", "kind IN ('long', 'text') AND starts_with(t, '40')")),
    ({"wildcard": {"count": "4*4"}}, has("count", "kind = 'long' AND regexp_full_match(t, '4.*4')")),
    ({"term": {"key with space": 3}}, has("key with space", "n = 3")),
    ({"term": {"dotted.name": "x"}}, has("dotted.name", "t = 'x'")),
    ({"term": {"dotted.other": "x"}}, has("dotted.other", "t = 'x'")),
    ({"term": {"rare_7": 5}}, has("rare_7", "n = 5")),
    ({"exists": {"field": "rare_*"}}, "doc IN (SELECT doc FROM vals WHERE starts_with(field, 'rare_'))"),
    ({"term": {"nothing": 1}}, "false"),
    ({"match_none": {}}, "false"),
    ({"range": {"@timestamp": {"gte": "2024-01-02T10:00:00.123456Z", "lt": "2024-01-02T22:00:00.5+01:00"}}}, f"us >= {moment('2024-01-02T10:00:00.123456Z')} AND us < {moment('2024-01-02T21:00:00.500Z')}"),
    ({"term": {"@timestamp": "2024-01-02"}}, f"us >= {moment('2024-01-02')} AND us < {moment('2024-01-03')}"),
    ({"exists": {"field": "@timestamp"}}, "us IS NOT NULL"),
    ({"multi_match": {"query": "started", "fields": ["message", "Message"]}}, f"{has('message', word('started'))} OR {has('Message', word('started'))}"),
    ({"simple_query_string": {"query": "alpha + beta -gamma", "fields": ["message"], "default_operator": "and"}}, has("message", f"{word('alpha')} AND {word('beta')}") + f" AND NOT {has('message', word('gamma'))}"),
    ({"query_string": {"query": "level:(info OR warn) AND _exists_:when AND NOT status:[400 TO *]"}},
     f"{has('level', word('info') + ' OR ' + word('warn'))} AND {has('when')} AND NOT {has('status', FROM_400)}"),
]

FILTERS = [("events", *case) for case in EVENTS] + [("weblogs", *case) for case in WEBLOGS] + [("mixed", *case) for case in MIXED]


def named(case):
    return f"{case[0]}: {json.dumps(case[1], ensure_ascii=False)[:70]}"


@pytest.mark.parametrize("case", each(FILTERS), ids=named)
def test_a_filter_matches_the_same_documents(case, corpus):
    index, query, where = case
    check_filter(corpus(index), query, where)


def check_filter(corpus, query, where):
    """The total is the same; and so are the documents, or where they are many, those that are shown are among them."""
    answer = corpus.search({"query": query, "size": HITS_SHOWN})
    expected = Counter(corpus.oracle.sources(where))
    shown = Counter(canonical(hit["_source"]) for hit in answer["hits"]["hits"])
    assert answer["hits"]["total"] == {"value": expected.total(), "relation": "eq"}
    assert shown.total() == min(expected.total(), HITS_SHOWN)
    assert not shown - expected, "hits that do not match"


# Index, sort, the same order in SQL. `first` is the smallest value of a field, `last` the largest.
SORTS = [
    ("events", [{"@timestamp": "asc"}, {"RecordNumber": "asc"}], ["us ASC NULLS LAST", "first('RecordNumber', n) ASC NULLS LAST"]),
    ("events", [{"@timestamp": "desc"}], ["us DESC NULLS LAST"]),
    ("events", [{"RecordNumber": {"order": "desc", "missing": "_first"}}], ["last('RecordNumber', n) DESC NULLS FIRST"]),
    ("events", [{"Hostname": "asc"}, {"EventID": "desc"}], ["first('Hostname', t) ASC NULLS LAST", "last('EventID', n) DESC NULLS LAST"]),
    ("events", [{"Task": "asc"}], ["first('Task', n) ASC NULLS LAST"]),
    ("weblogs", [{"bytes": "desc"}, {"@timestamp": "asc"}], ["last('bytes', n) DESC NULLS LAST", "us ASC NULLS LAST"]),
    ("weblogs", [{"bytes": {"order": "asc", "missing": 50}}, {"path.keyword": "desc"}], ["coalesce(first('bytes', n), 50) ASC", "last('path', t) DESC NULLS LAST"]),
    ("mixed", [{"count": "asc"}, {"n": "asc"}], ["first('count', n) ASC NULLS LAST", "first('n', n) ASC"]),
    ("mixed", [{"size": {"order": "desc", "missing": "_first"}}, {"n": "desc"}], ["last('size', n) DESC NULLS FIRST", "last('n', n) DESC"]),
    ("mixed", [{"users.age": "asc"}, {"n": "asc"}], ["first('users.age', n) ASC NULLS LAST", "first('n', n) ASC"]),
    ("mixed", [{"users.age": "desc"}, {"n": "asc"}], ["last('users.age', n) DESC NULLS LAST", "first('n', n) ASC"]),
    ("mixed", [{"users.age": {"order": "asc", "mode": "max"}}, {"n": "asc"}], ["last('users.age', n) ASC NULLS LAST", "first('n', n) ASC"]),
    ("mixed", [{"when": "desc"}, {"n": "asc"}], ["last('when', us) DESC NULLS LAST", "first('n', n) ASC"]),
    ("mixed", [{"host.name": {"order": "desc"}}, {"n": "asc"}], ["last('host.name', t) DESC NULLS LAST", "first('n', n) ASC"]),
    ("mixed", [{"tags": "asc"}, {"n": "desc"}], ["first('tags', t) ASC NULLS LAST", "last('n', n) DESC"]),
    ("mixed", [{"nothing": {"order": "asc", "unmapped_type": "long"}}, {"n": "asc"}], ["first('nothing', n) ASC", "first('n', n) ASC"]),
    ("mixed", ["@timestamp", {"n": "asc"}], ["us ASC NULLS LAST", "first('n', n) ASC"]),
]


@pytest.mark.parametrize("case", each(SORTS), ids=named)
def test_a_sort_gives_the_same_order(case, corpus):
    index, sort, keys = case
    corpus = corpus(index)
    expected = answers.sort_values(corpus.oracle, keys, limit=HITS_SHOWN)
    shown = [hit["sort"] for hit in corpus.search({"sort": sort, "size": HITS_SHOWN})["hits"]["hits"]]
    assert answers.same(shown, expected)
    # A page from the middle is the same list further on.
    middle = corpus.search({"sort": sort, "from": 111, "size": 50})["hits"]["hits"]
    assert answers.same([hit["sort"] for hit in middle], expected[111:161])


PAGED = [
    ("mixed", [{"size": "desc"}, {"n": "asc"}], ["last('size', n) DESC NULLS LAST", "first('n', n) ASC"]),
    ("mixed", [{"@timestamp": {"order": "asc", "missing": "_first"}}, {"n": "desc"}], ["us ASC NULLS FIRST", "last('n', n) DESC"]),
    ("mixed", [{"host.name": "asc"}, {"n": "desc"}], ["first('host.name', t) ASC NULLS LAST", "last('n', n) DESC"]),
]


@pytest.mark.parametrize("case", PAGED, ids=named)
def test_paging_with_search_after_visits_every_document_once(case, corpus):
    index, sort, keys = case
    corpus = corpus(index)
    visited, after = [], None
    while True:
        body = {"sort": sort, "size": 700, "_source": False, **({"search_after": after} if after else {})}
        hits = corpus.search(body)["hits"]["hits"]
        if not hits:
            break
        visited += [hit["sort"] for hit in hits]
        after = visited[-1]
    assert answers.same(visited, answers.sort_values(corpus.oracle, keys))


def of(field, columns="doc, t, n, us", where="true"):
    """Each value of a field once for each document."""
    return f"(SELECT DISTINCT {columns} FROM vals WHERE field = {text(field)} AND {where})"


def counts(key, table):
    return f"SELECT {key} AS key, count(DISTINCT doc) FROM {table} GROUP BY key"


STATS = "count(n), min(n), max(n), avg(n), coalesce(sum(n), 0)"
HOUR, DAY = 3_600_000, 86_400_000

# Index, query, its meaning, aggregation, its rows in SQL: key, documents, and the values of metrics below.
AGGREGATIONS = [
    ("events", None, {"terms": {"field": "EventID", "size": 1000}}, counts("n", of("EventID"))),
    ("events", None, {"terms": {"field": "Channel", "size": 100}}, counts("t", of("Channel"))),
    ("events", None, {"terms": {"field": "Task", "size": 1000}}, counts("t", of("Task"))),
    ("events", None, {"terms": {"field": "Image.keyword", "size": 5_000}}, counts("t", of("Image"))),
    ("events", ({"term": {"Channel": "Security"}}, has("Channel", "t = 'Security'")), {"terms": {"field": "EventID", "size": 1000}},
     counts("n", f"{of('EventID')} WHERE {said('Channel', 'Security')}")),
    ("events", None, {"terms": {"field": "Hostname", "size": 100}, "aggs": {"records": {"stats": {"field": "RecordNumber"}}}},
     f"SELECT h.t, count(DISTINCT h.doc), {STATS.replace('n)', 'r.n)')} FROM {of('Hostname')} h LEFT JOIN {of('RecordNumber')} r USING (doc) GROUP BY h.t"),
    ("events", None, {"date_histogram": {"field": "@timestamp", "calendar_interval": "month", "min_doc_count": 1}},
     "SELECT epoch_ms(date_trunc('month', make_timestamp(us))), count(*) FROM docs WHERE us IS NOT NULL GROUP BY 1"),
    ("events", None, {"date_histogram": {"field": "@timestamp", "fixed_interval": "1h", "min_doc_count": 1}},
     f"SELECT us // 1000 // {HOUR} * {HOUR}, count(*) FROM docs WHERE us IS NOT NULL GROUP BY 1"),
    ("events", None, {"stats": {"field": "RecordNumber"}}, f"SELECT NULL, NULL, {STATS} FROM {of('RecordNumber')}"),
    ("events", None, {"cardinality": {"field": "ProcessGuid"}}, f"SELECT NULL, NULL, count(DISTINCT t) FROM {of('ProcessGuid')}"),
    ("events", None, {"missing": {"field": "Image"}}, f"SELECT NULL, count(*) FROM docs WHERE NOT {has('Image')}"),
    ("events", None, {"filters": {"filters": {"a": {"term": {"EventID": 1}}, "b": {"match": {"Message": "registry"}}}}},
     f"SELECT 'a', count(*) FROM docs WHERE {has('EventID', 'n = 1')} UNION ALL SELECT 'b', count(*) FROM docs WHERE {has('Message', word('registry'))}"),
    ("events", None, {"composite": {"size": 10_000, "sources": [{"c": {"terms": {"field": "Channel"}}}, {"e": {"terms": {"field": "EventID"}}}]}},
     f"SELECT {{'c': c.t, 'e': e.n}}, count(DISTINCT doc) FROM {of('Channel')} c JOIN {of('EventID')} e USING (doc) GROUP BY c.t, e.n"),
    ("weblogs", None, {"terms": {"field": "response"}, "aggs": {"b": {"sum": {"field": "bytes"}}}},
     f"SELECT r.n, count(*), coalesce(sum(b.n), 0) FROM {of('response')} r LEFT JOIN {of('bytes')} b USING (doc) GROUP BY r.n"),
    ("weblogs", None, {"terms": {"field": "clientip", "size": 10_000}}, counts("t", of("clientip"))),
    ("weblogs", None, {"terms": {"field": "path.keyword", "size": 2_000, "min_doc_count": 3}},
     f"SELECT * FROM ({counts('t', of('path'))}) AS c(key, docs) WHERE docs >= 3"),
    ("weblogs", None, {"date_histogram": {"field": "@timestamp", "fixed_interval": "1h"}, "aggs": {"s": {"terms": {"field": "verb"}}}},
     f"SELECT us, sum(c), map_from_entries(list((t, c))) FROM (SELECT docs.us // 1000 // {HOUR} * {HOUR} AS us, t, count(*) AS c "
     f"FROM docs JOIN {of('verb', 'doc, t')} USING (doc) GROUP BY ALL) GROUP BY us"),
    ("weblogs", None, {"date_histogram": {"field": "@timestamp", "calendar_interval": "day", "time_zone": "America/New_York"}},
     "SELECT epoch_ms(date_trunc('day', make_timestamp(us) AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York') AT TIME ZONE 'America/New_York'), count(*) FROM docs GROUP BY 1"),
    ("weblogs", None, {"date_histogram": {"field": "@timestamp", "fixed_interval": "1d", "offset": "+6h"}},
     f"SELECT (us // 1000 - 6 * {HOUR}) // {DAY} * {DAY} + 6 * {HOUR}, count(*) FROM docs GROUP BY 1"),
    ("weblogs", ({"term": {"response": 404}}, has("response", "n = 404")), {"date_histogram": {"field": "@timestamp", "fixed_interval": "30m", "min_doc_count": 1}},
     f"SELECT us // 1800000000 * 1800000, count(*) FROM docs WHERE {has('response', 'n = 404')} GROUP BY 1"),
    ("weblogs", None, {"histogram": {"field": "bytes", "interval": 100_000, "min_doc_count": 1}}, counts("floor(n / 100000) * 100000", of("bytes"))),
    ("weblogs", None, {"range": {"field": "bytes", "ranges": [{"to": 1000}, {"from": 1000, "to": 100_000}, {"from": 100_000}]}},
     f"SELECT k, count(*) FROM (SELECT CASE WHEN n < 1000 THEN '*-1000.0' WHEN n < 100000 THEN '1000.0-100000.0' ELSE '100000.0-*' END AS k FROM {of('bytes')}) GROUP BY k"),
    ("weblogs", None, {"date_range": {"field": "@timestamp", "format": "yyyy-MM-dd", "ranges": [{"to": "2015-05-19"}, {"from": "2015-05-19"}]}},
     f"SELECT k, count(*) FROM (SELECT CASE WHEN us < {moment('2015-05-19')} THEN '*-2015-05-19' ELSE '2015-05-19-*' END AS k FROM docs) GROUP BY k"),
    ("weblogs", None, {"extended_stats": {"field": "bytes"}},
     f"SELECT NULL, NULL, count(n), min(n), max(n), avg(n), sum(n), sum(n * n), var_pop(n), var_pop(n), var_samp(n), stddev_pop(n), stddev_pop(n), stddev_samp(n) FROM {of('bytes')}"),
    ("weblogs", None, {"value_count": {"field": "bytes"}}, f"SELECT NULL, NULL, count(*) FROM {of('bytes')}"),
    ("weblogs", None, {"avg": {"field": "bytes"}}, f"SELECT NULL, NULL, avg(n) FROM {of('bytes')}"),
    ("weblogs", None, {"cardinality": {"field": "agent"}}, f"SELECT NULL, NULL, count(DISTINCT t) FROM {of('agent')}"),
    ("weblogs", None, {"filter": {"range": {"bytes": {"gte": 1_000_000}}}, "aggs": {"m": {"max": {"field": "bytes"}}}},
     f"SELECT NULL, count(*), max(n) FROM {of('bytes')} WHERE n >= 1000000"),
    ("mixed", None, {"terms": {"field": "tags", "size": 100}}, counts("t", of("tags"))),
    ("mixed", None, {"terms": {"field": "users.name"}, "aggs": {"a": {"avg": {"field": "users.age"}}}},
     f"SELECT u.t, count(DISTINCT u.doc), sum(a.s) / sum(a.c) FROM {of('users.name', 'doc, t')} u LEFT JOIN (SELECT doc, sum(n) AS s, count(*) AS c FROM vals WHERE field = 'users.age' GROUP BY doc) a USING (doc) GROUP BY u.t"),
    ("mixed", None, {"terms": {"field": "host.name", "missing": "none"}}, "SELECT coalesce(t, 'none') AS key, count(*) FROM docs LEFT JOIN (SELECT doc, t FROM vals WHERE field = 'host.name') USING (doc) GROUP BY key"),
    ("mixed", None, {"terms": {"field": "key with space"}}, counts("n", of("key with space"))),
    ("mixed", None, {"terms": {"field": "address", "size": 2000}}, counts("replace(t, '::ffff:10.', '10.')", of("address"))),
    ("mixed", None, {"terms": {"field": "Message"}}, counts("t", of("Message"))),
    ("mixed", None, {"histogram": {"field": "ratio", "interval": 2.5, "offset": 1, "min_doc_count": 1}}, counts("floor((n - 1) / 2.5) * 2.5 + 1", of("ratio"))),
    ("mixed", None, {"stats": {"field": "users.age"}}, f"SELECT NULL, NULL, {STATS} FROM vals WHERE field = 'users.age'"),
    ("mixed", None, {"stats": {"field": "size"}}, f"SELECT NULL, NULL, {STATS} FROM vals WHERE field = 'size'"),
    ("mixed", None, {"stats": {"field": "status"}}, f"SELECT NULL, NULL, {STATS} FROM vals WHERE field = 'status'"),
    ("mixed", None, {"cardinality": {"field": "count"}}, "SELECT NULL, NULL, count(DISTINCT t) FROM vals WHERE field = 'count'"),
    ("mixed", None, {"min": {"field": "@timestamp"}}, "SELECT NULL, NULL, min(us // 1000) FROM docs"),
    ("mixed", None, {"max": {"field": "when"}}, "SELECT NULL, NULL, max(us // 1000) FROM vals WHERE field = 'when'"),
    ("mixed", None, {"date_histogram": {"field": "when", "calendar_interval": "year", "min_doc_count": 1}},
     "SELECT epoch_ms(date_trunc('year', make_timestamp(us))), count(DISTINCT doc) FROM vals WHERE field = 'when' GROUP BY 1"),
    ("mixed", None, {"date_histogram": {"field": "@timestamp", "fixed_interval": "3h", "min_doc_count": 1}, "aggs": {"s": {"sum": {"field": "ratio"}}}},
     f"SELECT docs.us // 10800000000 * 10800000, count(DISTINCT doc), coalesce(sum(n), 0) FROM docs LEFT JOIN (SELECT doc, n FROM vals WHERE field = 'ratio') USING (doc) WHERE docs.us IS NOT NULL GROUP BY 1"),
    ("mixed", ({"range": {"ratio": {"gte": 0}}}, has("ratio", "n >= 0")), {"terms": {"field": "level"}, "aggs": {"t": {"terms": {"field": "Message"}}}},
     f"SELECT key, sum(c0), map_from_entries(list((m, c)) FILTER (m IS NOT NULL)) FROM (SELECT l.t AS key, m.t AS m, count(*) AS c, count(*) AS c0 FROM {of('level', 'doc, t')} l LEFT JOIN {of('Message', 'doc, t')} m USING (doc) WHERE {has('ratio', 'n >= 0')} GROUP BY ALL) GROUP BY key"),
]


@pytest.mark.parametrize("case", each(AGGREGATIONS), ids=lambda case: f"{case[0]}: {json.dumps(case[2])[:70]}")
def test_an_aggregation_counts_the_same(case, corpus):
    index, query, aggregation, sql = case
    corpus = corpus(index)
    body = {"size": 0, "aggs": {"a": aggregation}, **({"query": query[0]} if query else {})}
    answer = corpus.search(body)
    assert answers.same(answers.rows_of(answer["aggregations"]["a"]), answers.rows(corpus.oracle, sql), in_order=False)


def test_global_ignores_the_query(corpus):
    body = {"size": 0, "query": {"match_none": {}}, "aggs": {"a": {"global": {}, "aggs": {"c": {"value_count": {"field": "n"}}}}}}
    answer = corpus("mixed").search(body)["aggregations"]["a"]
    assert (answer["doc_count"], answer["c"]["value"]) == (3_000, 3_000)


def test_composite_pages_visit_every_bucket_once(corpus):
    corpus = corpus("mixed")
    composite = {"size": 7, "sources": [{"l": {"terms": {"field": "level"}}}, {"h": {"terms": {"field": "host.name"}}}]}
    seen, after = [], None
    while True:
        page = corpus.search({"size": 0, "aggs": {"a": {"composite": {**composite, **({"after": after} if after else {})}}}})
        page = page["aggregations"]["a"]
        if not page["buckets"]:
            break
        seen += answers.rows_of(page)
        after = page["after_key"]
    sql = f"SELECT {{'h': h.t, 'l': l.t}}, count(*) FROM {of('level', 'doc, t')} l JOIN {of('host.name', 'doc, t')} h USING (doc) GROUP BY ALL"
    assert answers.same(seen, answers.rows(corpus.oracle, sql), in_order=False)


@pytest.mark.parametrize("name", found("weblogs"))
def test_percentiles_are_exact_for_few_values_and_near_for_many(name, corpus):
    corpus, points = corpus(name), [1, 5, 25, 50, 75, 95, 99]
    for query, where, error in [({"match_all": {}}, "true", 0.005), ({"term": {"response": 404}}, has("response", "n = 404"), 1e-9)]:
        body = {"size": 0, "query": query, "aggs": {"a": {"percentiles": {"field": "bytes", "percents": points}}}}
        answer = corpus.search(body)["aggregations"]["a"]
        values = sorted(n for (n,) in corpus.oracle.rows(f"SELECT n FROM vals WHERE field = 'bytes' AND doc IN (SELECT doc FROM docs WHERE {where})"))
        assert ("meta" in answer) == (len(values) > 1_000)
        for point in points:
            ours = answer["values"][f"{point}.0"]
            # Any value between the two neighbours of the rank is a percentile.
            low, high = (values[min(len(values) - 1, max(0, int(len(values) * point / 100) + step))] for step in (-1, 1))
            assert low * (1 - error) <= ours <= high * (1 + error), (point, low, ours, high)


def test_top_hits_are_the_first_of_each_bucket(corpus):
    corpus = corpus("mixed")
    top = {"top_hits": {"size": 3, "sort": [{"n": "desc"}], "_source": ["n"]}}
    answer = corpus.search({"size": 0, "aggs": {"a": {"terms": {"field": "level"}, "aggs": {"t": top}}}})["aggregations"]["a"]
    found = {bucket["key"]: [hit["_source"]["n"] for hit in bucket["t"]["hits"]["hits"]] for bucket in answer["buckets"]}
    sql = f"SELECT l.t, list(k.n ORDER BY k.n DESC)[:3] FROM {of('level', 'doc, t')} l JOIN {of('n', 'doc, n')} k USING (doc) GROUP BY l.t"
    assert answers.same([[key, found[key]] for key in found], answers.rows(corpus.oracle, sql), in_order=False)


def test_what_a_hit_shows(corpus):
    corpus = corpus("mixed")
    body = {"query": {"term": {"n": 7}}, "_source": {"includes": ["host.*", "n", "users"], "excludes": ["users.age"]}, "fields": ["n", "tags", "users.name"]}
    (hit,) = corpus.search(body)["hits"]["hits"]
    (whole,) = (json.loads(source) for source in corpus.oracle.sources(has("n", "n = 7")))
    expected = {"n": 7}
    if isinstance(whole.get("host"), dict):
        expected["host"] = whole["host"]
    if whole.get("users"):
        expected["users"] = [{"name": user["name"]} for user in whole["users"]]
    assert {name: value for name, value in hit["_source"].items() if value} == expected
    assert hit["fields"]["n"] == [7]
    # A document is shown byte for byte, and found again by its `_id`.
    (again,) = corpus.search({"query": {"ids": {"values": [hit["_id"]]}}})["hits"]["hits"]
    assert again["_source"] == whole and again["_score"] is None and again["_index"] == "mixed"


def test_totals_and_post_filters(corpus):
    corpus = corpus("mixed")
    ok, where = {"term": {"level": "info"}}, said("level", "info")
    total = corpus.oracle.count(where)
    assert corpus.search({"query": ok, "track_total_hits": 10})["hits"]["total"] == {"value": 10, "relation": "gte"}
    assert corpus.search({"query": ok, "track_total_hits": 100_000})["hits"]["total"] == {"value": total, "relation": "eq"}
    assert "total" not in corpus.search({"query": ok, "track_total_hits": False})["hits"]
    both = corpus.search({"query": ok, "post_filter": {"range": {"ratio": {"gte": 0}}}, "aggs": {"a": {"value_count": {"field": "level"}}}})
    assert both["hits"]["total"]["value"] == corpus.oracle.count(f"{where} AND {has('ratio', 'n >= 0')}")
    assert both["aggregations"]["a"]["value"] == total


# The same text in both, over tables of the same columns.
SQL = [
    'SELECT count(*) FROM weblogs',
    'SELECT "response", count(*), sum("bytes"), min("bytes"), max("bytes") FROM weblogs GROUP BY "response"',
    'SELECT "clientip", count(*) AS hits FROM weblogs GROUP BY "clientip" HAVING count(*) > 20',
    'SELECT "verb", "response", count(DISTINCT "clientip") FROM weblogs GROUP BY "verb", "response"',
    """SELECT "path", "bytes" FROM weblogs WHERE "response" = 404 AND "bytes" > 300""",
    """SELECT count(*) FROM weblogs WHERE "path" LIKE '/images/%' AND "response" <> 200""",
    """SELECT count(*) FROM weblogs WHERE "agent" LIKE '%bot%' OR "agent" IS NULL""",
    """SELECT count(*) FROM weblogs WHERE "agent" NOT LIKE '%Mozilla%'""",
    """SELECT count(*) FROM weblogs WHERE NOT ("response" = 200 AND "verb" = 'GET')""",
    """SELECT "path" FROM weblogs WHERE "path" IN ('/favicon.ico', '/robots.txt')""",
    """SELECT count(*) FROM weblogs WHERE "response" NOT IN (200, 304)""",
    """SELECT count(*) FROM weblogs WHERE "bytes" BETWEEN 1000 AND 2000""",
    """SELECT count(*) FROM weblogs WHERE "bytes" IS NULL""",
    """SELECT count(*) FROM weblogs WHERE "@timestamp" >= TIMESTAMP '2015-05-18 00:00:00' AND "@timestamp" < TIMESTAMP '2015-05-19 00:00:00'""",
    """SELECT date_trunc('hour', "@timestamp") AS h, count(*) FROM weblogs GROUP BY h""",
    """SELECT "referrer", avg("bytes") FROM weblogs WHERE "referrer" IS NOT NULL GROUP BY "referrer" ORDER BY 2 DESC NULLS LAST, 1 LIMIT 10""",
    """SELECT a."verb", count(*) FROM weblogs a JOIN weblogs b ON a."clientip" = b."clientip" AND b."response" = 403 GROUP BY a."verb\"""",
    """SELECT CASE WHEN "bytes" > 10000 THEN 'large' ELSE 'small' END AS size, count(*) FROM weblogs GROUP BY size""",
]
COLUMNS = {"response": "BIGINT", "bytes": "BIGINT", "clientip": "VARCHAR", "verb": "VARCHAR", "path": "VARCHAR", "agent": "VARCHAR",
           "referrer": "VARCHAR", "@timestamp": "TIMESTAMP"}


@pytest.fixture(scope="module")
def wide(weblogs):
    """The documents as a table with a column for each field."""
    answers.make_wide(weblogs.oracle, "weblogs", COLUMNS)
    return weblogs


@pytest.mark.parametrize("query", SQL)
def test_sql_gives_the_same_rows(query, wide):
    rows = [[answers.plain(value) for value in row] for row in wide.frostline.sql(query)]
    assert answers.same(rows, answers.rows(wide.oracle, query), in_order="ORDER BY" in query)


def test_sql_finds_words_and_documents(weblogs):
    for mode, condition in [("and", f"{word('googlebot')} AND {word('compatible')}"), ("or", f"{word('googlebot')} OR {word('compatible')}")]:
        found = weblogs.frostline.sql(f"""SELECT "_source" FROM weblogs WHERE match("agent", 'Googlebot compatible', '{mode}')""")
        expected = Counter(weblogs.oracle.sources(has("agent", condition)))
        assert Counter(canonical(json.loads(source)) for (source,) in found) == expected
