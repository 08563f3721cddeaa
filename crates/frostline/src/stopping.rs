//! Ctrl-C, SIGTERM and SIGHUP.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit status by which a shell reports that Ctrl-C ended a program.
pub(crate) const INTERRUPTED: u8 = 130;

/// What asks this process to stop, from now on. It does not end it any more.
pub(crate) struct Stops(Signal);

impl Stops {
    pub(crate) fn new() -> Result<Stops> {
        signal(SignalKind::terminate()).map(Stops).context("cannot wait for SIGTERM")
    }

    /// Waits for Ctrl-C or SIGTERM.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}

/// SIGHUP, which does not end this process any more.
pub(crate) struct Hangups(Signal);

impl Hangups {
    pub(crate) fn new() -> Result<Hangups> {
        signal(SignalKind::hangup()).map(Hangups).context("cannot wait for SIGHUP")
    }

    /// Waits for the next one. Whether there may be another.
    pub(crate) async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}
