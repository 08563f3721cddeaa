use frostline_base::SystemClock;

use super::*;
use crate::host::probe::Host;
use crate::host::process::Stop;
use crate::record::{How, Mode};
use crate::study::Study;
use crate::study::plan::plan;

/// A plan of the whole study as on a host that can run it.
fn planned(study: &Study) -> crate::study::plan::Plan {
    let mut plan = plan(study, Mode::Full, 1, &[], &Host::default()).unwrap();
    plan.cells.iter_mut().for_each(|cell| cell.how = How::Emulate);
    plan
}

#[test]
fn every_cell_of_the_published_matrix_has_its_file_system_and_data() {
    let study = Study::find("warm-tier-zfs").unwrap();
    let plan = planned(&study);
    let (data, stop) = (tempfile::tempdir().unwrap(), Stop::new());
    let raw = data.path().join("raw");
    let live = Live::new(
        &study,
        &plan,
        &SystemClock,
        &stop,
        data.path(),
        &raw,
        Default::default(),
        &[],
        Box::new(|_| {}),
    )
    .unwrap();
    let (systems, options) = live.systems().unwrap();
    assert!(options.len() <= VOLUMES_MAX, "{} volumes", options.len());
    let mut sets = std::collections::BTreeSet::new();
    for cell in &plan.cells {
        let asked = live.asked(cell).unwrap_or_else(|error| panic!("{}: {error}", cell.id));
        let system = &systems[&asked.key];
        assert_eq!(system.kept.volumes.len(), system.volumes.len());
        system.kept.make().unwrap();
        sets.insert((asked.key, asked.data.name(), asked.block_kib, cell.control_of.is_some()));
    }
    assert_eq!(sets.len(), plan.cells.len(), "no two cells are the same");
    let matrix = plan
        .cells
        .iter()
        .filter(|cell| cell.group.starts_with("matrix") && cell.control_of.is_none())
        .count();
    let baseline = plan.cells.iter().filter(|cell| cell.group == "baseline").count();
    assert_eq!((matrix, baseline), (72, 6));
    // One volume of 8 TiB bursts at 500 MiB/s; four of 2 TiB at as much each, all slowed.
    let [one, four] = ["zfs st1 1x8TiB", "zfs st1 4x2TiB"].map(|key| &systems[key]);
    assert_eq!((one.limits.burst, four.limits.burst), (four.limits.burst, one.limits.burst));
    assert_eq!((one.volumes.len(), four.volumes.len()), (1, 4));
    live.close().unwrap();
}

fn account(units: u64, reads: u64) -> Account {
    let model =
        frostline_model::Account { units, charged: units as f64, ..frostline_model::Account::default() };
    Account { reads, read_bytes: reads << 17, direct_io: true, model: Some(model), ..Account::default() }
}

/// A sample of ten seconds on four volumes, of which each did this many units, in a guest that was so busy.
fn reading(units: u64, busy: f64) -> (Reading, System) {
    let limits =
        frostline_model::VolumeSpec::new("st1", 2048.0).limits(&Catalogue::latest()).unwrap().slowed(10.0);
    let volumes = (0..4).map(|at| format!("fs0-{at}")).collect();
    let kept = Kept { name: "fs0".into(), stack: Stack::Zfs, volumes };
    let system = System { kept, volumes: 0..4, limits, is_made: true, data: Vec::new() };
    let mut fio = FioResult::default();
    (fio.read.bytes, fio.read.iops, fio.seconds) = (1 << 20, 100.0, 10.0);
    let reading = Reading {
        fio,
        fio_json: Value::Null,
        said: Said { by_second: vec![100.0; 20], busy, arc_hit_rate: Some(0.1), ..Said::default() },
        first: vec![account(0, 0); 4],
        last: vec![account(units, units); 4],
        window_s: 10.0,
    };
    (reading, system)
}

#[test]
fn a_sample_that_waited_for_the_emulated_cpu_is_void() {
    let is_valid = |units, busy| {
        let (reading, system) = reading(units, busy);
        reading.gates(&system).iter().all(|gate| gate.passed)
    };
    // 50 units a second are all that a slowed volume has. Sixteen processes keep each of four busy for 0.84 of the time.
    assert!(is_valid(500, 0.99), "the volumes were the limit");
    assert!(is_valid(370, 0.5), "processes that wait for each other");
    assert!(!is_valid(350, 0.99), "the emulated CPU was the limit");
    assert!(!is_valid(350, 0.2), "or the host, which gave it no time");
    let (reading, system) = reading(250, 0.5);
    let values = reading.values(&system, 128);
    assert!((values["limit_use"] - 0.5).abs() < 1e-9, "{values:?}");
    assert!((values["units_per_request"] - 1.0).abs() < 1e-9 && values["mib_per_s"] == 12.5, "{values:?}");
}
