//! Study S3: a PostgreSQL from a snapshot, on a volume that loads lazily, on one that was loaded first, and by
//! `frostline volume mount`.
//!
//! A [`Database`] is made once for a run: a cluster with pgbench's tables, a file system's image of it, and a snapshot in
//! a directory with the timing of a cloud store. Each sample restores it in one [`Way`], with cold caches, and uses it:
//! until its first row, for a full scan, or under load. All is measured from outside, through the server's own protocol.
//!
//! Everything is below a folder that is in the ledger, and servers end with the sample, however that ends.

mod connection;
mod load;
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use frostline_base::{Error, Result};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use serde::Deserialize;

use self::server::{PostgresUser, Server};
use crate::emulate::{self, Daemon, Emulated, Lazy, Setup};
use crate::host::ledger::{Ledger, Thing};
use crate::host::process::{Stop, ended_within, run_short, run_tool};
use crate::host::{io, tools};

/// What a volume loads at a time.
const BLOCK_BYTES: u64 = 512 << 10;
/// Rows of pgbench's largest table for each unit of scale.
const ROWS: u64 = 100_000;
/// Longer than making, loading or filling a database of the study takes.
const LIMIT: Duration = Duration::from_secs(3_600);
/// Seconds of load on a directory that was unmounted.
const AFTER_S: u64 = 20;

/// How the database is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// On a volume that loads what is touched.
    Lazy,
    /// On such a volume, of which everything was read first.
    LoadedFirst,
    /// By a mount that fills at the volume's rate.
    Mount,
    /// By a mount that fills as fast as it can.
    MountUnlimited,
}

/// What is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One row of the largest table by its key, and another one.
    First,
    /// All of that table, twice.
    Scan,
    /// pgbench's own transactions.
    Load,
}

/// A cell's figures, as `work=first way=lazy scale=140 mib_per_s=28.4 first_touch_ms=35 clients=4 seconds=60`.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// How it is restored.
    pub way: Way,
    /// What is done with it.
    pub work: Work,
    /// pgbench's scale.
    pub scale: u64,
    /// MiB/s at which a volume loads, and a limited mount fills.
    pub mib_per_s: f64,
    /// Milliseconds of a first touch.
    pub first_touch_ms: f64,
    /// Connections of the load.
    pub clients: u64,
    /// Seconds of it.
    pub seconds: u64,
}

impl Trial {
    /// Reads the words of a study.
    ///
    /// # Errors
    /// Invalid for a word that is wrong or missing.
    pub fn parse(text: &str) -> Result<Trial> {
        let wrong = |what: String| Error::invalid(format!("postgres-restore: {what}"));
        let mut words = BTreeMap::new();
        for word in text.split_whitespace() {
            let (name, value) =
                word.split_once('=').ok_or_else(|| wrong(format!("`{word}` has no value")))?;
            words.insert(name, value);
        }
        let mut take = |name: &str| words.remove(name).ok_or_else(|| wrong(format!("{name}=… is missing")));
        let number = |text: &str| {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
            number.ok_or_else(|| wrong(format!("`{text}` is no number above 0")))
        };
        let trial = Trial {
            way: match take("way")? {
                "lazy" => Way::Lazy,
                "loaded-first" => Way::LoadedFirst,
                "mount" => Way::Mount,
                "mount-unlimited" => Way::MountUnlimited,
                other => return Err(wrong(format!("no way of restoring is called `{other}`"))),
            },
            work: match take("work")? {
                "first" => Work::First,
                "scan" => Work::Scan,
                "load" => Work::Load,
                other => return Err(wrong(format!("no work is called `{other}`"))),
            },
            scale: number(take("scale")?)? as u64,
            mib_per_s: number(take("mib_per_s")?)?,
            first_touch_ms: number(take("first_touch_ms")?)?,
            clients: number(take("clients")?)? as u64,
            seconds: number(take("seconds")?)? as u64,
        };
        match words.keys().next() {
            Some(name) => Err(wrong(format!("nothing is called `{name}`"))),
            None if trial.scale == 0 || trial.clients == 0 || trial.seconds == 0 => {
                Err(wrong("scale, clients and seconds are at least 1".to_owned()))
            }
            None => Ok(trial),
        }
    }
}

