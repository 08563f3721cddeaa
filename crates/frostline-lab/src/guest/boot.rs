//! A running [`Guest`]: started, controlled through its agent, and ended with its owner.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use frostline_base::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::channel::{self, Answer, Decoder, Message};
use super::image::Image;
use super::machine::{Backing, Limits, Machine, Net, limits_object, mac};
use super::qmp::Control;
use super::{io, last_lines, need_root};
use crate::host::ledger::{Ledger, Thing};
use crate::host::tools;

/// An emulated guest is up in five seconds on a quiet machine of two CPUs; this allows for a busy one.
const BOOT: Duration = Duration::from_secs(180);
/// What the agent may take beyond the time that a script was given: five seconds of it to kill it.
const GRACE: Duration = Duration::from_secs(60);
/// How long a guest may take to turn itself off before it is killed.
const OFF: Duration = Duration::from_secs(20);

/// A running virtual machine. Dropped, it is killed; see [`Guest::shutdown`] for the orderly end.
#[derive(Debug)]
pub struct Guest {
    machine: Machine,
    image: String,
    qemu: Child,
    command: UnixStream,
    /// Never written again: the guest turns itself off when it ends.
    life: UnixStream,
    control: Control,
    decoder: Decoder,
    next: u64,
    sockets: PathBuf,
    arguments: Vec<String>,
    boot_s: f64,
}

/// What a script printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Exit status; 124 or 137 if it ran out of time.
    pub status: i32,
    /// Standard output; what is not UTF-8 is replaced.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// What a guest is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Name of its image's recipe.
    pub image: String,
    /// `uname -r` inside.
    pub kernel: String,
    /// Version of the loaded OpenZFS module.
    pub zfs: Option<String>,
    /// `fio --version` inside.
    pub fio: Option<String>,
    /// Bytes of memory that its kernel sees.
    pub memory_bytes: u64,
    /// Its CPUs.
    pub cpus: u32,
    /// `KVM` or `TCG`.
    pub accel: String,
    /// What decided that.
    pub accel_why: String,
    /// Seconds from the start of QEMU until the agent was ready.
    pub boot_s: f64,
}

impl Guest {
    /// Boots `image` on `machine` and returns when its agent is ready.
    ///
    /// # Errors
    ///
    /// `Invalid` names what is wrong with the machine; `NotFound` missing tools; `Unavailable` has the last
    /// lines of QEMU or of the console if the guest does not come up within three minutes.
    pub fn boot(ledger: &mut Ledger, image: &Image, machine: Machine) -> Result<Guest> {
        machine.check()?;
        tools::check(["qemu-system-x86_64"])?;
        ledger.note(Thing::Directory(machine.folder.clone()))?;
        fs::create_dir_all(&machine.folder).map_err(|e| io(e, "cannot make", &machine.folder))?;
        make_disks(&machine)?;
        for net in &machine.nets {
            make_tap(ledger, net)?;
        }
        // Not in the machine's folder: the path of a socket has at most 107 bytes.
        let sockets = std::env::temp_dir().join(format!("frostline-{}-{}", ledger.token(), machine.name));
        ledger.note(Thing::Directory(sockets.clone()))?;
        fs::create_dir_all(&sockets).map_err(|e| io(e, "cannot make", &sockets))?;
        let begun = Instant::now();
        let mut starting = Starting::new(ledger, image, &machine, &sockets)?;
        let streams = starting.connect(begun + BOOT);
        let (command, life, control) = match streams {
            Ok(streams) => streams,
            Err(error) => return Err(starting.end(error)),
        };
        let mut guest = Guest {
            image: image.manifest().recipe.name.clone(),
            qemu: starting.qemu,
            command,
            life,
            control,
            decoder: Decoder::default(),
            next: 0,
            sockets,
            arguments: starting.arguments,
            boot_s: 0.0,
            machine,
        };
        guest.wait_until_ready(begun + BOOT)?;
        guest.boot_s = begun.elapsed().as_secs_f64();
        guest.configure_networks()?;
        Ok(guest)
    }

