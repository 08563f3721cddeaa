"""Indices that are searched together give what each of them gives alone."""

import json
import subprocess

import pytest

MAPPINGS = {
    "x": {"properties": {"f": {"type": "keyword"}, "al": {"type": "text", "fields": {"raw": {"type": "keyword"}}}}},
    "y": {"properties": {"f": {"type": "text"}}},
}
DOCUMENTS = {
    "x": [{"u": 1, "f": "a word", "al": "x y"}, {"u": 2, "f": "word"}],
    "y": [{"u": 3, "f": "a word"}, {"u": 4, "f": "Word"}],
    "z": [{"u": 5, "f": "a word", "al": "x y"}, {"u": 6, "f": "word"}],
    "w": [{"u": 7}],
}


@pytest.fixture(scope="module")
def declared(session_frostline, tmp_path_factory):
    for name, documents in DOCUMENTS.items():
        options = []
        if name in MAPPINGS:
            path = tmp_path_factory.mktemp("mappings") / f"{name}.json"
            path.write_text(json.dumps({"mappings": MAPPINGS[name]}))
            options = ["--mapping", path]
        session_frostline.ingest(f"declared-{name}", documents, *options)
    return session_frostline


def found(frostline, names, query):
    expression = ",".join(f"declared-{name}" for name in names)
    answer = frostline.search(expression, {"size": 100, "query": query})
    assert answer["hits"]["total"]["value"] == len(answer["hits"]["hits"])
    counted = frostline.search(expression, {"size": 0, "query": query, "aggs": {"u": {"sum": {"field": "u"}}}})
    assert counted["hits"]["total"]["value"] == len(answer["hits"]["hits"])
    assert counted["aggregations"]["u"]["value"] == sum(hit["_source"]["u"] for hit in answer["hits"]["hits"])
    return {hit["_source"]["u"] for hit in answer["hits"]["hits"]}


QUERIES = [
    {"query_string": {"query": "f:word"}},
    {"query_string": {"query": "f:wor*"}},
    {"query_string": {"query": "f:WORD"}},
    {"query_string": {"query": 'al.raw:"x y"'}},
    {"match": {"f": "word"}},
    {"term": {"f": "word"}},
    {"prefix": {"f": "wo"}},
    {"wildcard": {"f": "w*d"}},
    {"regexp": {"f": "[a-z]ord"}},
    {"exists": {"field": "al.raw"}},
    {"bool": {"must_not": [{"match": {"f": "word"}}]}},
]


@pytest.mark.parametrize("query", QUERIES, ids=json.dumps)
def test_each_index_reads_a_query_by_its_own_declarations(declared, query):
    alone = [found(declared, name, query) for name in DOCUMENTS]
    assert found(declared, DOCUMENTS, query) == set().union(*alone)


def test_the_sample_tells_declarations_apart(declared):
    assert [found(declared, name, QUERIES[0]) for name in DOCUMENTS] == [{2}, {3, 4}, {5, 6}, set()]


def test_since_until_and_exports_go_by_the_time_of_the_indices(frostline):
    frostline.ingest(
        "w",
        [
            {"u": 1, "when": "2024-01-01T00:00:00Z", "@timestamp": "2030-01-01T00:00:00Z"},
            {"u": 2, "when": "2024-01-02T00:00:00Z", "@timestamp": "2020-01-01T00:00:00Z"},
            {"u": 3, "when": "2024-01-03T00:00:00Z"},
        ],
        "--time-field",
        "when",
    )
    frostline.ingest("v", [{"u": 4, "when": "2024-01-02T12:00:00Z"}], "--time-field", "when")
    for names, since, until, expected in [
        ("w", "2024-01-02", "2025", [2, 3]),
        ("v", "2024-01-02", "2025", [4]),
        ("w,v", "2024-01-02", "2025", [2, 3, 4]),
        ("w,v", "2023", "2024-01-02T06:00:00Z", [1, 2]),
    ]:
        answer = frostline.ok("search", "--index", names, "--since", since, "--until", until)
        assert sorted(hit["_source"]["u"] for hit in answer["hits"]["hits"]) == expected, (names, since)
    command = [word for word in frostline.command("search", "--index", "w,v", "--all") if word != "--json"]
    exported = subprocess.run(command, capture_output=True, text=True, env=frostline.clean_environment()).stdout
    assert [json.loads(line)["u"] for line in exported.splitlines()] == [1, 2, 4, 3]


