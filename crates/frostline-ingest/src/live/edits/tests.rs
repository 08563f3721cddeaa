use std::sync::atomic::AtomicU32;
use std::time::Duration;

use frostline_base::SystemClock;
use frostline_catalog::UnknownId;
use frostline_store::{Mishap, Repository};
use futures::FutureExt as _;
use futures::future::join_all;

use super::*;
use crate::documents::{Documents, Known};
use crate::live::tests::{Bench, append, land, name};
use crate::live::{LiveOptions, Outcome};
use crate::merge::{Merge, MergePolicy};

/// An `_id` that takes too much to be looked for.
const TOO_MUCH: &str = "too much";

/// Finds documents by reading all of them.
struct Reading(Repository);

impl FindIds for Reading {
    fn find<'a>(
        &'a self,
        index: &'a Arc<Index>,
        ids: &'a [String],
        with_text: bool,
    ) -> BoxFuture<'a, Result<LookedUp>> {
        async move {
            let mut found = documents(&self.0, index).await?;
            found.retain(|found| ids.contains(&found.id));
            found.iter_mut().filter(|_| !with_text).for_each(|found| found.text = None);
            let unknown = ids.iter().filter(|id| *id == TOO_MUCH).map(|id| UnknownId {
                id: id.clone(),
                split: None,
                error: Error::exhausted("it takes too much memory"),
            });
            Ok(LookedUp { documents: found, unknown: unknown.collect(), ..LookedUp::default() })
        }
        .boxed()
    }
}

/// Another process that commits each time that this one has looked for its documents, as often as is left.
struct Overtaken {
    reading: Reading,
    others: Edits,
    left: AtomicU32,
}

impl FindIds for Overtaken {
    fn find<'a>(
        &'a self,
        index: &'a Arc<Index>,
        ids: &'a [String],
        with_text: bool,
    ) -> BoxFuture<'a, Result<LookedUp>> {
        async move {
            let found = self.reading.find(index, ids, with_text).await;
            let left = self.left.load(Ordering::Relaxed);
            if left > 0 {
                self.left.store(left - 1, Ordering::Relaxed);
                applied(&self.others, [create(&format!("other {left}"), "{}")]).await;
            }
            found
        }
        .boxed()
    }
}

/// Every document of an index.
async fn documents(repository: &Repository, index: &Index) -> Result<Vec<Located>> {
    let (reads, splits) = (BlockingReads::new(repository), index.splits().to_vec());
    let read = move || {
        let mut rows = Vec::new();
        for entry in splits {
            let (mut split, mut row) = (Documents::open(&reads, &entry)?, 0);
            while split.head(&reads)?.is_some() {
                let Some((document, known)) = split.next_document() else { break };
                let (id, numbers) = match known {
                    Known::Landed(origin) => (origin.to_string(), Numbers::FIRST),
                    Known::Given(Identity { id, version, seq_no }) => (id, Numbers { version, seq_no }),
                };
                rows.push(Located { id, split: entry.id, row, numbers, text: Some(document.into()) });
                row += 1;
            }
        }
        Ok(rows)
    };
    on_own_thread(read).await
}

impl Bench {
    fn edits(&self) -> Edits {
        self.edits_with(LiveOptions::default())
    }

    fn edits_with(&self, options: LiveOptions) -> Edits {
        self.edits_in(&self.repository(), options)
    }

    fn edits_in(&self, repository: &Repository, options: LiveOptions) -> Edits {
        let live = self.live_in(repository, LiveOptions { group_after: Duration::ZERO, ..options });
        Edits::new(&live, Arc::new(Reading(self.repository())), Arc::new(SystemClock))
    }

    /// The text of each document by its `_id`; each `_id` is there once.
    async fn by_id(&self) -> BTreeMap<String, String> {
        let rows = documents(&self.repository(), &self.index().await).await.unwrap();
        let text = |found: Located| (found.id, String::from_utf8(found.text.unwrap().to_vec()).unwrap());
        let (count, by_id) = (rows.len(), rows.into_iter().map(text).collect::<BTreeMap<_, _>>());
        assert_eq!(by_id.len(), count);
        by_id
    }
}

fn create(id: &str, document: &str) -> Operation {
    Operation {
        id: id.to_owned(),
        action: Action::Create(document.to_owned().into()),
        expected: Expected::Any,
    }
}

fn index(id: &str, document: &str) -> Operation {
    Operation {
        id: id.to_owned(),
        action: Action::Index(document.to_owned().into()),
        expected: Expected::Any,
    }
}

fn delete(id: &str) -> Operation {
    Operation { id: id.to_owned(), action: Action::Delete, expected: Expected::Any }
}

async fn apply(edits: &Edits, operations: impl IntoIterator<Item = Operation>) -> Result<Vec<Edited>> {
    let operations = operations.into_iter().collect();
    let edit = Edit { operations, effort_max: 3, create: Some(Mapping::dynamic()) };
    edits.apply(&name(), edit).await
}

