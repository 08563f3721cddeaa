//! Captures of `frostline doctor`: each is one sample.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use frostline_base::{Error, Result};
use frostline_doctor::{Said, open};

use super::{Sample, Trace};

/// A trace of each disk, over all captures.
pub(super) fn read(folders: &[PathBuf]) -> Result<Vec<Trace>> {
    let mut traces: BTreeMap<String, Trace> = BTreeMap::new();
    let mut lasted = Vec::new();
    for folder in folders {
        let path = folder.display();
        if !folder.join("capture.json").exists() {
            return Err(Error::invalid(format!(
                "{path} is not a capture: frostline doctor capture makes one"
            )));
        }
        let host = open(folder, Duration::ZERO, Said::default())?;
        let (loads, seconds) =
            host.disk_loads().map_err(|absent| Error::invalid(format!("{path}: {absent}")))?;
        lasted.push((path.to_string(), seconds));
        for (device, load) in loads {
            let trace = traces.entry(device).or_insert_with_key(|device| Trace {
                device: device.clone(),
                notes: vec![
                    "A capture is one average over its seconds: peaks within it are not seen.".to_owned(),
                ],
                ..Trace::default()
            });
            trace.samples.push(Sample {
                start: None,
                seconds,
                reads: load.reads,
                read_bytes: load.read_bytes,
                writes: load.writes,
                write_bytes: load.write_bytes,
            });
        }
    }
    for trace in traces.values_mut().filter(|trace| trace.samples.len() < folders.len()) {
        trace.holes.push(format!("{} is not in every capture", trace.device));
    }
    Ok(traces.into_values().collect())
}