    /// Runs a script of bash inside as root and returns what it printed, whatever its status. Time beyond
    /// `timeout` kills it with status 124. Programs that it leaves in the background continue.
    ///
    /// # Errors
    ///
    /// `Unavailable` with the console's last lines if the guest has died or does not answer.
    pub fn run(&mut self, script: &str, timeout: Duration) -> Result<Output> {
        let (id, seconds) = (self.next, timeout.as_secs().max(1));
        self.next += 1;
        let request = channel::request(id, seconds, script.as_bytes());
        self.command.write_all(&request).map_err(|e| self.died("it takes no script").with_source(e))?;
        let deadline = Instant::now() + Duration::from_secs(seconds) + GRACE;
        loop {
            match self.message(deadline)? {
                // An answer that came too late for an earlier request.
                Message::Done(answer) if answer.id < id => {}
                Message::Done(answer) if answer.id == id => return Ok(output(answer)),
                other => {
                    return Err(Error::corrupt(format!(
                        "the guest's agent answers {other:?} to script {id}"
                    )));
                }
            }
        }
    }

    /// Like [`Guest::run`], for scripts that must succeed. The script stops at the first command that fails.
    ///
    /// # Errors
    ///
    /// Also `Unavailable` with what the script complained if its status is not 0.
    pub fn must(&mut self, what: &str, script: &str, timeout: Duration) -> Result<String> {
        let output = self.run(&format!("set -euo pipefail\n{script}"), timeout)?;
        if output.status == 0 {
            return Ok(output.stdout);
        }
        let said = [output.stderr.trim(), output.stdout.trim()].into_iter().find(|text| !text.is_empty());
        let said = said.unwrap_or("it printed nothing");
        let tail: Vec<&str> = said.lines().rev().take(8).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        let late = if output.status == 124 { " (out of time)" } else { "" };
        Err(Error::unavailable(format!(
            "{what} failed in guest `{}` with status {}{late}: {}",
            self.machine.name,
            output.status,
            tail.join("\n")
        )))
    }

    /// Sets the limits of one disk while the guest runs. A burst starts again, with a full bucket.
    pub fn set_limits(&mut self, serial: &str, limits: Limits) -> Result<()> {
        let Some(disk) = self.machine.disks.iter_mut().find(|disk| disk.serial == serial) else {
            return Err(Error::not_found(format!("guest `{}` has no disk `{serial}`", self.machine.name)));
        };
        let path = format!("/objects/{}", limits_object(serial));
        let arguments = json!({"path": path, "property": "limits", "value": limits.to_qemu()});
        self.control.execute("qom-set", arguments)?;
        disk.limits = limits;
        Ok(())
    }

    /// Stops its CPUs and its clock, so that it takes nothing from the host until [`Guest::resume`].
    pub fn pause(&mut self) -> Result<()> {
        self.control.execute("stop", json!({})).map(drop)
    }

    /// Goes on where [`Guest::pause`] stopped it.
    pub fn resume(&mut self) -> Result<()> {
        self.control.execute("cont", json!({})).map(drop)
    }

