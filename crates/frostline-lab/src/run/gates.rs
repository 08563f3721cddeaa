//! Whether a sample is valid. Pure functions of what was read before and after it.

use frostline_base::{Error, chain};

use crate::host::facts::DeviceBytes;
use crate::record::Gate;
use crate::study::Gates;

/// What was read about one sample. What could not be read is absent, and then not judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Bytes that the application read and wrote.
    pub application: Option<(u64, u64)>,
    /// Bytes that the devices moved meanwhile.
    pub device: Option<DeviceBytes>,
    /// Percent of the last 10 s in which something waited for a CPU.
    pub cpu_pressure: Option<f64>,
    /// Percent of CPU time that was stolen.
    pub steal_percent: f64,
    /// Part of the data file that is in the page cache, after a workload that asked for direct I/O.
    pub resident: Option<f64>,
    /// Errors that the tool met.
    pub errors: u64,
    /// Whether the loop devices reach their files by direct I/O.
    pub loop_direct: Option<bool>,
    /// Percent of requests to emulated volumes that the host's disk held up beyond their time.
    pub overrun_percent: Option<f64>,
    /// The buckets' balance at the start, wanted and found, as parts of their size.
    pub balance: Option<(f64, f64)>,
}

/// Judges a sample. A gate is listed whether it passed or not.
pub fn judge(gates: &Gates, reading: &Reading) -> Vec<Gate> {
    let mut judged = Vec::new();
    judged.push(gate("errors", reading.errors == 0, format!("errors of the tool: {}", reading.errors)));
    judged.extend(device_bytes(gates, reading));
    let at_most = [
        ("cpu_pressure", "% of 10 s waiting for a CPU", reading.cpu_pressure, gates.cpu_pressure_max),
        ("steal", "% of CPU time stolen", Some(reading.steal_percent), gates.steal_percent_max),
        (
            "host_disk",
            "% of requests held up by this host's disk",
            reading.overrun_percent,
            gates.overrun_percent_max,
        ),
        ("direct_io", "of the data file in the page cache", reading.resident, gates.resident_max),
    ];
    for (name, what, value, most) in at_most {
        if let (Some(value), Some(most)) = (value, most) {
            judged.push(gate(name, value <= most, format!("{value:.2} {what}, at most {most}")));
        }
    }
    if let Some(direct) = reading.loop_direct {
        let what =
            if direct { "loop devices do direct I/O" } else { "loop devices fell back to the page cache" };
        judged.push(gate("loop_direct_io", direct, what.to_owned()));
    }
    if let Some((wanted, found)) = reading.balance {
        let what =
            format!("buckets {:.0} % full at the start, wanted {:.0} %", found * 100.0, wanted * 100.0);
        judged.push(gate("bucket", (wanted - found).abs() <= 0.01, what));
    }
    judged
}

/// Fewer bytes at the device than at the application: a cache answered. More: something else was measured
/// too, or each request became several.
fn device_bytes(gates: &Gates, reading: &Reading) -> Option<Gate> {
    let ((read, written), device) = (reading.application?, reading.device?);
    let application = read.saturating_add(written);
    let (least, most) = gates.device_bytes?;
    if application == 0 {
        return None;
    }
    let ratio = device.read.saturating_add(device.written) as f64 / application as f64;
    let what = format!("device over application bytes {ratio:.3}, within {least} to {most}");
    Some(gate("device_bytes", (least..=most).contains(&ratio), what))
}

fn gate(name: &str, passed: bool, what: String) -> Gate {
    Gate { name: name.to_owned(), what, passed }
}

/// The gate of a sample that could not be taken at all.
pub fn failed(error: &Error) -> Gate {
    gate("tool", false, chain(error))
}

#[cfg(test)]
mod tests;
