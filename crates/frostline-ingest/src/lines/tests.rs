use serde_json::{Value, json};

use super::{Format, LineParser};

/// 2025-03-01T00:00:00Z
const NOW_US: i64 = 1_740_787_200_000_000;

fn parse(parser: &mut LineParser, line: &[u8]) -> Result<Vec<Value>, String> {
    let mut documents = Vec::new();
    let taken = parser.parse(line, &mut |bytes, _| documents.push(serde_json::from_slice(bytes).unwrap()));
    taken.map(|()| documents).map_err(|refusal| refusal.reason().to_owned())
}

fn check(format: Format, line: &str, expected: &Value) {
    let mut parser = LineParser::for_input(format, line.as_bytes(), NOW_US);
    assert_eq!(parse(&mut parser, line.as_bytes()).unwrap(), std::slice::from_ref(expected), "{line}");
}

fn check_refused(format: Format, line: &[u8], reason: &str) {
    let mut parser = LineParser::for_input(format, line, NOW_US);
    let refused = parse(&mut parser, line).unwrap_err();
    assert!(refused.contains(reason), "{refused:?} does not say {reason:?}");
}

#[test]
fn combined() {
    check(
        Format::Combined,
        r#"83.149.9.216 - frank [17/May/2015:10:05:03 +0000] "GET /a/b.png?x=1 HTTP/1.1" 200 203023 "http://r/" "Agent \"q\" (X)""#,
        &json!({"@timestamp": "2015-05-17T10:05:03.000Z", "clientip": "83.149.9.216", "auth": "frank", "verb": "GET",
            "request": "/a/b.png?x=1", "path": "/a/b.png", "httpversion": "1.1", "response": 200, "bytes": 203_023,
            "referrer": "http://r/", "agent": "Agent \"q\" (X)"}),
    );
    let time = "2015-05-17T10:05:03.000Z";
    for (line, expected) in [
        (
            r#"::1 - - [17/May/2015:10:05:03 +0000] "-" 408 -"#,
            json!({"@timestamp": time, "clientip": "::1", "response": 408}),
        ),
        (
            r#"h - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01" 400 0 "-" "cut off"#,
            json!({"@timestamp": time, "clientip": "h", "request": "\\x16\\x03\\x01", "response": 400, "bytes": 0,
                "agent": "cut off"}),
        ),
        (
            r#"h - Ren\xC3\xA9 [17/May/2015:10:05:03 +0000] "GET /\xC3\xBC\x22\x5Cx41\xE9 HTTP/1.1" 200 5 "-" "\xF0\x9F\x98\x80 \xC2\x85""#,
            json!({"@timestamp": time, "clientip": "h", "auth": "René", "verb": "GET", "request": "/ü\"\\x41\\xE9",
                "path": "/ü\"\\x41\\xE9", "httpversion": "1.1", "response": 200, "bytes": 5, "agent": "😀 \\xC2\\x85"}),
        ),
        (
            r#"www.x.org:80 1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 200 5 "-" "-" 0.002"#,
            json!({"@timestamp": time, "vhost": "www.x.org:80", "clientip": "1.2.3.4", "verb": "GET", "request": "/",
                "path": "/", "httpversion": "1.0", "response": 200, "bytes": 5, "rest": "0.002"}),
        ),
    ] {
        check(Format::Combined, line, &expected);
    }
    for line in
        ["", "x", "1.2.3.4 - - [oops] \"GET /\" 200 1", "1.2.3.4 [17/May/2015:10:05:03 +0000] \"GET /\" 200"]
    {
        let mut parser = LineParser::for_input(Format::Combined, b"", NOW_US);
        assert_eq!(parse(&mut parser, line.as_bytes()).is_ok(), line.is_empty(), "{line:?}");
    }
}

