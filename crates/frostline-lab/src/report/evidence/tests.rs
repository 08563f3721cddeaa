use std::fs;

use super::*;

#[test]
fn pages_are_made_of_the_runs_beside_them() {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies");
    let mut blocks = 0;
    for entry in fs::read_dir(&studies).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let page = fs::read_to_string(&path).unwrap();
            if !page.contains(BEGIN) {
                continue;
            }
            blocks += page.matches(BEGIN).count();
            let made = fill(&page, &studies, &path.display().to_string()).unwrap();
            assert!(made == page, "{}: make it anew with `frostline lab page`", path.display());
        }
    }
    assert!(blocks > 0, "no page has a block");
}

/// What the page says of the committed measurements: their volumes are configured to what the class promises.
#[test]
fn measured_limits_and_knees_are_those_that_were_configured() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies/data/measure");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        for path in super::super::read_measurement(&file).unwrap().paths {
            let case = format!("{} {}", file.display(), path.path.display());
            let (watched, promised) = (path.watched.unwrap(), path.cost.unwrap().promised_iops);
            let knee = told(&path.points).unwrap().unwrap();
            assert!((watched.sustained.iops / promised - 1.0).abs() < 0.05, "{case}: {watched:?}");
            assert!((knee.iops / promised - 1.0).abs() < 0.05, "{case}: {knee:?}");
            // Full buckets are 2 TiB by 100 and 4 TiB by 200: 20,972 requests of one credit.
            let bucket = watched.burst.map(|burst| burst.bucket_requests / 20_971.52);
            let is_full = path.path.ends_with("full");
            assert_eq!(bucket.is_some_and(|part| (part - 1.0).abs() < 0.05), is_full, "{case}: {bucket:?}");
            assert!(bucket.is_some() == is_full, "{case}: {bucket:?}");
        }
    }
}

#[test]
fn a_block_is_made_anew_and_the_rest_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let points = [(10.0, 1.5), (40.0, 1.5), (60.0, 400.0), (80.0, 800.0)].map(|(iops, p50_ms)| {
        serde_json::json!({
            "offered_iops": iops, "iops": iops, "mib_per_s": 5.0, "p50_ms": p50_ms, "p99_ms": p50_ms + 1.0, "cpu_pressure": 7.0,
        })
    });
    let measured = serde_json::json!({
        "started": "2026-01-01T00:00:00Z", "as": "postgres", "block_bytes": 8192, "outstanding": 64,
        "extent": {"data_mib": 64, "watch_seconds": 30.0, "step_seconds": 5.0}, "fio": "fio-3.33",
        "machine": crate::host::facts::machine(),
        "paths": [{
            "path": "/mnt/a|b", "volume": "ext4", "rounds": [], "cost": null, "failed": null,
            "watched": {"sustained": {"iops": 80.0, "mib_per_s": 10.0, "seconds": 20.0}, "burst": null,
                "is_steady": true, "excursion": 0.01, "slope_excursion": 0.0},
            "points": points,
            "knee": null,
        }],
    });
    fs::write(folder.path().join("m.json"), measured.to_string()).unwrap();
    let page =
        format!("# A\n\n{BEGIN}m.json limits -->\nold\n{END}\n\n{BEGIN}m.json curve -->\n{END}\nlast\n");
    let made = fill(&page, folder.path(), "a.md").unwrap();
    assert!(made.contains("| /mnt/a\\|b | 80.00 | – | 40.00 | 2.50 | – | 7 % |"), "{made}");
    assert!(made.contains("| 50 % | 40.00 | 1.50 | 2.50 |\n"), "{made}");
    assert!(
        made.starts_with("# A\n\n<!--") && made.ends_with("end -->\nlast\n") && !made.contains("old"),
        "{made}"
    );
    assert_eq!(fill(&made, folder.path(), "a.md").unwrap(), made, "a second time changes nothing");
    let busy = measured.to_string().replace("\"cpu_pressure\":7.0", "\"cpu_pressure\":90.0");
    fs::write(folder.path().join("m.json"), busy).unwrap();
    let made = fill(&page, folder.path(), "a.md").unwrap();
    assert!(made.contains("| /mnt/a\\|b | 80.00 | – | cannot tell | – | – | 90 % |"), "{made}");
}

#[test]
fn a_range_of_few_values_says_below_the_table_what_it_is_worth() {
    let summary = |values: &[f64]| Summary {
        unit: String::new(),
        values: values.to_vec(),
        median: 2.0,
        low: 1.0,
        high: 3.0,
        confidence: None,
    };
    let (one, three) = (with_interval(&summary(&[2.0])), with_interval(&summary(&[1.0, 2.0, 3.0])));
    assert_eq!((one.as_str(), three.as_str()), ("2.00", "2.00 (1.00 – 3.00)"));
    let worth = of_few(&[1, 3, 5, 6].into());
    assert!(worth.ends_with("It contains the true median with 75 % for 3, 94 % for 5 values.\n"), "{worth}");
    assert_eq!(of_few(&[1, 6, 12].into()), "");
}

