use serde_json::json;

use super::*;

#[test]
fn murmur3_is_that_of_others() {
    let hex =
        |text: &str| murmur3(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(""), "00000000000000000000000000000000");
    assert_eq!(hex("hello"), "cbd8a7b341bd9b025b1e906a48ae1d19");
    assert_eq!(hex("The quick brown fox jumps over the lazy dog"), "e34bbc7bbc071b6c7a433ca9c49a9347");
}

#[test]
fn a_value_is_hashed_with_its_names_in_order() {
    let bytes = |value: serde_json::Value| {
        let mut bytes = Vec::new();
        add(&value.into(), &mut bytes);
        bytes
    };
    assert_eq!(bytes(json!({ "b": "x", "a": [true, false, null] })), b"\0a\0\x01\0\x02\0\0b\0x");
    assert_eq!(bytes(json!(258)), b"\0\x02\x01\0\0");
    assert_eq!(bytes(json!(1_u64 << 40)), b"\0\0\0\0\0\0\x01\0\0");
    assert_eq!(bytes(json!(1.0)), b"\0\0\0\0\0\0\0\xf0\x3f");
}

#[test]
fn methods_are_those_of_their_names() {
    let text = |method: Method| STANDARD.encode(method.hash(b"\0x"));
    // As `printf '\0x' | openssl dgst -binary | base64` has them.
    assert_eq!(text(Method::Md5), "QJq+kPYTbin89q9BaVDNag==");
    assert_eq!(text(Method::Sha1), "uR3zZCvTaXoexrjMm/vEbvFAB2w=");
    assert_eq!(text(Method::Sha256), "PH6byTDck/AfppmF7yQtn56GHzxTVaokzl70tLinDMs=");
    assert_eq!(text(Method::Sha512).len(), 88);
}
