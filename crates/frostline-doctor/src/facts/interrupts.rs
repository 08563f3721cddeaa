//! `/proc/interrupts`, and `/proc/softirqs`, which has the same format.

use std::collections::{HashMap, HashSet};

use super::CPUS_MAX;

const ROWS_MAX: usize = 16_384;

/// The table: one row for each interrupt, one column for each online CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interrupts {
    /// The number of each column's CPU; not contiguous when some are offline.
    pub cpus: Vec<u32>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One interrupt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// `27`, `NMI`, `NET_RX`.
    pub id: String,
    /// Controller and devices: `PCI-MSI-edge virtio0-input.0`.
    pub what: String,
    /// (column, count) of the columns that are not 0.
    counts: Vec<(u16, u64)>,
}

impl Interrupts {
    /// Reads the table. None without a header that names CPUs.
    pub fn parse(text: &str) -> Option<Interrupts> {
        let mut lines = text.lines();
        let header = lines.next()?;
        let cpus: Vec<u32> = header
            .split_whitespace()
            .map_while(|word| word.strip_prefix("CPU")?.parse().ok().filter(|cpu| *cpu < CPUS_MAX))
            .take(CPUS_MAX as usize)
            .collect();
        if cpus.is_empty() {
            return None;
        }
        // The kernel names each row once. Of a damaged table the first row of a name counts.
        let mut named = HashSet::new();
        let rows = lines.take(ROWS_MAX).filter_map(|line| Row::parse(line, cpus.len()));
        let rows = rows.filter(|row| named.insert(row.id.clone())).collect();
        Some(Interrupts { cpus, rows })
    }

    /// What was counted since `before`, which may have other rows and columns. A counter that went back
    /// (a driver was loaded again) counts from 0.
    pub fn since(&self, before: &Interrupts) -> Interrupts {
        let known: HashMap<&str, &Row> = before.rows.iter().map(|row| (row.id.as_str(), row)).collect();
        let columns: HashMap<u32, usize> =
            before.cpus.iter().enumerate().map(|(at, cpu)| (*cpu, at)).collect();
        let mut rows = self.rows.clone();
        for row in &mut rows {
            let Some(was) = known.get(row.id.as_str()).filter(|was| was.what == row.what) else { continue };
            let mut counts = vec![0u64; before.cpus.len()];
            was.counts.iter().for_each(|(column, count)| counts[usize::from(*column)] = *count);
            for (column, count) in &mut row.counts {
                let cpu = self.cpus[usize::from(*column)];
                let was = columns.get(&cpu).map_or(0, |at| counts[*at]);
                *count = count.checked_sub(was).unwrap_or(*count);
            }
            row.counts.retain(|(_, count)| *count > 0);
        }
        Interrupts { cpus: self.cpus.clone(), rows }
    }

    /// Controller and devices of the interrupt with this number.
    pub fn what(&self, id: &str) -> Option<&str> {
        self.rows.iter().find(|row| row.id == id).map(|row| row.what.as_str())
    }

    /// The sum of the rows that `which` takes, by column.
    pub fn sum(&self, which: impl Fn(&Row) -> bool) -> Vec<f64> {
        let mut sums = vec![0.0; self.cpus.len()];
        for row in self.rows.iter().filter(|row| which(row)) {
            row.counts.iter().for_each(|(column, count)| sums[usize::from(*column)] += *count as f64);
        }
        sums
    }
}

impl Row {
    fn parse(line: &str, columns: usize) -> Option<Row> {
        let (id, rest) = line.split_once(':')?;
        let mut counts = Vec::new();
        let mut rest = rest.trim_start();
        for column in 0..columns {
            let word = rest.split_whitespace().next().unwrap_or("");
            let Ok(count) = word.parse::<u64>() else { break };
            if count > 0 {
                counts.push((u16::try_from(column).ok()?, count));
            }
            rest = rest[word.len()..].trim_start();
        }
        let what = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(Row { id: id.trim().to_owned(), what, counts })
    }

    /// The last word of what it says: the device and queue.
    pub fn action(&self) -> &str {
        self.what.rsplit(' ').next().unwrap_or("")
    }

    /// Whether this row is one of a device rather than of the CPUs themselves.
    pub fn is_device(&self) -> bool {
        self.id.bytes().all(|byte| byte.is_ascii_digit())
    }
}
