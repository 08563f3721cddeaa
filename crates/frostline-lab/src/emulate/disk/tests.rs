use super::*;

const LAZY: Lazy = Lazy { block_bytes: 1 << 19, first_touch_ms: 10.0, mib_per_s: 5.0 };

fn touch(touched: &mut Touched, now: f64, write: bool, offset: u64, bytes: u64) -> f64 {
    touched.touch(now, Io { write, offset, bytes })
}

#[test]
fn a_first_touch_costs_the_fetch_and_a_second_nothing() {
    let mut touched = Touched::new(LAZY, 1 << 30).expect("new");
    // 512 KiB at 5 MiB/s take 100 ms, and the first byte 10 ms.
    let done = touch(&mut touched, 1.0, false, 4096, 4096);
    assert!((done - 1.11).abs() < 1e-9, "{done}");
    // Who asks while the block is on its way waits for it, and no longer.
    assert_eq!(touch(&mut touched, 1.05, false, 0, 4096), done);
    assert_eq!(touch(&mut touched, 2.0, false, 0, 4096), 2.0);
    assert_eq!(touched.fetched, 1);
}

#[test]
fn fetches_share_the_link() {
    let mut touched = Touched::new(LAZY, 1 << 30).expect("new");
    // Four blocks with one request: 400 ms of the link and one first-touch time.
    let done = touch(&mut touched, 0.0, false, 0, 4 << 19);
    assert!((done - 0.41).abs() < 1e-9, "{done}");
    assert_eq!(touched.fetched, 4);
}

#[test]
fn a_write_of_whole_blocks_fetches_nothing_and_of_a_part_does() {
    let mut touched = Touched::new(LAZY, 1 << 30).expect("new");
    assert_eq!(touch(&mut touched, 0.0, true, 0, 2 << 19), 0.0);
    assert_eq!(touched.fetched, 0);
    assert!(touch(&mut touched, 0.0, true, (2 << 19) + 512, 1 << 19) > 0.2);
    assert_eq!(touched.fetched, 2);
}

#[test]
fn impossible_parameters_are_invalid() {
    for lazy in [
        Lazy { block_bytes: 0, ..LAZY },
        Lazy { mib_per_s: 0.0, ..LAZY },
        Lazy { first_touch_ms: -1.0, ..LAZY },
    ] {
        assert!(Touched::new(lazy, 1 << 30).is_err(), "{lazy:?}");
    }
}

#[test]
fn lateness_is_counted_by_class() {
    let mut late = Late::default();
    for _ in 0..99 {
        late.add(100.0);
    }
    late.add(5000.0);
    assert_eq!((late.quantile(0.5), late.quantile(0.99), late.quantile(1.0)), (128.0, 128.0, 5000.0));
    assert!((late.mean() - 149.0).abs() < 1e-9);
    assert_eq!(Late::default().quantile(0.99), 0.0);
}

#[test]
fn a_cache_is_clean_when_all_that_was_written_has_drained() {
    let mut cache = Cache::new(10.0).expect("new");
    cache.take(1.0, 20 << 20);
    assert!((cache.clean_at - 3.0).abs() < 1e-9, "{}", cache.clean_at);
    // It drains meanwhile, and what comes later waits behind what is there.
    cache.take(2.0, 5 << 20);
    assert!((cache.clean_at - 3.5).abs() < 1e-9, "{}", cache.clean_at);
    cache.take(9.0, 10 << 20);
    assert!((cache.clean_at - 10.0).abs() < 1e-9, "{}", cache.clean_at);
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Cache::new(rate).is_err(), "{rate}");
    }
}
