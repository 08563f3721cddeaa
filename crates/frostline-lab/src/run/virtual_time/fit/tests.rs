use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::record::{How, Mode, Summary};
use crate::simulate::FileSystem;
use crate::study::Cell as Planned;

/// A run of every seventh cell of the matrix that measured what `of` says.
fn run(study: &Study, of: impl Fn(&Planned) -> f64) -> Run {
    let matrix = study.cells.iter().filter(|cell| study.groups[cell.group].name.starts_with("matrix"));
    let cells = matrix.step_by(7).map(|cell| {
        let value = of(cell);
        let summary = Summary {
            unit: "MiB/s".into(),
            values: vec![value],
            median: value,
            low: value,
            high: value,
            confidence: None,
        };
        Cell {
            id: cell.id.clone(),
            levels: cell.levels.clone(),
            how: How::Emulate,
            why: String::new(),
            measured: BTreeMap::from([("mib_per_s".to_owned(), summary)]),
            modelled: BTreeMap::new(),
            published: BTreeMap::new(),
            voided: 0,
            notes: Vec::new(),
        }
    });
    let cells: Vec<Cell> = cells.collect();
    serde_json::from_value(json!({
        "format": 1, "study": study.name, "title": "", "command": "", "started": "", "seed": 1, "mode": Mode::Full,
        "time_scale": 1.0, "machine": crate::host::facts::machine(), "tools": {}, "cells": cells, "comparisons": [],
        "notes": [], "complete": true,
    }))
    .unwrap()
}

fn of_model(study: &Study, cell: &Planned, numbers: [f64; 3]) -> f64 {
    let catalogue = Catalogue::latest();
    let model = study.groups[cell.group].model.as_ref().unwrap();
    let (mut stack, job) = stack_and_job(&catalogue, model, &cell.levels, 1.0).unwrap();
    stack.file_system.aggregate_bytes = Some(numbers[0] as u64 * 1024);
    stack.file_system.group = stack.file_system.group.map(|group| Group { requests: numbers[1], ..group });
    stack.latency_ms = numbers[2];
    simulate_only(&catalogue, &stack, &job, STEADY_S, SEED).unwrap().mib_per_s
}

#[test]
fn numbers_are_found_again_and_hold_in_the_half_that_was_not_used() {
    let study = Study::find("warm-tier-zfs").unwrap();
    let numbers = [256.0, 8.0, 40.0];
    let run = run(&study, |cell| of_model(&study, cell, numbers));
    let fit = fit(&study, &run).unwrap();
    assert_eq!(fit.cells.iter().filter(|cell| cell.is_training).count(), fit.cells.len() / 2);
    for cell in &fit.cells {
        assert!(cell.error() < 0.10, "the search is coarse: {cell:?}, {fit:?}");
    }
}

#[test]
fn too_few_cells_are_not_fitted() {
    let study = Study::find("warm-tier-zfs").unwrap();
    let mut run = run(&study, |_| 1.0);
    run.cells.truncate(4);
    let refused = fit(&study, &run).unwrap_err();
    assert!(refused.what().contains("4 measured cells"), "{refused}");
}

#[test]
fn the_model_has_the_numbers_that_were_fitted_to_the_published_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies/data/warm-tier-zfs");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let study = Study::parse(&read("study.toml"), "study.toml").unwrap();
    let run: Run = serde_json::from_str(&read("run.json")).unwrap();
    let fit = fit(&study, &run).unwrap();
    let model = FileSystem::zfs_measured(128 * 1024, true, true);
    assert_eq!(model.aggregate_bytes, Some(fit.gathered_bytes), "{fit:?}");
    assert_eq!(model.group.map(|group| group.requests), Some(fit.group_requests), "{fit:?}");
    let held_out: Vec<f64> = fit.cells.iter().filter(|cell| !cell.is_training).map(Tested::error).collect();
    let within = held_out.iter().filter(|error| **error <= ERROR_MAX).count();
    assert!(within * 5 >= held_out.len() * 4, "{within} of {} are within {ERROR_MAX}", held_out.len());
}
