use serde_json::json;

use super::*;
use crate::testing::Faulty;

const LAYOUT: Layout = Layout { checkpoint_ending: "json", steps_max: 3 };

/// An entry that says one number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    id: String,
    number: u64,
}

impl Entry for Said {
    fn decode(_: u64, key: &str, bytes: &[u8]) -> Result<Said> {
        let corrupt = || Error::corrupt("not an entry").with("object", key);
        let read: serde_json::Value = serde_json::from_slice(bytes).map_err(|e| corrupt().with_source(e))?;
        let id = read["id"].as_str().ok_or_else(corrupt)?.to_owned();
        Ok(Said { id, number: read["number"].as_u64().ok_or_else(corrupt)? })
    }

    fn encode(&self) -> Result<Vec<u8>> {
        Ok(json!({ "id": self.id, "number": self.number }).to_string().into_bytes())
    }

    fn id(&self) -> Option<&str> {
        Some(&self.id)
    }
}

/// Everything said so far.
#[derive(Clone, Debug)]
struct Heard {
    log: CommitLog<Said>,
    numbers: Vec<u64>,
}

impl Replica for Heard {
    fn next(&self) -> u64 {
        self.numbers.len() as u64
    }

    async fn refresh(&self) -> Result<Heard> {
        let mut heard = self.clone();
        heard.numbers.extend(self.log.newer(self.next()).await?.into_iter().map(|said| said.number));
        Ok(heard)
    }
}

fn log(store: &Faulty) -> CommitLog<Said> {
    CommitLog::new(Arc::new(store.clone()), Path::from("log"), LAYOUT)
}

fn empty(store: &Faulty) -> Heard {
    Heard { log: log(store), numbers: Vec::new() }
}

async fn say(heard: Heard, number: u64) -> Result<Heard> {
    let entry = Said { id: format!("say {number}"), number };
    let log = heard.log.clone();
    let Appended { mut base, entry } = log.append(heard, |_| Ok(Some(entry.clone()))).await?;
    base.numbers.extend(entry.map(|said| said.number));
    Ok(base)
}

/// Writers race over a store that leaves puts without an answer, half of them applied.
#[tokio::test]
async fn what_was_acknowledged_is_there_once() {
    for (seed, silent_permille) in (0..40).map(|seed| (seed, if seed % 4 == 0 { 0 } else { 300 })) {
        let store = Faulty::silent(silent_permille, seed);
        let writers = (0..5_u64).map(|writer| {
            let mut heard = empty(&store);
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for step in 0..4 {
                    match say(heard.clone(), writer * 10 + step).await {
                        Ok(next) => {
                            acknowledged.push(writer * 10 + step);
                            heard = next;
                        }
                        Err(e) => assert_eq!(e.kind(), ErrorKind::Unavailable, "seed {seed}: {e:?}"),
                    }
                }
                acknowledged
            })
        });
        let acknowledged: Vec<Vec<u64>> =
            futures::future::join_all(writers).await.into_iter().map(|done| done.unwrap()).collect();
        let said = empty(&store).refresh().await.unwrap().numbers;
        for number in acknowledged.into_iter().flatten() {
            let times = said.iter().filter(|n| **n == number).count();
            assert_eq!(times, 1, "seed {seed}: {number} in {said:?}");
        }
        for writer in 0..5 {
            let own: Vec<u64> = said.iter().copied().filter(|n| n / 10 == writer).collect();
            assert!(own.is_sorted(), "seed {seed}: {said:?}");
        }
    }
}

#[tokio::test]
async fn an_entry_is_read_at_the_stated_cost() {
    let store = Faulty::sound();
    let mut heard = empty(&store);
    for number in 0..8 {
        let before = store.requests();
        heard = say(heard, number).await.unwrap();
        let after = store.requests();
        assert_eq!((after.puts - before.puts, after.gets - before.gets), (1, 0), "alone");
    }
    for (first, gets, lists) in [(8, 1, 0), (7, 2, 0), (6, 3, 0), (5, 3, 1), (0, 8, 1)] {
        let before = store.requests();
        assert_eq!(log(&store).newer(first).await.unwrap().len() as u64, 8 - first);
        let after = store.requests();
        assert_eq!((after.gets - before.gets, after.lists - before.lists), (gets, lists), "from {first}");
    }
}

/// A directory may be listed without an entry that was there before one that is listed.
#[tokio::test]
async fn an_entry_that_a_listing_overlooks_is_found() {
    let store = Faulty::sound();
    let mut heard = empty(&store);
    for number in 0..8 {
        heard = say(heard, number).await.unwrap();
    }
    for overlooked in [0, 4, 6] {
        let entry = log(&store).entry_path(overlooked);
        store.overlook(entry.as_ref());
        assert_eq!(log(&store).start().await.unwrap().unwrap().entries, (0..8).collect::<Vec<_>>());
        store.overlook(entry.as_ref());
        assert_eq!(log(&store).newer(0).await.unwrap().len(), 8);
    }
}

#[tokio::test]
async fn replaying_starts_at_the_newest_checkpoint_whatever_the_hint_says() {
    let store = Faulty::sound();
    assert!(log(&store).start().await.unwrap().is_none(), "no log");
    let mut heard = empty(&store);
    for number in 0..6 {
        heard = say(heard, number).await.unwrap();
    }
    let start = log(&store).start().await.unwrap().unwrap();
    assert_eq!((start.checkpoint.is_none(), start.entries), (true, (0..6).collect()));
    store.write(log(&store).checkpoint_path(3).as_ref(), "three").await;
    for hint in [None, Some("{\"version\":3}"), Some("{\"version\":9}"), Some("garbage"), Some("[]")] {
        if let Some(hint) = hint {
            store.write("log/_last_checkpoint", hint).await;
        }
        let start = log(&store).start().await.unwrap().unwrap();
        let (number, objects) = start.checkpoint.unwrap();
        assert_eq!(
            (number, objects[0].1.as_ref(), start.entries),
            (3, &b"three"[..], vec![4, 5]),
            "{hint:?}"
        );
    }
    store.remove(log(&store).entry_path(4).as_ref()).await;
    assert_eq!(log(&store).start().await.unwrap_err().kind(), ErrorKind::Corrupt, "a hole");
}

#[tokio::test]
async fn a_long_checkpoint_is_read_in_pieces() {
    let store = Faulty::sound();
    let log = log(&store);
    for length in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES - 1] {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        store.write("log/x", bytes.clone()).await;
        let before = store.requests().gets;
        let read = log.object(&Path::from("log/x")).await;
        assert_eq!(read.unwrap().unwrap(), bytes);
        // Stores refuse a range of an empty object: it is asked for once more, as a whole.
        let wanted = if length == 0 { 2 } else { length.div_ceil(PIECE_BYTES) };
        assert_eq!(store.requests().gets - before, wanted);
    }
    assert!(log.object(&Path::from("log/absent")).await.unwrap().is_none());
}
