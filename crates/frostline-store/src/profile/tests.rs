use super::*;

fn check(more: &[(&str, &str)], expected: &[(&str, &str)]) {
    let directory = tempfile::tempdir().unwrap();
    let aws = directory.path().join(".aws");
    std::fs::create_dir(&aws).unwrap();
    std::fs::write(aws.join("config"), "# mine\n[default]\nregion = eu-west-1\ns3 =\n  endpoint_url = http://nested\n\n[profile  lab ]\nregion=ap-northeast-2\nendpoint_url = http://127.0.0.1:9\n").unwrap();
    std::fs::write(aws.join("credentials"), "[default]\naws_access_key_id = AK\naws_secret_access_key = a/b=c\n[lab]\naws_access_key_id=LAB\nAWS_SECRET_ACCESS_KEY=s\naws_session_token=t\n").unwrap();
    let mut environment: BTreeMap<String, String> =
        more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    environment.insert("HOME".into(), directory.path().to_str().unwrap().into());
    let got = read(&environment).unwrap();
    let expected: Vec<(String, String)> =
        expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    assert_eq!(got, expected);
}

#[test]
fn profiles_are_read_as_the_command_line_does() {
    check(
        &[],
        &[("aws_access_key_id", "AK"), ("aws_secret_access_key", "a/b=c"), ("aws_region", "eu-west-1")],
    );
    check(
        &[("AWS_PROFILE", "lab")],
        &[
            ("aws_access_key_id", "LAB"),
            ("aws_secret_access_key", "s"),
            ("aws_session_token", "t"),
            ("aws_endpoint_url", "http://127.0.0.1:9"),
            ("aws_region", "ap-northeast-2"),
        ],
    );
    check(&[("AWS_ACCESS_KEY_ID", "mine")], &[("aws_region", "eu-west-1")]);
}

#[test]
fn an_absent_profile_is_an_error_only_when_asked_for() {
    let nowhere = BTreeMap::from([("HOME".to_owned(), "/nonexistent".to_owned())]);
    assert_eq!(read(&nowhere).unwrap(), []);
    let mut asked = nowhere;
    asked.insert("AWS_PROFILE".into(), "prod".into());
    assert!(read(&asked).unwrap_err().to_string().contains("prod"));
}
