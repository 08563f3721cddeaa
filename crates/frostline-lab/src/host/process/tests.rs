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

#[test]
fn ctrl_c_does_not_reach_a_short_command() {
    let mut shell = Command::new("sh");
    let said = run_short(shell.args(["-c", "echo $$; cut -d' ' -f5 /proc/$$/stat"])).unwrap();
    let [process, group] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert_eq!(process, group);
}

#[test]
fn a_short_command_that_ctrl_c_ended_is_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let once = folder.path().join("once");
    let said =
        run_short(&mut shell(&format!("mkdir {} && kill -INT $$; echo done", once.display()))).unwrap();
    assert_eq!(said, "done\n");
    let error = run_short(&mut shell("kill -TERM $$")).unwrap_err();
    assert!(error.what().ends_with(": ended by signal 15"), "{error}");
    let error = run_short(&mut shell("exit 3")).unwrap_err();
    assert!(error.what().ends_with(": exit status: 3"), "{error}");
}

#[test]
fn a_tool_is_followed_until_it_printed_enough() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("one");
    // It never ends by itself.
    let script = "echo first; echo second; exec tail -f /dev/null";
    let (limit, stop) = (Duration::from_secs(60), Stop::new());
    let mut printed = String::new();
    follow_tool(shell(script), &stem, limit, &stop, &mut |piece| {
        printed.push_str(piece);
        Ok(printed.contains("second\n"))
    })
    .unwrap();
    assert_eq!(printed, "first\nsecond\n");
    assert_eq!(std::fs::read_to_string(folder.path().join("one.out")).unwrap(), "first\nsecond\n");
}

#[test]
fn a_tool_that_is_followed_fails_as_others_do() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("one");
    let (limit, stop) = (Duration::from_secs(60), Stop::new());
    let follow = |script: &str, limit: Duration, answer: fn() -> Result<bool>| {
        follow_tool(shell(script), &stem, limit, &stop, &mut |_| answer())
    };
    let error = follow("echo no such disk >&2; exit 3", limit, || Ok(false)).unwrap_err();
    assert!(error.what().contains("no such disk"), "{error}");
    let error = follow("exec tail -f /dev/null", Duration::from_millis(50), || Ok(false)).unwrap_err();
    assert!(error.what().contains("sh was ended"), "{error}");
    let error =
        follow("echo x; exec tail -f /dev/null", limit, || Err(Error::corrupt("not a figure"))).unwrap_err();
    assert_eq!(error.what(), "not a figure");
    follow("echo whole", limit, || Ok(false)).unwrap();
}

/// The process of the next test.
#[test]
#[ignore = "waits for signals"]
fn waits_for_two_signals() {
    let stop = Stop::on_signals().unwrap();
    eprintln!("ready");
    stop.wait().unwrap();
    eprintln!("asked");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_terminal_that_closes_asks_to_stop() {
    use std::io::BufRead as _;
    let mut command = Command::new("/proc/self/exe");
    command.args(["--ignored", "--exact", "--nocapture", "host::process::tests::waits_for_two_signals"]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    assert_eq!(lines.find(|line| line == "ready").as_deref(), Some("ready"));
    rustix::process::kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let asked = lines.find(|line| line == "asked");
    child.kill().unwrap();
    child.wait().unwrap();
    // A test that `nohup` started is not asked.
    assert_eq!(asked.is_some(), !frostline_show::hangup_is_ignored());
}

#[test]
fn the_second_signal_says_what_to_run() {
    use std::io::BufRead as _;
    let mut command = Command::new("/proc/self/exe");
    command.args(["--ignored", "--exact", "--nocapture", "host::process::tests::waits_for_two_signals"]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    for said in ["ready", "asked"] {
        assert_eq!(lines.find(|line| line == said).as_deref(), Some(said));
        rustix::process::kill_process(pid, Signal::INT).unwrap();
    }
    let said = lines.next().unwrap();
    assert!(said.contains("run `frostline lab clean`"), "{said}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
