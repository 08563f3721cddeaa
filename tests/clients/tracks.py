"""Searches of public benchmarks in the form in which tests need them: a body to send, and an oracle of the answer over documents.

A filter says which documents a query finds, an aggregation what it answers of them. Fields are named by their paths, and a document
is a dictionary of paths.
"""

import statistics
from datetime import UTC, datetime


class Filter:
    def __init__(self, query, matches):
        self.query, self.matches = query, matches

    def __invert__(self):
        return Filter({"bool": {"must_not": [self.query]}}, lambda document: not self.matches(document))

    def __or__(self, other):
        query = {"bool": {"should": [self.query, other.query], "minimum_should_match": 1}}
        return Filter(query, lambda document: self.matches(document) or other.matches(document))


def phrase(field, value):
    """What a pill of Kibana's filter bar asks."""
    return Filter({"match_phrase": {field: value}}, lambda document: str(document.get(field)) == str(value))


def kql(field, value):
    """What `field : value` of Kibana's query bar asks."""
    inner = {"bool": {"should": [{"match": {field: value}}], "minimum_should_match": 1}}
    return Filter(inner, lambda document: str(document.get(field)) == str(value))


def dataset(*names):
    found = phrase("data_stream.dataset", names[0])
    for name in names[1:]:
        found = found | kql("data_stream.dataset", name)
    return found


def exists(field):
    inside = lambda path: path == field or path.startswith(field + ".")  # noqa: E731
    return Filter({"bool": {"should": [{"exists": {"field": field}}], "minimum_should_match": 1}}, lambda document: any(map(inside, document)))


def prefix(field, value):
    return Filter({"prefix": {field: value}}, lambda document: str(document.get(field, "")).startswith(value))


def at_least(field, value):
    return Filter({"bool": {"should": [{"range": {field: {"gte": str(value)}}}], "minimum_should_match": 1}}, lambda document: document.get(field, value - 1) >= value)


def between(field, low, high):
    """Numbers as texts, as Kibana writes them."""
    return Filter({"range": {field: {"gte": str(low), "lte": str(high)}}}, lambda document: low <= document.get(field, low - 1) <= high)


def lucene(text, matches, **options):
    return Filter({"query_string": {"query": text, **options}}, matches)


def anywhere(text, matches, how="phrase"):
    """Text in any field."""
    return Filter({"multi_match": {"type": how, "query": text, "lenient": True}}, matches)


class Aggregation:
    """One aggregation with those inside it. `check` compares its answer over documents with what it should be."""

    def __init__(self, kind, body, check, subs=()):
        self.kind, self.own, self.check_own, self.subs = kind, body, check, subs

    def body(self):
        inside = {str(at): sub.body() for at, sub in enumerate(self.subs)}
        return {self.kind: self.own, **({"aggs": inside} if inside else {})}

    def check(self, answer, documents):
        self.check_own(self, answer, documents)

    def check_inside(self, bucket, documents):
        assert bucket["doc_count"] == len(documents), bucket
        for at, sub in enumerate(self.subs):
            # A pipeline has nothing to say of a bucket without a value.
            sub.check(bucket.get(str(at), {}) | {"doc_count": bucket["doc_count"]}, documents)


def values(field, documents):
    return [document[field] for document in documents if field in document]


def groups(key, documents):
    found = {}
    for document in documents:
        if (value := key(document)) is not None:
            found.setdefault(value, []).append(document)
    return found


def terms(field, *subs, size=5, by=None):
    """The most frequent values, or those whose sub-aggregation `by` is largest."""

    def check(self, answer, documents):
        expected = groups(lambda document: document.get(field), documents)
        counts = sorted(map(len, expected.values()), reverse=True)
        if by is None:
            assert [bucket["doc_count"] for bucket in answer["buckets"]] == counts[:size]
        else:
            order = [bucket[str(by)]["value"] for bucket in answer["buckets"]]
            assert len(order) == min(size, len(counts)) and order == sorted(order, reverse=True)
        assert answer["sum_other_doc_count"] == sum(counts) - sum(bucket["doc_count"] for bucket in answer["buckets"])
        for bucket in answer["buckets"]:
            self.check_inside(bucket, expected[bucket["key"]])

    order = {"_count" if by is None else str(by): "desc"}
    return Aggregation("terms", {"field": field, "order": order, "size": size}, check, subs)


