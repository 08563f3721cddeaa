//! What a piece of work took of this process: time, processor and memory.

use std::time::Instant;

use frostline_base::Cost;

use super::report::Figures;
use crate::trial::{Sample, memory_bytes_peak};

/// A measurement that has begun.
pub(super) struct Resources {
    started: Instant,
    processor_ms: Option<f64>,
    /// Whether the peak of memory is that since the beginning, and not that of the whole process.
    is_peak_own: bool,
}

impl Resources {
    pub(super) fn begin() -> Resources {
        Resources { started: Instant::now(), processor_ms: processor_ms(), is_peak_own: forget_memory_peak() }
    }

    /// Begins once more: what was until now does not count.
    pub(super) fn again(self) -> Resources {
        Resources::begin()
    }

    /// What was taken, and what the store was asked.
    pub(super) fn end(self, cost: &Cost) -> Figures {
        let sample = Sample::of(self.started, cost, cost.bytes_used);
        Figures { puts: cost.puts, ..self.end_sample(&sample) }
    }

    /// The same of what measured its own time and requests.
    pub(super) fn end_sample(self, sample: &Sample) -> Figures {
        let processor_ms = processor_ms().zip(self.processor_ms).map(|(now, before)| now - before);
        let memory_bytes = memory_bytes_peak().filter(|_| self.is_peak_own);
        Figures { processor_ms, memory_bytes, ..Figures::of(sample) }
    }
}

/// Processor time of all threads so far, in the kernel's units of 10 ms.
fn processor_ms() -> Option<f64> {
    const TICK_MS: f64 = 10.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name in parentheses and may have spaces; user and system time are the 14th and 15th.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) * TICK_MS)
}

/// Makes the peak of memory that of now. False where the system cannot.
fn forget_memory_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_processor_and_the_peak_of_memory_are_those_of_the_work() {
        let resources = Resources::begin();
        let mut numbers: Vec<u64> = (0..20_000_000).collect();
        numbers.iter_mut().for_each(|number| *number = number.wrapping_mul(*number));
        let large = resources.end(&Cost::default());
        assert!(large.memory_bytes.unwrap() >= 160_000_000, "{large:?}");
        assert!(large.processor_ms.unwrap() > 0.0, "{large:?}");
        assert_eq!(numbers[3], 9);
        drop(numbers);
        let small = Resources::begin().end(&Cost::default());
        assert!(small.memory_bytes < large.memory_bytes, "{small:?} {large:?}");
    }
}
