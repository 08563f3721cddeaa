//! Runs a tool with its output in files, until it ends, reaches its time limit, or the
//! user presses Ctrl-C ([`Stop`]).
//!
//! A tool runs in its own process group, so that Ctrl-C reaches this process first, which then ends
//! the tool and undoes in order what was created.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use frostline_base::{Error, Result};
use frostline_show::note;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Longest message of a tool that goes into an error, in bytes.
const SAID_BYTES_MAX: usize = 600;

/// Whether the run shall stop. Clones are the same flag.
#[derive(Clone, Debug)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// Readable once asked, so that a wait for something else ends too.
    wake: Option<Arc<UnixStream>>,
}

impl Stop {
    /// A flag that only [`Stop::ask`] sets.
    pub fn new() -> Stop {
        Stop { asked: Arc::default(), wake: None }
    }

    /// A flag that SIGINT, SIGTERM and, unless it is ignored, SIGHUP set. The second of the first two ends the process
    /// at once, with the message that `lab clean` removes what is left. A terminal that closes may send SIGHUP twice.
    pub fn on_signals() -> Result<Stop> {
        let asked = Arc::new(AtomicBool::new(false));
        let pair = || UnixStream::pair().map_err(|e| cannot("listen for signals", e));
        let ((read, write), (mut heard, tell)) = (pair()?, pair()?);
        let hangup = (!frostline_show::hangup_is_ignored()).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            signal_hook::flag::register(signal, asked.clone())
                .map_err(|e| cannot("listen for signals", e))?;
            let ends = if signal == SIGHUP { vec![&write] } else { vec![&write, &tell] };
            for end in ends {
                let end = end.try_clone().map_err(|e| cannot("listen for signals", e))?;
                signal_hook::low_level::pipe::register(signal, end)
                    .map_err(|e| cannot("listen for signals", e))?;
            }
        }
        let end_at_the_second = move || {
            if heard.read_exact(&mut [0; 2]).is_ok() {
                frostline_show::end_progress();
                note!("frostline: ended at once; run `frostline lab clean` to remove what is left");
                signal_hook::low_level::exit(130);
            }
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(end_at_the_second)
            .map_err(|e| cannot("listen for signals", e))?;
        Ok(Stop { asked, wake: Some(Arc::new(read)) })
    }

    /// Asks to stop.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }

    /// Whether it was asked.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// An error once it was asked.
    pub fn check(&self) -> Result<()> {
        if self.is_asked() { Err(Error::stopped("stopped")) } else { Ok(()) }
    }

    /// Waits until it is asked.
    pub fn wait(&self) -> Result<()> {
        let Some(wake) = &self.wake else { return Ok(()) };
        while !self.is_asked() {
            let mut wanted = [PollFd::new(wake, PollFlags::IN)];
            poll_again(&mut wanted, None)?;
        }
        Ok(())
    }
}

impl Default for Stop {
    fn default() -> Self {
        Stop::new()
    }
}

/// What a tool printed, and how it ended.
#[derive(Debug)]
pub struct Printed {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs `command` to its end with its output in `<stem>.out` and `<stem>.err`, which stay.
///
/// # Errors
/// Unavailable if it cannot be started, fails (with what it said) or outlives `limit`; Stopped if `stop`
/// was asked. In every case the process and its group are gone when this returns.
pub fn run_tool(mut command: Command, stem: &Path, limit: Duration, stop: &Stop) -> Result<Printed> {
    stop.check()?;
    let program = command.get_program().to_string_lossy().into_owned();
    let (out, err) = (stem.with_extension("out"), stem.with_extension("err"));
    let create =
        |path: &Path| File::create(path).map_err(|e| cannot(&format!("create {}", path.display()), e));
    command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?).process_group(0);
    let mut child = command.spawn().map_err(|e| cannot(&format!("run {program}"), e))?;
    let status = wait(&mut child, limit, stop).map_err(|e| e.context(format!("{program} was ended")))?;
    let printed = Printed { stdout: read(&out)?, stderr: read(&err)? };
    if status.success() {
        return Ok(printed);
    }
    let said = if printed.stderr.trim().is_empty() { &printed.stdout } else { &printed.stderr };
    Err(Error::unavailable(format!("{program} failed ({status}): {}", shortened(said))))
}