#[test]
fn syslog() {
    check(
        Format::Syslog,
        "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su 77 ID47 [ex@1 a=\"x \\\"y\\\"\" b=\"2\"] \u{feff}'su root' failed",
        &json!({"@timestamp": "2003-10-11T22:14:15.003Z", "syslog.priority": 34, "syslog.facility": "auth",
            "syslog.severity": "crit", "host.name": "mymachine.example.com", "process.name": "su", "process.pid": 77,
            "syslog.msgid": "ID47", "syslog.data.ex@1.a": "x \"y\"", "syslog.data.ex@1.b": "2",
            "message": "'su root' failed"}),
    );
    // Repeated in an element, and an element repeated.
    check(
        Format::Syslog,
        "<34>1 - - - - - [origin ip=\"192.0.2.1\" os=\"x\" ip=\"192.0.2.129\"][x a=\"1\"][x a=\"2\" a=\"1\"] msg",
        &json!({"syslog.priority": 34, "syslog.facility": "auth", "syslog.severity": "crit",
            "syslog.data.origin.ip": ["192.0.2.1", "192.0.2.129"], "syslog.data.origin.os": "x",
            "syslog.data.x.a": ["1", "2", "1"], "message": "msg"}),
    );
    check(
        Format::Syslog,
        "<165>1 - - - - - - hello",
        &json!({"syslog.priority": 165, "syslog.facility": "local4", "syslog.severity": "notice", "message": "hello"}),
    );
    check(
        Format::Syslog,
        "Oct 11 22:14:15 mymachine sshd[123]: Accepted publickey for root",
        &json!({"@timestamp": "2024-10-11T22:14:15.000Z", "host.name": "mymachine", "process.name": "sshd",
            "process.pid": 123, "message": "Accepted publickey for root"}),
    );
    check(
        Format::Syslog,
        "2024-05-01T10:00:00.123456+02:00 box CRON[1]: (root) CMD (x: y)",
        &json!({"@timestamp": "2024-05-01T08:00:00.123456Z", "host.name": "box", "process.name": "CRON",
            "process.pid": 1, "message": "(root) CMD (x: y)"}),
    );
    check(
        Format::Syslog,
        "<13>Oct  1 22:14:15 kernel: up",
        &json!({"@timestamp": "2024-10-01T22:14:15.000Z", "syslog.priority": 13, "syslog.facility": "user",
            "syslog.severity": "notice", "process.name": "kernel", "message": "up"}),
    );
    check_refused(Format::Syslog, b"<999>Oct 11 22:14:15 h a: b", "priority");
    check_refused(Format::Syslog, b"<13>1 yesterday h a - - - m", "not a time");
    check_refused(Format::Syslog, b"<13>1 - h a - - [id x=\"1\" m", "structured data");
    check_refused(Format::Syslog, b"\tat java.lang.Thread.run", "no syslog time");
}

#[test]
fn no_parameter_of_syslog_is_left_out_for_their_number() {
    let params: String = (0..3_000).map(|n| format!(" p{n}=\"{n}\"")).collect();
    let line = format!("<34>1 - - - - - [id{params}] m");
    let mut parser = LineParser::for_input(Format::Syslog, line.as_bytes(), NOW_US);
    let documents = parse(&mut parser, line.as_bytes()).unwrap();
    assert_eq!(documents[0]["syslog.data.id.p2999"], "2999");
}

#[test]
fn logfmt() {
    check(
        Format::Logfmt,
        r#"time=2024-05-01T10:00:00Z level=info msg="two \"words\"" n=42 f=1.5 id=007 ok=true dry empty= n=43"#,
        &json!({"@timestamp": "2024-05-01T10:00:00.000Z", "time": "2024-05-01T10:00:00Z", "level": "info",
            "msg": "two \"words\"", "n": ["42", "43"], "f": 1.5, "id": "007", "ok": true, "dry": true, "empty": ""}),
    );
    check_refused(Format::Logfmt, b"just some words", "no key=value");
    check_refused(Format::Logfmt, b"a=\"open", "not closed");
    check_refused(Format::Logfmt, b"=x", "not a key");
}

