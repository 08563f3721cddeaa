"""Random questions by seed, answered by the query DSL, by SQL and by DuckDB.

FROSTLINE_TEST_SEEDS is a list such as `1,2,40-50`. A failure names its seed and question; the seed alone repeats it.
"""

import json
import os
import random

import pytest

import answers
from oracle import has, inside, moment, text
from test_answers import check_filter

DSL_QUESTIONS, AGGREGATIONS, SQL_QUESTIONS = 12, 5, 6

NUMBERS = ["count", "size", "ratio", "n", "users.age", "host.cpu", "key with space", "status", "numbers"]
TEXTS = ["host.name", "level", "Message", "tags", "path", "message", "users.name", "dotted.name", "flag"]
# DuckDB does not tell `message` from `Message`.
PLAIN = {"count": "DOUBLE", "size": "DOUBLE", "ratio": "DOUBLE", "n": "BIGINT", "level": "VARCHAR", "message": "VARCHAR",
         "path": "VARCHAR", "key with space": "BIGINT", "@timestamp": "VARCHAR", "when": "VARCHAR"}


def seeds():
    words = os.environ.get("FROSTLINE_TEST_SEEDS", "1-5").split(",")
    ends = [word.partition("-") for word in words]
    return [seed for first, _, last in ends for seed in range(int(first), int(last or first) + 1)]


