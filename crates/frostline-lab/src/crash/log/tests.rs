use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SECTOR: u32 = 512;

#[test]
fn what_is_before_a_flush_is_always_there() {
    let mut device = Recorded::new(1 << 16);
    device.write(0, &[1; 512]);
    device.flush();
    device.write(0, &[2; 512]);
    device.write(512, &[3; 512]);
    let log = device.log();
    let mut seen = BTreeSet::new();
    for cut in log.cuts(0, 200, 7, SECTOR) {
        let image = Replay::new(log).state(&cut);
        let state = (image.read(0, 1)[0], image.read(512, 1)[0]);
        assert!(cut.at < 2 || state.0 != 0, "{cut:?} lost what was flushed");
        seen.insert(state);
    }
    // Before the flush, and behind it nothing, one, the other, both.
    assert_eq!(seen, BTreeSet::from([(0, 0), (1, 0), (1, 3), (2, 0), (2, 3)]));
}

#[test]
fn without_a_flush_everything_may_be_lost() {
    let mut device = Recorded::new(1 << 16);
    for n in 0..10u8 {
        device.write(u64::from(n) * 512, &[n + 1; 512]);
    }
    let cuts = device.log().cuts(0, 50, 7, SECTOR);
    assert_eq!(cuts.len(), 50);
    assert!(cuts.iter().all(|cut| cut.durable == 0));
    let failures = device.log().check(&cuts, |image, _| match image.read(0, 1) {
        first if first == [1] => Ok(()),
        _ => Err("lost".into()),
    });
    assert!(!failures.is_empty() && failures.len() < cuts.len());
}

#[test]
fn a_torn_write_ends_at_sectors() {
    let mut device = Recorded::new(1 << 16);
    device.write(4096 - 512, &[9; 4096]);
    let mut torn = 0;
    for seed in 0..32 {
        let cut = Cut { at: 1, durable: 0, kept: Kept::Torn, seed, sector: SECTOR };
        let bytes = Replay::new(device.log()).state(&cut).read(4096 - 512, 4096);
        let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        torn += usize::from(sectors.contains(&0) && sectors.contains(&9));
    }
    assert!(torn > 20, "{torn}");
}

#[test]
fn cuts_are_the_same_for_the_same_seed_and_cover_every_flush() {
    let mut device = Recorded::new(1 << 16);
    for n in 0..20 {
        device.write(n * 512, &[1; 512]);
        device.flush();
    }
    let log = device.log();
    let cuts = log.cuts(0, 60, 3, SECTOR);
    assert_eq!(cuts, log.cuts(0, 60, 3, SECTOR));
    assert_ne!(cuts, log.cuts(0, 60, 4, SECTOR));
    for flush in (0..20).map(|n| n * 2 + 2) {
        assert!(cuts.iter().any(|cut| cut.at == flush && cut.durable == flush && cut.kept == Kept::Nothing));
    }
    assert!(Kept::EVERY.iter().all(|kept| cuts.iter().any(|cut| cut.kept == *kept)));
    assert_eq!(log.cuts(0, 10, 3, SECTOR).len(), 10);
}

#[test]
fn nothing_to_cut_gives_no_cuts() {
    assert!(WriteLog::new(4096).cuts(0, 10, 1, SECTOR).is_empty());
}

#[test]
fn a_log_that_is_cut_short_or_no_log_is_corrupt() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("log");
    let mut writer = Writer::create(&path, 4096).expect("create");
    writer.append(&Event::Write { offset: 0, data: vec![1; 100] }).expect("append");
    let whole = std::fs::read(&path).expect("read");
    for length in (0..16).chain(17..whole.len()) {
        assert!(WriteLog::decode(&whole[..length]).is_err(), "{length} bytes");
    }
    assert!(WriteLog::decode(&whole[..16]).is_ok_and(|log| log.events.is_empty()));
    assert!(WriteLog::decode(b"FLwrlog0\0\0\0\0\0\0\0\0").is_err());
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0u64..60_000, prop::collection::vec(any::<u8>(), 1..9000))
            .prop_map(|(offset, data)| Event::Write { offset, data }),
        1 => (0u64..60_000, 1u64..20_000).prop_map(|(offset, bytes)| Event::Discard { offset, bytes }),
        2 => Just(Event::Flush),
        1 => "[a-z]{0,8}".prop_map(Event::Mark),
    ]
}