/// Runs `command` as [`run_tool`] does, and shows `is_enough` each piece that it prints when it does. The tool is ended
/// when that says so.
///
/// # Errors
/// As [`run_tool`], and those of `is_enough`.
pub fn follow_tool(
    mut command: Command,
    stem: &Path,
    limit: Duration,
    stop: &Stop,
    is_enough: &mut dyn FnMut(&str) -> Result<bool>,
) -> Result<()> {
    stop.check()?;
    let program = command.get_program().to_string_lossy().into_owned();
    let (out, err) = (stem.with_extension("out"), stem.with_extension("err"));
    let create =
        |path: &Path| File::create(path).map_err(|e| cannot(&format!("create {}", path.display()), e));
    let mut kept = create(&out)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(create(&err)?).process_group(0);
    let mut child = command.spawn().map_err(|e| cannot(&format!("run {program}"), e))?;
    let pid = Pid::from_child(&child);
    let mut pipe = child.stdout.take().ok_or_else(|| Error::internal("standard output is a pipe"))?;
    let mut piece = vec![0; 1 << 16];
    let began = std::time::Instant::now();
    let followed = loop {
        let left = limit.saturating_sub(began.elapsed());
        match next_piece(&mut pipe, &mut piece, left, stop) {
            // The end of its output.
            Ok(0) => break Ok(false),
            Ok(bytes) => {
                let written = std::io::Write::write_all(&mut kept, &piece[..bytes]);
                let enough = written
                    .map_err(|e| cannot(&format!("write {}", out.display()), e))
                    .and_then(|()| is_enough(&String::from_utf8_lossy(&piece[..bytes])));
                match enough {
                    Ok(false) => {}
                    ended => break ended,
                }
            }
            Err(error) => break Err(error.context(format!("{program} was ended"))),
        }
    };
    if !matches!(followed, Ok(false)) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait().map_err(|e| cannot("wait for a process", e))?;
    if followed? || status.success() {
        return Ok(());
    }
    Err(Error::unavailable(format!("{program} failed ({status}): {}", shortened(&read(&err)?))))
}

/// Waits for output and reads some of it.
fn next_piece(pipe: &mut ChildStdout, piece: &mut [u8], left: Duration, stop: &Stop) -> Result<usize> {
    let mut wanted = vec![PollFd::new(&*pipe, PollFlags::IN)];
    if let Some(wake) = &stop.wake {
        wanted.push(PollFd::new(wake, PollFlags::IN));
    }
    let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    let ready = poll_again(&mut wanted, Some(&limit))?;
    drop(wanted);
    stop.check()?;
    if ready == 0 || left.is_zero() {
        return Err(Error::unavailable("it did not end in its time"));
    }
    pipe.read(piece).map_err(|e| cannot("read what a process printed", e))
}

/// Runs a short command to its end, also when the user presses Ctrl-C. That reaches a new process too until it has its own
/// group, before it runs the program; a command that was ended by such a signal is run again, once.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn output(command: &mut Command) -> std::io::Result<Output> {
    let output = command.stdin(Stdio::null()).process_group(0).output()?;
    match output.status.signal() {
        Some(signal_hook::consts::SIGINT | signal_hook::consts::SIGTERM) => command.output(),
        _ => Ok(output),
    }
}

/// Why a short command failed: what it said, or how it ended.
pub(crate) fn failure(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.signal() {
        Some(signal) => format!("ended by signal {signal}"),
        None if said.trim().is_empty() => output.status.to_string(),
        None => shortened(&said),
    }
}

/// Runs a short command that prints little; its standard output.
///
/// # Errors
/// As [`run_tool`], without a limit.
pub fn run_short(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = output(command).map_err(|e| cannot(&format!("run {program}"), e))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
    Err(Error::unavailable(format!("{program} {}: {}", arguments.join(" "), failure(&output))))
}

/// Whether `child` ends before `limit` is over. It goes on if it does not.
///
/// # Errors
/// Stopped if `stop` was asked.
pub fn ended_within(child: &mut Child, limit: Duration, stop: &Stop) -> Result<bool> {
    let is_over = |child: &mut Child| child.try_wait().map_err(|e| cannot("wait for a process", e));
    if is_over(child)?.is_some() {
        return Ok(true);
    }
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty())
        .map_err(|e| cannot("watch a process", e.into()))?;
    let mut wanted = vec![PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN)];
    if let Some(wake) = &stop.wake {
        wanted.push(PollFd::new(wake, PollFlags::IN));
    }
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    poll_again(&mut wanted, Some(&limit))?;
    stop.check()?;
    Ok(is_over(child)?.is_some())
}

fn wait(child: &mut Child, limit: Duration, stop: &Stop) -> Result<ExitStatus> {
    let pid = Pid::from_child(child);
    let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| cannot("watch a process", e.into()))?;
    let mut wanted = vec![PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN)];
    if let Some(wake) = &stop.wake {
        wanted.push(PollFd::new(wake, PollFlags::IN));
    }
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let ready = poll_again(&mut wanted, Some(&limit));
    let is_done = wanted[0].revents().contains(PollFlags::IN);
    if !is_done {
        // Its children too; it is ours and was not reaped, so the id is still its own.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait().map_err(|e| cannot("wait for a process", e))?;
    match ready? {
        _ if is_done => Ok(status),
        0 => Err(Error::unavailable(format!("it did not end within {} s", limit.tv_sec))),
        _ => Err(Error::stopped("stopped")),
    }
}

/// Polls again after a signal that was handled: the flag's own pipe says whether it was a wish to stop.
fn poll_again(wanted: &mut [PollFd<'_>], limit: Option<&Timespec>) -> Result<usize> {
    loop {
        match poll(wanted, limit) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(|e| cannot("wait for a process", e.into())),
        }
    }
}

fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|e| cannot(&format!("read {}", path.display()), e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn shortened(said: &str) -> String {
    let said = said.trim();
    match said.char_indices().find(|(at, _)| *at >= SAID_BYTES_MAX) {
        Some((at, _)) => format!("{}…", &said[..at]),
        None => said.to_owned(),
    }
}

fn cannot(what: &str, error: std::io::Error) -> Error {
    super::failed(error, format!("cannot {what}"))
}

#[cfg(test)]
mod tests;
