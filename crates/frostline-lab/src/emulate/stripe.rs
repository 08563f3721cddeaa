//! The volumes behind one device, each with its own buckets.

use frostline_base::{Error, Result};
use frostline_model::{Account, Io, Volume};

use super::{Model, Stripe};

pub(super) struct Members {
    volumes: Vec<Volume>,
    chunk_bytes: u64,
    /// When the volumes' time began, in the device's.
    since: f64,
}

impl Members {
    pub(super) fn new(model: &Model, stripe: Option<Stripe>, since: f64) -> Result<Members> {
        let Stripe { count, chunk_bytes } = stripe.unwrap_or(Stripe { count: 1, chunk_bytes: 1 << 20 });
        if count == 0 || chunk_bytes == 0 || chunk_bytes % 512 != 0 {
            return Err(Error::invalid("a stripe needs a volume and chunks of whole sectors"));
        }
        Ok(Members { volumes: vec![model.volume()?; count], chunk_bytes, since })
    }

    /// Charges a request that arrives at `now` and says when the last of its parts is done.
    pub(super) fn admit(&mut self, now: f64, io: Io) -> f64 {
        let (count, chunk) = (self.volumes.len() as u64, self.chunk_bytes);
        let mut done = now;
        for (member, volume) in self.volumes.iter_mut().enumerate() {
            if let Some(part) = part(io, member as u64, count, chunk) {
                done = done.max(self.since + volume.admit(now - self.since, part));
            }
        }
        done
    }

    pub(super) fn account(&self, now: f64) -> Account {
        let mut accounts = self.volumes.iter().map(|volume| volume.account(now - self.since));
        let first = accounts.next().unwrap_or_default();
        accounts.fold(first, |mut sum, one| {
            sum.requests += one.requests;
            sum.bytes += one.bytes;
            sum.merged += one.merged;
            sum.units += one.units;
            sum.charged += one.charged;
            sum.credits += one.credits;
            sum.bucket += one.bucket;
            sum.throttled_s += one.throttled_s;
            sum.drained_s += one.drained_s;
            sum.burst_left_s = least(sum.burst_left_s, one.burst_left_s);
            sum.first_empty_s = least(sum.first_empty_s, one.first_empty_s);
            sum
        })
    }
}

fn least(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::min)
}

/// What of `io` is on `member`: its chunks follow each other there, so it is one request.
fn part(io: Io, member: u64, count: u64, chunk: u64) -> Option<Io> {
    let end = io.offset + io.bytes;
    let on_member = |at: u64| {
        // Bytes of the member that lie before `at` of the device.
        let (row, within) = (at / (chunk * count), at % (chunk * count));
        row * chunk + within.saturating_sub(member * chunk).min(chunk)
    };
    let (offset, behind) = (on_member(io.offset), on_member(end));
    (behind > offset).then_some(Io { write: io.write, offset, bytes: behind - offset })
}

#[cfg(test)]
mod tests;