/// A cluster, its image and its snapshot.
#[derive(Debug)]
pub struct Database {
    folder: PathBuf,
    user: PostgresUser,
    /// The program that takes snapshots and mounts them.
    program: PathBuf,
    scale: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

impl Database {
    /// Makes one in a new folder, which is in the ledger.
    ///
    /// # Errors
    /// NotFound without PostgreSQL's programs or its user, Invalid for a folder that this user cannot enter, and as the
    /// tools.
    pub fn make(ledger: &mut Ledger, folder: &Path, scale: u64, stop: &Stop) -> Result<Database> {
        let user = PostgresUser::find()?;
        fs::create_dir(folder).map_err(|e| io(e, "cannot make", folder))?;
        check_open(folder)?;
        let program = std::env::current_exe()
            .map_err(|e| Error::unavailable("cannot find the path of this program").with_source(e))?;
        let database = Database { folder: folder.to_path_buf(), user, program, scale, bytes: 0 };
        let cluster = database.folder.join("pg");
        fs::create_dir(&cluster).map_err(|e| io(e, "cannot make", &cluster))?;
        database.user.give(&cluster)?;
        let data = cluster.join("data");
        let mut initdb = database.user.command(ledger, "initdb")?;
        initdb.arg("-D").arg(&data).args(["-U", "postgres", "-A", "trust", "-N"]);
        run_tool(initdb, &database.folder.join("initdb"), LIMIT, stop)?;
        let mut server =
            Server::start(ledger, &database.user, &data, &database.folder, Instant::now(), stop)?;
        let mut pgbench = database.user.command(ledger, "pgbench")?;
        pgbench.args(server.arguments()).args(["-i", "-q", "-s", &scale.to_string(), "postgres"]);
        run_tool(pgbench, &database.folder.join("pgbench"), LIMIT, stop)?;
        server.stop()?;
        let bytes = bytes_below(&data)?;
        let mut snapshot = database.frostline(ledger, "repo");
        snapshot.arg("snapshot").arg(&data).args(["--name", "pg"]);
        run_tool(snapshot, &database.folder.join("snapshot"), LIMIT, stop)?;
        // Room for what the load writes.
        let mib = (bytes >> 20) * 21 / 20 + 400;
        let mut image = ledger.command(tools::path("mkfs.ext4")?);
        image.args(["-q", "-F", "-E", "lazy_itable_init=1", "-d"]).arg(&cluster).arg(database.image());
        image.arg(format!("{mib}M"));
        run_tool(image, &database.folder.join("image"), LIMIT, stop)?;
        fs::remove_dir_all(&cluster).map_err(|e| io(e, "cannot remove", &cluster))?;
        Ok(Database { bytes, ..database })
    }

    fn image(&self) -> PathBuf {
        self.folder.join("image.ext4")
    }

    /// `frostline volume` over the repository that a URL's start makes of our directory.
    fn frostline(&self, ledger: &Ledger, repository: &str) -> Command {
        let mut command = ledger.command(&self.program);
        command.current_dir(&self.folder).env("FROSTLINE_DATA", self.folder.join("data"));
        command.args(["--repo", repository, "volume"]);
        command
    }

    /// Restores it and uses it; the figures by metric.
    ///
    /// # Errors
    /// As the tools. What was made is undone.
    pub fn sample(
        &self,
        ledger: &mut Ledger,
        trial: &Trial,
        seed: u64,
        stem: &Path,
        stop: &Stop,
    ) -> Result<BTreeMap<String, f64>> {
        let folder = self.folder.join("sample");
        let thing = Thing::Directory(folder.clone());
        ledger.note(thing.clone())?;
        fs::create_dir(&folder).map_err(|e| io(e, "cannot make", &folder))?;
        let mut using = Using { database: self, folder, trial, seed, stem, stop };
        let taken = match trial.way {
            Way::Lazy | Way::LoadedFirst => using.emulated(ledger),
            Way::Mount | Way::MountUnlimited => using.mounted(ledger),
        };
        let undone = ledger.undo_from(&thing);
        taken.and_then(|values| undone.map(|()| values))
    }
}

/// One sample.
struct Using<'a> {
    database: &'a Database,
    folder: PathBuf,
    trial: &'a Trial,
    seed: u64,
    stem: &'a Path,
    stop: &'a Stop,
}

