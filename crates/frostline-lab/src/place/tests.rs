use clap::Parser;

use super::*;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    place: PlaceArgs,
}

fn parse(line: &str) -> std::result::Result<PlaceArgs, String> {
    let words = std::iter::once("place").chain(line.split_whitespace());
    Arguments::try_parse_from(words).map(|arguments| arguments.place).map_err(|e| e.to_string())
}

#[test]
fn numbers_are_listed_as_the_kernel_does() {
    assert_eq!(list(&[]), "");
    assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    assert_eq!(list(&[u32::MAX]), u32::MAX.to_string());
}

#[test]
fn arguments_are_read() {
    let args =
        parse("--vms 20x2@180GiB --reserve 1 --threads one-per-core --emit qemu --pages 1G").expect("good");
    assert_eq!(args.policy().reserve, Reserve::Cores(1));
    assert_eq!(args.policy().threads, Threads::OnePerCore);
    assert_eq!(args.policy().pages, Pages::Kib(1 << 20));
    assert_eq!(args.emit, Some(Target::Qemu));
    assert_eq!(parse("--vms 1").expect("defaults").policy(), Policy::default());
    assert!(parse("--export-topology").expect("no machines needed").export_topology);
    for line in ["", "--vms 2x", "--vms 1 --output x", "--vms 1 --disks 27", "--vms 1 --export-topology"] {
        assert!(parse(line).is_err(), "{line:?} was accepted");
    }
    assert!(parse("--vms 2y").expect_err("bad").contains("write SIZExCOUNT[@MEMORY]"));
}

#[test]
fn what_is_emitted_can_go_to_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = folder.path().join("host.json");
    let exported =
        serde_json::to_string(&topology::tests::topology(topology::tests::TWO_SOCKETS)).expect("JSON");
    std::fs::write(&host, exported).expect("a file");
    let output = folder.path().join("out");
    let line = format!("--vms 18x2 --emit libvirt --host {} --output {}", host.display(), output.display());
    let answer = answer(&parse(&line).expect("good"), false).expect("it plans");
    assert!(answer.complete);
    assert!(
        answer
            .text
            .lines()
            .eq(["host.sh", "vm18-1.xml", "vm18-2.xml"].map(|name| output.join(name).display().to_string()))
    );
    let mut names: Vec<_> = std::fs::read_dir(&output)
        .expect("made")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert_eq!(names, ["host.sh", "vm18-1.xml", "vm18-2.xml"]);
}

#[test]
fn a_folder_that_cannot_be_written_is_named_before_the_host_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    for output in [file.clone(), file.join("out/more")] {
        let line = format!(
            "--vms 2 --emit qemu --host {0}/none --output {1}",
            folder.path().display(),
            output.display()
        );
        let error = answer(&parse(&line).expect("good"), false).expect_err("no folder");
        assert!(error.what().starts_with(&format!("cannot write {}", file.display())), "{error}");
    }
    // Nothing is made of what could be.
    let output = folder.path().join("out/more");
    let line = format!(
        "--vms 2 --emit qemu --host {0}/none --output {1}",
        folder.path().display(),
        output.display()
    );
    let error = answer(&parse(&line).expect("good"), false).expect_err("no host");
    assert!(error.what().contains("none") && !folder.path().join("out").exists(), "{error}");
}

#[test]
fn the_explanation_has_the_table_the_reason_and_the_sources() {
    let topology = topology::tests::topology(topology::tests::TWO_SOCKETS);
    let plan = Plan::make(&topology, &"20x3".parse().expect("three"), &Policy::default()).expect("a plan");
    let text = text::explain(&plan);
    for part in [
        "vm20-1   0     0-9,20-29",
        "vm20-2   1     10-19,30-39",
        "2 of 3 machines fit; every placement was tried",
        "1 of 20x3 not placed: each needs 10 cores",
        "What would fit:\n  - 10 CPUs each: 10x3",
        "[computed] 51 % of 60 busy vCPUs share their core",
        "from: 1 - sum p_n^2",
        "[published] one machine of 20 CPUs per node",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn the_document_has_the_plan_whether_it_is_complete_and_what_was_emitted() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = folder.path().join("host.xml");
    std::fs::write(&host, topology::tests::TWO_SOCKETS).expect("a file");
    let document = |line: &str| {
        let args = parse(&format!("{line} --host {}", host.display())).expect("good");
        let answer = answer(&args, true).expect("it plans");
        let document: serde_json::Value = serde_json::from_str(&answer.text).expect("one document");
        assert_eq!(document["complete"], answer.complete);
        document
    };
    let part = document("--vms 20x3");
    assert_eq!(part["complete"], false);
    assert_eq!(part["machines"].as_array().expect("machines").len(), 2);
    assert_eq!(part["unplaced"][0]["missing"], 1);
    assert!(part.get("emitted").is_none());
    let whole = document("--vms 20x2 --emit openstack");
    assert_eq!(whole["complete"], true);
    assert_eq!(whole["emitted"][1]["name"], "flavors.sh");
}
