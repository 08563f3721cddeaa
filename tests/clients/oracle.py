"""DuckDB over the same NDJSON, with what a Frostline field means said in SQL.

Tables:
  docs  doc, source (JSON), us: the time in microseconds, or null
  vals  doc, field, kind, t, n, i, us, ip: one row for each value of each document. `field` is the path with
        dots, arrays are several rows, null and empty arrays none. `kind` is bool, long, double, date, ip or text;
        `t` the value as text, `n` as a double, `i` a long, `us` a date, `ip` an address as a number.
"""

import ipaddress
import json
from datetime import UTC, datetime

import duckdb
import pyarrow

LOAD = """
CREATE TABLE docs AS SELECT row_number() OVER () AS doc, json AS source
FROM read_ndjson_objects('{path}', maximum_object_size = 67108864);

CREATE TABLE tree (doc BIGINT, fullkey VARCHAR, type VARCHAR, atom JSON);
"""

LEAVES = """
INSERT INTO tree SELECT docs.doc, node.fullkey, node.type, node.atom FROM docs, json_tree(docs.source) AS node
WHERE docs.doc BETWEEN {first} AND {first} + 9999 AND node.type NOT IN ('OBJECT', 'ARRAY', 'NULL')
"""

PATHS = """
CREATE TABLE paths AS SELECT fullkey, regexp_replace(
    regexp_replace(substr(fullkey, 3), '\\[\\d+\\]', '', 'g'), '"((?:[^"\\\\]|\\\\.)*)"', '\\1', 'g') AS field
FROM (SELECT DISTINCT fullkey FROM tree);

CREATE TABLE texts AS SELECT DISTINCT atom ->> '$' AS written FROM tree WHERE type = 'VARCHAR' AND regexp_matches(atom ->> '$',
    '^(\\d{4}-\\d\\d-\\d\\d(T[0-9:.]+(Z|[+-][0-9:]+)?)?|[0-9a-fA-F:.]{2,45})$');
"""

VALUES = """
CREATE TABLE vals AS
SELECT doc, field,
    CASE WHEN type = 'BOOLEAN' THEN 'bool'
         WHEN type = 'BIGINT' OR (type = 'UBIGINT' AND (atom ->> '$')::HUGEINT <= 9223372036854775807) THEN 'long'
         WHEN type IN ('DOUBLE', 'UBIGINT') THEN 'double'
         WHEN typed.us IS NOT NULL THEN 'date' WHEN typed.ip IS NOT NULL THEN 'ip' ELSE 'text' END AS kind,
    atom ->> '$' AS t,
    CASE WHEN kind IN ('long', 'double') THEN t::DOUBLE END AS n,
    CASE WHEN kind = 'long' THEN t::BIGINT END AS i,
    typed.us, typed.ip
FROM tree JOIN paths USING (fullkey) LEFT JOIN typed ON type = 'VARCHAR' AND typed.written = atom ->> '$'
ORDER BY field, doc;

ALTER TABLE docs ADD COLUMN us BIGINT;
UPDATE docs SET us = found.us FROM (SELECT doc, us FROM vals WHERE field = '@timestamp' AND kind = 'date') AS found
WHERE found.doc = docs.doc;
DROP TABLE tree;
"""


class Oracle:
    """DuckDB with the documents of one NDJSON file."""

    def __init__(self, path):
        # On disk and in bounded memory, so that a large file does not take the machine.
        self.db = duckdb.connect(f"{path}.duckdb", config={"memory_limit": "2GB", "threads": 2, "preserve_insertion_order": False})
        self.execute(LOAD.format(path=path))
        for first in range(1, self.count("true") + 1, 10_000):
            self.execute(LEAVES.format(first=first))
        self.execute(PATHS)
        texts = [row[0] for row in self.rows("SELECT written FROM texts")]
        typed = [row for row in (typed_text(text) for text in texts) if row]
        self.db.register("found", pyarrow.table({
            "written": pyarrow.array([text for text, _, _ in typed], pyarrow.string()),
            "us": pyarrow.array([us for _, us, _ in typed], pyarrow.int64()),
            "ip": pyarrow.array([None if ip is None else str(ip) for _, _, ip in typed], pyarrow.string()),
        }))
        self.execute("CREATE TABLE typed AS SELECT written, us, ip::UHUGEINT AS ip FROM found")
        self.execute(VALUES)

    def execute(self, script):
        for statement in script.split(";"):
            if statement.strip():
                self.db.execute(statement)

    def rows(self, query):
        return self.db.execute(query).fetchall()

    def count(self, where):
        return self.rows(f"SELECT count(*) FROM docs WHERE {where}")[0][0]

    def sources(self, where):
        """The documents that match, in a form that can be compared."""
        return [canonical(json.loads(row[0])) for row in self.rows(f"SELECT source FROM docs WHERE {where}")]


def typed_text(text):
    """A text that is a date or an address, with its value."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        # Exact, where a difference of floating point seconds would not be.
        past = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return text, (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds, None
    except ValueError:
        pass
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return text, None, address_number(address)


def address_number(address):
    """IPv4 mapped into IPv6, so that all addresses are one order."""
    address = ipaddress.ip_address(address)
    return int(address) + (0xFFFF << 32 if address.version == 4 else 0)


def canonical(document):
    return json.dumps(document, sort_keys=True)


def text(value):
    """A text as SQL writes it."""
    return "'" + str(value).replace("'", "''") + "'"


def has(field, condition="true"):
    """The documents with a value of the field that fulfils the condition."""
    return f"doc IN (SELECT doc FROM vals WHERE field = {text(field)} AND ({condition}))"


def moment(iso):
    """A time as the number of microseconds."""
    return typed_text(iso)[1]


def inside(block):
    """The condition that an address lies in a block such as 10.0.0.0/8."""
    network = ipaddress.ip_network(block)
    return f"ip BETWEEN {address_number(network[0])} AND {address_number(network[-1])}"


def word(wanted):
    """The condition that a text holds a word, as the default analysis cuts them."""
    return f"kind = 'text' AND list_contains(regexp_extract_all(lower(t), '[\\p{{L}}\\p{{N}}_]+'), {text(wanted)})"
