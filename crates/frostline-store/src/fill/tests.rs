use std::cell::{Cell, RefCell};

use frostline_base::Error;

use super::*;

/// Batches are numbers of 1,000 bytes each; odd ones are there.
#[derive(Default)]
struct Numbers {
    fetched: RefCell<Vec<u64>>,
    fails: Cell<Option<u64>>,
    /// What is below never comes through.
    lost_below: u64,
    /// So many fetches fail.
    outage: Cell<u32>,
    is_waited_for: bool,
    running: Cell<usize>,
    most: Cell<usize>,
}

impl Fills for Numbers {
    type Batch = u64;

    fn absent(&self, batch: u64) -> Option<(u64, u64)> {
        batch.is_multiple_of(2).then_some((batch, 1_000))
    }

    fn is_waited_for(&self) -> bool {
        self.is_waited_for
    }

    async fn fetch(&self, batch: &u64) -> Result<()> {
        self.running.set(self.running.get() + 1);
        self.most.set(self.most.get().max(self.running.get()));
        tokio::task::yield_now().await;
        self.running.set(self.running.get() - 1);
        if self.fails.get() == Some(*batch) {
            self.fails.set(None);
            return Err(Error::unavailable("no"));
        }
        if let Some(left) = self.outage.get().checked_sub(1) {
            self.outage.set(left);
            return Err(Error::unavailable("not yet"));
        }
        if *batch < self.lost_below {
            return Err(Error::unavailable("never"));
        }
        self.fetched.borrow_mut().push(*batch);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_absent_is_fetched_in_order_many_at_once() {
    let numbers = Numbers::default();
    fill(&numbers, (0..40).collect(), &mut Pace::new(None)).await;
    let fetched = numbers.fetched.borrow();
    // Those on their way together end in any order.
    let groups: Vec<Vec<u64>> = fetched
        .chunks(BATCHES)
        .map(|group| {
            let mut group = group.to_vec();
            group.sort_unstable();
            group
        })
        .collect();
    assert_eq!(groups.concat(), (0..40).step_by(2).collect::<Vec<_>>());
    assert_eq!(numbers.most.get(), BATCHES);
}

#[tokio::test(start_paused = true)]
async fn while_a_read_waits_there_is_one_batch() {
    let numbers = Numbers { is_waited_for: true, ..Numbers::default() };
    fill(&numbers, (0..40).collect(), &mut Pace::new(None)).await;
    assert_eq!((numbers.most.get(), numbers.fetched.borrow().len()), (1, 20));
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_and_after_an_error_the_batch_is_tried_again() {
    let (numbers, begun) = (Numbers::default(), Instant::now());
    fill(&numbers, (0..40).collect(), &mut Pace::new(Some(500))).await;
    assert_eq!(begun.elapsed().as_secs(), 20 * 2 - 1);
    let numbers = Numbers { fails: Cell::new(Some(4)), ..Numbers::default() };
    fill(&numbers, (0..8).collect(), &mut Pace::new(None)).await;
    numbers.fetched.borrow_mut().sort_unstable();
    assert_eq!(*numbers.fetched.borrow(), [0, 2, 4, 6]);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_a_second_of_the_rate_comes_at_once() {
    for rate in [100, 999, 1_000, 7_000] {
        let (begun, mut pace) = (Instant::now(), Pace::new(Some(rate)));
        let is_kept = |numbers: &Numbers| {
            let fetched = numbers.fetched.borrow().len() as f64 * 1_000.0;
            fetched <= rate as f64 * (begun.elapsed().as_secs_f64() + 1.0) + 1.0
        };
        // What follows goes on at the same pace.
        let first = Numbers::default();
        fill(&first, [0].into(), &mut pace).await;
        assert!(is_kept(&first), "{rate}: {:?}", begun.elapsed());
        fill(&first, (2..40).collect(), &mut pace).await;
        assert!(is_kept(&first), "{rate}: {:?}", begun.elapsed());
        assert_eq!(first.fetched.borrow().len(), 20);
        let seconds = 20_000.0 / rate as f64;
        assert!(begun.elapsed().as_secs_f64() <= seconds, "{rate}: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_lands_while_filling_pauses() {
    let numbers = Numbers { fails: Cell::new(Some(0)), ..Numbers::default() };
    let (begun, mut pace) = (Instant::now(), Pace::new(None));
    let mut filling = std::pin::pin!(fill(&numbers, (0..8).collect(), &mut pace));
    let landed = async {
        while numbers.fetched.borrow().len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = &mut filling => {}
        () = landed => {}
    }
    assert!(begun.elapsed() < PAUSE, "{:?}", begun.elapsed());
    filling.await;
    assert!(begun.elapsed() >= PAUSE);
    // Those on their way together end in any order.
    let mut fetched = numbers.fetched.borrow_mut();
    fetched[..3].sort_unstable();
    assert_eq!(*fetched, [2, 4, 6, 0]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_holds_up_nothing_else() {
    // More than are on their way at once, and first.
    let numbers = Numbers { lost_below: 100, ..Numbers::default() };
    let (begun, mut pace) = (Instant::now(), Pace::new(None));
    let mut filling = std::pin::pin!(fill(&numbers, (0..1_000).collect(), &mut pace));
    let others = async {
        while numbers.fetched.borrow().len() < 450 {
            // The clock is paused, and goes on while all wait.
            tokio::time::sleep(PAUSE / 100).await;
        }
    };
    tokio::select! {
        () = &mut filling => panic!("some cannot be had"),
        () = others => {}
        () = tokio::time::sleep(PAUSE * 30) => {}
    }
    assert_eq!(numbers.fetched.borrow().len(), 450);
    assert!(begun.elapsed() <= PAUSE * 12, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_order_is_what_it_was() {
    let numbers = Numbers { is_waited_for: true, outage: Cell::new(3), ..Numbers::default() };
    fill(&numbers, (0..20).collect(), &mut Pace::new(None)).await;
    // The one that came through first, then the others from the first on.
    assert_eq!(*numbers.fetched.borrow(), [6, 0, 2, 4, 8, 10, 12, 14, 16, 18]);
}

#[tokio::test(start_paused = true)]
async fn speed_is_that_of_lately() {
    let mut speed = Speed::default();
    assert_eq!(speed.at(0), 0);
    for second in 1..30 {
        tokio::time::advance(Duration::from_secs(1)).await;
        // It slows down.
        let done = if second < 5 { second * 1_000 } else { 5_000 + (second - 5) * 100 };
        let seen = speed.at(done);
        assert!(second != 4 || seen == 1_000);
        assert!(second != 29 || seen == 100, "{seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_speed_of_large_steps_is_steady_and_that_of_a_pause_is_none() {
    const STEP: u64 = 4 << 20;
    let (mut speed, mut done_bytes) = (Speed::default(), 0);
    for second in 0..=120_u64 {
        if second % 4 == 3 {
            done_bytes += STEP;
        }
        let error = speed.at(done_bytes).abs_diff(STEP / 4);
        assert!(second < 11 || error < STEP / 40, "{second}: {error}");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(speed.at(done_bytes), 0);
}
