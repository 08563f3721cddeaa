//! The plan as text: a table, then explanations.

use std::fmt::Write as _;

use frostline_show::show_count;

use super::cost::Label;
use super::list;
use super::pack::Proof;
use super::plan::{EmulatorOn, Machine, NodeShare, Plan};
use super::request::Memory;

/// The whole answer.
pub(super) fn explain(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write!(out, "{}", head(plan));
    if !plan.machines.is_empty() {
        let _ = write!(out, "\n{}", table(plan));
    }
    let _ = writeln!(out, "\n{}", verdict(plan));
    for unplaced in &plan.unplaced {
        let group = &unplaced.group;
        let _ = writeln!(out, "  {} of {group} not placed: {}", unplaced.missing, unplaced.why);
    }
    section(&mut out, "What would fit", plan.would_fit.iter().map(String::as_str));
    section(&mut out, "To know", plan.notes.iter().map(String::as_str));
    let statements: Vec<String> = plan
        .unpinned
        .statements
        .iter()
        .map(|s| format!("[{}] {}\n      from: {}", label(s.label), s.text, s.source))
        .collect();
    let title = "Without pinning, all vCPUs busy (nothing of this was measured here)";
    section(&mut out, title, statements.iter().map(String::as_str));
    out
}

fn head(plan: &Plan) -> String {
    let host = &plan.host;
    // Of a topology without memory nothing is left or kept: it is not known.
    let memory = |mib: u64| if host.memory_mib == 0 { "memory unknown".to_owned() } else { memory(mib) };
    let mut out = format!(
        "Host       {}: {}, {}, {}, {}\n",
        host.source,
        show_count(host.nodes.into(), "NUMA node"),
        show_count(host.cores.into(), "core"),
        show_count(host.cpus.into(), "CPU"),
        memory(host.memory_mib)
    );
    out.push_str(&shares("Kept", &plan.reserved, memory));
    out.push_str(&shares("Left over", &plan.free, memory));
    out
}

/// One line for each node, the name before the first.
fn shares(name: &str, shares: &[NodeShare], memory: impl Fn(u64) -> String) -> String {
    let line = |(at, share): (usize, &NodeShare)| {
        let cpus =
            if share.cpus.is_empty() { "no CPU".to_owned() } else { format!("CPUs {}", list(&share.cpus)) };
        let name = if at == 0 { name } else { "" };
        format!("{name:<11}node {}: {cpus}, {}\n", share.node, memory(share.memory_mib))
    };
    shares.iter().enumerate().map(line).collect()
}

fn memory(mib: u64) -> String {
    if mib >= 10 * 1024 { format!("{}GiB", mib / 1024) } else { Memory { mib }.to_string() }
}

fn table(plan: &Plan) -> String {
    let head = [
        "machine",
        "node",
        "CPUs",
        "cores",
        "memory",
        "pages",
        "queues",
        "disks x I/O threads",
        "emulator on",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(plan.machines.iter().map(|machine| row(plan, machine)));
    let widths: Vec<usize> = (0..head.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn row(plan: &Plan, machine: &Machine) -> Vec<String> {
    let cores = machine.cpus().len() as u32 / plan.host.threads;
    let size = match machine.memory_mib() {
        0 => "?".to_owned(),
        mib if machine.memory_asked => memory(mib),
        mib => format!("{} (share)", memory(mib)),
    };
    let pages = match machine.page_kib {
        kib if kib >= 1 << 20 => format!("{}GiB", kib >> 20),
        kib if kib >= 1024 => format!("{}MiB", kib >> 10),
        kib => format!("{kib}KiB"),
    };
    let whose = match machine.emulator_on {
        EmulatorOn::Own => "its own",
        EmulatorOn::HostNear => "host",
        EmulatorOn::Spare => "spare sibling",
        EmulatorOn::HostFar => "host, other node",
        EmulatorOn::Vcpus => "its vCPUs",
    };
    vec![
        machine.name.clone(),
        list(&machine.nodes()),
        list(&machine.cpus()),
        cores.to_string(),
        size,
        pages,
        machine.queues.to_string(),
        format!("{} x {}", machine.disks, machine.iothreads_per_disk),
        format!("{} ({whose})", list(&machine.emulator_cpus)),
    ]
}

fn verdict(plan: &Plan) -> String {
    let placed = plan.machines.len();
    let missing: u32 = plan.unplaced.iter().map(|unplaced| unplaced.missing).sum();
    let wanted = placed + missing as usize;
    let proof = match plan.proof {
        Proof::Exact if missing > 0 => "; every placement was tried: no other holds more vCPUs",
        Proof::Exact | Proof::AllPlaced => "",
        Proof::AtMost(_) => "; not every placement was tried, see below",
    };
    match missing {
        0 => {
            let spanning = plan.machines.iter().filter(|machine| machine.cells.len() > 1).count();
            let nodes = match spanning {
                0 => "each is on one node with its memory".to_owned(),
                n => format!("{n} span several nodes, the others are on one with their memory"),
            };
            let all = if wanted == 1 { "It fits".to_owned() } else { format!("All {wanted} machines fit") };
            format!("{all}: no core is shared, {nodes}.")
        }
        _ => format!("{placed} of {wanted} machines fit{proof}."),
    }
}

fn section<'a>(out: &mut String, title: &str, lines: impl Iterator<Item = &'a str>) {
    for (at, line) in lines.enumerate() {
        if at == 0 {
            let _ = writeln!(out, "\n{title}:");
        }
        let _ = writeln!(out, "  - {line}");
    }
}

fn label(label: Label) -> &'static str {
    match label {
        Label::Computed => "computed",
        Label::Published => "published",
        Label::Documented => "documented",
    }
}
