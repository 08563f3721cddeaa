//! Ctrl-C, SIGTERM and SIGHUP.

use anyhow::{Context, Result};
use frostline_show::hangup_is_ignored;
use nix::sys::signal::{SigSet, Signal as Stop};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit status by which a shell reports that Ctrl-C ended a program.
pub(crate) const INTERRUPTED: u8 = 130;

/// What asks this process to stop, from now on. It does not end it any more.
pub(crate) struct Stops {
    terminate: Signal,
    hangup: Option<Hangups>,
}

impl Stops {
    /// Ctrl-C, SIGTERM, and the end of the terminal unless `nohup` or the like ignores that.
    pub(crate) fn new() -> Result<Stops> {
        let hangup = if hangup_is_ignored() { None } else { Some(Hangups::new()?) };
        Ok(Stops { hangup, ..Stops::beyond_the_terminal()? })
    }

    /// Ctrl-C and SIGTERM. This process outlives its terminal.
    pub(crate) fn beyond_the_terminal() -> Result<Stops> {
        outlive_the_terminal()?;
        let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        Ok(Stops { terminate, hangup: None })
    }

    /// Waits for the next of them. SIGHUP counts only as the first: a terminal that closes may send it twice, and after
    /// Ctrl-C nobody means by it to stop at once.
    pub(crate) async fn next(&mut self) {
        let hangup = self.hangup.take();
        let hung_up = async {
            match hangup {
                Some(mut hangup) => hangup.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
            _ = hung_up => {}
        }
    }
}

/// SIGHUP does not end this process any more.
pub(crate) fn outlive_the_terminal() -> Result<()> {
    // Once there has been a receiver, the signal has lost its effect.
    if hangup_is_ignored() { Ok(()) } else { Hangups::new().map(drop) }
}

/// What this process writes never stops it, also in the background of a terminal with `stty tostop`. For the calling
/// thread, and those that it starts.
pub(crate) fn never_wait_for_the_terminal() -> Result<()> {
    let mut blocked = SigSet::empty();
    blocked.add(Stop::SIGTTOU);
    blocked.thread_block().context("cannot block SIGTTOU")
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
