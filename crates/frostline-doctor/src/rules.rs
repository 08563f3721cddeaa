//! The table of rules. Each file holds the rules of one part of a host, and the functions that check them.

use crate::rule::Rule;

mod cpu;
mod database;
mod disk;
mod filesystem;
mod memory;
mod network;
mod search;
mod virtual_machine;

/// Every rule, in the order of their ids' letters and numbers.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    [
        network::RULES,
        cpu::RULES,
        memory::RULES,
        disk::RULES,
        filesystem::RULES,
        virtual_machine::RULES,
        database::RULES,
        search::RULES,
    ]
    .into_iter()
    .flatten()
}

/// The rule of this id or name, whatever the case.
pub fn find(name: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id.eq_ignore_ascii_case(name) || rule.name.eq_ignore_ascii_case(name))
}

/// Whether a rule judges the definition of one virtual machine.
pub(crate) fn is_of_a_machine(rule: &str) -> bool {
    rule.starts_with('V') && !matches!(rule, "V09" | "V10")
}

/// What most rules need.
const NOTHING: &str = "nothing";
/// What rules of rates need.
const TWO: &str = "two samples";
/// What rules of protected files need.
const ROOT: &str = "root";

#[cfg(test)]
pub(crate) mod tests;
