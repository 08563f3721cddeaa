use std::collections::BTreeSet;

use frostline_base::ErrorKind;

use super::plan::plan;
use super::*;
use crate::host::probe::Host;
use crate::record::How;

/// A small study; tests change a line of it.
pub(crate) const SMALL: &str = r#"
name = "small"
title = "A small study"
control = { kind = "a", size = "1" }

[[factors]]
name = "kind"
means = "kind"
levels = ["a", "b"]

[[factors]]
name = "size"
means = "size"
levels = ["1", "2"]

[setups.here]
place = "folder"

[workloads.echo]
tool = "command"
arguments = "echo rate={size} {seed}"
read = { rate_per_s = "rate=([0-9]+)" }

[[cells]]
name = "all"
levels = { kind = ["a", "b"], size = ["1", "2"] }
setup = "here"
workload = "echo"

[[comparisons]]
name = "b over a"
numerator = { kind = "b" }
denominator = { kind = "a" }
each = ["size"]
metric = "rate_per_s"

[quick]
cells = ["all"]
seconds = 1
blocks = [2, 12]

[full]
cells = ["all"]
levels = { size = ["2"] }
seconds = 1
"#;

pub(crate) fn small() -> Study {
    Study::parse(SMALL, "small.toml").unwrap()
}

/// A host that has everything.
pub(crate) fn rich() -> Host {
    Host {
        is_root: true,
        has_fuse: true,
        has_loop: true,
        has_vhost: true,
        cpus: 2,
        file_systems: ["ext4", "xfs", "btrfs"].map(str::to_owned).to_vec(),
        missing_tools: BTreeMap::new(),
        free_bytes: 1 << 40,
        guests: String::new(),
    }
}

/// The error of the small study with `from` replaced by `to`.
#[track_caller]
fn check_error(from: &str, to: &str, expected: &str) {
    assert_eq!(SMALL.matches(from).count(), 1, "`{from}` is there once");
    let error = Study::parse(&SMALL.replace(from, to), "small.toml").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.what().contains(expected), "{}", error.what());
    assert!(error.what().starts_with("small.toml:"), "{}", error.what());
}

#[test]
fn mistakes_are_answered_with_position_and_nearest_name() {
    check_error(
        "levels = { kind = [\"a\", \"b\"], size",
        "levels = { kindd = [\"a\", \"b\"], size",
        "small.toml:26:12: unknown factor `kindd`; did you mean `kind`?",
    );
    check_error("levels = { size = [\"2\"] }", "levels = { size = [\"3\"] }", "no level `3`");
    check_error("title =", "titel =", "small.toml:3:1: unknown field `titel`; did you mean `title`?");
    check_error(
        "tool = \"command\"",
        "tool = \"comand\"",
        ":20:8: unknown tool `comand`; did you mean `command`?",
    );
    check_error("{seed}", "{sed}", "nothing is called {sed}; did you mean `seed`?");
    check_error("{seed}", "{seed", "a brace without its other half");
    check_error("setup = \"here\"", "setup = \"her\"", "unknown setup `her`; did you mean `here`?");
    check_error("rate=([0-9]+)", "rate=([0-9+", "not a regular expression");
    check_error("blocks = [2, 12]", "blocks = [3, 2]", "[quick]: `blocks`");
    check_error("numerator = { kind = \"b\" }", "numerator = { kind = \"c\" }", "has no level `c`");
    check_error("metric = \"rate_per_s\"", "metric = 1", "invalid type");
    check_error("[quick]\ncells = [\"all\"]", "[quick]\ncells = [\"al\"]", "did you mean `all`?");
}

#[test]
fn a_selector_selects_one_cell() {
    check_error("each = [\"size\"]", "each = []", "2 cells have these levels");
}

#[test]
fn cells_are_all_combinations_in_the_order_of_factors() {
    let ids: Vec<String> = small().cells.into_iter().map(|cell| cell.id).collect();
    assert_eq!(ids, ["kind=a,size=1", "kind=a,size=2", "kind=b,size=1", "kind=b,size=2"]);
    let names: Vec<String> = small().comparisons.into_iter().map(|c| c.name).collect();
    assert_eq!(names, ["b over a, size=1", "b over a, size=2"]);
}