fn log() -> impl Strategy<Value = WriteLog> {
    prop::collection::vec(event(), 0..40).prop_map(|events| WriteLog { bytes: 1 << 16, events })
}

proptest! {
    #[test]
    fn a_log_reads_back_as_it_was_written(log in log()) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log");
        let mut writer = Writer::create(&path, log.bytes).expect("create");
        for event in &log.events {
            writer.append(event).expect("append");
        }
        prop_assert_eq!(WriteLog::read(&path).expect("read"), log);
    }

    /// The sparse image against a plain vector, in memory and stored in a file.
    #[test]
    fn an_image_is_its_bytes(log in log()) {
        let mut image = Image::new(log.bytes);
        let mut plain = vec![0u8; log.bytes as usize];
        for event in &log.events {
            image.apply(event);
            let (offset, data) = match event {
                Event::Write { offset, data } => (*offset as usize, data.clone()),
                Event::Discard { offset, bytes } => (*offset as usize, vec![0; *bytes as usize]),
                _ => continue,
            };
            let end = (offset + data.len()).min(plain.len());
            plain[offset..end].copy_from_slice(&data[..end - offset]);
        }
        prop_assert_eq!(&image.read(0, plain.len()), &plain);
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&[7; 100_000]).expect("write");
        image.store(&file).expect("store");
        let mut stored = vec![0; plain.len()];
        file.read_exact_at(&mut stored, 0).expect("read");
        prop_assert_eq!(file.metadata().expect("metadata").len(), log.bytes);
        prop_assert_eq!(stored, plain);
    }

    /// A state does not depend on which states were built before it.
    #[test]
    fn states_are_the_same_in_any_order(log in log(), seed in any::<u64>()) {
        let cuts = log.cuts(0, 12, seed, SECTOR);
        let mut forward = Replay::new(&log);
        let states: Vec<Image> = cuts.iter().map(|cut| forward.state(cut)).collect();
        let mut backward = Replay::new(&log);
        for (cut, state) in cuts.iter().zip(&states).rev() {
            prop_assert!(cut.durable <= cut.at);
            prop_assert_eq!(&backward.state(cut), state);
        }
    }
}

/// A toy write-ahead log: records of a length, a checksum and bytes, one after the other.
mod wal {
    use super::*;

    pub(super) fn append(device: &mut Recorded, at: &mut u64, record: &[u8], flush: bool) {
        let checksum =
            record.iter().fold(17u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        let head = [(record.len() as u32).to_le_bytes(), checksum.to_le_bytes()].concat();
        device.write(*at, &[&head, record].concat());
        *at += 8 + record.len() as u64;
        if flush {
            device.flush();
        }
        device.mark("acknowledged");
    }

    /// How many records are whole from the start on.
    pub(super) fn recover(image: &Image) -> usize {
        let (mut at, mut records) = (0, 0);
        loop {
            let head = image.read(at, 8);
            let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes")) as usize;
            let record = image.read(at + 8, length.min(4096));
            let sum =
                record.iter().fold(17u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
            if length == 0 || sum.to_le_bytes() != head[4..] {
                return records;
            }
            at += 8 + length as u64;
            records += 1;
        }
    }
}

fn lost(records: &[Vec<u8>], flush: impl Fn(usize) -> bool, seed: u64) -> usize {
    let mut device = Recorded::new(1 << 20);
    let mut at = 0;
    for (nth, record) in records.iter().enumerate() {
        wal::append(&mut device, &mut at, record, flush(nth));
    }
    let log = device.log();
    let judge = |image: &Image, marks: &mut dyn Iterator<Item = &str>| {
        let (found, promised) = (wal::recover(image), marks.count());
        if found < promised { Err(format!("{found} of {promised}")) } else { Ok(()) }
    };
    log.check(&log.cuts(0, 64, seed, SECTOR), judge).len()
}

proptest! {
    #[test]
    fn a_log_that_flushes_before_it_acknowledges_never_loses(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..2000), 1..30),
        seed in any::<u64>(),
    ) {
        prop_assert_eq!(lost(&records, |_| true, seed), 0);
    }

    #[test]
    fn a_log_that_forgets_a_flush_is_caught(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..2000), 4..30),
        seed in any::<u64>(),
    ) {
        prop_assert!(lost(&records, |nth| nth % 3 == 0, seed) > 0);
    }
}
