use std::fs;

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    doctor: Doctor,
}

/// A tree in which F03 (low) and nothing else fires, in a folder to write to.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("root/proc/self")).unwrap();
    let mountinfo = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n";
    fs::write(folder.path().join("root/proc/self/mountinfo"), mountinfo).unwrap();
    folder
}

fn run_in(folder: &Path, arguments: &str) -> Result<(u8, String)> {
    let arguments = arguments.replace("DIR", &folder.display().to_string());
    let program =
        Program::try_parse_from(std::iter::once("doctor").chain(arguments.split_whitespace())).unwrap();
    let mut out = Vec::new();
    let status = run(&program.doctor, program.json, &mut out)?;
    Ok((status, String::from_utf8(out).unwrap()))
}

#[test]
fn a_tree_is_examined_in_every_form() {
    let folder = folder();
    let (status, text) = run_in(folder.path(), "--root DIR/root").unwrap();
    assert_eq!(status, 0);
    assert!(text.contains("low      F03 /: ") && text.contains("unknown  N02"), "{text}");
    for arguments in ["--root DIR/root --json", "--root DIR/root --format json"] {
        let (_, text) = run_in(folder.path(), arguments).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["findings"].as_array().unwrap().len(), 1);
    }
    run_in(folder.path(), "--root DIR/root --html DIR/report.html").unwrap();
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(
        page.contains("<h1>1 finding: 1 low</h1>") && page.contains("Begin with /: Every deletion"),
        "{page}"
    );
    assert!(page.contains("<article class=\"low\">"));
    let error = run_in(folder.path(), "--root DIR/nothing").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn a_check_fails_by_severity() {
    let folder = folder();
    assert_eq!(run_in(folder.path(), "--root DIR/root --fail-on medium").unwrap().0, 0);
    assert_eq!(run_in(folder.path(), "--root DIR/root --fail-on low").unwrap().0, 1);
}

#[test]
fn watching_prints_what_comes_and_goes() {
    let folder = folder();
    let (_, text) = run_in(folder.path(), "--root DIR/root --watch --passes 2").unwrap();
    assert_eq!(text, "+ low F03 /: Every deletion waits for the disk to discard\n");
    let (_, text) = run_in(folder.path(), "--root DIR/root --watch --passes 1 --format json").unwrap();
    assert!(text.starts_with("{\"change\":\"new\","), "{text}");
    let error = run_in(folder.path(), "--root DIR/root --watch --passes 1 --format sarif").unwrap_err();
    assert!(error.what().starts_with("--watch prints text or json"), "{error}");
}

#[test]
fn watching_keeps_the_page_up_to_date() {
    let folder = folder();
    let page = folder.path().join("report.html");
    let watch =
        || run_in(folder.path(), "--root DIR/root --watch --passes 1 --html DIR/report.html").unwrap();
    watch();
    assert!(fs::read_to_string(&page).unwrap().contains("<h1>1 finding: 1 low</h1>"));
    let mountinfo = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";
    fs::write(folder.path().join("root/proc/self/mountinfo"), mountinfo).unwrap();
    watch();
    assert!(!fs::read_to_string(&page).unwrap().contains("1 finding"));
    // Before the first examination, as without --watch.
    let error =
        run_in(folder.path(), "--root DIR/nothing --watch --passes 1 --html DIR/no/file").unwrap_err();
    assert!(error.what().starts_with("cannot write "), "{error}");
}

