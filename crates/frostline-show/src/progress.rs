//! Progress of long work: one line on standard error, never wider than the terminal. Nothing if that is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of bytes that are `done`, such as "read", with rate and time left; the message follows. Without a total, which
/// `set_length` may add, a spinner.
pub fn byte_progress(total: Option<u64>, done: &str) -> ProgressBar {
    bar(
        total,
        &format!(
            "{{decimal_bytes}} of {{decimal_total_bytes}} {done}, {{decimal_bytes_per_sec}}, {{eta}} left"
        ),
    )
}

/// A bar of bytes of which nobody knows how many there are.
pub fn endless_progress(done: &str) -> ProgressBar {
    styled(None, &format!("{{spinner}} {{decimal_bytes}} {done}, {{decimal_bytes_per_sec}}  {{wide_msg}}"))
}

/// A bar of `items`, such as "splits", with the time left; the message follows.
pub fn item_progress(total: Option<u64>, items: &str) -> ProgressBar {
    bar(total, &format!("{{pos}} of {{len}} {items}, {{eta}} left"))
}

/// A bar of parts of a whole that nobody counts, with the time left; the message follows.
pub fn share_progress() -> ProgressBar {
    bar(None, "{percent} %, {eta} left")
}

fn bar(total: Option<u64>, counts: &str) -> ProgressBar {
    styled(total, &format!("{{bar:20}} {counts}  {{wide_msg}}"))
}

fn styled(total: Option<u64>, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    // A bar without its style still counts.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