    /// Lets it run on these CPUs of the host only: virtual CPU `i` on the `i`-th of them, counted round, and its
    /// other threads on any of them. A thread that QEMU starts later inherits that of its parent.
    pub fn pin(&self, cpus: &[u32]) -> Result<()> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.pid()));
        let threads = fs::read_dir(&tasks).map_err(|e| io(e, "cannot list the threads in", &tasks))?;
        for thread in threads.flatten() {
            let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            let id = thread.file_name().to_str().and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
            let virtual_cpu = name.strip_prefix("CPU ").and_then(|rest| rest.split('/').next());
            let virtual_cpu = virtual_cpu.and_then(|number| number.parse::<usize>().ok());
            let mut set = CpuSet::new();
            match virtual_cpu {
                Some(at) if !cpus.is_empty() => set.set(cpus[at % cpus.len()] as usize),
                _ => cpus.iter().for_each(|cpu| set.set(*cpu as usize)),
            }
            match sched_setaffinity(id, &set) {
                // A worker that has ended since.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(e) => {
                    let what = format!("cannot pin guest `{}` to the CPUs {cpus:?}", self.machine.name);
                    return Err(Error::unavailable(what).with_source(e));
                }
            }
        }
        Ok(())
    }

    /// What it is, asked inside.
    pub fn facts(&mut self) -> Result<Facts> {
        let script = "uname -r; modprobe -q zfs; cat /sys/module/zfs/version 2>/dev/null || echo -; \
                      fio --version 2>/dev/null || echo -; nproc; \
                      sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo";
        let text = self.run(script, Duration::from_secs(60))?.stdout;
        let lines: Vec<&str> = text.lines().collect();
        let [kernel, zfs, fio, cpus, memory] = lines.as_slice() else {
            return Err(Error::corrupt(format!("the guest says of itself `{}`", text.trim())));
        };
        let present = |text: &str| (text != "-").then(|| text.to_owned());
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        Ok(Facts {
            image: self.image.clone(),
            kernel: (*kernel).to_owned(),
            zfs: present(zfs),
            fio: present(fio),
            memory_bytes: number(memory) * 1024,
            cpus: number(cpus) as u32,
            accel: self.machine.accel.name().to_owned(),
            accel_why: self.machine.accel.why.clone(),
            boot_s: self.boot_s,
        })
    }

    /// The machine that it runs on, with the limits as they are now.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The arguments that QEMU was started with.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The process of QEMU, whose threads `CPU <n>/…` are the virtual CPUs.
    pub fn pid(&self) -> u32 {
        self.qemu.id()
    }

    /// Turns it off and removes its disks, taps and sockets. The ledger's entries stay and find nothing.
    pub fn shutdown(mut self) -> Result<()> {
        let _ = self.command.shutdown(Shutdown::Both);
        let _ = self.life.shutdown(Shutdown::Both);
        wait_for_end(&self.qemu, Instant::now() + OFF)?;
        self.end()
    }

    /// Kills what still runs, and removes what it had. Taps end with the process that holds them open only
    /// if they were not made to stay.
    fn end(&mut self) -> Result<()> {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        for net in &self.machine.nets {
            if Path::new("/sys/class/net").join(&net.tap).exists() {
                ip(&["link", "delete", &net.tap])?;
            }
        }
        for folder in [&self.machine.folder, &self.sockets] {
            match fs::remove_dir_all(folder) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(io(e, "cannot remove", folder));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn wait_until_ready(&mut self, deadline: Instant) -> Result<()> {
        for mut stream in [&self.command, &self.life] {
            // On the line of life, this tells the agent that its owner is there; on the other it is noise.
            stream.write_all(b"HELLO\n").map_err(|e| self.died("it went away").with_source(e))?;
        }
        match self.message(deadline)? {
            Message::Ready(channel::VERSION) => Ok(()),
            other => {
                Err(Error::corrupt(format!("the guest's agent begins with {other:?}; build the image anew")))
            }
        }
    }

    fn configure_networks(&mut self) -> Result<()> {
        let nets = self.machine.nets.iter().enumerate();
        let script: String = nets
            .filter_map(|(at, net)| {
                let address = net.address.as_ref()?;
                Some(format!("ip address add {address} dev eth{at}\nip link set eth{at} up\n"))
            })
            .collect();
        if script.is_empty() {
            return Ok(());
        }
        self.must("setting up the network", &script, Duration::from_secs(30)).map(|_| ())
    }

    /// The agent's next message, before `deadline`.
    fn message(&mut self, deadline: Instant) -> Result<Message> {
        let mut piece = [0; 64 << 10];
        loop {
            if let Some(message) = self.decoder.message()? {
                return Ok(message);
            }
            if !readable(&self.command, deadline)? {
                return Err(self.died("it does not answer in time"));
            }
            match self.command.read(&mut piece) {
                Ok(0) => return Err(self.died("it has ended")),
                Ok(bytes) => self.decoder.push(&piece[..bytes]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.died("its line is cut").with_source(e)),
            }
        }
    }

    fn died(&self, what: &str) -> Error {
        Error::unavailable(format!("guest `{}`: {what}{}", self.machine.name, said(&self.machine.folder)))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            frostline_show::note!("frostline: {error}; run `frostline lab clean`");
        }
    }
}

