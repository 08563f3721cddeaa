"""Answers of both sides in one form: rows of plain values, with numbers compared as numbers."""

import math
import re
from datetime import UTC, datetime


def same(ours, theirs, in_order=True):
    """Whether two lists of rows are equal; shows the first rows that are not."""
    if not in_order:
        ours, theirs = sorted(ours, key=sortable), sorted(theirs, key=sortable)
    for at, (left, right) in enumerate(zip(ours, theirs)):
        assert equal(left, right), f"row {at}: {left} is not {right}, which DuckDB has"
    assert len(ours) == len(theirs), f"{len(ours)} rows, DuckDB has {len(theirs)}: {(ours + theirs)[min(len(ours), len(theirs)):][:3]}"
    return True


def equal(left, right):
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if is_number(left) and is_number(right):
        return left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return left == right


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def sortable(value):
    """A key that orders rows of numbers, texts and nulls."""
    if isinstance(value, (list, tuple)):
        return (4, [sortable(item) for item in value])
    if isinstance(value, dict):
        return (5, sorted((str(name), sortable(item)) for name, item in value.items()))
    if value is None:
        return (0, 0)
    return (1, float(value)) if isinstance(value, (int, float)) else (2, str(value))


def plain(value):
    """A value as both sides can write it: times as milliseconds, whole numbers without a fraction."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000, 3)
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?", value):
        return plain(datetime.fromisoformat(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return plain(float(value))  # decimals and huge integers of sums


def rows(oracle, sql):
    return [[plain(value) for value in row] for row in oracle.rows(sql)]


def rows_of(answer):
    """An aggregation's answer as rows: key, documents, values of metrics below, or of the terms below as {key: documents}."""
    buckets = answer.get("buckets", [answer])
    if isinstance(buckets, dict):
        buckets = [{"key": name, **bucket} for name, bucket in buckets.items()]
    return [bucket_row(bucket) for bucket in buckets]


def bucket_row(bucket):
    if not bucket.keys() & {"key", "doc_count"}:
        return [None, None, *metric_values(bucket)]
    below = [value for value in bucket.values() if isinstance(value, dict) and value is not bucket.get("key")]
    return [plain(bucket.get("key")), bucket["doc_count"], *(value for child in below for value in child_values(child))]


def child_values(child):
    if "buckets" in child:
        return [{plain(bucket["key"]): bucket["doc_count"] for bucket in child["buckets"]}]
    return metric_values(child)


def metric_values(metric):
    """The numbers of a metric in the order of Elasticsearch, without those that are another's string or bound."""
    names = ["value", "count", "min", "max", "avg", "sum", "sum_of_squares", "variance", "variance_population", "variance_sampling",
             "std_deviation", "std_deviation_population", "std_deviation_sampling"]
    return [plain(metric[name]) for name in names if name in metric]


def sort_values(oracle, keys, limit=None):
    """The sort values of all documents, in order. `first('f', n)` is the smallest value of a field, `last` the largest."""
    keys = [re.sub(r"(first|last)\('([^']+)', (\w+)\)", extreme, key) for key in keys]
    columns = [re.sub(r" (ASC|DESC)( NULLS (FIRST|LAST))?$", "", key) for key in keys]
    found = oracle.rows(f"SELECT {', '.join(columns)} FROM docs ORDER BY {', '.join(keys)} {f'LIMIT {limit}' if limit else ''}")
    times = [column == "us" or "(us)" in column for column in columns]
    return [[value / 1000 if time and value is not None else value for value, time in zip(row, times)] for row in found]


def extreme(match):
    function = {"first": "min", "last": "max"}[match[1]]
    return f"(SELECT {function}({match[3]}) FROM vals WHERE vals.doc = docs.doc AND field = '{match[2]}')"


def make_wide(oracle, name, columns):
    """A table with a column for each field, as SQL over an index sees it."""
    quoted = ", ".join(f"""(source ->> '$."{field}"')::{kind} AS "{field}\"""" for field, kind in columns.items())
    oracle.db.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT {quoted}, source AS _source FROM docs")