impl Using<'_> {
    fn emulated(&mut self, ledger: &mut Ledger) -> Result<BTreeMap<String, f64>> {
        let image = self.database.image();
        let bytes = fs::metadata(&image).map_err(|e| io(e, "cannot look at", &image))?.len();
        let lazy = Lazy {
            block_bytes: BLOCK_BYTES,
            first_touch_ms: self.trial.first_touch_ms,
            mib_per_s: self.trial.mib_per_s,
        };
        let volume = emulate::Options {
            lazy: Some(lazy),
            ..emulate::Options::new(bytes.next_multiple_of(BLOCK_BYTES))
        };
        let setup = Setup { volumes: vec![volume], machine: None, daemon: Daemon::this_program()? };
        let emulated = Emulated::attach_all(ledger, &self.folder, &setup)?;
        // Behind the volume's back: what is written through it counts as touched.
        let mut copy = ledger.command("dd");
        copy.arg(format!("if={}", image.display())).arg(format!("of={}", emulated.backing(0).display()));
        copy.args(["bs=1M", "conv=notrunc,sparse", "status=none"]);
        run_tool(copy, &self.raw("dd"), LIMIT, self.stop)?;
        let device = emulated.device.clone();
        run_short(ledger.command(tools::path("blockdev")?).arg("--flushbufs").arg(&device))?;
        drop_caches()?;
        let since = Instant::now();
        let mut values = BTreeMap::new();
        if self.trial.way == Way::LoadedFirst {
            // All that has data, as the vendor advises.
            let mut load = ledger.command(tools::path("fio")?);
            load.args([
                "--name=load",
                "--rw=read",
                "--bs=1M",
                "--iodepth=32",
                "--ioengine=libaio",
                "--direct=1",
            ]);
            load.arg("--readonly").arg(format!("--filename={}", device.display()));
            load.arg(format!("--size={}M", bytes >> 20));
            run_tool(load, &self.raw("fio"), LIMIT, self.stop)?;
            values.insert("loading_s".to_owned(), since.elapsed().as_secs_f64());
        }
        let place = self.folder.join("mounted");
        fs::create_dir(&place).map_err(|e| io(e, "cannot make", &place))?;
        let mount = Thing::Mount(place.clone());
        ledger.note(mount.clone())?;
        let mut command = ledger.command("mount");
        run_short(command.args(["-t", "ext4", "-o", "noatime"]).arg(&device).arg(&place))?;
        let used = self.used(ledger, &place.join("data"), since, &mut values);
        let undone = ledger.undo_from(&mount);
        used.and(undone)?;
        emulated.detach(ledger)?;
        Ok(values)
    }

    fn mounted(&mut self, ledger: &mut Ledger) -> Result<BTreeMap<String, f64>> {
        let place = self.folder.join("pg");
        let mount = Thing::Mount(place.clone());
        ledger.note(mount.clone())?;
        let repository = self.database.folder.join("repo");
        let url = format!("sim+file://{}?profile=measured&seed={}", repository.display(), self.seed);
        let mut command = self.database.frostline(ledger, &url);
        command.args(["mount", "pg"]).arg(&place);
        if self.trial.way == Way::Mount {
            command.args(["--rate", &((self.trial.mib_per_s * 1_048_576.0) as u64).to_string()]);
        }
        let (out, said) = (self.raw("mount").with_extension("out"), self.raw("mount").with_extension("err"));
        let create = |path: &Path| fs::File::create(path).map_err(|e| io(e, "cannot make", path));
        command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&said)?);
        drop_caches()?;
        let since = Instant::now();
        let child = command.spawn().map_err(|e| io(e, "cannot run", &self.database.program))?;
        let mut serving = Serving(child);
        while !is_mount(&place) {
            if ended_within(&mut serving.0, Duration::from_millis(2), self.stop)? {
                let text = fs::read_to_string(&said).unwrap_or_default();
                return Err(Error::unavailable(format!("the snapshot is not mounted: {}", text.trim())));
            }
        }
        let mut values = BTreeMap::from([("mounted_s".to_owned(), since.elapsed().as_secs_f64())]);
        let used = self.used(ledger, &place, since, &mut values);
        let is_whole = status(&self.folder).is_some_and(|status| status.is_whole);
        run_short(ledger.command("umount").arg(&place))?;
        used?;
        if !ended_within(&mut serving.0, Duration::from_secs(60), self.stop)? {
            return Err(Error::unavailable("what served the mount does not end"));
        }
        if is_whole && self.trial.work == Work::Load {
            // What is left is a directory, and nothing is in the path.
            let mut server = self.server(ledger, &place, Instant::now())?;
            let tps = self.tps(ledger, &server, AFTER_S, "after")?;
            server.stop()?;
            values.insert("after_tps".to_owned(), load::mean(&tps));
        }
        Ok(values)
    }

    /// Where a tool's output goes.
    fn raw(&self, tool: &str) -> PathBuf {
        let mut stem = self.stem.as_os_str().to_owned();
        stem.push(format!("-{tool}"));
        stem.into()
    }

    fn server(&self, ledger: &mut Ledger, data: &Path, since: Instant) -> Result<Server> {
        Server::start(ledger, &self.database.user, data, &self.folder, since, self.stop)
    }

    /// Starts a server on the restored directory, and does the work.
    fn used(
        &self,
        ledger: &mut Ledger,
        data: &Path,
        since: Instant,
        values: &mut BTreeMap<String, f64>,
    ) -> Result<()> {
        let mut server = self.server(ledger, data, since)?;
        values.insert("accepting_s".to_owned(), server.accepting_s);
        let mut draw = SmallRng::seed_from_u64(self.seed);
        for name in ["first_point_ms", "second_point_ms"] {
            let key = draw.random_range(1..=self.database.scale * ROWS);
            values.insert(name.to_owned(), server.connection.point(key)? * 1e3);
        }
        match self.trial.work {
            Work::First => {}
            Work::Scan => {
                for name in ["scan_s", "second_scan_s"] {
                    values.insert(name.to_owned(), server.connection.scan()?);
                }
            }
            Work::Load => {
                let tps = self.tps(ledger, &server, self.trial.seconds, "load")?;
                values.extend(load::figures(&tps));
            }
        }
        server.stop()
    }

    /// Transactions of each second.
    fn tps(&self, ledger: &Ledger, server: &Server, seconds: u64, name: &str) -> Result<Vec<f64>> {
        let mut pgbench = self.database.user.command(ledger, "pgbench")?;
        let (clients, seconds) = (self.trial.clients.to_string(), seconds.to_string());
        pgbench.args(server.arguments()).args(["-n", "-c", &clients, "-P", "1", "-T", &seconds, "postgres"]);
        load::tps(&run_tool(pgbench, &self.raw(name), LIMIT, self.stop)?.stderr)
    }
}

