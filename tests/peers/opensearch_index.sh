#!/bin/bash
# Makes an index that takes every security event: opensearch_index.sh NAME [CODEC]      OPENSEARCH is the server's URL
# Text is text with a .keyword, as by default; what is a number here and text there is declared text; `host`, which is text here and an
# object there, is moved to host.name where it is text; dates are not guessed, and what does not fit a field is not indexed in it.
set -euo pipefail
url=${OPENSEARCH:-http://127.0.0.1:9200}
put() { curl -sf -XPUT "$url/$1" -H 'content-type: application/json' -d "$2"; echo; }
either='{"type":"text","fields":{"keyword":{"type":"keyword"}}}'
put _ingest/pipeline/host '{"processors":[{"rename":{"field":"host","target_field":"host.name","if":"ctx.host instanceof String"}}]}'
put "$1" '{
  "settings":{"index":{"number_of_shards":1,"number_of_replicas":0,"refresh_interval":"30s","codec":"'"${2:-default}"'","default_pipeline":"host",
    "requests.cache.enable":false,"mapping":{"total_fields":{"limit":5000},"ignore_malformed":true}}},
  "mappings":{"date_detection":false,
    "dynamic_templates":[{"strings":{"match_mapping_type":"string","mapping":{"type":"text","fields":{"keyword":{"type":"keyword","ignore_above":8191}}}}}],
    "properties":{"@timestamp":{"type":"date"},"Task":'"$either"',"Keywords":'"$either"',"ProcessID":'"$either"'}}}'
