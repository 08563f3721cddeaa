//! Guests: virtual machines that the lab builds from Debian packages and boots on emulated disks.
//!
//! What the host's kernel lacks (OpenZFS, md, LVM, NBD, several network queues) runs in a guest. An
//! [`Image`] is built once from a [`Recipe`] and cached; a [`Machine`] defines the disks, limits and
//! networks of a [`Guest`]; [`Guest::run`] runs a script inside and returns its output. [`storage`]
//! has the scripts that create file systems there, [`cells`] measures one of them, and [`kept`] keeps several for many samples.
//!
//! A guest never outlives its owner: the agent inside turns the machine off when its connection to the owner is
//! lost, and everything on the host is in the ledger before it is created. Images are booted read-only: a guest's
//! writes to its root are lost when it ends.

pub mod accel;
pub mod boot;
pub mod cells;
pub mod channel;
pub mod cli;
pub mod fleet;
pub mod image;
pub mod kept;
pub mod machine;
pub mod qmp;
pub mod sources;
pub mod storage;

pub use accel::Accel;
pub use boot::{Facts, Guest, Output};
pub use image::{Image, Recipe};
pub use machine::{Disk, Limits, Machine, Net};

use std::path::Path;

use frostline_base::{Error, Result};

use crate::host::io;

fn need_root(what: &str) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Error::denied(format!("{what} needs root: run it with sudo")))
}

/// The last `count` lines of a file, for an error message; empty if it cannot be read.
fn last_lines(file: &Path, count: usize) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests;
