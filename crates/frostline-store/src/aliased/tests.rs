use futures::FutureExt;
use object_store::memory::InMemory;
use object_store::{ObjectStoreExt, PutPayload};
use proptest::prelude::*;

use super::*;

/// Every key below `many/` is the object `one`, with the last digit of the key at byte 10 and its first at byte 3.
#[derive(Debug)]
struct Numbered;

impl Aliases for Numbered {
    fn object_of(&self, key: &str) -> Option<String> {
        key.starts_with("many/").then(|| "one".to_owned())
    }

    fn patches(&self, key: &str, _: &Range<u64>) -> Vec<(u64, Bytes)> {
        let digits = key.trim_start_matches("many/").as_bytes().to_vec();
        vec![(10, Bytes::from(digits.clone())), (3, Bytes::copy_from_slice(&digits[..1]))]
    }
}

async fn store() -> Aliased {
    let inner = InMemory::new();
    inner.put(&Path::from("one"), PutPayload::from_static(b"abcdefghijklmnopqrst")).await.unwrap();
    inner.put(&Path::from("two"), PutPayload::from_static(b"another object")).await.unwrap();
    Aliased::new(Arc::new(inner), Arc::new(Numbered))
}

#[tokio::test]
async fn an_alias_has_the_bytes_of_its_object_but_for_its_patches() {
    let store = store().await;
    let whole = |key: &'static str| {
        let store = &store;
        async move { store.get(&Path::from(key)).await.unwrap().bytes().await.unwrap() }
    };
    assert_eq!(whole("one").await, "abcdefghijklmnopqrst");
    assert_eq!(whole("many/178").await, "abc1efghij178nopqrst");
    assert_eq!(whole("many/29").await, "abc2efghij29mnopqrst");
    assert_eq!(whole("two").await, "another object");
    assert!(store.get(&Path::from("three")).await.is_err());
    let head = store.head(&Path::from("many/29")).await.unwrap();
    assert_eq!((head.location.as_ref(), head.size), ("many/29", 20));
}

#[tokio::test]
async fn what_is_written_and_listed_is_what_is_there() {
    let store = store().await;
    store.put(&Path::from("three"), PutPayload::from_static(b"3")).await.unwrap();
    let keys: Vec<String> =
        store.list(None).map(|listed| listed.unwrap().location.to_string()).collect().await;
    assert_eq!(keys, ["one", "three", "two"]);
}

proptest! {
    #[test]
    fn any_range_is_that_of_the_whole(
        length in 1_usize..60,
        patches in prop::collection::vec((0_u64..60, prop::collection::vec(1_u8..255, 0..9)), 0..4),
        cuts in prop::collection::vec(0_usize..60, 0..5),
        from in 0_usize..60,
    ) {
        let mut whole = vec![0; length];
        for (offset, bytes) in &patches {
            for (at, byte) in bytes.iter().enumerate() {
                if let Some(place) = whole.get_mut(*offset as usize + at) {
                    *place = *byte;
                }
            }
        }
        let from = from.min(length);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.clamp(from, length)).collect();
        cuts.extend([from, length]);
        cuts.sort_unstable();
        let chunks: Vec<Result<Bytes>> =
            cuts.windows(2).map(|cut| Ok(Bytes::from(vec![0; cut[1] - cut[0]]))).collect();
        let patches = patches.into_iter().map(|(offset, bytes)| (offset, Bytes::from(bytes))).collect();
        let body = patched(futures::stream::iter(chunks).boxed(), from as u64, patches);
        let read: Vec<Result<Bytes>> = body.collect().now_or_never().unwrap();
        let read: Vec<u8> = read.into_iter().flat_map(|chunk| chunk.unwrap().to_vec()).collect();
        prop_assert_eq!(read, &whole[from..]);
    }
}
