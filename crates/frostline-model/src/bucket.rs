//! A bucket of credits, and a plain rate limit.

/// How far a limit may run behind the one that holds the volume back, in seconds: idle time that is older is
/// not returned as speed. The vendor documents no such figure; it is short against everything measured.
pub const SLACK_S: f64 = 0.05;

/// Credits that come at `base` a second, always, and are spent as work is served: at `burst` a second while
/// there are any, at `base` when there are none. So d(credit)/dt = base - served, between 0 and the capacity.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Credits a second, always.
    pub base: f64,
    /// Credits a second while there are any.
    pub burst: f64,
    /// Credits that it can hold.
    pub capacity: f64,
    credit: f64,
    clock: f64,
    drained_s: f64,
    first_empty: Option<f64>,
}

impl Bucket {
    /// A bucket that holds `credit` of `capacity` at time `clock`; with `burst <= base` it never limits below `base`.
    pub fn new(base: f64, burst: f64, capacity: f64, credit: f64) -> Bucket {
        let credit = credit.clamp(0.0, capacity);
        Bucket { base, burst, capacity, credit, clock: f64::NEG_INFINITY, drained_s: 0.0, first_empty: None }
    }

    /// Whether credits matter at all.
    pub fn bursts(&self) -> bool {
        self.burst > self.base
    }

    /// Lets idle time up to `now` pass; does nothing if the bucket is busy until later.
    pub fn idle_until(&mut self, now: f64) {
        if now > self.clock {
            self.credit = self.credit_at(now);
            self.clock = now;
        }
    }

    /// Serves `amount` from where the clock stands and returns when that is done.
    pub fn serve(&mut self, amount: f64) -> f64 {
        if !self.bursts() {
            self.clock += amount / self.base;
            return self.clock;
        }
        let spend_rate = self.burst - self.base;
        let until_empty_s = self.credit / spend_rate;
        let at_burst = self.burst * until_empty_s;
        if amount < at_burst {
            let seconds = amount / self.burst;
            self.credit = (self.credit - spend_rate * seconds).max(0.0);
            self.clock += seconds;
        } else {
            let at_base_s = (amount - at_burst) / self.base;
            self.credit = 0.0;
            self.first_empty.get_or_insert(self.clock + until_empty_s);
            self.drained_s += at_base_s;
            self.clock += until_empty_s + at_base_s;
        }
        self.clock
    }

    /// Credits at `now`, or when the work it has taken is done if that is later.
    pub fn credit_at(&self, now: f64) -> f64 {
        if self.clock == f64::NEG_INFINITY {
            return self.credit;
        }
        (self.credit + self.base * (now - self.clock).max(0.0)).min(self.capacity)
    }

    /// When the work that it has taken is done.
    pub fn clock(&self) -> f64 {
        self.clock
    }

    /// Seconds of serving at the burst rate that the credits of `now` pay for; none where nothing bursts.
    pub fn burst_left_s(&self, now: f64) -> Option<f64> {
        self.bursts().then(|| self.credit_at(now) / (self.burst - self.base))
    }

    /// Seconds for which the bucket was empty and work was served at `base`.
    pub fn drained_s(&self) -> f64 {
        self.drained_s
    }

    /// When the bucket was empty for the first time.
    pub fn first_empty(&self) -> Option<f64> {
        self.first_empty
    }

    /// Lets `seconds` pass in which `served_per_s` was served evenly, `drained_s` of them with nothing left: then
    /// the credits stay as they are. Keeps the bounds of the credits.
    pub fn skip(&mut self, seconds: f64, served_per_s: f64, drained_s: f64) {
        self.clock += seconds;
        self.drained_s += drained_s;
        if drained_s == 0.0 {
            self.credit = (self.credit + (self.base - served_per_s) * seconds).clamp(0.0, self.capacity);
        }
    }
}

/// A limit without credits.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    per_s: f64,
    clock: f64,
}

impl Rate {
    pub(crate) fn new(per_s: f64) -> Rate {
        Rate { per_s, clock: f64::NEG_INFINITY }
    }

    pub(crate) fn idle_until(&mut self, now: f64) {
        self.clock = self.clock.max(now);
    }

    pub(crate) fn serve(&mut self, amount: f64) -> f64 {
        self.clock += amount / self.per_s;
        self.clock
    }

    pub(crate) fn skip(&mut self, seconds: f64) {
        self.clock += seconds;
    }
}
