use frostline_base::ErrorKind;

use super::*;
use crate::Repository;

fn options(environment: &[(&str, &str)]) -> OpenOptions {
    let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    OpenOptions { environment: Some(environment), ..OpenOptions::default() }
}

const AWS: &[(&str, &str)] = &[("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "s")];

fn check_prices(url: &str, environment: &[(&str, &str)], expected: &str) {
    let repository = Repository::open(url, &options(environment)).unwrap();
    assert_eq!(repository.prices().name, expected, "{url}");
}

#[test]
fn every_kind_of_url_opens() {
    check_prices("memory:", &[], "free");
    check_prices("sim+memory:", &[], "s3-standard-us-east-1");
    check_prices("s3://bucket", AWS, "s3-standard-us-east-1");
    check_prices("s3://bucket/a/b?region=ap-northeast-2", AWS, "s3-standard-ap-northeast-2");
    check_prices("s3://bucket--use1-az4--x-s3/a", AWS, "s3-express-us-east-1");
    check_prices(
        "sim+s3://bucket/a?profile=optimistic&region=ap-northeast-2&seed=4",
        AWS,
        "s3-standard-ap-northeast-2",
    );
    check_prices("sim+memory:?prices=gcs-standard-us", &[], "gcs-standard-us");
    check_prices("gs://bucket/a", &[("STORAGE_EMULATOR_HOST", "http://127.0.0.1:4443")], "gcs-standard-us");
    let azure = &[(
        "AZURE_STORAGE_CONNECTION_STRING",
        "AccountName=me;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:10000/me",
    )];
    check_prices("az://container/a", azure, "azure-hot-lrs-us");
    check_prices(
        "abfs://container@me.dfs.core.windows.net/a",
        &[("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")],
        "azure-hot-lrs-us",
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a b").to_str().unwrap().to_owned();
    check_prices(&path, &[], "free");
    check_prices(&format!("file://{}", path.replace(' ', "%20")), &[], "free");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_wrong_url_says_what_is_wrong() {
    for (url, words) in [
        ("ftp://x", "not a kind of repository"),
        ("s3://", "names no bucket"),
        ("s3://b?colour=red", "colour"),
        ("s3://b/team#1", "%23"),
        ("gs://b/a/../b", "\"..\""),
        ("s3://b/x/%2E%2e/up", "%2E%2e"),
        ("az://c/./p", "\".\""),
        ("s3://user:secret@b/a", "has a user"),
        ("s3://minio:9000/bucket", "endpoint"),
        ("file:///a?b", "%3F"),
        ("file:///a#b", "%23"),
        ("sim+memory:?profile=lunar", "optimistic, measured or pessimistic"),
        ("sim+memory:?seed=x", "seed"),
        ("sim+memory:?read_mb_s=0", "above zero"),
        ("sim+memory:?wombat=1", "wombat"),
        ("", "empty"),
        ("file://host/x", "file:///directory"),
        ("s3:/bucket/x", "\"s3://bucket/x\""),
        ("S3:/b", "\"s3://b\""),
        ("s3//bucket", "\"s3://bucket\""),
        ("sim+s3:/bucket", "\"s3://bucket\""),
        ("gs:bucket", "\"gs://bucket\""),
        ("file:/srv/logs", "\"file:///srv/logs\""),
        ("http:/host:9000", "s3://bucket?endpoint=http://host:9000"),
    ] {
        let error = Repository::open(url, &options(AWS)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
        assert!(error.to_string().contains(words), "{url}: {error}");
    }
}

#[test]
fn a_connection_string_names_the_account_and_its_cloud() {
    let read = |text: &str| connection_string(text).map(BTreeMap::from_iter);
    let key = "AccountName=logs;AccountKey=a2V5==";
    let plain = read(&format!("DefaultEndpointsProtocol=https;{key};")).unwrap();
    assert_eq!(plain.keys().collect::<Vec<_>>(), ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCOUNT_NAME"]);
    assert_eq!(plain["AZURE_STORAGE_ACCOUNT_KEY"], "a2V5==");
    let government =
        read(&format!("DefaultEndpointsProtocol=https;{key};EndpointSuffix=core.usgovcloudapi.net")).unwrap();
    assert_eq!(government["AZURE_STORAGE_ENDPOINT"], "https://logs.blob.core.usgovcloudapi.net");
    let named = read(&format!("{key};BlobEndpoint=http://host:1/logs;QueueEndpoint=http://host:2")).unwrap();
    assert_eq!(named["AZURE_STORAGE_ENDPOINT"], "http://host:1/logs");
    assert_eq!(read("UseDevelopmentStorage=true").unwrap()["AZURE_STORAGE_USE_EMULATOR"], "true");
    for unknown in ["garbage", "AccountNam=logs"] {
        let error = read(unknown).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(unknown.split('=').next().unwrap()), "{error}");
    }
}

#[test]
fn single_constants_win_over_the_profile() {
    let repository = Repository::open(
        "sim+memory:?read_mb_s=7&profile=optimistic&nic_gbit_s=25&realtime=false",
        &options(&[]),
    )
    .unwrap();
    let model = repository.simulation().unwrap().options().clone();
    assert!(repository.is_simulated());
    assert_eq!(
        (model.profile.read_mb_s, model.profile.nic_gbit_s, model.profile.get_ms, model.realtime),
        (7.0, 25.0, (30.0, 120.0), false)
    );
}

#[test]
fn an_endpoint_without_a_scheme_is_an_error_and_no_panic() {
    fn endpoint(value: &str) -> Vec<(&str, &str)> {
        [AWS, &[("AWS_ENDPOINT_URL", value)]].concat()
    }
    for bad in ["localhost:9000", "127.0.0.1:9000", "minio", "//minio", "ftp://minio"] {
        let error = Repository::open("s3://bucket", &options(&endpoint(bad))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
        assert!(error.to_string().contains("needs http:// or https://"), "{error}");
        let error = Repository::open(&format!("s3://bucket?endpoint={bad}"), &options(AWS)).unwrap_err();
        assert!(error.to_string().contains("needs http:// or https://"), "{error}");
    }
    for odd in ["http://", "http://a b", "http://h:99999"] {
        let error = Repository::open("s3://bucket", &options(&endpoint(odd))).unwrap_err();
        assert!(error.to_string().contains("is not a URL"), "{error}");
    }
    let emulator = &[("STORAGE_EMULATOR_HOST", "127.0.0.1:4443")];
    assert!(Repository::open("gs://bucket", &options(emulator)).is_err());
    let azure = &[("AZURE_STORAGE_ACCOUNT_NAME", "a"), ("AZURE_STORAGE_ENDPOINT", "127.0.0.1:10000")];
    assert!(Repository::open("az://container", &options(azure)).is_err());
    Repository::open("s3://bucket", &options(&endpoint(""))).unwrap();
}

#[test]
fn azure_without_an_account_says_what_to_set() {
    let error = Repository::open("az://container/a", &options(&[])).unwrap_err();
    assert!(error.to_string().contains("set AZURE_STORAGE_ACCOUNT_NAME"), "{error}");
}

#[test]
fn a_directory_of_this_machine_is_told_from_a_bucket() {
    for url in ["/srv/logs", "file:///srv/logs", "sim+/srv/logs", "sim+file:///srv/logs?profile=measured"] {
        assert_eq!(local_directory(url), Some("/srv/logs".into()), "{url}");
    }
    for url in ["memory:", "sim+memory:?seed=1", "s3://bucket/a", "sim+s3://bucket"] {
        assert_eq!(local_directory(url), None, "{url}");
    }
    // Only what begins like a URL is taken for one.
    for path in ["s3/none", "./s3:/none", "logs:none", "/srv/s3://b", "s3"] {
        assert!(check_scheme(path).is_ok(), "{path}");
    }
}
