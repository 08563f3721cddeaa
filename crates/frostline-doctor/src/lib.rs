//! Finds what slows a host down or endangers its data, and how to fix it.
//!
//! A [`Tree`] is the files of a host: its own `/`, or a capture of another. A [`Host`] is what was read
//! from it, with counters sampled twice. Every [`Rule`](rule::Rule) checks the host and has findings,
//! has none, or reports why it is unknown; [`examine`] runs all of them into a [`Report`].
//!
//! Guarantees: examining changes nothing on the host; nothing outside the tree is read; no bytes of a tree
//! cause a panic; text of a tree is escaped before it reaches a terminal, a page or a shell.

mod capture;
pub mod cli;
pub mod facts;
mod fix;
mod host;
mod live;
pub mod report;
pub mod rule;
pub mod rules;
pub mod setting;
mod text;
mod tree;

pub use capture::{capture, open};
pub use host::{DiskLoad, Host, Role, Said};
pub use report::Report;
pub use text::clean;
pub use tree::{Absent, Fact, Tree, Why};

/// Runs every rule on `host`.
pub fn examine(host: &Host) -> Report {
    Report::new(host, rules::all())
}

/// For fuzzers: the parsers of captured trees behind one entry point.
#[doc(hidden)]
pub mod fuzzing {
    use crate::host::{Host, Said};
    use crate::tree::Tree;

    /// Reads bytes as files of two samples (`path NUL text NUL ...`, a path that begins with `1/` is of the
    /// second one), runs every rule and renders every form of the report.
    pub fn examine_files(bytes: &[u8]) {
        let mut samples = [Vec::new(), Vec::new()];
        let mut parts = bytes.split(|byte| *byte == 0);
        while let (Some(path), Some(text)) = (parts.next(), parts.next()) {
            let path = String::from_utf8_lossy(path);
            let (which, path) = path.strip_prefix("1/").map_or((0, path.as_ref()), |path| (1, path));
            samples[which].push((path.to_owned(), text.to_vec()));
        }
        let [first, second] = samples;
        let said = Said { volumes: vec![("nvme1n1".to_owned(), "st1".to_owned())], ..Said::default() };
        let tree = || Tree::from_files(first.clone());
        let host = Host::twice(tree(), tree(), Tree::from_files(second), 1.0, said);
        let report = crate::examine(&host);
        for format in crate::report::Format::ALL {
            let text = report.render(format);
            // Text that a terminal acts upon must not come out.
            assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\r']));
        }
        let _ = crate::fix::script(&report, &[]);
    }
}
