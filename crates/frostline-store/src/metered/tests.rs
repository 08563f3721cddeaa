use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;

use super::*;

#[tokio::test]
async fn every_request_is_counted() {
    let meter = Arc::new(Meter::default());
    let store = Metered::new(Arc::new(InMemory::new()), Arc::clone(&meter));
    let key = Path::from("k");
    store.put(&key, vec![1; 1_000].into()).await.unwrap();
    store.get(&key).await.unwrap().bytes().await.unwrap();
    store.get_range(&key, 10..20).await.unwrap();
    store.head(&key).await.unwrap();
    store.get_ranges(&key, &[0..10, 20..30]).await.unwrap();
    store.copy(&key, &Path::from("l")).await.unwrap();
    store.rename(&Path::from("l"), &Path::from("m")).await.unwrap();
    store.delete(&Path::from("m")).await.unwrap();
    assert_eq!(store.list(None).try_collect::<Vec<_>>().await.unwrap().len(), 1);
    store.list_with_delimiter(None).await.unwrap();
    let cost = meter.cost();
    assert_eq!((cost.gets, cost.heads, cost.puts, cost.deletes, cost.lists), (3, 1, 3, 2, 2));
    assert_eq!((cost.bytes_read, cost.bytes_written), (1_000 + 10 + 30, 1_000));
}

#[tokio::test]
async fn uploads_and_pages_are_counted() {
    let meter = Arc::new(Meter::default());
    let store = Metered::new(Arc::new(InMemory::new()), Arc::clone(&meter));
    let mut upload = store.put_multipart(&Path::from("big")).await.unwrap();
    upload.put_part(vec![0; 7].into()).await.unwrap();
    upload.put_part(vec![0; 5].into()).await.unwrap();
    upload.complete().await.unwrap();
    assert_eq!((meter.cost().puts, meter.cost().bytes_written), (4, 12));
    for i in 0..2_001 {
        store.inner.put(&Path::from(format!("k/{i}")), "".into()).await.unwrap();
    }
    store.list(None).try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(meter.cost().lists, 3);
}

#[tokio::test]
async fn a_body_is_counted_as_far_as_it_is_read() {
    let meter = Arc::new(Meter::default());
    let store = Metered::new(Arc::new(InMemory::new()), Arc::clone(&meter));
    store.put(&Path::from("k"), vec![1; 1_000].into()).await.unwrap();
    drop(store.get(&Path::from("k")).await.unwrap());
    assert_eq!((meter.cost().gets, meter.cost().bytes_read), (1, 0));
}