#[test]
fn csv() {
    let sample = b"time,host,\"a \"\"b\"\"\",n,host\n1446249499,h1,\"x,\ny\",5,\n";
    let mut parser = LineParser::for_input(Format::Csv, sample, NOW_US);
    assert!(parser.quotes_span_lines());
    assert_eq!(parse(&mut parser, b"time,host,\"a \"\"b\"\"\",n,host").unwrap(), [] as [Value; 0]);
    assert_eq!(
        parse(&mut parser, b"1446249499,h1,\"x,\ny\",5,").unwrap(),
        [
            json!({"@timestamp": "2015-10-30T23:58:19.000Z", "time": 1_446_249_499, "host": "h1", "a \"b\"": "x,\ny",
            "n": 5})
        ]
    );
    assert!(parse(&mut parser, b"1,2").unwrap_err().contains("2 fields, the header 5"));
    assert!(parse(&mut parser, b"1,\"2\"x,3,4,5").unwrap_err().contains("malformed"));
    check(Format::Plain, "1;2", &json!({"message": "1;2"}));
    let mut parser = LineParser::for_input(Format::Csv, b"when;what\n", NOW_US)
        .with_time_field(Some("when".into()), "@timestamp");
    let taken = parse(&mut parser, b"2024-05-01 10:00:00;x").unwrap();
    assert_eq!(taken[0]["@timestamp"], "2024-05-01T10:00:00.000Z");
}

