use std::sync::Arc;

use serde_json::{Value, json};

use super::Agents;
use crate::{Document, Outcome, Pipeline, Pipelines, run};

const FIREFOX: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.12; rv:49.0) Gecko/20100101 Firefox/49.0";

/// One file of patterns, `mine.yml`.
struct Files(Arc<Agents>);

impl Pipelines for Files {
    fn get(&self, _: &str) -> Option<Arc<Pipeline>> {
        None
    }

    fn agents(&self, file: &str) -> Option<Arc<Agents>> {
        (file == "mine.yml").then(|| Arc::clone(&self.0))
    }
}

const MINE: &str = r#"
# A comment
user_agent_parsers:
  - regex: '(it''s) v(\d+)\.(\d+)'   # another
  - regex: "(\\w+)-probe"
    family_replacement: "$1 probe"
    v1_replacement: 7

os_parsers:
  - regex: os=(\w+)
device_parsers:
  - regex: 'DEV'
    regex_flag: 'i'
    device_replacement: Thing
"#;

fn ran(options: Value, agent: Value) -> Result<Value, String> {
    let mut options = options;
    options["field"] = json!("agent");
    let pipeline = json!({ "processors": [{ "user_agent": options }] });
    let source = json!({ "agent": agent });
    let mut document = Document::new("logs", None, source.as_object().unwrap().clone(), 0);
    let files = Files(Arc::new(Agents::parse(MINE).unwrap()));
    match run(&files, "p", &Pipeline::parse(&pipeline.into()).unwrap(), &mut document, None) {
        Outcome::Done => Ok(crate::tests::shown(&document)["user_agent"].take()),
        Outcome::Failed(failure) => Err(failure.reason),
        other => panic!("{other:?}"),
    }
}

/// Name, version, system and device of what the table knows.
fn known(agent: &str) -> (String, String, String, String) {
    let told = ran(json!({}), json!(agent)).unwrap();
    assert_eq!(told["original"], agent);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let os = if told["os"]["full"].is_null() { &told["os"]["name"] } else { &told["os"]["full"] };
    (text(&told["name"]), text(&told["version"]), text(os), text(&told["device"]["name"]))
}

#[test]
fn common_programs_are_known() {
    let chrome = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_14_0) AppleWebKit/537.36 (KHTML, like Gecko) \
                  Chrome/70.0.3538.102 Safari/537.36";
    let edge = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
                Chrome/120.0.0.0 Safari/537.36 Edg/120.0.2210.91";
    let iphone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                  Version/17.1 Mobile/15E148 Safari/604.1";
    let pixel = "Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/UD1A) AppleWebKit/537.36 (KHTML, like Gecko) \
                 Chrome/120.0.6099.43 Mobile Safari/537.36";
    let google = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    for (agent, name, version, os, device) in [
        (FIREFOX, "Firefox", "49.0", "Mac OS X 10.12", "Mac"),
        (chrome, "Chrome", "70.0.3538.102", "Mac OS X 10.14.0", "Mac"),
        (edge, "Edge", "120.0.2210.91", "Windows 10", "Other"),
        (iphone, "Mobile Safari", "17.1", "iOS 17.1.2", "iPhone"),
        (pixel, "Chrome Mobile", "120.0.6099.43", "Android 14", "Pixel 8"),
        (google, "Googlebot", "2.1", "", "Spider"),
        (
            "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:15.0) Gecko/20120716 Firefox/15.0a2",
            "Firefox Alpha",
            "15.0.a2",
            "Ubuntu",
            "Other",
        ),
        ("Mozilla/5.0 (Windows NT 6.1; Trident/7.0; rv:11.0) like Gecko", "IE", "11.0", "Windows 7", "Other"),
        ("curl/8.5.0", "curl", "8.5.0", "", "Other"),
        ("python-requests/2.31.0", "Python Requests", "2.31.0", "", "Other"),
        ("Go-http-client/1.1", "Go-http-client", "1.1", "", "Other"),
        ("SomeNewBot/3.2", "SomeNewBot", "3.2", "", "Spider"),
        ("-", "Other", "", "", "Other"),
    ] {
        let told = known(agent);
        assert_eq!(
            (told.0.as_str(), told.1.as_str(), told.2.as_str(), told.3.as_str()),
            (name, version, os, device),
            "{agent}"
        );
    }
}

#[test]
fn patterns_of_a_file_are_used() {
    let mine = json!({ "regex_file": "mine.yml" });
    assert_eq!(
        ran(mine.clone(), json!("it's v12.5 os=Plan9 dev")),
        Ok(json!({
            "name": "it's", "os": { "name": "Plan9" }, "device": { "name": "Thing" },
            "original": "it's v12.5 os=Plan9 dev", "version": "12.5",
        }))
    );
    let mut named = mine;
    named["properties"] = json!(["NAME", "version"]);
    assert_eq!(ran(named, json!("kube-probe")), Ok(json!({ "name": "kube probe", "version": "7" })));
    let missing = ran(json!({ "regex_file": "theirs.yml" }), json!("x")).unwrap_err();
    assert!(missing.starts_with("regex file [theirs.yml] doesn't exist"), "{missing}");
}

#[test]
fn what_is_no_user_agent_fails() {
    assert_eq!(ran(json!({}), json!(7)), Err("field [agent] of type [number] is not a string".to_owned()));
    assert_eq!(ran(json!({ "ignore_missing": true }), json!(null)), Ok(Value::Null));
    let long = format!("{}{}", "x".repeat(10_000), FIREFOX);
    assert_eq!(ran(json!({ "properties": ["name"] }), json!(long)), Ok(json!({ "name": "Other" })));
    for (options, what) in [
        (json!({ "properties": ["color"] }), "[properties] illegal property value [color]"),
        (json!({ "regex_file": "../x.yml" }), "[regex_file] is the name of a file"),
        (json!({ "extract_device_type": true }), "[extract_device_type] is not supported"),
    ] {
        let mut options = options;
        options["field"] = json!("agent");
        let error =
            Pipeline::parse(&json!({ "processors": [{ "user_agent": options }] }).into()).unwrap_err();
        assert!(error.what().starts_with(what), "{error}");
    }
}

#[test]
fn a_file_that_is_not_understood_is_invalid_with_its_line() {
    for (text, what) in [
        ("user_agent_parsers:\n  - regex: 'x", "a text is not understood in line 2"),
        (
            "user_agent_parsers:\n  - family_replacement: x",
            "an item without [regex] is not understood in line 2",
        ),
        ("user_agent_parsers:\n  - regex: x\n    color: red", "a member [color] is not understood in line 2"),
        ("other:\n  - regex: x", "a section [other] is not understood in line 2"),
        ("  - regex: x", "an item of no list is not understood in line 1"),
        ("user_agent_parsers:\n    regex: x", "a member of no item is not understood in line 2"),
        ("user_agent_parsers:\n  - regex: |", "a text is not understood in line 2"),
        ("user_agent_parsers:\n  - regex: '('", "the pattern [(] is not understood: error: unclosed group"),
        (
            "device_parsers:\n  - regex: x\n    regex_flag: m",
            "a [regex_flag] that is not i is not understood in line 2",
        ),
    ] {
        assert_eq!(Agents::parse(text).unwrap_err().what(), what, "{text}");
    }
}
