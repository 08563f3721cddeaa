//! Failures of reads that were told already.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Those that are counted. More of them are told again.
const COUNTED_MAX: usize = 10_000;

/// How often each cause failed a file.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashMap<(usize, String), u64>>);

impl Failures {
    /// Counts one of this file. How many there were, if it is time to say so: at the first, the tenth, the hundredth...
    pub(super) fn add(&self, entry: usize, cause: &str) -> Option<u64> {
        let mut counted = self.0.lock();
        if counted.len() >= COUNTED_MAX {
            counted.clear();
        }
        let times = counted.entry((entry, cause.to_owned())).or_default();
        *times += 1;
        (*times == 10_u64.pow(times.ilog10())).then_some(*times)
    }

    /// Forgets them: what fails from now on is news.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_object_is_told_once_a_file_and_then_counted() {
        let failures = Failures::default();
        let told: Vec<u64> = (0..2_000).filter_map(|_| failures.add(1, "no such object")).collect();
        assert_eq!(told, [1, 10, 100, 1_000]);
        assert_eq!(failures.add(2, "no such object"), Some(1));
        assert_eq!(failures.add(1, "another object"), Some(1));
        failures.clear();
        assert_eq!(failures.add(1, "no such object"), Some(1));
    }
}
