//! The `frostline` binary: arguments, configuration, wiring, progress bars and error printing.
// `println!` panics when a pipe is closed: use `say!` and `note!`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod allocator;
mod args;
mod commands;
mod config;
mod settings;
mod stopping;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clap::{ArgMatches, FromArgMatches};
use frostline_base::{Error, ErrorKind, SystemClock, told};
use frostline_server::Traces;
use frostline_show::{Notes, note, say};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::args::Arguments;

/// How a command ended, other than by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything that was requested.
    Done,
    /// An answer, but a part of the data could not be read.
    Partial,
    /// The doctor found something of the severity given by `--fail-on`.
    Found,
    /// Ctrl-C or another signal ended it before its work was done; the answer is what there was until then.
    Interrupted,
}

impl Outcome {
    /// Of work that a signal may stop, and of which a part may be impossible.
    pub(crate) fn of(is_stopped: bool, is_whole: bool) -> Outcome {
        match (is_stopped, is_whole) {
            (true, _) => Outcome::Interrupted,
            (false, false) => Outcome::Partial,
            (false, true) => Outcome::Done,
        }
    }
}

fn main() -> ExitCode {
    let started = Instant::now();
    let typed: Vec<OsString> = std::env::args_os().collect();
    let matches = args::command().get_matches_from(&typed);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let ended = run(arguments, &matches, &typed, started);
    if let Err(error) = &ended
        && !is_broken_pipe(error)
    {
        note!("frostline: {}", told(error.as_ref()));
    }
    ExitCode::from(status(&ended))
}

/// The exit status, as the guide lists them.
fn status(ended: &anyhow::Result<Outcome>) -> u8 {
    match ended {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Found) => 1,
        Ok(Outcome::Partial) => 3,
        Ok(Outcome::Interrupted) => stopping::INTERRUPTED,
        // `frostline … | head` ends quietly when its reader does.
        Err(error) if is_broken_pipe(error) => 0,
        Err(error) if is_stopped(error) => stopping::INTERRUPTED,
        Err(_) => 1,
    }
}

fn run(
    mut arguments: Arguments,
    matches: &ArgMatches,
    typed: &[OsString],
    started: Instant,
) -> anyhow::Result<Outcome> {
    if arguments.global.json && arguments.command.format().is_some_and(|format| format != args::Format::Json)
    {
        anyhow::bail!("--json prints one JSON document: omit it or --format");
    }
    let mut config = config::Config::load(arguments.global, started)?;
    let mut log_format = args::LogFormat::Text;
    if let args::Command::Serve(given) = &mut arguments.command {
        let matches = settings::complete(matches, typed, config::variable, config.serve())?;
        let completed = matches.subcommand_matches("serve").context("serve is the command")?;
        *given = args::Serve::from_arg_matches(completed)?;
        if given.print_config {
            say!("{}", settings::print(&config, &matches)?.trim_end())?;
            return Ok(Outcome::Done);
        }
        allocator::limit();
        log_format = given.log_format;
        config.serves = true;
    }
    if arguments.command.outlives_its_terminal() {
        stopping::never_wait_for_the_terminal()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(frostline_query::SEARCH_STACK_BYTES)
        .build()
        .context("cannot start the async runtime")?;
    if let args::Command::Serve(given) = &arguments.command {
        let (endpoint, version) = (given.traces.as_deref(), env!("CARGO_PKG_VERSION"));
        let (random, clock) = (commands::random(), Arc::new(SystemClock));
        config.traces = Traces::from_environment(endpoint, version, random, clock, runtime.handle())?;
    }
    start_logging(config.serves, log_format, config.traces.as_ref());
    let outcome = runtime.block_on(commands::run(arguments.command, config));
    // The end of the process ends reads that nobody needs any more. Shutting the runtime down would detach threads that
    // are about to end, and glibc (2.36) reads the memory of one that has: two searches of 900 crashed after their answer.
    std::mem::forget(runtime);
    outcome
}

/// Warnings go to standard error, and what a server does; `FROSTLINE_LOG=debug` shows more. Traces go where they are sent.
fn start_logging(serves: bool, form: args::LogFormat, traces: Option<&Traces>) {
    let asked = std::env::var("FROSTLINE_LOG").unwrap_or_default();
    // A bare level applies to Frostline only, not to its libraries.
    let wanted = match asked.parse::<tracing::Level>() {
        Ok(level) => format!("error,frostline={level}"),
        Err(_) => asked,
    };
    let filter = EnvFilter::try_new(wanted).ok().filter(|filter| !filter.to_string().is_empty());
    let filter = filter.unwrap_or_else(|| {
        let level = if serves { "info" } else { "warn" };
        EnvFilter::new(format!("error,frostline={level}"))
    });
    let lines = tracing_subscriber::fmt::layer().with_writer(|| Notes);
    let all = tracing_subscriber::registry().with(traces.map(|traces| traces.layer()));
    match form {
        args::LogFormat::Json => all.with(lines.json().flatten_event(true).with_filter(filter)).init(),
        args::LogFormat::Text => {
            let is_colored = std::io::stderr().is_terminal() && allows_color(std::env::var_os("NO_COLOR"));
            all.with(lines.with_ansi(is_colored).without_time().with_filter(filter)).init();
        }
    }
}

/// Whether `NO_COLOR`, if it is set, allows colours: an empty value does.
pub(crate) fn allows_color(no_color: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty())
}

fn is_stopped(error: &anyhow::Error) -> bool {
    let is_stopped = |error: &Error| error.kind() == ErrorKind::Stopped;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_stopped))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_broken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(is_broken)
            || cause
                .downcast_ref::<csv::Error>()
                .is_some_and(|error| matches!(error.kind(), csv::ErrorKind::Io(error) if is_broken(error)))
    })
}

#[cfg(test)]
mod tests;
