use object_store::ObjectStoreExt;

use super::*;

#[tokio::test]
async fn nothing_half_written_is_left_or_listed() {
    let root = tempfile::tempdir().unwrap();
    let store = Directory::new(root.path()).unwrap();
    let key = Path::from("a/b/c");
    store.put_opts(&key, "one".into(), PutMode::Create.into()).await.unwrap();
    store.put_opts(&key, "two".into(), PutMode::Create.into()).await.unwrap_err();
    store.put(&key, "three".into()).await.unwrap();
    fs::write(root.path().join("a/b/c#123"), "torn by a power cut").unwrap();
    let keys: Vec<Path> = store.list(None).map_ok(|meta| meta.location).try_collect().await.unwrap();
    assert_eq!(keys, [Path::from("a/b/c")]);
    assert_eq!(store.get(&key).await.unwrap().bytes().await.unwrap(), "three");
    assert_eq!(fs::read_dir(root.path().join("a/b")).unwrap().count(), 2);
}

#[tokio::test]
async fn the_version_of_a_put_is_that_of_a_read() {
    let root = tempfile::tempdir().unwrap();
    let store = Directory::new(root.path()).unwrap();
    let put = store.put(&Path::from("k"), "x".into()).await.unwrap();
    assert_eq!(put.e_tag, store.head(&Path::from("k")).await.unwrap().e_tag);
}
