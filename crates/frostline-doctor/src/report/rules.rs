//! The documentation of the rules: one rule explained, or all as Markdown.

use std::fmt::Write as _;

use crate::rule::Rule;
use crate::rules;

/// Everything about a rule, for a terminal.
pub fn explain(rule: &Rule) -> String {
    let mut out = format!("{} {}: {}\n\n", rule.id, rule.name, rule.title);
    let _ = writeln!(out, "{}\n", rule.explanation);
    let _ = writeln!(out, "fires when  {}", rule.threshold);
    let _ = writeln!(out, "reads       {}", rule.reads.join(", "));
    let _ = writeln!(out, "needs       {}", rule.needs);
    let _ = writeln!(out, "severity    {}, confidence {}", rule.severity.word(), rule.confidence.word());
    for fix in rule.fixes {
        let _ = writeln!(out, "\n{}: {}", fix.side.label(), fix.what);
        fix.commands().iter().for_each(|command| out += &format!("    {command}\n"));
        let undo = fix.undo_commands();
        if !undo.is_empty() {
            let _ = writeln!(out, "  undo: {}", undo.join("; "));
        }
    }
    let _ = writeln!(out, "\nexpect      {}\nverify      {}", rule.gain, rule.verify);
    rule.sources.iter().for_each(|source| out += &format!("source      {source}\n"));
    out
}

/// All rules as the section of a page.
pub fn markdown() -> String {
    let mut out = String::new();
    for rule in rules::all() {
        let _ = writeln!(out, "### {} {}\n", rule.id, rule.name);
        let _ = writeln!(out, "{}. {}\n", rule.title, rule.explanation);
        let _ = writeln!(out, "- Fires: {}.", rule.threshold);
        let _ = writeln!(out, "- Reads: `{}`. Needs: {}.", rule.reads.join("`, `"), rule.needs);
        let severity = rule.severity.word();
        let confidence = rule.confidence.word();
        let _ = writeln!(
            out,
            "- Severity {severity}, confidence {confidence}. Expect: {}. Verify: {}.",
            rule.gain, rule.verify
        );
        for fix in rule.fixes {
            let _ = writeln!(out, "- Fix ({}): {}.", fix.side.label(), fix.what);
            let (run, undo) = (fix.commands(), fix.undo_commands());
            if !run.is_empty() {
                let _ = writeln!(out, "\n      {}\n", run.join("\n      "));
            }
            if !undo.is_empty() {
                let _ = writeln!(out, "  Undo: `{}`.", undo.join("`, `"));
            }
        }
        let _ = writeln!(
            out,
            "- Sources: {}\n",
            rule.sources.iter().map(|s| format!("<{s}>")).collect::<Vec<_>>().join(", ")
        );
    }
    out
}
