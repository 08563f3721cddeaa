//! What the generator leaves out because the engine is known to get it wrong.

/// Faults that are not mended yet, by their name. The generator does not provoke them unless it is told to.
const KNOWN: &[&str] = &[
    "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W9", "W10", "W11", "W12", "W13", "W15", "W16", "W17", "N1",
    "N2", "N3",
];

/// Whether the generator may provoke this fault: it is mended, or the test was asked to show it.
pub(crate) fn provoked(fault: &str) -> bool {
    let asked = std::env::var("FROSTLINE_WAYS_FAULTS").unwrap_or_default();
    !KNOWN.contains(&fault) || asked.split(',').any(|name| name == fault || name == "all")
}
