use serde_json::json;

use super::{parts_of, size, without_tags};
use crate::tests::{check, fails};

#[test]
fn sizes_become_bytes() {
    for (text, bytes) in [
        ("1kb", 1024),
        ("7 MB", 7 << 20),
        ("1.5k", 1536),
        ("12b", 12),
        ("0", 0),
        ("-1", -1),
        ("3pb", 3 << 50),
    ] {
        assert_eq!(size(text), Some(bytes), "{text}");
    }
    for text in ["", "12", "kb", "1 xb", "-2kb", "1e3b", "8192pb", "99999999999999999999b", "infb", "1.2.3b"]
    {
        assert_eq!(size(text), None, "{text}");
    }
    check(
        json!([{ "bytes": { "field": "a", "target_field": "n" } }]),
        json!({ "a": ["1kb", "2b"] }),
        json!({ "a": ["1kb", "2b"], "n": [1024, 2] }),
    );
    fails(json!({ "bytes": { "field": "a" } }), json!({ "a": "junk" }), "failed to parse [junk] as a size");
}

#[test]
fn escapes_of_urls_are_decoded() {
    check(
        json!([{ "urldecode": { "field": "a" } }]),
        json!({ "a": "caf%C3%a9+%2B%ff" }),
        json!({ "a": "café +\u{fffd}" }),
    );
    for wrong in ["%", "%4", "%zz", "%+1"] {
        fails(json!({ "urldecode": { "field": "a" } }), json!({ "a": wrong }), "two hexadecimal digits");
    }
}

#[test]
fn tags_and_entities_of_html_go() {
    for (html, text) in [
        ("<h1>Disk <b>full</b></h1><p>at 5&nbsp;%", "\nDisk full\n\nat 5 %"),
        ("a<!-- b > <i> -->c", "ac"),
        ("<!DOCTYPE html>x<br/>y", "x\ny"),
        ("<a href=\"?x=>&amp;\" title='>'>link</a>", "link"),
        ("<script>if (a < b) { x(\"</p>\") }</SCRIPT >after", "\nafter"),
        ("1 < 2 && 3 > 2", "1 < 2 && 3 > 2"),
        ("&lt;ok&gt; &#65;&#x42; &unknown; &#xffffffff; &amp", "<ok> AB &unknown; &#xffffffff; &amp"),
        ("<b unclosed", "<b unclosed"),
        ("<b \"unmatched>x", "x"),
        ("<>é<é>", "<>é<é>"),
    ] {
        assert_eq!(without_tags(html), text, "{html}");
    }
    check(json!([{ "html_strip": { "field": "a" } }]), json!({ "a": "<i>x</i>" }), json!({ "a": "x" }));
}

#[test]
fn stripping_html_takes_time_that_is_linear_in_the_text() {
    for piece in ["<a", "<!", "&", "<a \"", "<a '>", "<script>", "<", "&#"] {
        let text = piece.repeat(200_000);
        assert!(without_tags(&text).len() <= text.len());
    }
}

#[test]
fn uris_are_taken_apart() {
    let parts = |uri: &str| {
        let parts = parts_of(uri).map(|parts| crate::Value::Object(parts).to_string());
        parts.map(|parts| serde_json::from_str::<serde_json::Value>(&parts).unwrap())
    };
    assert_eq!(
        parts("http://joe:a%3Ab@[::1]:8080/a.b/log%20file.tar.gz?q=%C3%A9&x#top"),
        Some(json!({
            "scheme": "http", "user_info": "joe:a:b", "username": "joe", "password": "a:b", "domain": "[::1]",
            "port": 8080, "path": "/a.b/log file.tar.gz", "extension": "gz", "query": "q=é&x", "fragment": "top",
        }))
    );
    assert_eq!(parts("/a.b/c"), Some(json!({ "path": "/a.b/c" })));
    assert_eq!(parts("ftp://host"), Some(json!({ "scheme": "ftp", "domain": "host", "path": "" })));
    assert_eq!(
        parts("mailto:joe@x.org"),
        Some(json!({ "scheme": "mailto", "path": "joe@x.org", "extension": "org" }))
    );
    for wrong in ["", "a b", "http://host:99999/", "http://host:x/", "/a%2"] {
        assert_eq!(parts(wrong), None, "{wrong}");
    }
    check(
        json!([{ "uri_parts": { "field": "u", "keep_original": false, "remove_if_successful": true } }]),
        json!({ "u": "https://x/y" }),
        json!({ "url": { "scheme": "https", "domain": "x", "path": "/y" } }),
    );
    check(
        json!([{ "uri_parts": { "field": "u", "target_field": "v" } }]),
        json!({ "u": "/y" }),
        json!({ "u": "/y", "v": { "path": "/y", "original": "/y" } }),
    );
    fails(json!({ "uri_parts": { "field": "u" } }), json!({ "u": "not a uri" }), "unable to parse URI");
}