/// A page whose block is made of a run that lies beside it, with its lines ended in that way.
fn small_page(end_of_line: &str) -> String {
    format!("# A\n\n{BEGIN}data/warm-tier answer -->\nold\n{END}\nprose").replace('\n', end_of_line)
}

fn fill_small(page: &str) -> Result<String> {
    fill(page, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies"), "a.md")
}

#[test]
fn a_page_keeps_the_ends_of_its_lines() {
    let unix = fill_small(&small_page("\n")).unwrap();
    assert!(unix.ends_with("\nprose") && !unix.contains('\r') && !unix.contains("old"), "{unix}");
    let dos = fill_small(&small_page("\r\n")).unwrap();
    assert_eq!(dos, unix.replace('\n', "\r\n"));
}

#[test]
fn a_line_that_is_almost_an_end_takes_no_text_with_it() {
    for end in [format!("{END} "), format!("  {END}"), END.to_uppercase()] {
        let page = small_page("\n").replace(END, &end);
        let page = format!("{page}\n\n {BEGIN}data/warm-tier answer -->\n{END}\n");
        let said = fill_small(&page).unwrap_err().to_string();
        assert_eq!(said, format!("a.md: line 5: this ends no block; `{END}` does"));
    }
}

#[test]
fn a_wrong_block_is_named_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let error = |block: &str| {
        let page = format!("text\n{BEGIN}{block}\n{END}\n");
        let error = fill(&page, folder.path(), "a.md").unwrap_err();
        frostline_base::chain(&error)
    };
    assert!(
        error("../run answer -->").contains("a.md: line 2: ../run is not below the folder"),
        "{}",
        error("../run answer -->")
    );
    assert!(error("/etc/passwd limits -->").contains("not below the folder"));
    assert!(error("m.json limit -->").contains("did you mean `limits`?"));
    assert!(error("m.json -->").contains("names a file and what to make of it"));
    assert!(error("m.json limits -->").contains("m.json"));
    let open = fill(&format!("{BEGIN}m.json limits -->\n"), folder.path(), "a.md");
    assert!(open.is_err());
    fs::write(folder.path().join("m.json"), "{}").unwrap();
    assert!(error("m.json limits -->").contains("is not what `lab --json measure` printed"));
}

#[test]
fn a_page_without_blocks_is_told_what_one_looks_like() {
    let error = |page: &str| fill(page, Path::new(""), "a.md").unwrap_err().to_string();
    for page in ["", "# A\n\ntext about <!-- lab page: data/x answer -->\n"] {
        let said = error(page);
        assert!(
            said.starts_with("a.md has no block: a block begins with a line such as `<!-- lab page: "),
            "{said}"
        );
    }
    for line in [
        " <!-- lab page: m.json limits -->",
        "<!--lab page: m.json limits-->",
        "<!-- Lab page m.json -->",
        END,
    ] {
        let said = error(&format!("# A\n{line}\n"));
        assert!(said.starts_with("a.md: line 2: this does not begin a block: a block begins"), "{said}");
    }
}

#[test]
fn a_chart_has_a_bar_for_each_cell_or_comparison() {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies");
    let block = |words: &str| {
        let page = format!("{BEGIN}data/warm-tier {words} -->\n{END}\n");
        fill(&page, &studies, "a.md").map_err(|error| frostline_base::chain(&error))
    };
    let chart = block("bars mib_per_s").unwrap();
    assert!(chart.contains("```text\nmib_per_s, MiB/s\n") && chart.contains("244.4 ("), "{chart}");
    let longest = chart.lines().map(|line| line.matches('█').count()).max();
    assert_eq!(longest, Some(BAR_MAX as usize));
    assert_eq!(chart.lines().filter(|line| line.contains(" – ")).count(), 12, "{chart}");
    let chart = block("ratios").unwrap();
    let last = chart.lines().rfind(|line| line.contains('█')).unwrap();
    assert!(last.starts_with("null control ") && last.contains("1.000 ("), "{chart}");
    assert!(block("bars mib_per_").unwrap_err().contains("did you mean `mib_per_s`?"));
    assert!(block("bars").unwrap_err().contains("`bars` names the metric to draw"));
}

/// The text of all files of these kinds below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn the_page_of_what_was_mended_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/studies/mended.md")).unwrap();
    let mut text = String::new();
    for folder in [
        "crates/frostline-doctor/src",
        "crates/frostline-lab/src",
        "crates/frostline-model/src",
        "tests/clients",
    ] {
        sources(&root.join(folder), &mut text);
    }
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| D") || line.starts_with("| U")).collect();
    assert_eq!(rows.len(), 16);
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for name in tests.split('`').skip(1).step_by(2).filter(|name| !name.ends_with(".py")) {
            let is_there = ["fn ", "def "].iter().any(|kind| text.contains(&format!("{kind}{name}(")));
            assert!(is_there, "{name} of {}", row.split(" | ").next().unwrap());
        }
    }
}