SECONDS = {"s": 1, "m": 60, "h": 3600}


def milliseconds(document):
    return round(datetime.fromisoformat(document["@timestamp"]).replace(tzinfo=UTC).timestamp() * 1000)


def over(interval, *subs, bounds=None):
    """Buckets of time; with bounds the empty ones between these, too."""
    step = int(interval[:-1]) * SECONDS[interval[-1]] * 1000

    def check(self, answer, documents):
        expected = groups(lambda document: milliseconds(document) // step * step, documents)
        keys = [bucket["key"] for bucket in answer["buckets"]]
        if bounds:
            first, last = min([bounds[0] // step * step, *expected]), max([bounds[1] // step * step, *expected])
            assert keys == list(range(first, last + 1, step))
        else:
            assert keys == sorted(expected)
        for bucket in answer["buckets"]:
            self.check_inside(bucket, expected.get(bucket["key"], []))

    body = {"field": "@timestamp", "fixed_interval": interval, "time_zone": "UTC", "min_doc_count": 0 if bounds else 1}
    if bounds:
        body["extended_bounds"] = {"min": bounds[0], "max": bounds[1]}
    return Aggregation("date_histogram", body, check, subs)


def named_filters(named, *subs):
    def check(self, answer, documents):
        for name, filter_ in named.items():
            self.check_inside(answer["buckets"][name], [document for document in documents if filter_.matches(document)])

    return Aggregation("filters", {"filters": {name: filter_.query for name, filter_ in named.items()}}, check, subs)


def metric(kind, field, of):
    def check(_, answer, documents):
        found = values(field, documents)
        expected = of(found) if found else (0 if kind in ("sum", "cardinality") else None)
        assert answer["value"] == expected or abs(answer["value"] - expected) < 1e-6 * abs(expected), answer

    return Aggregation(kind, {"field": field}, check)


def total(field):
    return metric("sum", field, sum)


def largest(field):
    return metric("max", field, max)


def mean(field):
    return metric("avg", field, statistics.fmean)


def distinct(field):
    return metric("cardinality", field, lambda found: len(set(found)))


def percentile(field, percent):
    def check(_, answer, documents):
        value, found = next(iter(answer["values"].values())), values(field, documents)
        if not found:
            assert value is None
        elif percent == 50 and len(found) <= 1_000:
            assert abs(value - statistics.median(found)) < 1e-6 * max(found)
        else:
            assert min(found) <= value <= max(found) * 1.005

    return Aggregation("percentiles", {"field": field, "percents": [percent]}, check)


def count_script():
    """The number of documents by way of a script, as TSVB asks for it."""

    def check(_, answer, documents):
        assert answer["value"] == len(documents)

    return Aggregation(
        "bucket_script", {"buckets_path": {"count": "_count"}, "script": {"source": "count * 1", "lang": "expression"}, "gap_policy": "skip"}, check)


def moving_average(of):
    """The mean of the buckets before this one: a number, or nothing in the first."""

    def check(_, answer, documents):
        assert answer.get("value") is None or isinstance(answer["value"], (int, float))

    return Aggregation("moving_fn", {"buckets_path": str(of), "window": 5, "script": "MovingFunctions.unweightedAvg(values)"}, check)


def grid(field, *subs):
    """The squares of a map."""
    def anything(*_):
        pass

    def inside(self, answer, documents):
        self.check_inside(answer, [document for document in documents if field in document])

    def counted(self, answer, documents):
        assert sum(bucket["doc_count"] for bucket in answer["buckets"]) == len(values(field, documents))

    centre = Aggregation("geo_centroid", {"field": field}, anything)
    squares = Aggregation("geohash_grid", {"field": field, "precision": 2}, counted, (centre, *subs))
    world = {"geo_bounding_box": {"ignore_unmapped": True, field: {"top_left": {"lat": 90, "lon": -180}, "bottom_right": {"lat": -90, "lon": 180}}}}
    return Aggregation("filter", world, inside, (squares,))
