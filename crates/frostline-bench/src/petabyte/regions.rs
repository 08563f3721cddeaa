//! The published design as a model: every shard is opened, and every read fetches a whole region.
//!
//! It has the published sizes and the latency and bandwidths of the simulated store, and nothing in it was fitted to a
//! published time. So these times judge the model: how far it is off tells how far other times of the
//! simulated store may be.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use frostline_store::Profile;
use serde::Serialize;

/// A question to shards of which none is known not to have the answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct RegionReads {
    pub(super) shards: u64,
    /// Reads of one shard, each of which says where the next is: what opening needs, the index of the terms, a leaf of it.
    pub(super) reads_in_a_row: u64,
    pub(super) region_bytes: u64,
    /// Shards that one node searches at a time: its threads.
    pub(super) shards_at_a_time: usize,
}

/// A time beside the one that it models.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Judged {
    pub(super) what: &'static str,
    pub(super) reads: RegionReads,
    pub(super) gets: u64,
    pub(super) bytes: u64,
    pub(super) modelled_ms: f64,
    pub(super) published_ms: f64,
}

/// The regions of the published system, and its default of threads for searching on 8 processors.
const REGION_BYTES: u64 = 16 << 20;
const SHARDS_AT_A_TIME: usize = 13;
const READS_IN_A_ROW: u64 = 3;

/// Both published first questions for one term, by the model.
pub(super) fn judged(profile: &Profile) -> Vec<Judged> {
    let of = |what, shards, published_ms| {
        let reads = RegionReads {
            shards,
            reads_in_a_row: READS_IN_A_ROW,
            region_bytes: REGION_BYTES,
            shards_at_a_time: SHARDS_AT_A_TIME,
        };
        let gets = shards * READS_IN_A_ROW;
        let modelled_ms = reads.ms(profile);
        Judged { what, reads, gets, bytes: gets * REGION_BYTES, modelled_ms, published_ms }
    };
    vec![of("4 TB in 50 shards", 50, 6_257.0), of("1 PB in 12,500 shards", 12_500, 554_000.0)]
}

impl RegionReads {
    /// How long the question takes. Every read has the median latency; all share the machine's network.
    pub(super) fn ms(&self, profile: &Profile) -> f64 {
        let own_ms = self.region_bytes as f64 / (profile.read_mb_s * 1e3);
        let shared_ms = self.region_bytes as f64 * 8.0 / (profile.nic_gbit_s * 1e6);
        let mut busy = BinaryHeap::new();
        let (mut waiting, mut network_free_us, mut last_us) = (self.shards, 0, 0);
        let us = |ms: f64| (ms * 1e3) as u64;
        let start = |now_us: u64, left: u64| Reverse((now_us + us(profile.get_ms.0), left));
        while waiting > 0 && busy.len() < self.shards_at_a_time {
            busy.push(start(0, self.reads_in_a_row));
            waiting -= 1;
        }
        // Each turn: the read whose first byte comes next is transferred.
        while let Some(Reverse((first_byte_us, left))) = busy.pop() {
            network_free_us = first_byte_us.max(network_free_us) + us(shared_ms);
            let done_us = (first_byte_us + us(own_ms)).max(network_free_us);
            last_us = last_us.max(done_us);
            if left > 1 {
                busy.push(start(done_us, left - 1));
            } else if waiting > 0 {
                busy.push(start(done_us, self.reads_in_a_row));
                waiting -= 1;
            }
        }
        last_us as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        Profile { get_ms: (50.0, 50.0), read_mb_s: 100.0, nic_gbit_s: 8.0, ..Profile::measured() }
    }

    #[test]
    fn few_reads_wait_for_latency_and_their_connection() {
        let one = RegionReads { shards: 1, reads_in_a_row: 3, region_bytes: 10_000_000, shards_at_a_time: 2 };
        // 50 ms to the first byte, then 100 ms at 100 MB/s, three times.
        assert_eq!(one.ms(&profile()), 450.0);
        assert_eq!(RegionReads { shards: 2, ..one }.ms(&profile()), 450.0);
        assert_eq!(RegionReads { shards: 3, ..one }.ms(&profile()), 900.0);
    }

    #[test]
    fn many_reads_wait_for_the_network() {
        // 1 GB/s for all: ten millions of bytes take 10 ms of it.
        let many =
            RegionReads { shards: 1_000, reads_in_a_row: 1, region_bytes: 10_000_000, shards_at_a_time: 500 };
        let ms = many.ms(&profile());
        assert!((10_000.0..10_200.0).contains(&ms), "{ms}");
    }

    #[test]
    fn published_times_are_met_within_a_factor_of_three() {
        for judged in judged(&Profile::measured()) {
            let off = judged.modelled_ms / judged.published_ms;
            assert!((1.0 / 3.0..3.0).contains(&off), "{judged:?}");
        }
    }
}