/// A process that serves a mount, which ends with this.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a mount says of itself.
#[derive(Deserialize)]
struct Status {
    is_whole: bool,
}

fn status(folder: &Path) -> Option<Status> {
    let text = fs::read(folder.join(".pg.frostline-mount/status.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

fn is_mount(place: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev());
    let parent = place.parent().map(device);
    matches!((device(place), parent), (Ok(own), Some(Ok(parent))) if own != parent)
}

fn drop_caches() -> Result<()> {
    rustix::fs::sync();
    let path = Path::new("/proc/sys/vm/drop_caches");
    fs::write(path, "3").map_err(|e| io(e, "cannot drop caches by", path))
}

/// `Invalid` for a folder that a user who is not root cannot get to.
fn check_open(folder: &Path) -> Result<()> {
    for above in folder.ancestors() {
        let meta = fs::metadata(above).map_err(|e| io(e, "cannot look at", above))?;
        if meta.permissions().mode() & 0o001 == 0 {
            return Err(Error::invalid(format!(
                "PostgreSQL does not run as root, and other users cannot enter {}: choose another folder with --data",
                above.display()
            )));
        }
    }
    Ok(())
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(|e| io(e, "cannot list", folder))?.flatten() {
        let meta = entry.metadata().map_err(|e| io(e, "cannot look at", &entry.path()))?;
        bytes += if meta.is_dir() { bytes_below(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

/// The owner of a path from now on.
fn give(path: &Path, user: u32, group: u32) -> Result<()> {
    chown(path, Some(user), Some(group)).map_err(|e| io(e, "cannot change the owner of", path))
}

#[cfg(test)]
mod tests;