/// QEMU, before its sockets are connected.
struct Starting<'a> {
    qemu: Child,
    machine: &'a Machine,
    arguments: Vec<String>,
    listeners: [UnixListener; 3],
}

impl<'a> Starting<'a> {
    fn new(ledger: &Ledger, image: &Image, machine: &'a Machine, sockets: &Path) -> Result<Starting<'a>> {
        // QEMU connects to sockets that are there before it is: nobody has to wait for a socket to appear.
        let listen = |name: &str| {
            let path = sockets.join(name);
            UnixListener::bind(&path).map_err(|e| io(e, "cannot listen at", &path))
        };
        let listeners = [listen("command")?, listen("life")?, listen("control")?];
        let log = machine.folder.join("qemu.log");
        let log = File::create(&log).map_err(|e| io(e, "cannot write", &log))?;
        let arguments = machine.arguments(image, sockets);
        let qemu = ledger
            .command("qemu-system-x86_64")
            .args(&arguments)
            // The changes to the root go to a file there that has no name.
            .env("TMPDIR", &machine.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|e| Error::unavailable("cannot run qemu-system-x86_64").with_source(e))?;
        Ok(Starting { qemu, machine, arguments, listeners })
    }

    fn connect(&mut self, deadline: Instant) -> Result<(UnixStream, UnixStream, Control)> {
        let command = self.accept(0, deadline)?;
        let life = self.accept(1, deadline)?;
        let control = Control::new(self.accept(2, deadline)?)?;
        Ok((command, life, control))
    }

    /// Until QEMU connects; an error if it ends first.
    fn accept(&mut self, at: usize, deadline: Instant) -> Result<UnixStream> {
        let listener = &self.listeners[at];
        let ended = pidfd(&self.qemu)?;
        let flags = PollFlags::IN;
        let mut both = [PollFd::new(listener, flags), PollFd::new(&ended, flags)];
        wait(&mut both, deadline)?;
        if !both[0].revents().contains(flags) {
            return Err(Error::unavailable(format!("QEMU does not start guest `{}`", self.machine.name)));
        }
        let (stream, _) = listener
            .accept()
            .map_err(|e| Error::unavailable("cannot take QEMU's connection").with_source(e))?;
        Ok(stream)
    }

    /// Ends QEMU; the error with what it said.
    fn end(mut self, error: Error) -> Error {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        error.context(format!("guest `{}` did not start{}", self.machine.name, said(&self.machine.folder)))
    }
}

/// What QEMU and the guest's console said last, to be put behind a sentence.
fn said(folder: &Path) -> String {
    let lines = [last_lines(&folder.join("qemu.log"), 4), last_lines(&folder.join("console.log"), 8)];
    let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    if lines.is_empty() { String::new() } else { format!("; it said last:\n{}", lines.join("\n")) }
}

fn output(answer: Answer) -> Output {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Output { status: answer.status, stdout: text(answer.stdout), stderr: text(answer.stderr) }
}

fn make_disks(machine: &Machine) -> Result<()> {
    for disk in &machine.disks {
        let file = machine.disk_file(disk);
        match disk.backing {
            Backing::New(bytes) => File::create(&file)
                .and_then(|made| made.set_len(bytes))
                .map_err(|e| io(e, "cannot make the disk", &file))?,
            Backing::File(_) | Backing::Part { .. } if !file.exists() => {
                return Err(Error::not_found(format!("disk `{}`: no file {}", disk.serial, file.display())));
            }
            Backing::File(_) | Backing::Part { .. } => {}
        }
    }
    Ok(())
}

fn make_tap(ledger: &mut Ledger, net: &Net) -> Result<()> {
    tools::check(["ip"])?;
    need_root("making a tap")?;
    note_device(ledger, &net.tap)?;
    let queues: &[&str] = if net.queues > 1 { &["multi_queue"] } else { &[] };
    ip(&[&["tuntap", "add", "dev", &net.tap, "mode", "tap"], queues].concat())?;
    if let Some(bridge) = &net.bridge {
        ip(&["link", "set", "dev", &net.tap, "master", bridge])?;
    }
    ip(&["link", "set", "dev", &net.tap, "up"])
}

/// Creates a bridge `name` for the taps of guests, where the host has `address` (such as `10.98.0.1/24`), if any. It is
/// removed with the ledger.
///
/// # Errors
///
/// `Conflict` if there is already such a device, which is never touched.
pub fn bridge(ledger: &mut Ledger, name: &str, address: Option<&str>) -> Result<()> {
    tools::check(["ip"])?;
    need_root("making a bridge")?;
    note_device(ledger, name)?;
    // An address of its own: otherwise it is the lowest of its ports', and changes when guests come, which those that
    // were there before would not know.
    ip(&["link", "add", name, "address", &mac(name), "type", "bridge"])?;
    if let Some(address) = address {
        ip(&["address", "add", address, "dev", name])?;
    }
    ip(&["link", "set", name, "up"])
}

/// Joins two bridges by a virtual cable with these ends, each at its bridge. It is removed with the ledger.
///
/// # Errors
///
/// As [`bridge`].
pub fn cable(ledger: &mut Ledger, ends: [(&str, &str); 2]) -> Result<()> {
    let [(first, _), (second, _)] = ends;
    // One end goes with the other.
    note_device(ledger, first)?;
    ip(&["link", "add", first, "type", "veth", "peer", "name", second])?;
    for (end, bridge) in ends {
        ip(&["link", "set", "dev", end, "master", bridge])?;
        ip(&["link", "set", "dev", end, "up"])?;
    }
    Ok(())
}

fn note_device(ledger: &mut Ledger, name: &str) -> Result<()> {
    if Path::new("/sys/class/net").join(name).exists() {
        return Err(Error::conflict(format!("there is already a network device `{name}`")));
    }
    ledger.note(Thing::NetDevice(name.to_owned()))
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .map_err(|e| Error::unavailable("cannot run ip").with_source(e))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::unavailable(format!("ip {}: {}", arguments.join(" "), said.trim())))
}

/// Waits for the end of a child without taking its status. Whether it ended before `deadline`.
pub(super) fn wait_for_end(child: &Child, deadline: Instant) -> Result<bool> {
    let ended = pidfd(child)?;
    wait(&mut [PollFd::new(&ended, PollFlags::IN)], deadline)
}

fn readable(stream: &impl AsFd, deadline: Instant) -> Result<bool> {
    wait(&mut [PollFd::new(stream, PollFlags::IN)], deadline)
}

/// Whether one of `files` is ready before `deadline`.
fn wait(files: &mut [PollFd<'_>], deadline: Instant) -> Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(files, Some(&left)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Error::unavailable("cannot wait for the guest").with_source(e)),
        }
    }
}

fn pidfd(child: &Child) -> Result<std::os::fd::OwnedFd> {
    let pid = Pid::from_child(child);
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
        .map_err(|e| Error::unavailable("cannot watch QEMU").with_source(e))
}

#[cfg(test)]
pub(crate) mod tests;
