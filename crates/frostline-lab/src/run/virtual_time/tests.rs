use super::*;
use crate::host::probe::Host;
use crate::record::Mode;
use crate::study::plan;

#[test]
fn the_73_published_cells_are_modelled_and_say_what_the_study_left_open() {
    let study = Study::find("warm-tier").unwrap();
    let plan = plan::plan(&study, Mode::Simulate, 1, &[], &Host::default()).unwrap();
    assert_eq!(plan.cells.len(), 73);
    let modelled = modelled(&study, &plan, 1).unwrap();
    assert_eq!(modelled.len(), 73);
    let of = |volumes: &str, metric: &str| {
        modelled[&format!("fs=openzfs,volumes={volumes},recordsize=128k,bs=128k")][metric]
    };
    let ratio = |metric: &str| of("4x2TiB", metric) / of("1x8TiB", metric);
    assert_eq!(ratio("burst_limit_mib_per_s"), 4.0);
    assert_eq!(ratio("base_limit_mib_per_s"), 1.0);
    assert!((of("4x2TiB", "burst_hours") - 4993.0 / 3600.0).abs() < 0.01);
    let notes = notes(&study, &plan).join("\n");
    assert!(notes.contains("8 TiB of sc1: 3 volumes"), "{notes}");
    assert!(notes.contains("8 TiB of st1: 4 volumes"), "{notes}");
}

#[test]
fn sizes_and_counts_are_read_or_refused() {
    assert_eq!(bytes("128k").unwrap(), 131_072);
    assert_eq!(bytes("1M").unwrap(), 1 << 20);
    for wrong in ["", "k", "0k", "12q", "99999999999999999999g", "-1k"] {
        assert!(bytes(wrong).is_err(), "{wrong}");
    }
    let (count, volume) = volumes("st1", "4x2TiB").unwrap();
    assert_eq!((count, volume.gib), (4, 2048.0));
    for wrong in ["", "4", "0x2TiB", "4x", "x2TiB", "999x1TiB", "4x2bananas"] {
        assert!(volumes("st1", wrong).is_err(), "{wrong}");
    }
    assert!(bucket_of("half", 1.0).is_err());
}