def test_a_misspelt_time_field_can_be_given_again(frostline, tmp_path):
    path = tmp_path / "a.ndjson"
    path.write_text('{"u": 1, "when": "2024-01-01T00:00:00Z"}\n')
    frostline.ingest("other", [{"u": 2, "@timestamp": "2024-01-02T00:00:00Z"}])
    frostline.fails("ingest", "--index", "misspelt", "--time-field", "wen", path, says=["nothing was ingested into misspelt"])
    assert [index["index"] for index in frostline.ok("index", "list")["indices"]] == ["other"]
    frostline.ok("ingest", "--index", "misspelt", "--time-field", "when", path)
    since = frostline.ok("search", "--index", "misspelt", "--since", "2023", "--until", "2025")
    assert since["hits"]["total"]["value"] == 1
    found = frostline.ok("sql", 'select u from "misspelt,other" where "@timestamp" is not null order by "@timestamp"')
    assert found["rows"] == [[1], [2]]


def test_each_index_is_searched_by_its_own_time_field(frostline):
    frostline.ingest("a", [{"u": n, "@timestamp": f"2024-01-0{n}T00:00:00Z"} for n in [1, 3, 5]])
    frostline.ingest("b", [{"u": n, "when": f"2024-01-0{n}T00:00:00Z"} for n in [2, 4]], "--time-field", "when")

    def found(index, **body):
        return [hit["_source"]["u"] for hit in frostline.search(index, {"size": 100, **body})["hits"]["hits"]]

    for order, expected in [("asc", [1, 2, 3, 4, 5]), ("desc", [5, 4, 3, 2, 1])]:
        assert found("*", sort=[{"@timestamp": order}]) == expected
    since = {"gte": "2024-01-03"}
    for name, expected in [("@timestamp", {3, 4, 5}), ("when", {4})]:
        assert set(found("*", query={"range": {name: since}})) == expected
        assert set(found("*", query={"query_string": {"query": f"{name}:>=2024-01-03"}})) == expected
    assert set(found("*", query={"exists": {"field": "when"}})) == {2, 4}
    by_day = {"date_histogram": {"field": "@timestamp", "fixed_interval": "2d"}, "aggs": {"u": {"sum": {"field": "u"}}}}
    late = {"filter": {"range": {"@timestamp": since}}}
    answer = frostline.search("*", {"size": 0, "aggs": {"by_day": by_day, "late": late}})["aggregations"]
    assert [bucket["u"]["value"] for bucket in answer["by_day"]["buckets"]] == [1, 5, 9]
    assert answer["late"]["doc_count"] == 3
    hits = frostline.ok("search", "--index", "*", "--since", "2024-01-02", "--until", "2024-01-04")["hits"]["hits"]
    assert {hit["_source"]["u"] for hit in hits} == {2, 3}
    command = [word for word in frostline.command("search", "--index", "*", "--all") if word != "--json"]
    exported = subprocess.run(command, capture_output=True, text=True, env=frostline.clean_environment()).stdout
    assert [json.loads(line)["u"] for line in exported.splitlines()] == [1, 2, 3, 4, 5]
    # What is the time of some and not of others has no meaning for all.
    assert found("*", sort=["when", "u"]) == [2, 4, 1, 3, 5]
    for body in [{"aggs": {"last": {"max": {"field": "when"}}}}, {"collapse": {"field": "when"}}]:
        frostline.fails("search", "--index", "*", "--body", json.dumps(body), says=['"when" is the time of the documents of b'])
    frostline.ingest("c", [{"u": 6, "when": "2024-01-06T00:00:00Z", "@timestamp": "2030-01-01T00:00:00Z"}], "--time-field", "when")
    assert set(found("*", query={"range": {"@timestamp": since}})) == {3, 4, 5, 6}
    frostline.fails("search", "--index", "*", "--since", "2024-01-02", says=["search them separately"])
    assert found("*", sort=["@timestamp"]) == [1, 2, 3, 4, 5, 6]


