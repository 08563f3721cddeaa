//! Progress of long work: one line on standard error, never wider than the terminal. Nothing if that is no terminal, or
//! while another program has its foreground. What [`note!`](crate::note) says appears above the line.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use console::Term;
use indicatif::{
    HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike, WeakProgressBar,
};
use nix::unistd::{getpgrp, tcgetpgrp};
use parking_lot::Mutex;

use crate::show_bytes;

/// Redraws a second, at most.
const REDRAWS: u8 = 20;
/// The width of a terminal that does not tell.
const COLUMNS: u16 = 80;
/// Narrower terminals show no gauge, and no rate.
const COLUMNS_GAUGE: u16 = 90;
const COLUMNS_RATE: u16 = 72;
/// The gauge itself.
const GAUGE: usize = 20;

/// The bar that is drawn.
static CURRENT: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// What a bar counts.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Items,
    Share,
}

/// A bar of bytes that are `done`, such as "read", with rate and time left; the message follows. The total may be set
/// later, with `set_length`.
pub fn byte_progress(total: Option<u64>, done: &str) -> ProgressBar {
    bar(total, Unit::Bytes, done)
}

/// A bar of `items`, such as "splits", with the time left; the message follows.
pub fn item_progress(total: Option<u64>, items: &str) -> ProgressBar {
    bar(total, Unit::Items, items)
}

/// A bar of parts of a whole that nobody counts, with the time left; the message follows.
pub fn share_progress() -> ProgressBar {
    bar(None, Unit::Share, "")
}

/// Removes the bar, if there is one, before the process ends.
pub fn end_progress() {
    if let Some(bar) = current() {
        bar.finish_and_clear();
    }
}

/// Whether standard error is a terminal that another program uses now.
pub fn is_in_background() -> bool {
    io::stderr().is_terminal() && !is_in_foreground()
}

/// Does this while no bar is on the terminal.
pub(crate) fn beside<T>(write: impl FnOnce() -> T) -> T {
    match current().filter(|bar| !bar.is_finished()) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

fn current() -> Option<ProgressBar> {
    CURRENT.lock().as_ref().and_then(WeakProgressBar::upgrade)
}

fn bar(total: Option<u64>, unit: Unit, what: &str) -> ProgressBar {
    let is_shown = io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let target = match is_shown {
        true => ProgressDrawTarget::term_like_with_hz(Box::new(Line::default()), REDRAWS),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(total, target);
    let what = what.to_owned();
    let counts = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        // A bar that cannot be written still counts.
        let _ = out.write_str(&counts(&Shown::of(state), unit, &what, columns()));
    };
    if let Ok(style) = ProgressStyle::with_template("{counts}  {wide_msg}") {
        bar.set_style(style.with_key("counts", counts));
    }
    *CURRENT.lock() = Some(bar.downgrade());
    bar
}

/// What a bar shows of its state.
struct Shown {
    done: u64,
    /// Absent while nobody knows it.
    total: Option<u64>,
    per_second: f64,
    left: std::time::Duration,
}

impl Shown {
    fn of(state: &ProgressState) -> Shown {
        let total = state.len().filter(|total| *total > 0);
        Shown { done: state.pos(), total, per_second: state.per_sec(), left: state.eta() }
    }
}

/// What is before the message. Narrow terminals get less of it, so that the message has room.
fn counts(shown: &Shown, unit: Unit, what: &str, columns: u16) -> String {
    let mut text = String::new();
    let share = shown.total.map(|total| (shown.done as f64 / total as f64).min(1.0));
    if let Some(share) = share.filter(|_| columns >= COLUMNS_GAUGE) {
        let full = (share * GAUGE as f64) as usize;
        text.extend(std::iter::repeat_n('█', full));
        text.extend(std::iter::repeat_n('░', GAUGE - full));
        text.push(' ');
    }
    let number = |value: u64| match unit {
        Unit::Bytes => show_bytes(value),
        Unit::Items | Unit::Share => value.to_string(),
    };
    let _ = match (unit, shown.total) {
        (Unit::Share, _) => write!(text, "{} %", (share.unwrap_or_default() * 100.0) as u64),
        (_, Some(total)) => write!(text, "{} of {} {what}", number(shown.done), number(total)),
        (_, None) => write!(text, "{} {what}", number(shown.done)),
    };
    // Nothing is known before something is done.
    if shown.done > 0 && shown.per_second >= 1e-9 {
        if matches!(unit, Unit::Bytes) && shown.per_second >= 1.0 && columns >= COLUMNS_RATE {
            let _ = write!(text, ", {}/s", show_bytes(shown.per_second as u64));
        }
        if shown.total.is_some_and(|total| shown.done < total) && !shown.left.is_zero() {
            let _ = write!(text, ", {:#} left", HumanDuration(shown.left));
        }
    }
    match text.char_indices().nth(usize::from(columns)) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}

fn columns() -> u16 {
    Term::stderr()
        .size_checked()
        .map(|(_, columns)| columns)
        .filter(|columns| *columns > 0)
        .unwrap_or(COLUMNS)
}

/// Whether this process may draw on the terminal. One without jobs belongs to everybody.
fn is_in_foreground() -> bool {
    tcgetpgrp(io::stderr()).map_or(true, |group| group == getpgrp())
}

/// The last line of the terminal at standard error.
#[derive(Debug, Default)]
struct Line(Mutex<String>);

impl Line {
    fn add(&self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        let _ = self.0.lock().write_fmt(text);
        Ok(())
    }
}

impl TermLike for Line {
    fn width(&self) -> u16 {
        columns()
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        if n > 0 { self.add(format_args!("\x1b[{n}A")) } else { Ok(()) }
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        if n > 0 { self.add(format_args!("\x1b[{n}B")) } else { Ok(()) }
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        if n > 0 { self.add(format_args!("\x1b[{n}C")) } else { Ok(()) }
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        if n > 0 { self.add(format_args!("\x1b[{n}D")) } else { Ok(()) }
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.add(format_args!("{text}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.add(format_args!("{text}"))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.add(format_args!("\r\x1b[2K"))
    }

    /// A terminal that is gone, or that another program has, is not drawn on.
    fn flush(&self) -> io::Result<()> {
        let text = std::mem::take(&mut *self.0.lock());
        if !text.is_empty() && is_in_foreground() {
            let _ = io::stderr().write_all(text.as_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
