use serde_json::{Value, json};

use crate::Pipeline;
use crate::tests::{check, fails};

#[test]
fn a_script_changes_the_document() {
    let script = json!({ "script": {
        "lang": "painless", "source": "ctx.total = ctx.a + params.b; ctx.remove('a'); ctx._index = 'logs-' + ctx.total",
        "params": { "b": 2 },
    } });
    check(
        json!([script, { "set": { "field": "index", "value": "{{_index}}" } }]),
        json!({ "a": 1 }),
        json!({ "total": 3, "index": "logs-3" }),
    );
}

#[test]
fn what_fails_can_be_handled_and_keeps_what_was_done() {
    let script = json!({ "script": {
        "source": "ctx.done = 1; ctx.x.y = 2",
        "on_failure": [{ "set": { "field": "why", "value": "{{_ingest.on_failure_message}}" } }],
    } });
    let why = "cannot set a member or an element of null at position 22 of the script";
    check(json!([script]), json!({}), json!({ "done": 1, "why": why }));
    let script = json!({ "script": { "source": "while (true) {}", "ignore_failure": true } });
    fails(script, json!({}), "the loops of the script turn more than");
}

#[test]
fn options_are_checked() {
    for (options, what) in [
        (json!({ "id": "x" }), "[id] is not supported"),
        (json!({ "source": "x" }), "[source] unexpected [x] at position 0"),
        (json!({ "lang": "expression", "source": "1" }), "[lang] is [expression]"),
        (json!({ "source": "1", "params": [] }), "[params] property isn't a map"),
        (json!({}), "[source] required property is missing"),
    ] {
        let error = Pipeline::parse(&json!({ "processors": [{ "script": options }] }).into()).unwrap_err();
        assert!(error.what().starts_with(what), "{error}");
    }
    let many: Vec<Value> = (0..101).map(|_| json!({ "script": { "source": "ctx.a =~ /x/" } })).collect();
    let error = Pipeline::parse(&json!({ "processors": many }).into()).unwrap_err();
    assert!(error.what().contains("more than 100 patterns"), "{error}");
}

/// What pipelines of shippers do: find the client behind proxies, name the program, and take away what is null.
#[test]
fn a_pipeline_of_a_web_server_runs() {
    let client = "boolean isInside(def dot, def ip) {
            try {
                StringTokenizer parts = new StringTokenizer(ip, dot);
                int first = Integer.parseInt(parts.nextToken());
                int second = Integer.parseInt(parts.nextToken());
                return first == 10 || first == 127 || (first == 172 && second >= 16 && second <= 31);
            } catch (Exception e) { return false; }
        }
        try {
            ctx.source.address = null;
            def found = false;
            for (def ip : ctx.web.ips) {
                if (!isInside(params.dot, ip)) { ctx.source.address = ip; found = true; break; }
            }
            if (!found) { ctx.source.address = ctx.web.ips[0]; }
        } catch (Exception e) { ctx.source.address = null; }";
    let version = "def parts = ctx.web.protocol.toLowerCase().splitOnToken('v');
        if (parts.length != 2) { return; }
        ctx.tls = [:];
        ctx.tls.version = parts[1].contains('.') ? parts[1] : parts[1] + '.0';
        ctx.tls.name = parts[0];";
    let levels = "def bad = ['error', 'warn']; if (bad.contains(ctx.level)) { ctx.type = 'error'; } else { ctx.type = 'info'; }";
    let nulls = "void clean(Map map) { for (def x : map.values()) { if (x instanceof Map) { clean(x); } }
        map.values().removeIf(v -> v == null); } clean(ctx);";
    let processors = json!([
        { "grok": { "field": "message", "patterns": ["%{IPS:web.ips} - \\[%{HTTPDATE:time}\\] %{NOTSPACE:web.protocol} \"%{DATA:user_agent.original}\""],
            "pattern_definitions": { "IPS": "%{IP}(,?\\s+%{IP})*" } } },
        { "split": { "field": "web.ips", "separator": ",?\\s+" } },
        { "set": { "field": "source.address", "value": "", "if": "ctx.source?.address == null" } },
        { "script": { "source": client, "params": { "dot": "." }, "if": "ctx.web?.ips != null && ctx.web.ips.length > 0" } },
        { "date": { "field": "time", "formats": ["dd/MMM/yyyy:H:m:s Z"] } },
        { "remove": { "field": ["time", "message"] } },
        { "user_agent": { "field": "user_agent.original" } },
        { "geoip": { "field": "source.address", "target_field": "source.geo", "ignore_missing": true } },
        { "script": { "source": version, "if": "ctx.web?.protocol != null" } },
        { "script": { "source": levels } },
        { "script": { "source": nulls } },
    ]);
    let curl = |proxies: &str, source: Value, ips: Value| {
        let line = format!("{proxies} - [07/Dec/2016:11:05:07 +0100] TLSv1 \"curl/8.5.0\"");
        let after = json!({
            "level": "warn", "web": { "ips": ips, "protocol": "TLSv1" },
            "user_agent": { "original": "curl/8.5.0", "name": "curl", "version": "8.5.0", "device": { "name": "Other" } },
            "source": { "address": source }, "@timestamp": "2016-12-07T10:05:07.000Z",
            "tags": ["_geoip_database_unavailable_GeoLite2-City.mmdb"],
            "tls": { "version": "1.0", "name": "tls" }, "type": "error",
        });
        check(processors.clone(), json!({ "message": line, "level": "warn", "none": { "x": null } }), {
            let mut after = after;
            after["none"] = json!({});
            after
        });
    };
    curl(
        "10.0.0.2, 10.0.0.1, 85.181.35.98",
        json!("85.181.35.98"),
        json!(["10.0.0.2", "10.0.0.1", "85.181.35.98"]),
    );
    curl("10.0.0.2, 127.0.0.1", json!("10.0.0.2"), json!(["10.0.0.2", "127.0.0.1"]));
    curl("2a03::8000 10.2.2.121", json!("2a03::8000"), json!(["2a03::8000", "10.2.2.121"]));
}