#[test]
fn too_many_cells_are_refused_before_they_are_made() {
    let levels: Vec<String> = (0..200).map(|n| format!("\"{n}\"")).collect();
    let many = SMALL
        .replace("levels = [\"a\", \"b\"]", &format!("levels = [{}]", levels.join(",")))
        .replace("levels = [\"1\", \"2\"]", &format!("levels = [{}]", levels.join(",")))
        .replace(
            "levels = { kind = [\"a\", \"b\"], size = [\"1\", \"2\"] }",
            &format!("levels = {{ kind = [{0}], size = [{0}] }}", levels.join(",")),
        );
    assert!(Study::parse(&many, "x").unwrap_err().what().contains("more than 10000 cells"));
}

#[test]
fn templates_are_filled_and_braces_can_be_had() {
    let values = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    assert_eq!(fill("{a}-{{x}}-{a}", &values).unwrap(), "1-{x}-1");
    assert!(fill("{b}", &values).unwrap_err().to_string().contains("known: a"));
}

#[test]
fn the_embedded_studies_are_right() {
    let studies = Study::embedded().unwrap();
    assert_eq!(
        studies.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["mount-options", "restore", "vm", "warm-tier", "warm-tier-zfs", "warm-tier-zfs-direct"]
    );
    for study in &studies {
        // A comparison's name may be there without the levels that it is for.
        let has_korean = |text: &String| {
            let ends = text.match_indices(", ").map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|end| study.korean.contains_key(&text[..end]))
        };
        let texts = study.notes.iter().chain([&study.title]);
        let mut texts = texts.chain(study.comparisons.iter().map(|comparison| &comparison.name));
        assert_eq!(texts.find(|text| !has_korean(text)), None, "{}", study.name);
        for mode in [Mode::Quick, Mode::Full] {
            let plan = plan(study, mode, 1, &[], &rich()).unwrap();
            plan.check(study, &rich(), &[]).unwrap();
            assert!(plan.cells.iter().any(|cell| cell.control_of.is_some()), "{}: no control", study.name);
        }
        let quick = plan(study, Mode::Quick, 1, &[], &rich()).unwrap();
        // Guests boot, and file systems are laid out in them.
        let most = if matches!(study.name.as_str(), "vm" | "warm-tier-zfs") { 1200.0 } else { 600.0 };
        assert!(quick.seconds.1 <= most, "{} --quick takes {} s", study.name, quick.seconds.1);
    }
    assert!(Study::find("warmtier").unwrap_err().what().contains("did you mean `warm-tier`?"));
}

#[test]
fn every_published_layout_is_there() {
    let study = Study::find("warm-tier").unwrap();
    let plan = plan(&study, Mode::Simulate, 1, &[], &Host::default()).unwrap();
    assert_eq!(plan.cells.len(), 73);
    assert!(plan.cells.iter().all(|cell| cell.how == How::Simulate));
}

#[test]
fn each_block_has_an_order_of_its_own_that_the_seed_decides() {
    let plan_of = |seed| plan(&small(), Mode::Quick, seed, &[], &rich()).unwrap();
    let (one, again, other) = (plan_of(1), plan_of(1), plan_of(2));
    let orders = |plan: &plan::Plan| (0..12).map(|b| plan.block(b)).collect::<Vec<_>>();
    assert_eq!(orders(&one), orders(&again));
    assert_ne!(orders(&one), orders(&other));
    let distinct: BTreeSet<_> = orders(&one).into_iter().collect();
    assert!(distinct.len() > 4, "{distinct:?}");
    for mut order in orders(&one) {
        order.sort_unstable();
        // Four cells and the control's copy.
        assert_eq!(order, [0, 1, 2, 3, 4]);
    }
}

