use serde_json::{Value, json};

use super::*;
use crate::lines::{Format, LineParser};

fn documents(format: Format, name: &str, lines: &str) -> (Vec<Value>, Option<String>) {
    let mut parser = LineParser::for_input(format, lines.as_bytes(), 0).of(name);
    let mut documents = Vec::new();
    let parsed = parser.parse(lines.as_bytes(), &mut |document, _| {
        documents.push(serde_json::from_slice(document).unwrap());
    });
    (documents, parsed.err().map(|refusal| refusal.reason().to_owned()))
}

#[test]
fn messages_of_cri_are_joined_by_stream() {
    let lines = "2024-01-01T00:00:00.000000001Z stdout P one \n2024-01-01T00:00:01Z stderr F an error\n\
                 2024-01-01T02:00:02.5+02:00 stdout P:x two \n2024-01-01T00:00:03Z stdout F three\n";
    let (documents, refused) = documents(Format::Cri, "x.log", lines);
    assert_eq!(refused, None);
    assert_eq!(
        documents,
        [
            json!({"@timestamp": "2024-01-01T00:00:01.000Z", "message": "an error", "stream": "stderr"}),
            json!({"@timestamp": "2024-01-01T00:00:00.000000001Z", "message": "one two three", "stream": "stdout"}),
        ]
    );
}

#[test]
fn messages_of_docker_end_with_a_line_feed() {
    let lines = r#"{"log":"a\tb ","stream":"stdout","time":"2024-01-01T00:00:00.5Z"}
{"log":"c\r\n","stream":"stdout","attrs":{"tag":"x"},"time":"2024-01-01T00:00:01Z"}
{"log":"\n","stream":"stderr","time":"2024-01-01T00:00:02Z"}"#;
    let (documents, refused) = documents(Format::Docker, "x.log", lines);
    assert_eq!(refused, None);
    let expected = json!({"@timestamp": "2024-01-01T00:00:00.500Z", "message": "a\tb c", "stream": "stdout"});
    assert_eq!(documents, [expected]);
}

#[test]
fn a_line_of_another_format_is_refused_and_the_others_are_taken() {
    let lines = "2024-01-01T00:00:00Z stdout P one\nnot a chunk\n";
    let (taken, refused) = documents(Format::Cri, "x.log", lines);
    assert_eq!(
        taken,
        [json!({"@timestamp": "2024-01-01T00:00:00.000Z", "message": "one", "stream": "stdout"})]
    );
    assert_eq!(refused.as_deref(), Some("a line is not of Kubernetes' container logs"));
    for wrong in
        ["", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z stdin F x", "2024-01-01T00:00:00Z stdout X x"]
    {
        assert!(!fits(Runtime::Cri, wrong), "{wrong}");
    }
    let more = r#"{"log":"x","stream":"stdout","time":"2024-01-01T00:00:00Z","kubernetes":{"pod":"y"}}"#;
    for wrong in ["{}", more, r#"{"log":"x","time":"now"}"#, r#"{"log":7,"time":"2024-01-01T00:00:00Z"}"#] {
        assert!(!fits(Runtime::Docker, wrong), "{wrong}");
    }
}

#[test]
fn paths_tell_the_container() {
    let id = "0123456789abcdef".repeat(4);
    let members = |path: &str| -> Value {
        serde_json::from_str(&format!("{{{}}}", String::from_utf8(place_of(path)).unwrap())).unwrap()
    };
    assert_eq!(
        members("/var/log/pods/shop_web-7d9_3f2c-11/nginx/0.log"),
        json!({"kubernetes": {"namespace": "shop", "pod": {"name": "web-7d9", "uid": "3f2c-11"},
            "container": {"name": "nginx"}}})
    );
    assert_eq!(
        members(&format!("/var/log/containers/web-7d9_shop_nginx-proxy-{id}.log")),
        json!({"kubernetes": {"namespace": "shop", "pod": {"name": "web-7d9"}, "container": {"name": "nginx-proxy"}},
            "container": {"id": id}})
    );
    assert_eq!(
        members(&format!("/var/lib/docker/containers/{id}/{id}-json.log.1")),
        json!({"container": {"id": id}})
    );
    for other in ["", "x", "/var/log/syslog", "/var/log/pods/a_b/c/0.log", "/var/log/containers/a_b_c-1.log"]
    {
        assert_eq!(members(other), json!({}), "{other}");
    }
}