#[test]
fn metrics_are_written_whole() {
    let folder = folder();
    run_in(folder.path(), "--root DIR/root --prometheus DIR/doctor.prom").unwrap();
    let text = fs::read_to_string(folder.path().join("doctor.prom")).unwrap();
    assert!(text.contains("frostline_doctor_rules{outcome=\"finding\"} 1\n"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the tree and the metrics");
}

#[test]
fn a_file_that_cannot_be_written_is_named_before_the_host_is_examined() {
    let folder = folder();
    for option in ["--html", "--prometheus"] {
        let error = run_in(folder.path(), &format!("--root DIR/nothing {option} DIR/no/file")).unwrap_err();
        let path = folder.path().join("no/file");
        assert_eq!(error.what(), format!("cannot write {}", path.display()), "{option}");
    }
}

#[test]
fn rules_are_explained() {
    let folder = folder();
    let (_, text) = run_in(folder.path(), "explain single-queue-nic").unwrap();
    assert!(text.starts_with("N02 single-queue-nic: ") && text.contains("hw:vif_multiqueue_enabled=true"));
    assert_eq!(run_in(folder.path(), "explain N99").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(run_in(folder.path(), "rules").unwrap().1.lines().count(), rules::all().count());
    let json: serde_json::Value =
        serde_json::from_str(&run_in(folder.path(), "rules --json").unwrap().1).unwrap();
    assert_eq!(json["rules"].as_array().unwrap().len(), rules::all().count());
}

#[test]
fn fixes_are_shown_and_never_applied_to_a_capture() {
    let folder = folder();
    let (_, text) = run_in(folder.path(), "fix --dry-run F03 --root DIR/root").unwrap();
    assert!(
        text.contains("mount -o remount,rw,relatime,nodiscard /dev/vda /\n")
            && text.contains("to_1=nodiscard back_1=discard"),
        "{text}"
    );
    let error = run_in(folder.path(), "fix --apply F03 --root DIR/root").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(run_in(folder.path(), "fix N99 --root DIR/root").is_err());
    // Where nothing was found there is no script that does nothing.
    assert_eq!(run_in(folder.path(), "fix --dry-run N05 --root DIR/root").unwrap(), (0, String::new()));
}

#[test]
fn an_undo_that_cannot_be_written_is_named_before_the_host_is_examined() {
    let folder = folder();
    let error = run_in(folder.path(), "fix --apply F16 --undo DIR/no/undo.sh").unwrap_err();
    let path = folder.path().join("no/undo.sh");
    assert_eq!(error.what(), format!("cannot write the undo to {}", path.display()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn definitions_of_machines() {
    let folder = folder();
    let xml = "<domain><name>a</name><vcpu>8</vcpu><devices><disk device='disk'><driver cache='unsafe'/><target dev='hda' bus='ide'/></disk></devices></domain>";
    fs::write(folder.path().join("a.xml"), xml).unwrap();
    let (status, text) = run_in(folder.path(), "vm DIR/a.xml --fail-on high").unwrap();
    assert_eq!(status, 1);
    for rule in ["V02 a", "V04 a hda", "V06 a hda"] {
        assert!(text.contains(rule), "{text}");
    }
    fs::write(folder.path().join("f.json"), r#"{"name":"m8","vcpus":8,"ram":1024,"properties":{}}"#).unwrap();
    assert!(run_in(folder.path(), "vm DIR/f.json").unwrap().1.contains("V01 m8"));
    let one = "<domain><name>b</name><vcpu>8</vcpu><devices><interface><model type='virtio'/></interface></devices></domain>";
    fs::write(folder.path().join("b.xml"), one).unwrap();
    assert!(run_in(folder.path(), "vm DIR/b.xml").unwrap().1.contains("1 interface with one queue for 8"));
    fs::write(folder.path().join("bad"), "neither").unwrap();
    let bad = run_in(folder.path(), "vm DIR/bad").unwrap_err();
    assert_eq!(bad.kind(), ErrorKind::Invalid);
    assert!(bad.to_string().contains("is neither libvirt's XML nor JSON of OpenStack"), "{bad}");
    assert_eq!(run_in(folder.path(), "vm DIR/none").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_guest_and_its_host_are_one_report() {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("guest/sys/devices/system/cpu/online", "0-7\n");
    put("guest/proc/interrupts", " CPU0 CPU1\n 30: 7 9 PCI-MSI virtio0-input.0\n");
    put("host/sys/devices/system/cpu/online", "0-63\n");
    let named = run_in(folder.path(), "--root DIR/guest --hypervisor DIR/host --machine a");
    assert_eq!(named.unwrap_err().what(), "the host defines no machines");
    let machine = |name: &str, queues: u32| {
        format!(
            "<domain><name>{name}</name><vcpu>8</vcpu><devices><interface type='bridge'><model type='virtio'/>\
             <driver name='vhost' queues='{queues}'/></interface></devices></domain>"
        )
    };
    put("host/etc/libvirt/qemu/a.xml", &machine("a", 1));
    let both = "--root DIR/guest --hypervisor DIR/host";
    let (_, text) = run_in(folder.path(), both).unwrap();
    assert!(
        text.contains("N02 guest virtio0") && text.contains("; on the host V01 a: 1 interface "),
        "{text}"
    );
    assert!(text.contains("V01 host a: "), "{text}");
    // Another machine's definition explains nothing.
    put("host/etc/libvirt/qemu/b.xml", &machine("b", 8));
    let error = run_in(folder.path(), both).unwrap_err().to_string();
    assert!(error.contains("--machine") && error.contains("a, b"), "{error}");
    let (_, text) = run_in(folder.path(), &format!("{both} --machine b")).unwrap();
    assert!(text.contains("; the host is not the cause (V01 found nothing for it)"), "{text}");
    assert!(run_in(folder.path(), &format!("{both} --machine c")).is_err());
    // What of the host could not be read is not taken for its innocence.
    put("host/etc/libvirt/qemu/b.xml", "<domain><name>b</name>");
    fs::remove_file(folder.path().join("host/etc/libvirt/qemu/a.xml")).unwrap();
    let (_, text) = run_in(folder.path(), both).unwrap();
    assert!(text.contains("; whether the host is the cause (V01) is unknown"), "{text}");
}

#[test]
fn what_the_user_says_is_checked() {
    let parse = |arguments: &str| {
        Program::try_parse_from(std::iter::once("doctor").chain(arguments.split_whitespace()))
    };
    assert_eq!(role("/a/b/=log").unwrap(), ("/a/b".to_owned(), Role::Log));
    assert_eq!(volume("/dev/nvme1n1=st1").unwrap(), ("nvme1n1".to_owned(), "st1".to_owned()));
    for wrong in [
        "--role /a",
        "--role /a=fast",
        "--volume sda=ssd",
        "--volume sda",
        "--fail-on bad",
        "--format xml",
        "fix --dry-run --apply N05",
        "--passes 1",
        "--watch --fail-on high",
        "--machine a",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_a_fix_changed_is_printed_also_where_another_failed() {
    let printed = |changed: &[&str], all: Result<()>| {
        let changed = changed.iter().map(|text| (*text).to_owned()).collect();
        let mut out = Vec::new();
        let result = applied(fix::Applied { changed, all }, Path::new("undo.sh"), false, &mut out);
        (String::from_utf8(out).unwrap(), result.is_ok())
    };
    let said = "a: 1 -> 2\nto undo: sh undo.sh undo\n".to_owned();
    assert_eq!(printed(&["a: 1 -> 2"], Ok(())), (said.clone(), true));
    assert_eq!(printed(&["a: 1 -> 2"], Err(Error::invalid("not fixed: F01"))), (said, false));
    assert_eq!(printed(&[], Err(Error::invalid("not fixed: F01"))), (String::new(), false));
}