#[test]
fn what_the_host_lacks_is_a_reason_never_a_silent_downgrade() {
    let study = Study::find("warm-tier").unwrap();
    let poor = Host { is_root: false, ..rich() };
    let quick = plan(&study, Mode::Quick, 1, &[], &poor).unwrap();
    for cell in &quick.cells {
        assert_eq!(cell.how, How::Simulate, "{}", cell.id);
        assert!(cell.why.contains("needs root"), "{}", cell.why);
    }
    let error = quick.check(&study, &poor, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.what().contains("--simulate") && error.what().contains("sudo"), "{}", error.what());
    let mount = Study::find("mount-options").unwrap();
    let skipped = plan(&mount, Mode::Quick, 1, &["fsync".to_owned()], &poor).unwrap();
    assert!(skipped.cells.iter().all(|cell| cell.how == How::Skip && cell.why.contains("needs root")));
}

#[test]
fn missing_tools_are_named_before_anything_runs() {
    let study = Study::find("mount-options").unwrap();
    let mut host = rich();
    host.missing_tools.insert("fio".into(), "fio is missing: apt-get install -y fio".into());
    let plan = plan(&study, Mode::Quick, 1, &[], &host).unwrap();
    let error = plan.check(&study, &host, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.what().contains("apt-get install"), "{}", error.what());
}

#[test]
fn no_space_is_refused_before_it_starts() {
    let study = Study::find("mount-options").unwrap();
    let host = Host { free_bytes: 1 << 20, ..rich() };
    let plan = plan(&study, Mode::Quick, 1, &[], &host).unwrap();
    assert_eq!(plan.check(&study, &host, &[]).unwrap_err().kind(), ErrorKind::Exhausted);
}

#[test]
fn an_unknown_group_is_answered_with_the_nearest() {
    let study = Study::find("mount-options").unwrap();
    let error = plan(&study, Mode::Quick, 1, &["fsnyc".to_owned()], &rich()).unwrap_err();
    assert!(error.what().contains("did you mean `fsync`?"), "{}", error.what());
}

/// The small study with fio at `setup`, which is the body of `[setups.here]`.
fn at(setup: &str, arguments: &str) -> Result<Study> {
    let text = SMALL.replace("place = \"folder\"", setup).replace(
        "tool = \"command\"\narguments = \"echo rate={size} {seed}\"",
        &format!("tool = \"fio\"\narguments = \"--name=a --size={{size}}m {arguments}\""),
    );
    Study::parse(&text, "small.toml")
}

#[test]
fn a_directory_or_a_device_is_named_and_nothing_is_made_on_it() {
    let error = |setup: &str| at(setup, "--rw=read").unwrap_err().what().to_owned();
    assert!(error("place = \"path\"").contains("names it: path = \"/mnt/a\""));
    assert!(error("place = \"folder\"\npath = \"/mnt/a\"").contains("and only such, names it: path"));
    assert!(error("place = \"device\"").contains("names it: device = \"/dev/sdx\""));
    let setup = "place = \"path\"\npath = \"/mnt/{kind}\"\nmake = [\"mkfs.ext4 {device}\"]";
    assert!(error(setup).contains("is measured as it is"));
    let setup = "place = \"device\"\ndevice = \"/dev/sdx\"\noptions = \"noatime\"";
    assert!(error(setup).contains("this device has not"));
    let setup = "place = \"device\"\ndevice = \"/dev/{kind}\"\nwrite_cache = \"write back\"";
    assert!(error(setup).contains("devices that the lab makes"));
    assert!(error("place = \"path\"\npath = \"/mnt/{kidn}\"").contains("did you mean `kind`?"));
}

#[test]
fn a_plan_says_one_number_where_least_and_most_are_the_same() {
    assert_eq!(plan::from_to(6, 12, "block"), "6 to 12 blocks");
    assert_eq!(plan::from_to(6, 6, "block"), "6 blocks");
    assert_eq!(plan::from_to(1, 1, "minute"), "1 minute");
}

