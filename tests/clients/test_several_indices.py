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
    frostline.fails("search", "--index", "misspelt,other", "u:1", says=['"when" in misspelt', '"@timestamp" in other'])
