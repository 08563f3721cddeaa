use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn a_tool_leaves_what_it_printed() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("one");
    let printed =
        run_tool(shell("echo out; echo err >&2"), &stem, Duration::from_secs(60), &Stop::new()).unwrap();
    assert_eq!((printed.stdout.as_str(), printed.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(std::fs::read_to_string(folder.path().join("one.out")).unwrap(), "out\n");
}

#[test]
fn a_tool_that_fails_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("one");
    let error =
        run_tool(shell("echo no such disk >&2; exit 3"), &stem, Duration::from_secs(60), &Stop::new())
            .unwrap_err();
    assert!(error.what().contains("no such disk"), "{error}");
}

#[test]
fn a_tool_that_outlives_its_limit_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("one");
    let pid = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; wait", pid.display());
    let error = run_tool(shell(&script), &stem, Duration::from_secs(1), &Stop::new()).unwrap_err();
    assert!(format!("{error:?}").contains("did not end within 1 s"), "{error:?}");
    let child = std::fs::read_to_string(pid).unwrap();
    // It was killed before the call returned; the kernel ends it when it is next scheduled.
    let stat = format!("/proc/{}/stat", child.trim());
    let is_there = || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        !(stat.is_empty() || stat.contains(") Z") || stat.contains(") X"))
    };
    while is_there() {
        std::thread::yield_now();
    }
}

#[test]
fn a_stop_that_was_asked_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    stop.ask();
    let stem = folder.path().join("one");
    assert!(run_tool(shell("true"), &stem, Duration::from_secs(60), &stop).is_err());
    assert!(!folder.path().join("one.out").exists());
}

#[test]
fn a_program_that_is_not_there_is_not_found() {
    let error = run_short(&mut Command::new("frostline-no-such-program")).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::NotFound);
}
