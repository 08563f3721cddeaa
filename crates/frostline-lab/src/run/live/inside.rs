//! Samples inside a guest: one machine for all cells, booted when the first of them comes.

use std::path::Path;

use frostline_base::{Error, Result};

use super::Live;
use crate::guest::cells::{self, CellSpec, FOUR, ONE};
use crate::guest::{Guest, storage};
use crate::host::write_json;
use crate::run::Taken;
use crate::run::virtual_time::bytes;
use crate::study::plan::PlannedCell;
use crate::study::{GuestStack, fill, word};

impl Live<'_> {
    pub(super) fn in_guest(&mut self, cell: &PlannedCell, block: u32, stem: &Path) -> Result<Taken> {
        let Some(stack) = &self.setup(cell).guest else {
            return Err(Error::internal("a setup in a guest has its stack"));
        };
        let mut spec = spec(stack, cell)?;
        spec.job.seed = self.plan.seed.wrapping_mul(1000).wrapping_add(u64::from(block));
        let seconds = self.plan.sample_seconds.ceil() as u64;
        let measured = cells::run_cell(self.guest()?, &spec, seconds)?;
        write_json(&stem.with_extension("json"), &measured.raw)?;
        for note in &measured.notes {
            (self.say)(&format!("{}: {note}", cell.id));
        }
        Ok(Taken { values: measured.values, gates: measured.gates })
    }

    /// The guest, booted.
    fn guest(&mut self) -> Result<&mut Guest> {
        if self.guest.is_none() {
            let (image, accel) = self.image()?;
            let mut guest =
                Guest::boot(&mut self.ledger, &image, cells::machine(accel, &self.folder.join("guest")))?;
            let facts = guest.facts()?;
            let zfs = facts.zfs.as_deref().unwrap_or("none");
            (self.say)(&format!("guest: OpenZFS {zfs}, up in {:.0} s", facts.boot_s));
            self.guest = Some(guest);
        }
        self.guest.as_mut().ok_or_else(|| Error::internal("the guest was just booted"))
    }
}

fn spec(stack: &GuestStack, cell: &PlannedCell) -> Result<CellSpec> {
    let text = |template: &str| fill(template, &cell.levels);
    let kind: storage::Stack = text(&stack.stack)?.parse()?;
    let disks: &[&str] = match text(&stack.disks)?.as_str() {
        "four" => &FOUR,
        "one" => &[ONE],
        "one-of-four" => &FOUR[..1],
        other => return Err(Error::invalid(format!("disks are four, one or one-of-four, not `{other}`"))),
    };
    let percent = compressible_percent(&text(&stack.data)?)?;
    let mut spec = CellSpec::new(kind, disks, percent);
    spec.job.block_kib = kib(&text(&stack.block)?)?;
    if let Some(record) = &stack.record {
        spec.layout.record_kib = kib(&text(record)?)?;
    }
    if let Some(compression) = &stack.compression {
        spec.layout.compression = text(compression)?;
    }
    match stack.arc.as_deref().map(text).transpose()?.as_deref() {
        None | Some("pinned") => {}
        Some("free") => spec.layout.arc = storage::Arc::Free,
        Some(other) => return Err(Error::invalid(format!("arc is pinned or free, not `{other}`"))),
    }
    spec.layout.check()?;
    Ok(spec)
}

/// How much of `random` and of `half` compresses away.
pub(super) fn compressible_percent(text: &str) -> Result<u32> {
    word(text, &[("random", 0), ("half", 50)])
}

pub(super) fn kib(text: &str) -> Result<u32> {
    u32::try_from(bytes(text)? / 1024).map_err(|_| Error::invalid(format!("`{text}` is too large")))
}

#[cfg(test)]
mod tests;
