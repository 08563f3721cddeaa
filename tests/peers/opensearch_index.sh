#!/bin/bash
# osindex.sh NAME CODEC
O=${OPENSEARCH:-http://127.0.0.1:9200}
curl -s -XPUT $O/_ingest/pipeline/host -H 'content-type: application/json' -d '{"processors":[{"rename":{"field":"host","target_field":"host.name","if":"ctx.host instanceof String"}}]}'; 
curl -s -XPUT $O/$1 -H 'content-type: application/json' -d '{
 "settings":{"index":{"number_of_shards":1,"number_of_replicas":0,"refresh_interval":"30s","codec":"'$2'","default_pipeline":"host","requests.cache.enable":false,
   "mapping":{"total_fields":{"limit":5000},"ignore_malformed":true}}},
 "mappings":{"date_detection":false,"numeric_detection":false,
  "dynamic_templates":[{"strings":{"match_mapping_type":"string","mapping":{"type":"text","fields":{"keyword":{"type":"keyword","ignore_above":8191}}}}}],
  "properties":{"@timestamp":{"type":"date"},
   "Task":{"type":"text","fields":{"keyword":{"type":"keyword"}}},"Keywords":{"type":"text","fields":{"keyword":{"type":"keyword"}}},"ProcessID":{"type":"text","fields":{"keyword":{"type":"keyword"}}}}}}'; echo