def test_indices_are_chosen_by_a_condition_on_their_name(frostline):
    for name in ["web-1", "web-2", "app"]:
        frostline.ingest(name, [{"name": name, "n": n} for n in range(2)])

    def found(query, **body):
        answer = frostline.search("*", {"size": 100, "query": query, **body})
        names = sorted(hit["_source"]["name"] for hit in answer["hits"]["hits"])
        assert answer["hits"]["total"]["value"] == len(names) or "post_filter" in body
        counted = frostline.search("*", {"size": 0, "query": query, "aggs": {"n": {"value_count": {"field": "n"}}}})
        assert counted["aggregations"]["n"]["value"] == answer["hits"]["total"]["value"] or "post_filter" in body
        # Of the others no split is opened.
        opened = answer["cost"]["splits"]["opened"]
        assert opened <= len(set(names)) or "post_filter" in body, (query, opened)
        return names

    all_of = {name: [name] * 2 for name in ["app", "web-1", "web-2"]}
    webs = all_of["web-1"] + all_of["web-2"]
    for query, expected in [
        ({"term": {"_index": "web-1"}}, all_of["web-1"]),
        ({"term": {"_index": {"value": "WEB-1", "case_insensitive": True}}}, all_of["web-1"]),
        ({"term": {"_index.keyword": "web-1"}}, all_of["web-1"]),
        ({"term": {"_index": "web"}}, []),
        ({"term": {"_index": "web-*"}}, webs),
        ({"terms": {"_index": ["web-1", "app", "gone"]}}, all_of["app"] + all_of["web-1"]),
        ({"prefix": {"_index": "web"}}, webs),
        ({"wildcard": {"_index": "*-2"}}, all_of["web-2"]),
        ({"regexp": {"_index": "web-[0-9]"}}, webs),
        ({"match": {"_index": "app"}}, all_of["app"]),
        ({"exists": {"field": "_index"}}, all_of["app"] + webs),
        ({"query_string": {"query": "_index:web-1 OR _index:app"}}, all_of["app"] + all_of["web-1"]),
        ({"query_string": {"query": "_index:web* AND n:1"}}, ["web-1", "web-2"]),
        ({"bool": {"must_not": [{"term": {"_index": "app"}}], "filter": [{"term": {"n": 0}}]}}, ["web-1", "web-2"]),
        ({"bool": {"should": [{"term": {"_index": "app"}}, {"term": {"n": 1}}]}}, ["app", "app", "web-1", "web-2"]),
    ]:
        assert found(query) == expected, query
    assert found({"match_all": {}}, post_filter={"term": {"_index": "web-2"}}) == all_of["web-2"]
    named = {"bool": {"should": [{"term": {"_index": {"value": "app", "_name": "its"}}}, {"match_all": {}}]}}
    hits = frostline.search("*", {"size": 100, "query": named})["hits"]["hits"]
    assert {hit["_index"] for hit in hits if hit.get("matched_queries") == ["its"]} == {"app"}
    # A document's own field of this name is another one.
    frostline.ingest("own", [{"_index": "app", "name": "own", "n": 0}])
    assert found({"term": {"_index": "app"}}) == all_of["app"]
    counted = frostline.search("*", {"size": 0, "aggs": {"of": {"terms": {"field": "_index"}}, "app": {"filter": {"term": {"_index": "app"}}}}})
    buckets = {bucket["key"]: bucket["doc_count"] for bucket in counted["aggregations"]["of"]["buckets"]}
    assert (buckets, counted["aggregations"]["app"]["doc_count"]) == ({"app": 2, "web-1": 2, "web-2": 2, "own": 1}, 2)
    hits = frostline.search("*", {"size": 100, "sort": [{"_index": "desc"}, "n"]})["hits"]["hits"]
    assert [hit["sort"] for hit in hits] == [[name, n] for name in ["web-2", "web-1", "own", "app"] for n in range(1 if name == "own" else 2)]
    frostline.fails("search", "--index", "*", "--body", json.dumps({"query": {"range": {"_index": {"gt": "a"}}}}), says=["_index"])
    collapsed = frostline.search("*", {"collapse": {"field": "_index"}, "sort": [{"_index": "asc"}]})["hits"]["hits"]
    assert [hit["fields"]["_index"] for hit in collapsed] == [["app"], ["own"], ["web-1"], ["web-2"]]