async fn applied<const N: usize>(edits: &Edits, operations: [Operation; N]) -> [Edited; N] {
    apply(edits, operations).await.unwrap().try_into().unwrap()
}

/// What the numbers of an outcome are, in short.
fn short(edited: &Edited) -> (&'static str, i64) {
    match edited {
        Edited::Created(numbers) => ("created", numbers.version),
        Edited::Updated(numbers) => ("updated", numbers.version),
        Edited::Deleted(numbers) => ("deleted", numbers.version),
        Edited::Unchanged(numbers) => ("unchanged", numbers.map_or(0, |numbers| numbers.version)),
        Edited::Missing => ("missing", 0),
        Edited::Conflict(numbers) => ("conflict", numbers.map_or(0, |numbers| numbers.version)),
        Edited::Refused(_) => ("refused", 0),
        Edited::Failed(error) => match error.kind() {
            ErrorKind::Exhausted => ("too much", 0),
            ErrorKind::Invalid => ("too large", 0),
            ErrorKind::Corrupt => ("damaged", 0),
            kind => panic!("{kind:?}"),
        },
    }
}

fn numbers(edited: &Edited) -> Numbers {
    match edited {
        Edited::Created(numbers) | Edited::Updated(numbers) | Edited::Deleted(numbers) => *numbers,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_another_process_closed_or_blocked_is_not_edited() {
    let bench = Bench::new();
    let edits = bench.edits();
    applied(&edits, [create("a", "{}")]).await;
    for setting in ["closed", "blocks.write"] {
        bench.set(setting).await;
        for operation in [create("b", "{}"), index("a", r#"{"n":1}"#), delete("a")] {
            let error = apply(&edits, [operation]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{setting}: {error}");
        }
        let found = edits.get(&name(), &["a".to_owned()], false).await.unwrap();
        assert_eq!(found.documents.len(), 1);
    }
    bench.set("hidden").await;
    applied(&edits, [delete("a")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_are_done_in_their_order_within_a_commit_and_after_it() {
    let bench = Bench::new();
    let edits = bench.edits();
    let operations = || {
        [
            create("a", r#"{"n":1}"#),
            create("a", r#"{"n":2}"#),
            index("a", r#"{"n":3}"#),
            index("b", r#"{"n":4}"#),
            delete("b"),
            delete("b"),
            create("b", r#"{"n":5}"#),
            index("c", r#"{"n":6}"#),
            delete("c"),
            create("d", "[]"),
            delete(""),
        ]
    };
    let first = applied(&edits, operations()).await;
    let of = |edited: &[Edited]| edited.iter().map(short).collect::<Vec<_>>();
    let ends = [("created", 1), ("deleted", 2), ("refused", 0), ("refused", 0)];
    let expected = [
        ("created", 1),
        ("conflict", 1),
        ("updated", 2),
        ("created", 1),
        ("deleted", 2),
        ("missing", 0),
        ("created", 1),
    ];
    assert_eq!(of(&first), [&expected[..], &ends[..]].concat());
    let left = [("a", r#"{"n":3}"#), ("b", r#"{"n":5}"#)];
    let left = BTreeMap::from(left.map(|(id, text)| (id.to_owned(), text.to_owned())));
    assert_eq!(bench.by_id().await, left);
    // By a process that has seen nothing of it.
    let second = applied(&bench.edits(), operations()).await;
    let expected = [
        ("conflict", 2),
        ("conflict", 2),
        ("updated", 3),
        ("updated", 2),
        ("deleted", 3),
        ("missing", 0),
        ("created", 1),
    ];
    assert_eq!(of(&second), [&expected[..], &ends[..]].concat());
    assert_eq!(bench.by_id().await, left);
    assert!(numbers(&second[2]).seq_no > numbers(&first[2]).seq_no);
    let got = edits.get(&name(), &["a", "x", "a"].map(str::to_owned), true).await.unwrap();
    assert_eq!((got.documents.len(), got.unknown.len()), (1, 0));
    assert_eq!((got.documents[0].numbers, got.documents[0].numbers.version), (numbers(&second[2]), 3));
    assert_eq!(got.documents[0].text.as_deref(), Some(&br#"{"n":3}"#[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_can_depend_on_the_sequence_number() {
    let bench = Bench::new();
    let edits = bench.edits();
    let [first] = applied(&edits, [create("a", "{}")]).await;
    let seq_no = numbers(&first).seq_no;
    let only_if = |seq_no, operation| Operation { expected: Expected::SeqNo(seq_no), ..operation };
    let done = applied(
        &edits,
        [
            only_if(seq_no + 1, index("a", r#"{"n":1}"#)),
            only_if(seq_no, index("b", r#"{"n":1}"#)),
            only_if(seq_no, index("a", r#"{"n":2}"#)),
            only_if(seq_no, delete("a")),
        ],
    );
    let done = done.await;
    let expected = [("conflict", 1), ("conflict", 0), ("updated", 2), ("conflict", 2)];
    assert_eq!(done.iter().map(short).collect::<Vec<_>>(), expected);
    let [gone] = applied(&edits, [only_if(numbers(&done[2]).seq_no, delete("a"))]).await;
    assert_eq!((short(&gone), bench.by_id().await.len()), (("deleted", 3), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_can_count_versions() {
    let bench = Bench::new();
    let edits = bench.edits();
    let of = |expected, operation| Operation { expected, ..operation };
    let put = |expected, text| of(expected, index("a", text));
    let done = applied(
        &edits,
        [
            put(Expected::Before(0), r#"{"n":0}"#),
            put(Expected::Before(7), r#"{"n":7}"#),
            put(Expected::Before(7), r#"{"n":8}"#),
            put(Expected::NotAfter(6), r#"{"n":9}"#),
            put(Expected::NotAfter(7), r#"{"n":10}"#),
            of(Expected::Before(7), delete("a")),
        ],
    );
    let expected =
        [("created", 0), ("updated", 7), ("conflict", 7), ("conflict", 7), ("updated", 7), ("conflict", 7)];
    assert_eq!(done.await.each_ref().map(short), expected);
    // Another process finds what is stored, and counts on where nobody else does.
    let other = bench.edits();
    let done = applied(
        &other,
        [
            put(Expected::Before(7), "{}"),
            put(Expected::Any, r#"{"n":11}"#),
            put(Expected::Before(i64::MAX), r#"{"n":12}"#),
            put(Expected::Any, r#"{"n":13}"#),
            of(Expected::NotAfter(i64::MAX), delete("a")),
            put(Expected::Before(3), r#"{"n":14}"#),
        ],
    );
    let expected = [
        ("conflict", 7),
        ("updated", 8),
        ("updated", i64::MAX),
        ("updated", i64::MAX),
        ("deleted", i64::MAX),
        ("created", 3),
    ];
    assert_eq!(done.await.each_ref().map(short), expected);
    // Of several processes at once, the newest is what is left.
    let putting = (4..10).map(|version| {
        let bench = &bench;
        async move { applied(&bench.edits(), [of(Expected::Before(version), index("a", "{}"))]).await }
    });
    join_all(putting).await;
    let got = edits.get(&name(), &["a".to_owned()], true).await.unwrap();
    assert_eq!(got.documents[0].numbers.version, 9);
}

/// Appends a mark to what is there.
fn mark(id: &str, mark: &'static str) -> Operation {
    let update = move |before: Option<(&[u8], Numbers)>, _: &mut u64| match before {
        None if mark == "x" => Changed::Missing,
        _ if mark == "gone" => Changed::Deleted,
        _ if mark == "no" => Changed::Failed(Error::invalid("no")),
        None => Changed::To(format!("{{\"m\":\"{mark}\"}}").into()),
        Some((text, _)) if text.ends_with(b"!\"}") => Changed::Nothing,
        Some((_, numbers)) if mark == "version" => {
            Changed::To(format!("{{\"m\":\"{}\"}}", numbers.version).into())
        }
        Some((text, _)) => {
            let text = String::from_utf8(text.to_vec()).unwrap();
            Changed::To(text.replace("\"}", &format!("{mark}\"}}")).into())
        }
    };
    let update = Update { make: Arc::new(update), bytes: mark.len() as u64 };
    Operation { id: id.to_owned(), action: Action::Update(update), expected: Expected::Any }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_has_what_the_operations_before_it_left() {
    let bench = Bench::new();
    let edits = bench.edits();
    let operations = || [mark("a", "x"), mark("a", "1"), mark("a", "2"), delete("b"), mark("b", "x")];
    let first = applied(&edits, operations()).await;
    let versions = [("missing", 0), ("created", 1), ("updated", 2), ("missing", 0), ("missing", 0)];
    assert_eq!(first.each_ref().map(short), versions);
    let second =
        applied(&edits, [mark("a", "x"), mark("a", "!"), mark("a", "y"), delete("a"), mark("a", "x")]);
    let versions = [("updated", 3), ("updated", 4), ("unchanged", 4), ("deleted", 5), ("missing", 0)];
    assert_eq!(second.await.each_ref().map(short), versions);
    let [wrong] = applied(&edits, [mark("c", "\u{1}")]).await;
    assert_eq!((short(&wrong), bench.by_id().await.len()), (("refused", 0), 0));
    // Of several processes at once, none loses what another one did.
    let marking = (0..4).map(|_| async { applied(&bench.edits(), [mark("d", "+"), mark("d", "+")]).await });
    join_all(marking).await;
    assert_eq!(bench.by_id().await["d"], r#"{"m":"++++++++"}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_sees_numbers_and_may_delete_or_fail() {
    let bench = Bench::new();
    let edits = bench.edits();
    let done =
        applied(&edits, [mark("a", "gone"), mark("a", "1"), mark("a", "2"), mark("a", "version")]).await;
    let versions = [("missing", 0), ("created", 1), ("updated", 2), ("updated", 3)];
    assert_eq!(done.each_ref().map(short), versions);
    assert_eq!(bench.by_id().await["a"], r#"{"m":"2"}"#);
    let done = applied(&edits, [mark("a", "no"), mark("b", "1"), mark("a", "gone"), mark("a", "gone")]).await;
    let Edited::Failed(error) = &done[0] else { panic!("{:?}", done[0]) };
    assert_eq!(error.what(), "no");
    let versions = [("created", 1), ("deleted", 4), ("missing", 0)];
    assert_eq!([&done[1], &done[2], &done[3]].map(short), versions);
    assert_eq!(bench.by_id().await.into_keys().collect::<Vec<_>>(), ["b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_beside_one_that_goes_stay_as_they_were() {
    let bench = Bench::new();
    let (live, edits) = (bench.live(), bench.edits());
    let texts = (0..50).map(|n| format!(r#"{{"@timestamp":{},"n":{n}}}"#, 1_700_000_000_000_u64 + n));
    let landed = land(&live, append(texts)).await.unwrap();
    let ids = landed.documents.iter().map(|outcome| match outcome {
        Outcome::Landed(origin) => origin.to_string(),
        other => panic!("{other:?}"),
    });
    let ids: Vec<String> = ids.collect();
    applied(&edits, [create("mine", r#"{"n":50}"#), create("yours", r#"{"n":51}"#)]).await;
    let mut expected = bench.by_id().await;
    assert_eq!((expected.len(), bench.index().await.splits().len()), (52, 2));
    // What landed without an _id can be replaced and deleted by the one that it got.
    let done = applied(&edits, [delete(&ids[7]), index(&ids[8], r#"{"n":"new"}"#), delete("mine")]).await;
    assert_eq!(done.each_ref().map(short), [("deleted", 2), ("updated", 2), ("deleted", 2)]);
    expected.remove(&ids[7]);
    expected.remove("mine");
    expected.insert(ids[8].clone(), r#"{"n":"new"}"#.to_owned());
    assert_eq!(bench.by_id().await, expected);
    // A split of which nothing is left goes.
    assert_eq!(bench.index().await.splits().len(), 3);
    applied(&edits, [delete("yours"), delete(&ids[8])]).await;
    assert_eq!((bench.index().await.splits().len(), bench.by_id().await.len()), (1, 48));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_that_is_too_large_is_left_alone() {
    let bench = Bench::new();
    let edits = bench.edits();
    for id in ["a", "b"] {
        applied(&edits, [create(id, r#"{"n":1}"#)]).await;
    }
    let bytes = bench.index().await.splits().iter().map(|split| rewrite::bytes(split)).max().unwrap();
    let before = bench.by_id().await;
    let of =
        |rewrite_bytes_max| bench.edits_with(LiveOptions { rewrite_bytes_max, ..LiveOptions::default() });
    let operations = [index("a", "{}"), delete("b"), delete("a"), create("c", "{}")];
    let done = applied(&of(0), operations).await;
    assert!(done[..3].iter().all(|edited| short(edited).0 == "too large"), "{done:?}");
    assert_eq!((short(&done[3]), bench.by_id().await.len()), (("created", 1), before.len() + 1));
    let done = applied(&of(bytes), [index("a", "{}"), delete("b"), delete("a")]).await;
    assert_eq!(done.each_ref().map(short), [("updated", 2), ("too much", 0), ("deleted", 3)]);
    assert_eq!(bench.by_id().await.into_keys().collect::<Vec<_>>(), ["b", "c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_documents_that_were_given_one_id_are_replaced() {
    let bench = Bench::new();
    let edits = bench.edits();
    applied(&edits, [create("a", r#"{"n":0}"#)]).await;
    // As an input that is ingested may.
    let index_now = bench.index().await;
    let output = Output {
        index: index_now.clone(),
        repository: bench.repository(),
        random: bench.random(),
        runtime: tokio::runtime::Handle::current(),
        terms: None,
    };
    let identity = |version| Identity { id: "a".to_owned(), version, seq_no: 1 };
    let further = [(Bytes::from("{}"), identity(1)), (Bytes::from("{}"), identity(7))];
    let splits = on_own_thread(move || write(&output, &further)).await.unwrap();
    let add = splits.iter().map(|split| split.entry.clone()).collect();
    index_now.commit(Change { add, operation: "test".to_owned(), ..Change::default() }).await.unwrap();
    let [conflict, updated] = applied(&edits, [create("a", "{}"), index("a", r#"{"n":1}"#)]).await;
    assert_eq!((short(&conflict), short(&updated)), (("conflict", 1), ("updated", 2)));
    assert_eq!(bench.by_id().await, BTreeMap::from([("a".to_owned(), r#"{"n":1}"#.to_owned())]));
}

/// Wherever two answers in a row are lost, or requests: what is acknowledged is there, and what is not is there once or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_whose_answers_are_lost_is_done_once_or_not_at_all() {
    let mut failed = 0;
    for (mishap, at) in
        [Mishap::AnswerLost, Mishap::Lost].into_iter().flat_map(|m| (0..20).map(move |at| (m, at)))
    {
        let bench = Bench::new();
        applied(&bench.edits(), [create("a", r#"{"n":0}"#), create("b", "{}")]).await;
        let script = [vec![Mishap::None; at], vec![mishap; 2]].concat();
        let (repository, _) = bench.failing(script);
        let edits = bench.edits_in(&repository, LiveOptions::default());
        let done = apply(&edits, [index("a", r#"{"n":1}"#), create("c", "{}"), delete("b")]).await;
        let (old, new) = ([("a", r#"{"n":0}"#), ("b", "{}")], [("a", r#"{"n":1}"#), ("c", "{}")]);
        let of = |documents: [(&str, &str); 2]| {
            BTreeMap::from(documents.map(|(id, text)| (id.to_owned(), text.to_owned())))
        };
        let found = bench.by_id().await;
        match done {
            Ok(edited) => {
                let versions = [("updated", 2), ("created", 1), ("deleted", 2)];
                assert_eq!(edited.iter().map(short).collect::<Vec<_>>(), versions, "{mishap:?} {at}");
                assert_eq!(found, of(new), "{mishap:?} {at}");
            }
            Err(error) => {
                failed += 1;
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{mishap:?} {at}: {error}");
                assert!(found == of(old) || found == of(new), "{mishap:?} {at}: {found:?}");
            }
        }
        let [again] = applied(&bench.edits(), [index("a", r#"{"n":2}"#)]).await;
        assert_eq!(short(&again).0, "updated");
        assert_eq!(bench.by_id().await["a"], r#"{"n":2}"#);
    }
    assert!(failed > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_lands_after_many_of_other_processes() {
    let bench = Bench::new();
    let live = bench.live_with(LiveOptions { group_after: Duration::ZERO, ..LiveOptions::default() });
    let find =
        Overtaken { reading: Reading(bench.repository()), others: bench.edits(), left: AtomicU32::new(40) };
    let edits = Edits::new(&live, Arc::new(find), Arc::new(SystemClock));
    let [created] = applied(&edits, [create("a", r#"{"n":0}"#)]).await;
    assert_eq!(short(&created), ("created", 1));
    let found = bench.by_id().await;
    assert_eq!((found.len(), found["a"].as_str()), (41, r#"{"n":0}"#));
}

/// A number from a seed, below `below`.
fn dice(seed: u64, below: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&seed.to_le_bytes()) % below
}

/// Three processes edit few documents while another appends and a fifth merges. What each was told is one history of each
/// document.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_several_writers_were_told_is_one_history_of_each_document() {
    for seed in 0..6 {
        let bench = Bench::new();
        let repository = bench.repository();
        applied(&bench.edits(), [create("first", "{}")]).await;
        let writer = |number: u64| {
            let edits = bench.edits();
            async move {
                let mut told = Vec::new();
                for round in 0..8 {
                    let operation = |at: u64| {
                        let seed = seed << 32 | number << 16 | round << 8 | at;
                        let id = format!("id {}", dice(seed, 5));
                        let document = format!(r#"{{"seed":{seed}}}"#);
                        match dice(!seed, 4) {
                            0 => create(&id, &document),
                            1 => delete(&id),
                            _ => index(&id, &document),
                        }
                    };
                    let operations: Vec<Operation> = (0..1 + dice(seed ^ round, 4)).map(operation).collect();
                    // A conflict with others that never ends would be told as unavailable.
                    let edited = apply(&edits, operations.clone()).await.unwrap();
                    told.extend(operations.into_iter().zip(edited));
                }
                told
            }
        };
        let appending = async {
            let live = bench.live_with(LiveOptions { group_after: Duration::ZERO, ..LiveOptions::default() });
            for n in 0..8 {
                land(&live, append([format!(r#"{{"appended":{n}}}"#)])).await.unwrap();
            }
        };
        let merging = async {
            let merge = Merge::new(&repository, &bench.catalog(&repository), bench.random());
            for _ in 0..6 {
                merge.run(&name(), &MergePolicy::default()).await.unwrap();
            }
        };
        let (told, (), ()) = tokio::join!(join_all((0..3).map(writer)), appending, merging);
        let mut histories: BTreeMap<String, Vec<(Numbers, Operation, Edited)>> = BTreeMap::new();
        for (operation, edited) in told.into_iter().flatten() {
            if matches!(edited, Edited::Created(_) | Edited::Updated(_) | Edited::Deleted(_)) {
                let done = (numbers(&edited), operation.clone(), edited);
                histories.entry(operation.id).or_default().push(done);
            }
        }
        let mut expected = BTreeMap::from([("first".to_owned(), "{}".to_owned())]);
        for (id, mut history) in histories {
            history.sort_by_key(|(numbers, ..)| numbers.seq_no);
            let mut version = 0;
            for (numbers, operation, edited) in &history {
                let is_first = matches!(edited, Edited::Created(_));
                assert_eq!(
                    (is_first, numbers.version),
                    (version == 0, version + 1),
                    "{seed}: {id}: {history:?}"
                );
                version = if operation.action.document().is_none() { 0 } else { numbers.version };
                match operation.action.document() {
                    Some(document) => {
                        let text = String::from_utf8(document.to_vec()).unwrap();
                        expected.insert(id.clone(), text);
                    }
                    None => drop(expected.remove(&id)),
                }
            }
        }
        let (given, appended): (BTreeMap<_, _>, BTreeMap<_, _>) =
            bench.by_id().await.into_iter().partition(|(_, text)| !text.contains("appended"));
        assert_eq!(given, expected, "{seed}");
        let appended: BTreeSet<String> = appended.into_values().collect();
        assert_eq!(appended, (0..8).map(|n| format!(r#"{{"appended":{n}}}"#)).collect(), "{seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_much_fails_alone() {
    let bench = Bench::new();
    let edits = bench.edits();
    // All of these are pushed before the first group is taken.
    let requests = ["a", TOO_MUCH, "b"].map(|id| apply(&edits, [index(id, "{}"), create("c", "{}")]));
    let done = join_all(requests).await.into_iter().map(|edited| edited.unwrap().iter().map(short).collect());
    let (made, known, failed) = (("created", 1), ("conflict", 1), ("too much", 0));
    assert_eq!(done.collect::<Vec<Vec<_>>>(), [[made, made], [failed, known], [made, known]]);
    assert_eq!(bench.by_id().await.len(), 3);
}

/// An operation holds what its update does, however many wait.
#[tokio::test]
async fn an_update_takes_of_what_may_be_held() {
    let bench = Bench::new();
    let edits = bench.edits_with(LiveOptions { held_bytes_max: 1 << 20, ..LiveOptions::default() });
    let update = Update { make: Arc::new(|_, _: &mut u64| Changed::Missing), bytes: 1 << 20 };
    let large = Operation { id: "a".to_owned(), action: Action::Update(update), expected: Expected::Any };
    assert_eq!(apply(&edits, [large]).await.unwrap_err().kind(), ErrorKind::Invalid);
    // Nor do all updates of one commit make more.
    let make = |_: Option<(&[u8], Numbers)>, _: &mut u64| {
        Changed::To(format!("{{\"m\":\"{}\"}}", "x".repeat(400_000)).into())
    };
    let grown = |id: &str| {
        let update = Update { make: Arc::new(make), bytes: 1 };
        Operation { id: id.to_owned(), action: Action::Update(update), expected: Expected::Any }
    };
    let done = applied(&edits, [grown("x"), grown("y"), grown("z")]).await;
    assert_eq!(done.each_ref().map(short), [("created", 1), ("created", 1), ("too much", 0)]);
    assert_eq!(short(&applied(&edits, [mark("a", "1")]).await[0]), ("created", 1));
}

/// The updates of one request share an effort; those of another that lands with them have their own.
#[tokio::test]
async fn the_updates_of_a_request_share_what_they_may_do() {
    let bench = Bench::new();
    let edits = bench.edits();
    let costly = |id: &str| {
        let make = |_: Option<(&[u8], Numbers)>, effort: &mut u64| match effort.checked_sub(1) {
            Some(left) => {
                *effort = left;
                Changed::To("{}".into())
            }
            None => Changed::Failed(Error::exhausted("no more")),
        };
        let update = Update { make: Arc::new(make), bytes: 1 };
        Operation { id: id.to_owned(), action: Action::Update(update), expected: Expected::Any }
    };
    let (made, failed) = (("created", 1), ("too much", 0));
    let one = apply(&edits, ["a", "b", "c", "d"].map(costly));
    let two = apply(&edits, ["e", "f", "g"].map(costly));
    let (one, two) = futures::future::join(one, two).await;
    let shorts = |edited: Result<Vec<Edited>>| edited.unwrap().iter().map(short).collect::<Vec<_>>();
    assert_eq!((shorts(one), shorts(two)), (vec![made, made, made, failed], vec![made; 3]));
}

/// A split whose documents are damaged fails those that it has, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_split_fails_its_own_documents_alone() {
    let bench = Bench::new();
    let edits = bench.edits();
    applied(&edits, [create("a", r#"{"n":1}"#), create("b", r#"{"n":2}"#), create("stays", "{}")]).await;
    applied(&edits, [create("c", r#"{"n":3}"#)]).await;
    let known = Remembering(documents(&bench.repository(), &bench.index().await).await.unwrap());
    let damaged = known.0.iter().find(|found| found.id == "a").unwrap().split;
    let entry = Arc::clone(bench.index().await.split(damaged).unwrap());
    let meter = frostline_base::Meter::default();
    let mut bytes = bench.repository().get(&entry.object.key, &meter).await.unwrap().to_vec();
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    bench.repository().put(&entry.object.key, bytes.into()).await.unwrap();
    let live = bench.live_with(LiveOptions { group_after: Duration::ZERO, ..LiveOptions::default() });
    let edits = Edits::new(&live, Arc::new(known), Arc::new(SystemClock));
    let done = applied(&edits, [index("a", "{}"), index("c", "{}"), delete("b"), create("d", "{}")]).await;
    let (failed, made) = (("damaged", 0), ("created", 1));
    assert_eq!(done.each_ref().map(short), [failed, ("updated", 2), failed, made]);
    let Edited::Failed(error) = &done[0] else { panic!("{done:?}") };
    assert!(error.to_string().contains(&damaged.to_string()), "{error}");
    assert_eq!(error.fact("object"), Some(entry.object.key.as_str()));
    assert!(bench.index().await.split(damaged).is_some());
}

/// Finds documents where they were.
struct Remembering(Vec<Located>);

impl FindIds for Remembering {
    fn find<'a>(
        &'a self,
        index: &'a Arc<Index>,
        ids: &'a [String],
        _: bool,
    ) -> BoxFuture<'a, Result<LookedUp>> {
        let is_there = |found: &&Located| ids.contains(&found.id) && index.split(found.split).is_some();
        let found = self.0.iter().filter(is_there).cloned().collect();
        async move { Ok(LookedUp { documents: found, ..LookedUp::default() }) }.boxed()
    }
}

/// Deletes the index while documents are looked for, and cannot read what is gone.
struct Deleting {
    reading: Reading,
    catalog: Catalog,
    /// Whether it is deleted before documents are looked for, else after that.
    before: bool,
    left: Mutex<u32>,
}

impl FindIds for Deleting {
    fn find<'a>(
        &'a self,
        index: &'a Arc<Index>,
        ids: &'a [String],
        with_text: bool,
    ) -> BoxFuture<'a, Result<LookedUp>> {
        let deletes = {
            let mut left = self.left.lock();
            let deletes = *left > 0;
            *left = left.saturating_sub(1);
            deletes
        };
        async move {
            if deletes && self.before {
                self.catalog.delete(&name()).await?;
            }
            let found = match self.reading.find(index, ids, with_text).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let split = index.splits().first().map(|split| split.id);
                    let unknown = |id: &String| UnknownId { id: id.clone(), split, error: error.clone() };
                    Ok(LookedUp { unknown: ids.iter().map(unknown).collect(), ..LookedUp::default() })
                }
                found => found,
            };
            if deletes && !self.before {
                self.catalog.delete(&name()).await?;
            }
            found
        }
        .boxed()
    }
}

/// Where an index is deleted while it is written to, it is created again by what creates indices, and by nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_is_deleted_meanwhile_is_created_again() {
    for (before, times) in [(true, 1), (false, 1), (true, 3), (false, 3)] {
        let bench = Bench::new();
        let repository = bench.repository();
        let edits = || async {
            applied(&bench.edits(), [create("a", "{}")]).await;
            let (catalog, reading) = (bench.catalog(&repository), Reading(repository.clone()));
            let deleting = Deleting { reading, catalog, before, left: Mutex::new(times) };
            let live = bench.live_with(LiveOptions { group_after: Duration::ZERO, ..LiveOptions::default() });
            Edits::new(&live, Arc::new(deleting), Arc::new(SystemClock))
        };
        let done = applied(&edits().await, [index("a", r#"{"n":1}"#), create("b", "{}"), delete("c")]).await;
        assert_eq!(done.each_ref().map(short), [("created", 1), ("created", 1), ("missing", 0)], "{before}");
        let left = BTreeMap::from(
            [("a", r#"{"n":1}"#), ("b", "{}")].map(|(id, text)| (id.to_owned(), text.to_owned())),
        );
        assert_eq!(bench.by_id().await, left);
        let edit = Edit { operations: vec![delete("a")], ..Edit::default() };
        let gone = edits().await.apply(&name(), edit).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
}

fn rows<const N: usize>(split: SplitId, rows: [u32; N]) -> Removal {
    Removal { split, rows: rows.into_iter().collect() }
}

/// How many documents went, or why none did.
fn outcome(removed: &Removed) -> std::result::Result<u64, &'static str> {
    match removed {
        Removed::Rows(rows) => Ok(rows.len()),
        Removed::Moved => Err("moved"),
        Removed::Failed(error) if error.kind() == ErrorKind::Exhausted => Err("too much"),
        Removed::Failed(error) if error.kind() == ErrorKind::Invalid => Err("too large"),
        Removed::Failed(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_deleted_where_they_were_found() {
    let bench = Bench::new();
    let (live, edits) = (bench.live(), bench.edits());
    land(&live, append((0..5).map(|n| format!(r#"{{"n":{n}}}"#)))).await.unwrap();
    applied(&edits, [create("a", "{}"), create("b", "{}")]).await;
    let of_rows = |index: &Index, rows| index.splits().iter().find(|split| split.rows == rows).unwrap().id;
    let (landed, mine) = (of_rows(&bench.index().await, 5), of_rows(&bench.index().await, 2));
    let mut expected = bench.by_id().await;
    let removals = || vec![rows(landed, [1, 3]), rows(mine, [0, 1])];
    let removed = edits.remove(&name(), removals()).await.unwrap();
    assert_eq!(removed.iter().map(outcome).collect::<Vec<_>>(), [Ok(2), Ok(2)]);
    for id in ["a", "b", &format!("{landed}-1"), &format!("{landed}-3")] {
        assert!(expected.remove(id).is_some(), "{id}");
    }
    assert_eq!(bench.by_id().await, expected);
    // By a process that has seen nothing of it.
    let removed = bench.edits().remove(&name(), removals()).await.unwrap();
    assert_eq!(removed.iter().map(outcome).collect::<Vec<_>>(), [Err("moved"), Err("moved")]);
    assert_eq!(bench.by_id().await, expected);
    let left = bench.index().await.splits()[0].id;
    let name = name();
    let twice = join_all((0..2).map(|_| edits.remove(&name, vec![rows(left, [0])]))).await;
    assert_eq!(bench.by_id().await.len(), 2);
    let gone: u64 = twice.iter().map(|removed| outcome(&removed.as_ref().unwrap()[0]).unwrap_or(0)).sum();
    assert_eq!(gone, 1);
    assert!(edits.remove(&"gone".parse().unwrap(), vec![rows(left, [0])]).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_that_goes_as_a_whole_is_not_written_anew() {
    let bench = Bench::new();
    let edits = bench.edits();
    for id in ["a", "b"] {
        applied(&edits, [create(id, "{}"), create(&format!("{id}2"), "{}")]).await;
    }
    let index_now = bench.index().await;
    let splits: Vec<SplitId> = index_now.splits().iter().map(|split| split.id).collect();
    let none = bench.edits_with(LiveOptions { rewrite_bytes_max: 0, ..LiveOptions::default() });
    let removed = none.remove(&name(), vec![rows(splits[0], [0]), rows(splits[1], [0, 1])]).await.unwrap();
    assert_eq!(removed.iter().map(outcome).collect::<Vec<_>>(), [Err("too large"), Ok(2)]);
    let bytes = rewrite::bytes(&index_now.splits()[0]);
    applied(&edits, [create("c", "{}"), create("c2", "{}")]).await;
    let newest = bench.index().await;
    let last = newest.splits().iter().find(|split| index_now.split(split.id).is_none()).unwrap().id;
    let some = bench.edits_with(LiveOptions { rewrite_bytes_max: bytes, ..LiveOptions::default() });
    let removed = some.remove(&name(), vec![rows(splits[0], [0]), rows(last, [0])]).await.unwrap();
    assert_eq!(removed.iter().map(outcome).filter(|outcome| *outcome == Ok(1)).count(), 1, "{removed:?}");
    assert_eq!(removed.iter().map(outcome).filter(|outcome| *outcome == Err("too much")).count(), 1);
}

/// Beside a request for documents by `_id` that lands in the same commit, each document goes once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_is_edited_at_the_same_time_is_not_lost() {
    for _ in 0..10 {
        let bench = Bench::new();
        let edits = bench.edits();
        applied(&edits, [create("a", r#"{"n":1}"#), create("b", "{}"), create("c", "{}")]).await;
        let split = bench.index().await.splits()[0].id;
        let name = name();
        let removing = edits.remove(&name, vec![rows(split, [0, 1])]);
        let (done, removed) = tokio::join!(applied(&edits, [index("a", r#"{"n":2}"#)]), removing);
        let removed = outcome(&removed.unwrap()[0]);
        let left = bench.by_id().await;
        assert_eq!(left["a"], r#"{"n":2}"#);
        match (short(&done[0]), removed) {
            (("updated", 2), Ok(1)) | (("created", 1), Ok(2)) => assert_eq!(left.len(), 2),
            (("updated", 2), Err("moved")) => assert_eq!(left.len(), 3),
            other => panic!("{other:?}"),
        }
    }
}
