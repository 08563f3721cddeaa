use super::*;
use crate::record::{Gate, How};
use crate::run::tests::header;
use crate::study::plan::plan;
use crate::study::tests::{rich, small};

fn sample(cell: &str, block: u32, rate: f64, passed: bool) -> Sample {
    Sample {
        cell: cell.into(),
        block,
        position: 0,
        at_s: 0.0,
        seconds: 1.0,
        values: BTreeMap::from([("rate_per_s".to_owned(), rate)]),
        gates: vec![Gate { name: "errors".into(), what: "2 errors".into(), passed }],
        raw: String::new(),
    }
}

fn run_of(samples: &[Sample], modelled: &BTreeMap<String, MetricValues>) -> Run {
    let study = small();
    let plan = plan(&study, Mode::Quick, 1, &[], &rich()).unwrap();
    Summarised::new(&study, &plan, modelled, samples).into_run(header(), true)
}

#[test]
fn only_blocks_in_which_both_cells_are_valid_are_pairs() {
    let samples = [
        sample("kind=a,size=1", 0, 10.0, true),
        sample("kind=b,size=1", 0, 30.0, true),
        sample("kind=a,size=1", 1, 10.0, false),
        sample("kind=b,size=1", 1, 99.0, true),
        sample("kind=b,size=1", 2, 99.0, true),
    ];
    let run = run_of(&samples, &BTreeMap::new());
    assert_eq!(run.comparisons.len(), 1);
    assert!((run.comparisons[0].ratio - 3.0).abs() < 1e-9);
    assert_eq!(run.comparisons[0].pairs, 1);
    assert!(run.comparisons[0].smallest_difference.is_nan());
    let a = &run.cells[0];
    assert_eq!((a.how, a.voided, a.measured["rate_per_s"].values.as_slice()), (How::Run, 1, &[10.0][..]));
    assert_eq!(a.notes, ["voided by errors: 2 errors"]);
}

#[test]
fn a_null_control_that_is_compared_with_nothing_has_its_own_main_metric() {
    let mut study = small();
    study.comparisons.clear();
    let plan = plan(&study, Mode::Quick, 1, &[], &rich()).unwrap();
    let copy = plan.cells.iter().find(|cell| cell.control_of.is_some()).unwrap();
    let of = |cell: &str, value| Sample {
        values: BTreeMap::from([("events_per_s".to_owned(), value)]),
        ..sample(cell, 0, 0.0, true)
    };
    let samples = [of(&copy.id, 3.0), of(copy.control_of.as_ref().unwrap(), 2.0)];
    let modelled = BTreeMap::new();
    let compared = Summarised::new(&study, &plan, &modelled, &samples).compared();
    assert_eq!((compared.len(), compared[0].metric.as_str()), (1, "events_per_s"));
    assert!((compared[0].ratio - 1.5).abs() < 1e-9);
}

#[test]
fn each_part_of_a_study_has_its_null_control() {
    let one = r#"control = { kind = "a", size = "1" }"#;
    let two = r#"controls = [{ kind = "a", size = "1" }, { kind = "b", size = "2" }]"#;
    let study = Study::parse(&crate::study::tests::SMALL.replace(one, two), "small.toml").unwrap();
    let names = |levels: &str| {
        let study = Study::parse(&study.text.replace("blocks = [2, 12]", levels), "small.toml").unwrap();
        let plan = plan(&study, Mode::Quick, 1, &[], &rich()).unwrap();
        let rate = || BTreeMap::from([("rate_per_s".to_owned(), 2.0)]);
        let modelled = plan.cells.iter().map(|cell| (plain_id(&cell.id).to_owned(), rate())).collect();
        let compared = Summarised::new(&study, &plan, &modelled, &[]).compared();
        let nulls = compared.iter().filter(|c| c.null_control);
        nulls.map(|c| (c.name.clone(), plain_id(&c.numerator) == c.denominator)).collect::<Vec<_>>()
    };
    let both = ("null control, rate_per_s".to_owned(), true);
    assert_eq!(names("blocks = [2, 12]"), [both.clone(), both]);
    assert_eq!(names("levels = { size = [\"1\"] }"), [("null control".to_owned(), true)]);
}

#[test]
fn without_a_sample_the_model_answers() {
    let value = |rate: f64| BTreeMap::from([("rate_per_s".to_owned(), rate)]);
    let modelled =
        BTreeMap::from([("kind=a,size=1".to_owned(), value(2.0)), ("kind=b,size=1".to_owned(), value(8.0))]);
    let run = run_of(&[], &modelled);
    assert_eq!((run.comparisons[0].ratio, run.comparisons[0].pairs), (4.0, 0));
    assert_eq!(run.comparisons[0].modelled, Some(4.0));
    assert_eq!(run.comparisons[0].p_holm, None);
}
