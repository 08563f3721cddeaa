use std::path::Path;

use frostline_model::catalogue::Catalogue;

use super::*;
use crate::decide::{Question, decide};
use crate::host::facts::DeviceBytes;
use crate::host::probe::Host;
use crate::record::Mode;
use crate::report::{read_run, read_samples, translated};
use crate::run::gates::{Reading, judge};
use crate::study::plan::plan;
use crate::study::tests::rich;
use crate::study::{Gates, Study};

#[track_caller]
fn check(study: &BTreeMap<String, String>, text: &str, of: &str) {
    assert!(korean(study, text).is_some(), "{of}: {text}");
}

#[test]
fn all_that_the_committed_runs_say_is_there_in_korean() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies/data");
    let mut runs = 0;
    for entry in std::fs::read_dir(data).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("run.json").exists() {
            continue;
        }
        runs += 1;
        let (run, of) = (translated(read_run(&folder).unwrap()).unwrap(), folder.display().to_string());
        let samples = read_samples(&folder).unwrap();
        let gates = samples.iter().flat_map(|sample| &sample.gates).filter(|gate| !gate.passed);
        let cells = run.cells.iter().flat_map(|cell| cell.notes.iter().chain([&cell.why]));
        let texts = run.notes.iter().chain([&run.title]).chain(gates.map(|gate| &gate.what)).chain(cells);
        texts.for_each(|text| check(&run.korean, text, &of));
        run.comparisons.iter().for_each(|comparison| check(&run.korean, &comparison.name, &of));
    }
    assert!(runs >= 10, "{runs}");
}

#[test]
fn all_that_gates_say_is_there_in_korean() {
    let gates = Gates {
        device_bytes: Some((0.9, 1.1)),
        resident_max: Some(0.1),
        steal_percent_max: Some(1.0),
        cpu_pressure_max: Some(1.0),
        overrun_percent_max: Some(1.0),
    };
    for loop_direct in [true, false] {
        let reading = Reading {
            application: Some((1, 1)),
            device: Some(DeviceBytes::default()),
            cpu_pressure: Some(50.0),
            steal_percent: 2.5,
            resident: Some(0.5),
            errors: 3,
            loop_direct: Some(loop_direct),
            overrun_percent: Some(7.0),
            balance: Some((1.0, 0.5)),
        };
        let judged = judge(&gates, &reading);
        assert_eq!(judged.len(), 8);
        judged.iter().for_each(|gate| check(&BTreeMap::new(), &gate.what, &gate.name));
    }
}

#[test]
fn all_that_plans_say_is_there_in_korean() {
    let guests = "emulated (TCG): /dev/kvm cannot be opened: No such file or directory (os error 2)";
    let hosts = [
        Host { guests: guests.to_owned(), ..rich() },
        // Lacks everything.
        Host {
            missing_tools: crate::host::tools::names()
                .map(|name| (name.to_owned(), format!("{name} is missing: apt-get install x")))
                .collect(),
            ..Host::default()
        },
    ];
    for study in Study::embedded().unwrap() {
        for (host, mode) in hosts.iter().zip([Mode::Full, Mode::Quick]) {
            let plan = plan(&study, mode, 1, &[], host).unwrap();
            plan.cells.iter().for_each(|cell| check(&study.korean, &cell.why, &cell.id));
            plan.changes.iter().for_each(|change| check(&study.korean, change, &study.name));
        }
    }
}

#[test]
fn all_that_a_decision_notes_is_there_in_korean() {
    for name in ["ebs-2023", "ebs-2025-09", "ebs-2026-09"] {
        let catalogue = Catalogue::built_in(name).unwrap();
        for (copies, snapshot_gib) in [(1, None), (1, Some(5.0)), (2, None), (3, Some(9.0))] {
            let question = Question {
                need: "randread bs=128k p99<=20ms 10MiB/s peak=20MiB/s,2h".parse().unwrap(),
                data_gib: 100.0,
                region: "us-east-1".to_owned(),
                instance: None,
                hours_per_day: None,
                count_max: 2,
                copies,
                snapshot_gib,
            };
            let notes = decide(&catalogue, &question).unwrap().notes;
            assert!(notes.len() >= 4, "{notes:?}");
            notes.iter().for_each(|note| check(&BTreeMap::new(), note, name));
        }
    }
}

#[test]
fn values_stand_in_their_places_and_are_translated_where_they_are_texts() {
    let study = BTreeMap::from([("b over a".to_owned(), "a 대비 b".to_owned())]);
    let of = |text: &str| korean(&study, text);
    assert_eq!(
        of("voided by steal: 1.5 % of CPU time stolen, at most 1").unwrap(),
        "무효(steal): 다른 가상 머신에 빼앗긴 CPU 시간 1.5 %, 허용 1 % 이하"
    );
    assert_eq!(of("voided by tool: {0} of fio").unwrap(), "무효(tool): {0} of fio");
    assert_eq!(of("b over a, bs=16k").unwrap(), "a 대비 b, bs=16k");
    assert_eq!(of("null control, iops").unwrap(), "대조군, iops");
    assert_eq!(of("Resumed after 1 sample.").unwrap(), "표본 1개 뒤에 이어서 실행했습니다.");
    assert_eq!(
        of("real tools in guests of 2 virtual CPUs and 1 queue pair; under KVM: x").unwrap(),
        "가상 CPU 2개, 큐 1쌍인 게스트에서 실제 도구. KVM: x"
    );
    assert_eq!((of("what a tool said"), of("no whole sample")), (None, None));
    let endless = "voided by x: ".repeat(100_000);
    assert!(of(&endless).unwrap().starts_with("무효(x): 무효(x): "));
}

#[test]
fn each_place_is_in_both_languages() {
    for (english, korean) in TEXTS {
        let count = english.matches("{}").count();
        let numbers = (0..count).map(|at| korean.matches(&format!("{{{at}}}")).count());
        assert!(numbers.into_iter().all(|found| found == 1), "{english}");
        assert_eq!(korean.matches('{').count(), count, "{english}");
    }
}
