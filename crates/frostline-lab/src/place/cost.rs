//! What the same machines would have to expect without pinning, from formulas with stated assumptions.
//!
//! The model: every vCPU is busy, and the host's scheduler puts busy vCPUs on distinct CPUs while there are
//! enough, without preference among them. Linux does have a preference (idle cores first), so with few vCPUs the
//! figures are upper bounds; with all CPUs in use no preference remains and they are expected
//! values. None of it is measured: `lab run vm` measures.

use serde::{Deserialize, Serialize};

use super::request::Wanted;
use super::topology::Topology;

/// Expectations for unpinned machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unpinned {
    /// vCPUs of all machines asked for, busy at once.
    pub busy_vcpus: u64,
    /// Hardware threads of the host.
    pub host_cpus: u64,
    /// Expected part of vCPUs whose core also runs a vCPU of another machine.
    ///
    /// With V busy vCPUs on H CPUs, t threads per core, and v vCPUs in the own machine, all t - 1 siblings
    /// escape the V - v others with probability prod_{j=0}^{t-2} (H-1-(V-v)-j)/(H-1-j) (drawing without
    /// replacement, hypergeometric; Feller, An Introduction to Probability Theory I, II.6); this is 1 minus
    /// that, weighted by vCPUs. With V > H it is at least the same with V = H.
    pub shared_cores: f64,
    /// Least part of the time that a busy vCPU waits for a CPU: 1 - H/V if V > H, else 0. Seen in the guest as
    /// steal.
    pub steal: f64,
    /// Expected part of memory accesses that go to another node when vCPUs and pages are where cores are, each
    /// on its own: 1 - sum p_n^2, p_n being node n's part of the cores.
    pub remote_memory: f64,
    /// Mean relative latency of those accesses over local ones by the firmware's table (ACPI SLIT), if there
    /// is one: sum p_i p_j d_ij / d_ii.
    pub latency: Option<f64>,
    /// The figures in words, each with where it comes from.
    pub statements: Vec<Statement>,
}

/// One sentence and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// What kind of knowledge it is.
    pub label: Label,
    /// The sentence.
    pub text: String,
    /// Formula or publication.
    pub source: String,
}

/// What kind of knowledge a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// By a formula from the topology and what was requested.
    Computed,
    /// In a published study, not repeated here.
    Published,
    /// In the documentation of what does it.
    Documented,
}

impl Unpinned {
    pub(super) fn of(topology: &Topology, wanted: &Wanted) -> Unpinned {
        let busy = wanted.vcpus();
        let threads = u64::from(topology.threads());
        let cpus = u64::from(topology.cores()) * threads;
        let weighted = |group: &super::request::Group| {
            let vcpus = u64::from(group.vcpus) * u64::from(group.count);
            vcpus as f64 * shared(busy, u64::from(group.vcpus), cpus, threads)
        };
        let shared_cores = wanted.groups.iter().map(weighted).sum::<f64>() / busy.max(1) as f64;
        let parts: Vec<f64> =
            topology.nodes.iter().map(|n| n.cores.len() as f64 / f64::from(topology.cores())).collect();
        let steal = if busy > cpus { 1.0 - cpus as f64 / busy as f64 } else { 0.0 };
        let remote_memory = 1.0 - parts.iter().map(|p| p * p).sum::<f64>();
        let mut unpinned = Unpinned {
            busy_vcpus: busy,
            host_cpus: cpus,
            shared_cores,
            steal,
            remote_memory: remote_memory.max(0.0),
            latency: latency(topology, &parts),
            statements: Vec::new(),
        };
        unpinned.statements = unpinned.say(topology);
        unpinned
    }

    fn say(&self, topology: &Topology) -> Vec<Statement> {
        let mut out = Vec::new();
        let mut add =
            |label, text: String, source: &str| out.push(Statement { label, text, source: source.into() });
        if topology.threads() > 1 {
            let bound = if self.busy_vcpus >= self.host_cpus { "" } else { "up to " };
            add(
                Label::Computed,
                format!(
                    "{bound}{:.0} % of {} busy vCPUs share their core with another machine at any moment; pinned: none",
                    self.shared_cores * 100.0,
                    self.busy_vcpus
                ),
                "1 - prod (H-1-(V-v)-j)/(H-1-j), j = 0..t-2: V busy vCPUs of which v are the machine's own, H CPUs, \
                 t threads per core; hypergeometric (Feller I, II.6), distinct CPUs without preference",
            );
        }
        if self.steal > 0.0 {
            add(
                Label::Computed,
                format!(
                    "{} busy vCPUs on {} CPUs wait at least {:.0} % of the time (steal in the guest); above 2 % the \
                     promise of one CPU each is broken",
                    self.busy_vcpus,
                    self.host_cpus,
                    self.steal * 100.0
                ),
                "1 - H/V",
            );
        }
        if topology.nodes.len() > 1 {
            add(
                Label::Computed,
                format!(
                    "{:.0} % of memory accesses go to another node; pinned, with strict memory: none",
                    self.remote_memory * 100.0
                ),
                "1 - sum p_n^2, p_n a node's part of the cores; vCPUs and pages placed independently, before the \
                 kernel's NUMA balancing moves them (Documentation/admin-guide/sysctl/kernel.rst, numa_balancing)",
            );
            if let Some(latency) = self.latency {
                add(
                    Label::Computed,
                    format!(
                        "that is {latency:.2} times the local latency on average, by the firmware's table"
                    ),
                    "sum p_i p_j d_ij / d_ii over ACPI SLIT; firmware's figures are relative and rarely measured",
                );
            }
            add(
                Label::Published,
                "one machine of 20 CPUs per node, pinned, wrote 1.50 to 1.79 times as much memory as the unpinned \
                 host with 4 to 16 threads; the host's threads shared one counter across nodes, so part of that is \
                 the test's"
                    .into(),
                "LY Corporation, virtual machines for a Ceph gateway, two machines on a 40-CPU host (one run)",
            );
        }
        add(
            Label::Documented,
            "check in each guest: steal (column `st` of `vmstat 1`) stays below 2 %; on the host: `numastat -p qemu` \
             shows memory on the planned node only"
                .into(),
            "proc_stat(5), numastat(8)",
        );
        out
    }
}

/// Probability that a busy vCPU's core runs one of another machine, see [`Unpinned::shared_cores`].
fn shared(busy: u64, own: u64, cpus: u64, threads: u64) -> f64 {
    let others = busy.min(cpus).saturating_sub(own.min(cpus));
    let alone: f64 = (0..threads.saturating_sub(1))
        .map(|j| {
            let siblings = cpus.saturating_sub(1 + j);
            siblings.saturating_sub(others) as f64 / siblings.max(1) as f64
        })
        .product();
    1.0 - alone
}

fn latency(topology: &Topology, parts: &[f64]) -> Option<f64> {
    topology.distances.as_ref()?;
    if parts.len() < 2 {
        return None;
    }
    let mut mean = 0.0;
    for (i, from) in parts.iter().enumerate() {
        for (j, to) in parts.iter().enumerate() {
            mean += from * to * f64::from(topology.distance(i, j)?) / f64::from(topology.distance(i, i)?);
        }
    }
    Some(mean)
}

#[cfg(test)]
mod tests;