#[test]
fn json_lines_are_taken_as_they_are() {
    let mut parser = LineParser::for_input(Format::NdJson, b"", NOW_US);
    for (line, expected) in [
        (r#"{"a": 1.50}"#, vec![r#"{"a": 1.50}"#]),
        (r#"  {"a":1},"#, vec![r#"{"a":1}"#]),
        ("[", vec![]),
        ("]", vec![]),
        (r#"[{"a":1},"#, vec![r#"{"a":1}"#]),
        (r#"{"a":[1]}]"#, vec![r#"{"a":[1]}"#]),
        (r#"[{"a": 1}, {"b":2}]"#, vec![r#"{"a": 1}"#, r#"{"b":2}"#]),
        ("[]", vec![]),
    ] {
        let mut taken = Vec::new();
        parser
            .parse(line.as_bytes(), &mut |bytes, _| taken.push(String::from_utf8(bytes.to_vec()).unwrap()))
            .unwrap();
        assert_eq!(taken, expected, "{line}");
    }
    for line in ["42", "\"x\"", "[1]", "[{]", "null", "hello"] {
        assert!(parse(&mut parser, line.as_bytes()).is_err(), "{line}");
    }
}

#[test]
fn nginx_times_become_the_timestamp() {
    let time = "2015-10-30T23:58:19.322Z";
    check(
        Format::Nginx,
        r#"{"version":6,"timestamp":1446249499322}"#,
        &json!({"@timestamp": time, "version": 6, "timestamp": 1_446_249_499_322_u64}),
    );
    check(
        Format::Nginx,
        r#"{"msec":"1446249499.322"}"#,
        &json!({"@timestamp": time, "msec": "1446249499.322"}),
    );
    check(
        Format::Nginx,
        r#"{"time_local":"30/Oct/2015:23:58:19 +0000","request":"GET /\x22 \\x"}"#,
        &json!({"@timestamp": "2015-10-30T23:58:19.000Z", "time_local": "30/Oct/2015:23:58:19 +0000",
            "request": "GET /\" \\x"}),
    );
    check(
        Format::Nginx,
        r#"{"@timestamp":"x","time":1446249499}"#,
        &json!({"@timestamp": "x", "time": 1_446_249_499}),
    );
    check(Format::Nginx, "{}", &json!({}));
    check_refused(Format::Nginx, b"{\"a\":", "malformed JSON");
    for escape in ["\\x+5", "\\x2", "\\xé"] {
        check_refused(Format::Nginx, format!(r#"{{"a":"{escape}"}}"#).as_bytes(), "malformed JSON");
    }
}

/// Documents that are made again from columns spell texts so.
#[test]
fn nginx_escapes_become_those_of_json() {
    let line = r#"{"a":"\x22\\x5C\x5cé\x0A\x1B\xE9 \xC3\xA9\xf0\x9f\x98\x80\xC3\x28 \n\" \\\\x22"}"#;
    let mut parser = LineParser::for_input(Format::Nginx, line.as_bytes(), NOW_US);
    let mut documents = Vec::new();
    parser
        .parse(line.as_bytes(), &mut |bytes, _| documents.push(String::from_utf8_lossy(bytes).into_owned()))
        .unwrap();
    assert_eq!(documents, [r#"{"a":"\"\\x5C\\é\n\u001bé é😀Ã( \n\" \\\\x22"}"#]);
}

#[test]
fn the_time_goes_where_the_index_looks_for_it() {
    let combined = br#"h - - [17/May/2015:10:05:03 +0000] "-" 408 -"#;
    let mut parser = LineParser::for_input(Format::Combined, b"", NOW_US).with_time_field(None, "when");
    assert_eq!(parse(&mut parser, combined).unwrap()[0]["when"], "2015-05-17T10:05:03.000Z");
    let mut parser =
        LineParser::for_input(Format::NdJson, b"", NOW_US).with_time_field(Some("at".into()), "@timestamp");
    let taken = parse(&mut parser, br#"{"at":1446249499,"x":1}"#).unwrap();
    assert_eq!(taken, [json!({"@timestamp": "2015-10-30T23:58:19.000Z", "at": 1_446_249_499, "x": 1})]);
    let mut parser =
        LineParser::for_input(Format::NdJson, b"", NOW_US).with_time_field(Some("at".into()), "at");
    assert_eq!(parse(&mut parser, br#"{"at":1446249499}"#).unwrap(), [json!({"at": 1_446_249_499})]);
}

#[test]
fn plain() {
    check(
        Format::Plain,
        "2024-05-01 10:00:00 status installed x",
        &json!({"@timestamp": "2024-05-01T10:00:00.000Z", "message": "2024-05-01 10:00:00 status installed x"}),
    );
    check(Format::Plain, "\thello \u{1} \"world\"", &json!({"message": "\thello \u{1} \"world\""}));
    check_refused(Format::Plain, b"a\0b", "NUL byte at byte 1");
    check_refused(Format::Plain, b"ab\xff", "invalid UTF-8 at byte 2");
    check_refused(Format::NdJson, b"{\"a\":\"\xc3\"}", "invalid UTF-8");
}

#[test]
fn detection_by_majority() {
    let combined = "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.0\" 200 5 \"-\" \"-\"\n";
    for (sample, expected) in [
        ("{\"a\":1}\n{\"b\":2}\nnoise\n".to_owned(), Format::NdJson),
        ("{\"time_iso8601\":\"2024-05-01T10:00:00+00:00\"}\n".to_owned(), Format::Nginx),
        ("[\n{\"@timestamp\":\"2024-05-01\"},\n".to_owned(), Format::NdJson),
        (combined.repeat(3), Format::Combined),
        (format!("{combined}noise\n{combined}"), Format::Combined),
        ("Oct 11 22:14:15 h sshd[1]: x\nOct 11 22:14:15 h cron: y\n\tmore\n".to_owned(), Format::Syslog),
        ("<34>1 - - - - - - x\n".to_owned(), Format::Syslog),
        ("level=info msg=\"x y\" n=1\nlevel=warn msg=z n=2\n".to_owned(), Format::Logfmt),
        ("time,level,text\n1,info,\"a,b\"\n2,warn,c\n".to_owned(), Format::Csv),
        ("a;b\n1;2\n3;4\n".to_owned(), Format::Csv),
        ("hello, world\nthis is, well, text\n".to_owned(), Format::Plain),
        ("2024-05-01 10:00:00 startup packages configure\n".to_owned(), Format::Plain),
        (String::new(), Format::Plain),
    ] {
        let parser = LineParser::for_input(Format::Auto, sample.as_bytes(), NOW_US);
        assert_eq!(parser.format(), expected, "{sample:?}");
    }
}

/// The samples of `detect/samples.txt`: name, format, whether its documents have times, and lines.
fn samples() -> Vec<(&'static str, Format, bool, Vec<&'static str>)> {
    let sections = include_str!("detect/samples.txt").split("\n== ").skip(1);
    let parsed = sections.map(|section| {
        let mut lines = section.lines();
        let (name, rest) = lines.next().unwrap().split_once(": ").unwrap();
        let (format, times) = rest.split_once(", ").unwrap_or((rest, ""));
        (name, format.parse().unwrap(), times == "time", lines.filter(|line| !line.is_empty()).collect())
    });
    parsed.collect()
}

#[test]
fn everyday_logs_are_told_apart_and_no_line_of_them_is_lost() {
    let mut wrong = Vec::new();
    for (name, format, has_times, lines) in samples() {
        let sample = format!("{}\n", lines.join("\n"));
        let mut parser = LineParser::for_input(Format::Auto, sample.as_bytes(), NOW_US);
        if parser.format() != format {
            wrong.push(format!("{name} is taken for {}", parser.format()));
            continue;
        }
        // A document of a bulk body is taken with the line that announces it.
        let together = if format == Format::Bulk { 2 } else { 1 };
        let lines: Vec<String> = lines.chunks(together).map(|lines| lines.join("\n")).collect();
        let documents: Vec<Value> =
            lines.iter().flat_map(|line| parse(&mut parser, line.as_bytes()).unwrap()).collect();
        let others = match format {
            Format::Csv => lines.iter().filter(|line| *line == &lines[0]).count(),
            _ => 0,
        };
        assert_eq!(documents.len(), lines.len() - others, "{name}");
        assert!(documents.iter().all(|document| document.get("@timestamp").is_some() == has_times), "{name}");
        if format == Format::Plain {
            let whole = documents.iter().zip(&lines).all(|(document, line)| document["message"] == **line);
            assert!(whole, "{name}: {documents:?}");
        }
        if format == Format::Syslog {
            assert!(documents.iter().all(|document| document.get("host.name").is_some()), "{name}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn changes_in_a_bulk_body_are_refused_and_no_documents() {
    let why = "update and delete are refused: send them to the server";
    check_refused(Format::Bulk, br#"{"delete":{"_index":"logs","_id":"1"}}"#, why);
    check_refused(Format::Bulk, br#"{"update":{"_id":"1","retry_on_conflict":3}}"#, why);
    check_refused(Format::Bulk, br#"{"doc":{"a":1},"doc_as_upsert":true}"#, why);
    check_refused(Format::Bulk, br#"{"script":{"source":"x"},"upsert":{}}"#, why);
    check(Format::Bulk, r#"{"delete":{"user":"x"}}"#, &json!({"delete": {"user": "x"}}));
    check(Format::Bulk, r#"{"doc":{"a":1},"level":"info"}"#, &json!({"doc": {"a": 1}, "level": "info"}));
    let mut parser = LineParser::for_input(Format::Bulk, b"", NOW_US);
    assert_eq!(parse(&mut parser, br#"{"create":{"_index":"logs"}}"#), Ok(Vec::new()));
}

#[test]
fn an_id_is_of_the_document_after_it_alone() {
    let parse = |text: &str| {
        let (mut parser, mut taken) = (LineParser::for_input(Format::Bulk, b"", NOW_US), Vec::new());
        let take = &mut |document: &[u8], id: Option<&str>| {
            taken.push((String::from_utf8(document.to_vec()).unwrap(), id.map(str::to_owned)));
        };
        parser.parse(text.as_bytes(), take).map(|()| taken).map_err(|refusal| refusal.reason().to_owned())
    };
    let taken = |document: &str, id: Option<&str>| Ok(vec![(document.to_owned(), id.map(str::to_owned))]);
    let document = r#"{"a":1,"_id":"its own"}"#;
    for (action, id) in [
        (r#"{"index":{"_id":"x \u00e4\\"}}"#, Some("x ä\\")),
        (r#"{"create":{"_index":"i","_id":0017e0}}"#, None),
        (r#"{"create":{"_index":"i","_id":1.70}}"#, Some("1.70")),
        (r#"{"index":{"_id":null}}"#, None),
        (r#"{"index":{}}"#, None),
    ] {
        let given = parse(&format!("{action}\r\n{document}"));
        if action.contains("0017e0") {
            assert!(given.is_err(), "{given:?}");
        } else {
            assert_eq!(given, taken(document, id), "{action}");
        }
    }
    assert_eq!(parse(document), taken(document, None));
    for wrong in [r#"{"index":{"_id":true}}"#, r#"{"index":{"_id":{"a":1}}}"#] {
        assert!(parse(&format!("{wrong}\n{document}")).unwrap_err().contains("neither text nor a number"));
    }
    let alone = parse("{\"index\":{\"_id\":\"x\"}}\n  ");
    assert!(alone.unwrap_err().contains(r#"no document follows the line with the _id "x""#));
}

#[test]
fn in_syslog_a_word_that_no_host_has_is_part_of_the_message() {
    let sample = b"Oct 11 22:14:15 h sshd[1]: x\n";
    let mut parser = LineParser::for_input(Format::Auto, sample, NOW_US);
    for text in ["[124] ERROR: relation", "INFO a.b.C: started"] {
        let line = format!("2026-11-21T10:00:00Z {text}");
        let expected = json!({"@timestamp": "2026-11-21T10:00:00.000Z", "message": text});
        assert_eq!(parse(&mut parser, line.as_bytes()).unwrap(), [expected]);
    }
}

#[test]
fn a_field_that_no_document_has_is_told_from_one_that_some_have() {
    for (sample, field, lacks) in [
        (&b"{\"time\":1446249499}\n{\"time\":1446249500}\n"[..], "tiem", true),
        (b"{\"a\":{\"b\":1}}\n{\"x\":1}\n", "a.b", false),
        (b"{\"a.b\":1}\n", "a.b", false),
        (b"ts=1446249499 a=b\n", "tss", true),
        (b"ts=1446249499 a=b\n", "ts", false),
        (b"when,what\n1446249499,x\n", "When", false),
        (b"when,what\n1446249499,x\n", "wehn", true),
        (b"Oct 11 22:14:15 h sshd[1]: x\n", "when", false),
        (b"", "when", false),
    ] {
        let parser = LineParser::for_input(Format::Auto, sample, NOW_US);
        let parser = parser.with_time_field(Some(field.into()), field);
        assert_eq!(parser.lacks_time_field(sample), lacks, "{field} of {}", String::from_utf8_lossy(sample));
    }
}

#[test]
fn detected_text_formats_keep_misfits_as_messages() {
    let sample = b"Oct 11 22:14:15 h sshd[1]: x\n";
    let mut parser = LineParser::for_input(Format::Auto, sample, NOW_US);
    assert_eq!(parse(&mut parser, b"\tat Thread.run").unwrap(), [json!({"message": "\tat Thread.run"})]);
}

proptest::proptest! {
    #[test]
    fn no_line_panics_and_every_document_is_json(line in "\\PC*", marks in "[<>\\[\\]{}\":=, a-z0-9\\\\-]*", bytes: Vec<u8>) {
        for name in ["ndjson", "json-lines-from-nginx", "bulk", "combined", "syslog", "logfmt", "csv", "plain", "auto"] {
            for text in [line.as_bytes(), marks.as_bytes(), &bytes] {
                let format: Format = name.parse().unwrap();
                let mut parser = LineParser::for_input(format, text, NOW_US);
                let is_passed_on = matches!(parser.format(), Format::NdJson | Format::Nginx | Format::Bulk);
                let _ = parser.parse(text, &mut |document, _| {
                    let parsed = serde_json::from_slice::<Value>(document);
                    assert!(is_passed_on || parsed.is_ok_and(|value| value.is_object()));
                });
            }
        }
    }
}

#[test]
fn a_line_lands_whole_or_not_at_all() {
    // The second object names its time twice.
    let line = br#"[{"msec":"1740787200.1","n":1},{"time":1,"time":2}]"#;
    let mut parser = LineParser::for_input(Format::Nginx, line, NOW_US);
    let mut documents = 0;
    let parsed = parser.parse(line, &mut |_, _| documents += 1);
    assert!(parsed.is_err_and(|refusal| refusal.reason().contains("duplicate field")));
    assert_eq!(documents, 0);
}

#[test]
fn text_among_detected_json_is_kept() {
    let sample = b"{\"a\":1}\n{\"time\":1}\n";
    let mut detected = LineParser::for_input(Format::Auto, sample, NOW_US);
    for text in ["panic: x", "goroutine 1 [running]:", "[info] 2 started"] {
        assert_eq!(parse(&mut detected, text.as_bytes()).unwrap(), [json!({"message": text})]);
        check_refused(Format::NdJson, text.as_bytes(), "");
    }
    let mut nginx = LineParser::for_input(Format::Auto, b"{\"time\":1741000000}\n", NOW_US);
    assert_eq!(parse(&mut nginx, b"panic: x").unwrap(), [json!({"message": "panic: x"})]);
    for json in ["[1,2]", "[{\"a\":1},{\"b", "17", "\"x\"", "{\"a\":} x"] {
        // The writer of splits refuses what is no sound object.
        let refused = detected
            .parse(json.as_bytes(), &mut |part, _| assert!(json.as_bytes().ends_with(part), "{json}"));
        assert!(refused.is_err() || json.contains('{'), "{json}");
    }
}