#[test]
fn a_plan_names_directories_and_what_becomes_of_devices() {
    let planned = |setup: &str, arguments: &str| {
        let study = at(setup, arguments).unwrap();
        let plan = plan(&study, Mode::Quick, 1, &[], &rich()).unwrap();
        (plan.cells[0].why.clone(), plan.changes.clone(), plan.check(&study, &rich(), &[]).unwrap_err())
    };
    let device = "place = \"device\"\ndevice = \"/dev/frostline-{kind}\"";
    let (why, changes, error) = planned(device, "--rw=randread");
    assert_eq!((why.as_str(), changes.len()), ("reading /dev/frostline-a", 0));
    assert!(error.what().contains("cannot find /dev/frostline-a"), "{error}");
    let (why, changes, _) = planned(device, "--rw=randwrite");
    assert_eq!(why, "overwriting /dev/frostline-a");
    assert_eq!(changes[0], "all that is on /dev/frostline-a is overwritten");
    let (why, _, error) = planned("place = \"path\"\npath = \"/mnt/frostline-{kind}\"", "--rw=read");
    assert_eq!(why, "in /mnt/frostline-a");
    assert!(error.what().contains("cannot find /mnt/frostline-a"), "{error}");
}

#[test]
fn only_what_a_run_overwrites_can_be_named_for_it() {
    let plan = plan(&small(), Mode::Quick, 1, &[], &rich()).unwrap();
    let error = plan.check(&small(), &rich(), &["/dev/null".into()]).unwrap_err();
    assert_eq!(error.what(), "--destroy /dev/null: no cell of this run overwrites it");
}

#[test]
fn a_gate_that_would_judge_nothing_is_refused() {
    let with = |all: &str, own: &str, place: &str| {
        let text = SMALL
            .replace("place = \"folder\"", place)
            .replace("workload = \"echo\"\n", &format!("workload = \"echo\"\n{own}\n"))
            .replace("[quick]", &format!("{all}\n[quick]"));
        Study::parse(&text, "small.toml")
    };
    let refused = |all: &str, own: &str| with(all, own, "place = \"folder\"").unwrap_err().to_string();
    let own = refused("", "gates = { device_bytes = [0.9, 1.1] }");
    assert!(own.contains("small.toml:29:9: "), "{own}");
    assert!(
        own.contains("the gate `device_bytes` would judge nothing here: it compares the bytes of fio"),
        "{own}"
    );
    let all = refused("[gates]\noverrun_percent_max = 5", "");
    assert!(all.contains("the gate `overrun_percent_max` would judge nothing in any cells"), "{all}");
    assert!(
        refused("", "gates = { resident_max = 0.1 }").contains("`data_file` of a workload with `direct`")
    );
    assert!(refused("[gates]\narc_hit_percent_max = 5", "").contains("arc_hit_percent_max"));
    with("[gates]\nsteal_percent_max = 5\ncpu_pressure_max = 20", "", "place = \"folder\"").unwrap();
    // One that judges some of the cells is fine for all.
    let model = "place = \"published\"\nwhy = \"a record\"";
    let nothing_runs = with("[gates]\nsteal_percent_max = 5", "", model).unwrap_err().to_string();
    assert!(nothing_runs.contains("the gate `steal_percent_max` would judge nothing"), "{nothing_runs}");
}

#[test]
fn a_cache_drains_only_on_a_device_of_the_labs_own() {
    let with = |place: &str| {
        Study::parse(&SMALL.replace("place = \"folder\"", place), "small.toml")
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let refused = with("place = \"folder\"\ndrain_mib_per_s = \"80\"").unwrap_err();
    assert!(refused.contains("`drain_mib_per_s` is of a device on a file"), "{refused}");
    let device = "place = \"file\"\ndevice_mib = 64\nfile_system = \"ext4\"\ndrain_mib_per_s";
    with(&format!("{device} = \"80\"")).unwrap();
    let unknown = with(&format!("{device} = \"{{rate}}\"")).unwrap_err();
    assert!(unknown.contains("nothing is called {rate}"), "{unknown}");
}
