use std::sync::{Condvar, Mutex};

use super::*;

const PACED: Paced =
    Paced { load: Load::Postgres, data_bytes: 1 << 20, iops: 2000.0, seconds: 3600.0, seed: 7 };

#[test]
fn a_slow_answer_does_not_delay_the_requests_after_it() {
    // The first one is answered when 50 others are.
    let (answered, more) = (Mutex::new(0), Condvar::new());
    let first = AtomicBool::new(true);
    let serve = |_, _: &mut [u8]| {
        let mut answered = answered.lock().unwrap();
        if first.swap(false, Ordering::SeqCst) {
            let wait = more.wait_timeout_while(answered, Duration::from_secs(30), |answered| *answered < 50);
            assert!(!wait.unwrap().1.timed_out(), "the others waited for it");
        } else {
            *answered += 1;
            more.notify_all();
        }
        Ok(())
    };
    PACED.through(serve, || *answered.lock().unwrap() >= 50).unwrap();
}

#[test]
fn requests_are_of_the_load_and_spread_over_the_file() {
    let seen = Mutex::new(Vec::new());
    let serve = |request: Request, buffer: &mut [u8]| {
        assert_eq!((buffer.len(), buffer.as_ptr() as usize % ALIGNMENT), (8 << 10, 0));
        seen.lock().unwrap().push((request.write, request.offset));
        Ok(())
    };
    PACED.through(serve, || seen.lock().unwrap().len() >= 400).unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.iter().all(|(_, offset)| offset % (8 << 10) == 0 && *offset < 1 << 20));
    let places: std::collections::BTreeSet<u64> = seen.iter().map(|(_, offset)| *offset).collect();
    assert!(places.len() > 50, "{places:?}");
    let writes = seen.iter().filter(|(write, _)| *write).count() as f64 / seen.len() as f64;
    assert!((0.2..0.4).contains(&writes), "{writes}");
}

#[test]
fn no_more_is_offered_than_is_due() {
    let point = Paced { iops: 100.0, seconds: 0.5, ..PACED }.through(|_, _| Ok(()), || false).unwrap();
    assert_eq!(point.offered_iops, Some(100.0));
    assert!(point.iops <= 100.0 && point.mib_per_s <= 100.0 / 128.0, "{point:?}");
}

#[test]
fn waiting_is_that_of_requests() {
    // Few requests, and long waits between them: what the threads do meanwhile is not theirs.
    let spin = |_, _: &mut [u8]| {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(5) {}
        Ok(())
    };
    let point = Paced { iops: 4.0, seconds: 1.0, ..PACED }.through(spin, || false).unwrap();
    assert!(point.cpu_wait.is_none_or(|percent| (0.0..=100.0).contains(&percent)), "{point:?}");
}

#[test]
fn an_error_and_a_stop_end_all() {
    let serve = |_, _: &mut [u8]| Err(Error::unavailable("the volume is gone"));
    assert_eq!(PACED.through(serve, || false).unwrap_err().what(), "the volume is gone");
    let served = AtomicU64::new(0);
    let serve = |_, _: &mut [u8]| {
        served.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    PACED.through(serve, || served.load(Ordering::SeqCst) >= 10).unwrap();
    for never in [0.0, f64::NAN] {
        let point = Paced { iops: never, ..PACED }.through(serve, || false).unwrap();
        assert_eq!((point.iops, point.p50_ms, point.cpu_wait), (0.0, 0.0, None));
    }
}

#[test]
fn a_file_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = folder.path().join("data");
    let error = PACED.to(&file, || false).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::NotFound);
    assert!(!file.exists());
}
