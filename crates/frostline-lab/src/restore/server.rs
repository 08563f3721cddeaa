//! PostgreSQL on a directory, as the user of that name.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use frostline_base::{Error, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::connection::Connection;
use super::give;
use crate::host::ledger::{Ledger, Thing};
use crate::host::process::{Stop, ended_within};
use crate::host::{io, tools};

const PORT: &str = "5599";
/// How long it may take to start or to stop. It may have to fetch much of the log.
const LIMIT: Duration = Duration::from_secs(600);
/// How often it is asked whether it is up.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// The user that PostgreSQL runs as, because it refuses to be root.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostgresUser {
    user: u32,
    group: u32,
}

impl PostgresUser {
    /// # Errors
    /// NotFound where there is none.
    pub(super) fn find() -> Result<PostgresUser> {
        let path = Path::new("/etc/passwd");
        let text = fs::read_to_string(path).map_err(|e| io(e, "cannot read", path))?;
        PostgresUser::of(&text).ok_or_else(|| {
            Error::not_found(
                "there is no user postgres, who PostgreSQL runs as: apt-get install -y --no-install-recommends postgresql",
            )
        })
    }

    pub(super) fn of(passwd: &str) -> Option<PostgresUser> {
        let line = passwd.lines().find(|line| line.starts_with("postgres:"))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
        Some(PostgresUser { user: fields.next()??, group: fields.next()?? })
    }

    /// Makes it the owner.
    pub(super) fn give(&self, path: &Path) -> Result<()> {
        give(path, self.user, self.group)
    }

    /// One of PostgreSQL's programs, run by this user.
    pub(super) fn command(&self, ledger: &Ledger, program: &str) -> Result<Command> {
        let mut command = ledger.command(tools::path(program)?);
        command.uid(self.user).gid(self.group).current_dir("/").env("LC_ALL", "C");
        Ok(command)
    }
}

/// A server that accepts connections. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    pub(super) connection: Connection,
    /// Seconds until it accepted one and answered.
    pub(super) accepting_s: f64,
    sockets: PathBuf,
}

impl Server {
    /// Starts one on `data`; what it prints goes to `logs`. Its time is from `since` on.
    ///
    /// # Errors
    /// Unavailable, with what it printed, if it ends.
    pub(super) fn start(
        ledger: &mut Ledger,
        user: &PostgresUser,
        data: &Path,
        logs: &Path,
        since: Instant,
        stop: &Stop,
    ) -> Result<Server> {
        // The path of a socket is short.
        let sockets = std::env::temp_dir().join(format!("frostline-lab-{}", ledger.token()));
        if !sockets.exists() {
            ledger.note(Thing::Directory(sockets.clone()))?;
            fs::create_dir(&sockets).map_err(|e| io(e, "cannot make", &sockets))?;
            user.give(&sockets)?;
        }
        let said = logs.join("postgres.log");
        let log = fs::File::create(&said).map_err(|e| io(e, "cannot make", &said))?;
        let mut command = user.command(ledger, "postgres")?;
        command.arg("-D").arg(data);
        let sockets_setting = format!("unix_socket_directories={}", sockets.display());
        for setting in [
            "listen_addresses=",
            "shared_buffers=256MB",
            "max_wal_size=4GB",
            "recovery_init_sync_method=syncfs",
            &format!("port={PORT}"),
            &sockets_setting,
        ] {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process =
            command.spawn().map_err(|e| Error::unavailable("cannot run postgres").with_source(e))?;
        let mut starting = Starting(Some(process));
        let socket = sockets.join(format!(".s.PGSQL.{PORT}"));
        let mut connection = loop {
            if let Some(connection) = Connection::open(&socket) {
                break connection;
            }
            if starting.ended_within(ASK_EVERY, stop)? || since.elapsed() > LIMIT {
                let text = fs::read_to_string(&said).unwrap_or_default();
                let last = text.lines().rev().take(5).collect::<Vec<_>>();
                let last = last.into_iter().rev().collect::<Vec<_>>().join("; ");
                return Err(Error::unavailable(format!(
                    "PostgreSQL does not start on {}: {last}",
                    data.display()
                )));
            }
        };
        connection.query("SELECT 1")?;
        let accepting_s = since.elapsed().as_secs_f64();
        let process = starting.0.take().ok_or_else(|| Error::internal("a server that started is none"))?;
        Ok(Server { process, connection, accepting_s, sockets })
    }

    /// How clients connect to it.
    pub(super) fn arguments(&self) -> [String; 6] {
        let sockets = self.sockets.display().to_string();
        ["-h".to_owned(), sockets, "-p".to_owned(), PORT.to_owned(), "-U".to_owned(), "postgres".to_owned()]
    }

    /// Ends it in an orderly way.
    ///
    /// # Errors
    /// Unavailable if it does not end.
    pub(super) fn stop(&mut self) -> Result<()> {
        // Sessions are ended, and all is written.
        let _ = kill_process(Pid::from_child(&self.process), Signal::INT);
        match ended_within(&mut self.process, LIMIT, &Stop::new())? {
            true => Ok(()),
            false => Err(Error::unavailable("PostgreSQL does not stop")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// A server that may not start.
struct Starting(Option<Child>);

impl Starting {
    fn ended_within(&mut self, limit: Duration, stop: &Stop) -> Result<bool> {
        self.0.as_mut().map_or(Ok(true), |process| ended_within(process, limit, stop))
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            end(process);
        }
    }
}

/// At once, with all of its processes.
fn end(process: &mut Child) {
    if matches!(process.try_wait(), Ok(None)) {
        let _ = kill_process(Pid::from_child(process), Signal::QUIT);
        if !matches!(ended_within(process, LIMIT, &Stop::new()), Ok(true)) {
            let _ = process.kill();
        }
    }
    let _ = process.wait();
}
