use frostline_base::ErrorKind;

use super::*;

#[test]
fn actions_of_other_tools_are_ignored_or_read() {
    let lines = concat!(
        r#"{"commitInfo":{"timestamp":5,"operation":"WRITE","odd":[1]}}"#,
        "\n\n",
        r#"{"domainMetadata":{"domain":"x","configuration":"{}","removed":false}}"#,
        "\r\n",
        r#"{"cdc":{"path":"_change_data/x","partitionValues":{},"size":1,"dataChange":false}}"#,
        "\n",
        r#"{"txn":{"appId":"a","version":9}}"#,
    );
    let commit = Commit::parse(4, "key", lines.as_bytes()).unwrap();
    assert_eq!((commit.version, commit.txns.len(), commit.adds.len()), (4, 1, 0));
    assert_eq!(commit.info["operation"], "WRITE");
    assert!(commit.id().is_none() && !commit.drops_index());
    let again = Commit::parse(4, "key", &commit.render().unwrap()).unwrap();
    assert_eq!(again.txns[0].version, 9);
}

#[test]
fn what_is_no_action_is_corrupt_and_says_where() {
    for (bytes, line) in [
        (&b"{\"txn\":{\"appId\":\"a\",\"version\":1}}\n\xff\xfe"[..], "line=2"),
        (b"[]", "line=1"),
        (b"{\"add\":{\"path\":1}}", "line=1"),
        (b"{\"txn\":{\"appId\":\"a\",\"version\":1e99}}", "line=1"),
    ] {
        let refused = Commit::parse(1, "the/key", bytes).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt);
        assert!(refused.to_string().contains("the/key") && refused.to_string().contains(line), "{refused:?}");
    }
    assert_eq!(Commit::parse(1, "k", b" \n\n").unwrap_err().kind(), ErrorKind::Corrupt);
}