class Questions:
    """A source of random questions about an index, each as DSL and as SQL."""

    def __init__(self, seed, oracle):
        self.draw = random.Random(seed)
        self.values = {}
        for field, kind, value in oracle.rows("SELECT field, kind, t FROM (SELECT DISTINCT field, kind, t FROM vals) ORDER BY ALL"):
            self.values.setdefault((field, kind), []).append(value)

    def value(self, field, *kinds):
        known = [value for kind in kinds for value in self.values.get((field, kind), [])]
        return self.draw.choice(known)

    def number(self, field):
        """A value of the field, or a number near one."""
        value = json.loads(self.value(field, "long", "double"))
        if self.draw.random() < 0.3:
            value += self.draw.choice([-1, 1, 0.5, -0.25])
        return value if abs(value) < 2**53 else self.draw.randrange(1000)

    def tree(self, depth=3):
        if depth == 0 or self.draw.random() < 0.35:
            return self.draw.choice([self.term_number, self.term_text, self.terms, self.range_number, self.range_text, self.time, self.date,
                                     self.exists, self.pattern, self.address])()
        return self.boolean(depth - 1)

    def boolean(self, depth):
        clauses = {"must": [], "filter": [], "should": [], "must_not": []}
        for _ in range(self.draw.randrange(1, 5)):
            clauses[self.draw.choice(list(clauses))].append(self.tree(depth))
        body = {name: [dsl for dsl, _ in parts] for name, parts in clauses.items() if parts}
        needed = [sql for name in ("must", "filter") for _, sql in clauses[name]]
        minimum = 0 if needed else 1
        if clauses["should"] and self.draw.random() < 0.5:
            # As in Lucene, a bool without required clauses wants one optional clause, even where 0 is asked for.
            body["minimum_should_match"] = self.draw.randrange(len(clauses["should"]) + 1)
            minimum = max(minimum, body["minimum_should_match"])
        if clauses["should"]:
            needed.append(" + ".join(f"({sql})::INT" for _, sql in clauses["should"]) + f" >= {minimum}")
        needed += [f"NOT ({sql})" for _, sql in clauses["must_not"]]
        return {"bool": body}, " AND ".join(f"({sql})" for sql in needed)

    def term_number(self):
        field = self.draw.choice(NUMBERS)
        value = self.number(field)
        return {"term": {field: value}}, has(field, equals_number(value))

    def term_text(self):
        field = self.draw.choice(TEXTS)
        value = self.value(field, "text", "bool")
        return {"term": {field: value}}, has(field, f"t = {text(value)}")

    def terms(self):
        field = self.draw.choice(TEXTS)
        values = [self.value(field, "text") for _ in range(self.draw.randrange(1, 5))]
        return {"terms": {field: values}}, has(field, " OR ".join(f"t = {text(value)}" for value in values))

    def range_number(self):
        field = self.draw.choice(NUMBERS)
        bounds = self.bounds(lambda: self.number(field))
        numbers = " AND ".join(f"n {SIGNS[name]} {value}" for name, value in bounds.items())
        words = " AND ".join(f"t {SIGNS[name]} {text(value)}" for name, value in bounds.items())
        return {"range": {field: bounds}}, has(field, f"({numbers}) OR (kind = 'text' AND {words})")

    def range_text(self):
        field = self.draw.choice([field for field in TEXTS if field != "flag"])
        bounds = self.bounds(lambda: self.value(field, "text"))
        words = " AND ".join(f"t {SIGNS[name]} {text(value)}" for name, value in bounds.items())
        return {"range": {f"{field}.keyword": bounds}}, has(field, words)

    def time(self):
        bounds = self.bounds(lambda: f"2024-01-0{self.draw.randrange(1, 4)}T{self.draw.randrange(24):02}:{self.draw.choice(['00', '17'])}:00.000Z")
        times = [f"us {SIGNS[name]} {bound_us(name, value)}" for name, value in bounds.items()]
        return {"range": {"@timestamp": bounds}}, f"coalesce({' AND '.join(times)}, false)"

    def date(self):
        bounds = self.bounds(lambda: f"20{self.draw.randrange(13, 24)}-0{self.draw.randrange(1, 10)}-1{self.draw.randrange(10)}T00:00:00.000Z")
        times = " AND ".join(f"us {SIGNS[name]} {bound_us(name, value)}" for name, value in bounds.items())
        return {"range": {"when": bounds}}, has("when", times)

    def bounds(self, make):
        lower, upper = self.draw.choice(["gt", "gte"]), self.draw.choice(["lt", "lte"])
        names = self.draw.choice([[lower], [upper], [lower, upper], [lower, upper]])
        return {name: make() for name in names}

    def exists(self):
        field = self.draw.choice([*NUMBERS, *TEXTS, "when", "address", "nothing", "rare_3"])
        return {"exists": {"field": field}}, has(field)

    def pattern(self):
        field = self.draw.choice([field for field in TEXTS if field != "flag"])
        value = self.value(field, "text")[:90]
        cut = self.draw.randrange(len(value) + 1)
        start, rest = value[:cut], value[cut:]
        kind = self.draw.choice(["prefix", "wildcard", "regexp"])
        if kind == "prefix":
            return {"prefix": {f"{field}.keyword": start}}, has(field, f"starts_with(t, {text(start)})")
        if kind == "wildcard":
            wildcard = escape(start, "*?\\") + "*" + escape(rest[1:], "*?\\")
            expression = escape(start, REGEX) + ".*" + escape(rest[1:], REGEX)
            return {"wildcard": {f"{field}.keyword": wildcard}}, has(field, f"regexp_full_match(t, {text('(?s)' + expression)})")
        expression = escape(start, REGEX) + self.draw.choice([".*", ".{0,5}", "[a-zA-Z]+"])
        return {"regexp": {f"{field}.keyword": expression}}, has(field, f"regexp_full_match(t, {text('(?s)' + expression)})")

    def address(self):
        block = self.draw.choice(["10.0.0.1/32", "10.1.0.0/16", "10.0.0.0/8", "::1/128", "2001:db8::/32", "0.0.0.0/0", "::/0", "10.1.2.128/25"])
        return {"term": {"address": block}}, has("address", inside(block))

    def aggregation(self, where):
        """An aggregation and its rows in SQL, of the documents of `where`."""
        of = lambda field: f"(SELECT DISTINCT doc, t, n, us FROM vals WHERE field = {text(field)} AND doc IN (SELECT doc FROM docs WHERE {where}))"
        kind = self.draw.choice(["terms", "histogram", "dates", "stats", "range"])
        if kind == "terms":
            field = self.draw.choice(["level", "host.name", "tags", "users.name", "Message", "address"])
            return {"terms": {"field": field, "size": 5_000}}, f"SELECT t, count(DISTINCT doc) FROM {of(field)} GROUP BY t"
        if kind == "histogram":
            field, interval = self.draw.choice(["ratio", "size", "users.age"]), self.draw.choice([1, 2.5, 100])
            body = {"field": field, "interval": interval, "min_doc_count": 1}
            return {"histogram": body}, f"SELECT floor(n / {interval}) * {interval} AS k, count(DISTINCT doc) FROM {of(field)} GROUP BY k"
        if kind == "dates":
            field, hours = self.draw.choice(["when", "@timestamp"]), self.draw.choice([1, 6, 24])
            body = {"field": field, "fixed_interval": f"{hours}h", "min_doc_count": 1}
            ms = hours * 3_600_000
            return {"date_histogram": body}, f"SELECT us // 1000 // {ms} * {ms} AS k, count(DISTINCT doc) FROM {of(field)} GROUP BY k"
        field = self.draw.choice(["ratio", "size", "n"])
        if kind == "stats":
            return {"stats": {"field": field}}, f"SELECT NULL, NULL, count(n), min(n), max(n), avg(n), coalesce(sum(n), 0) FROM {of(field)}"
        edge = self.draw.choice([-5, 0.5, 100])
        ranges = [{"key": "low", "to": edge}, {"key": "high", "from": edge}]
        return {"range": {"field": field, "ranges": ranges}}, (
            f"SELECT 'low', count(*) FROM {of(field)} WHERE n < {edge} UNION ALL SELECT 'high', count(*) FROM {of(field)} WHERE n >= {edge}"
        )

    def select(self):
        """A query that both sides read as it is. Nulls, which the two order differently, are kept out of ordering."""
        where = self.condition(2)
        kind = self.draw.randrange(3)
        if kind == 0:
            return f"SELECT count(*), count(\"size\"), min(\"ratio\"), max(\"n\"), sum(\"key with space\") FROM mixed WHERE {where}"
        if kind == 1:
            key = self.draw.choice(["level", "path", "key with space"])
            return f'SELECT "{key}", count(*), avg("ratio"), count(DISTINCT "path") FROM mixed WHERE {where} GROUP BY "{key}"'
        return f'SELECT "n", "level", "size", "message" FROM mixed WHERE {where} ORDER BY "n" LIMIT {self.draw.randrange(1, 200)}'

    def condition(self, depth):
        if depth and self.draw.random() < 0.6:
            parts = [self.condition(depth - 1) for _ in range(self.draw.randrange(2, 4))]
            joined = self.draw.choice([" AND ", " OR "]).join(f"({part})" for part in parts)
            return f"NOT ({joined})" if self.draw.random() < 0.3 else joined
        return self.draw.choice([self.compare_number, self.compare_text, self.compare_null])()

    def compare_number(self):
        field = self.draw.choice(["size", "ratio", "n", "key with space"])
        value, other = sorted([self.number(field), self.number(field)])
        return self.draw.choice([f'"{field}" {self.draw.choice(["=", "<>", "<", "<=", ">", ">="])} {value}', f'"{field}" BETWEEN {value} AND {other}',
                                 f'"{field}" IN ({value}, {other})', f'"{field}" IS NOT NULL AND "{field}" NOT IN ({value}, {other})'])

    def compare_text(self):
        field = self.draw.choice(["level", "message", "path"])
        value = self.value(field, "text")
        like = "%" + value[len(value) // 2 :][:40].replace("\\", "_") + "%"
        return self.draw.choice([f'"{field}" {self.draw.choice(["=", "<>", "<", ">="])} {text(value)}', f'"{field}" LIKE {text(like)}',
                                 f'"{field}" NOT LIKE {text(like)}', f'"{field}" IN ({text(value)}, {text(value[:1])})'])

    def compare_null(self):
        field = self.draw.choice(["size", "level", "ratio", "path"])
        return f'"{field}" IS {self.draw.choice(["", "NOT "])}NULL'


SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
REGEX = '.?+*{}()|[]\\"@#<>~&^$-/'


def escape(value, special):
    return "".join("\\" + c if c in special else c for c in value)


def equals_number(value):
    written = json.dumps(value)
    return f"n = {written} OR (kind = 'text' AND t = {text(written)})"


def bound_us(name, value):
    """What is written to the millisecond leaves open its microseconds."""
    return moment(value) + (999 if name in ("gt", "lte") else 0)


@pytest.fixture(params=seeds(), ids=lambda seed: f"seed {seed}")
def questions(request, mixed):
    return Questions(request.param, mixed.oracle)


def test_random_filters(questions, mixed):
    for _ in range(DSL_QUESTIONS):
        dsl, sql = questions.tree()
        with explained(json.dumps(dsl)):
            check_filter(mixed, dsl, sql)


def test_random_aggregations(questions, mixed):
    for _ in range(AGGREGATIONS):
        dsl, where = questions.tree(2)
        aggregation, sql = questions.aggregation(where)
        with explained(json.dumps({"query": dsl, "aggs": aggregation})):
            answer = mixed.search({"size": 0, "query": dsl, "aggs": {"a": aggregation}})
            assert answers.same(answers.rows_of(answer["aggregations"]["a"]), answers.rows(mixed.oracle, sql), in_order=False)


def test_random_sql(questions, mixed):
    answers.make_wide(mixed.oracle, "mixed", PLAIN)
    for _ in range(SQL_QUESTIONS):
        query = questions.select()
        with explained(query):
            ours = [[answers.plain(value) for value in row] for row in mixed.frostline.sql(query)]
            assert answers.same(ours, answers.rows(mixed.oracle, query), in_order="ORDER BY" in query)


def test_not_in_of_null_is_not_true(mixed):
    query = 'SELECT count(*) FROM mixed WHERE "ratio" NOT IN (1.5, 2.5) OR "ratio" NOT IN (3.5, 4.5)'
    assert mixed.frostline.sql(query) == [[mixed.oracle.count(has("ratio"))]]


class explained:
    """Says which question failed."""

    def __init__(self, question):
        self.question = question

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, (AssertionError, KeyError)):
            error.add_note(f"the question: {self.question}")
