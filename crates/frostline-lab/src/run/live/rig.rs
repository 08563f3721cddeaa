//! Devices with a file system and laid-out data, shared by cells that differ only in how they are measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use frostline_base::{Error, Result};

use super::Live;
use crate::emulate::{self, Daemon, Emulated, Options, Stripe};
use crate::host::io;
use crate::host::ledger::{Ledger, Thing};
use crate::host::process::{run_short, run_tool};
use crate::host::target;
use crate::run::virtual_time::{bytes, volumes};
use crate::study::plan::{PlannedCell, drain, overwrites};
use crate::study::{Place, Setup, fill};
use crate::workload;

/// Making a file system and laying out data takes at most this long.
const PREPARE_MAX: Duration = Duration::from_secs(900);

/// See the module.
pub(super) enum Rig {
    /// A plain folder.
    Folder(PathBuf),
    /// A folder of our own in a directory that the study names.
    Path {
        /// The directory.
        on: target::Directory,
        /// The folder.
        directory: PathBuf,
        /// The device that counts what is moved, if there is one.
        devices: Vec<PathBuf>,
    },
    /// A device that the study names; mounted for each sample at the directory if it has a file system.
    Device {
        /// As the plan saw it.
        on: target::Device,
        /// The device.
        device: [PathBuf; 1],
        /// Where samples mount it.
        directory: PathBuf,
    },
    /// A loop device on an ordinary file; mounted for each sample at the directory.
    File {
        /// The device.
        device: [PathBuf; 1],
        /// Where samples mount it.
        directory: PathBuf,
        /// What serves it if its cache is emulated.
        emulated: Option<Emulated>,
    },
    /// Emulated volumes with a file system that stays mounted.
    Volumes {
        /// The volumes.
        emulated: Emulated,
        /// Where it is mounted.
        directory: PathBuf,
    },
}

impl Rig {
    pub(super) fn devices(&self) -> &[PathBuf] {
        match self {
            Rig::Folder(_) => &[],
            Rig::Path { devices, .. } => devices,
            Rig::File { device, .. } | Rig::Device { device, .. } => device,
            Rig::Volumes { emulated, .. } => emulated.devices(),
        }
    }

    pub(super) fn directory(&self) -> &Path {
        match self {
            Rig::Folder(directory)
            | Rig::Path { directory, .. }
            | Rig::Device { directory, .. }
            | Rig::File { directory, .. }
            | Rig::Volumes { directory, .. } => directory,
        }
    }

    /// Checks that the study's paths still lead to the same directories and devices.
    ///
    /// # Errors
    /// NotFound by its name.
    pub(super) fn check_there(&self) -> Result<()> {
        match self {
            Rig::Path { on, directory, .. } => on.check_there(directory),
            Rig::Device { on, .. } => on.check_again(),
            Rig::Folder(_) | Rig::File { .. } | Rig::Volumes { .. } => Ok(()),
        }
    }

    /// The device that the lab mounts.
    fn mounted(&self) -> Option<&Path> {
        match self {
            Rig::Folder(_) | Rig::Path { .. } => None,
            _ => self.devices().first().map(PathBuf::as_path),
        }
    }

    /// Whether the process that serves its devices is still running.
    pub(super) fn is_served(&mut self) -> bool {
        match self {
            Rig::Volumes { emulated, .. } | Rig::File { emulated: Some(emulated), .. } => {
                emulated.is_served()
            }
            _ => true,
        }
    }

    pub(super) fn emulated(&self) -> Option<&Emulated> {
        match self {
            Rig::Volumes { emulated, .. } => Some(emulated),
            Rig::File { emulated, .. } => emulated.as_ref(),
            _ => None,
        }
    }
}

impl Live<'_> {
    /// Creates the `at`-th rig in `folder`, which `cell` and others like it use.
    pub(super) fn prepare(&mut self, cell: &PlannedCell, at: usize, folder: &Path) -> Result<Rig> {
        let directory = folder.join("mount");
        fs::create_dir_all(&directory).map_err(|e| io(e, "cannot make", &directory))?;
        let setup = self.setup(cell);
        let rig = match setup.place {
            Place::File => self.file(cell, setup, folder, directory)?,
            Place::Volumes => self.volumes(cell, setup, folder, directory)?,
            Place::Path => self.path(cell, setup, at)?,
            Place::Device => self.device(cell, setup, directory)?,
            _ => Rig::Folder(directory),
        };
        let raw = self.raw.join(format!("rig{at}"));
        self.make(cell, &rig, &raw)?;
        let first_options = match &rig {
            Rig::File { .. } | Rig::Device { .. } => "defaults".to_owned(),
            _ => fill(&setup.options, &cell.levels)?,
        };
        let has_file_system = setup.file_system.is_some() || setup.place != Place::Device;
        let mounted = rig.mounted().filter(|_| has_file_system);
        if let Some(device) = mounted {
            mount(&mut self.ledger, setup, device, rig.directory(), &first_options)?;
        }
        self.lay_out(cell, &rig, &raw)?;
        if let (Some(_), Rig::File { directory, .. } | Rig::Device { directory, .. }) = (mounted, &rig) {
            self.ledger.undo_from(&Thing::Mount(directory.clone()))?;
        }
        Ok(rig)
    }

    fn path(&mut self, cell: &PlannedCell, setup: &Setup, at: usize) -> Result<Rig> {
        let path = fill(setup.path.as_deref().unwrap_or_default(), &cell.levels)?;
        let on = self.targets.directories.get(Path::new(&path)).cloned();
        let on = on.ok_or_else(|| Error::internal(format!("{path} was not planned")))?;
        // Once more: its volume may be gone by now, or hold the files of other cells.
        on.check_again(self.workload(cell).data_mib)?;
        let directory = on.folder(&mut self.ledger, &format!("rig{at}"))?;
        let devices = on.device().into_iter().collect();
        Ok(Rig::Path { on, directory, devices })
    }

    fn device(&mut self, cell: &PlannedCell, setup: &Setup, directory: PathBuf) -> Result<Rig> {
        let path = fill(setup.device.as_deref().unwrap_or_default(), &cell.levels)?;
        let on = self.targets.devices.get(Path::new(&path)).cloned();
        let on = on.ok_or_else(|| Error::internal(format!("{path} was not planned")))?;
        on.check_again()?;
        let device = target::Device::open(Path::new(&path))?;
        let group = &self.study.groups[cell.group_index];
        // Once more, since it was only looked at when the run was planned. What is on it from then on is ours.
        if overwrites(self.study, group) && !self.overwritten.contains(device.resolved()) {
            device.check_may_be_overwritten(device.times(&self.destroy))?;
            self.overwritten.insert(device.resolved().to_path_buf());
        }
        let device = [device.resolved().to_path_buf()];
        // Whatever another rig made on it is gone.
        self.rigs.retain(|_, rig| !matches!(rig, Rig::Device { device: other, .. } if *other == device));
        Ok(Rig::Device { on, device, directory })
    }

    fn file(&mut self, cell: &PlannedCell, setup: &Setup, folder: &Path, directory: PathBuf) -> Result<Rig> {
        if let Some(rate) = drain(setup, &cell.levels) {
            let mib_per_s = rate.parse().map_err(|_| {
                Error::invalid(format!("a cache drains at a number of MiB/s, or is `none`, not `{rate}`"))
            })?;
            let options =
                Options { drain_mib_per_s: Some(mib_per_s), ..Options::new(setup.device_mib << 20) };
            let emulated = Emulated::attach(&mut self.ledger, folder, &options)?;
            let device = [emulated.device.clone()];
            return Ok(Rig::File { device, directory, emulated: Some(emulated) });
        }
        let image = folder.join("device.img");
        let file = fs::File::create(&image).map_err(|e| io(e, "cannot make", &image))?;
        // Allocated, so that no sample pays for the host's file system finding blocks.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, setup.device_mib << 20)
            .map_err(|e| io(e.into(), "cannot allocate", &image))?;
        let (device, _) = emulate::attach_loop(&mut self.ledger, &image)?;
        Ok(Rig::File { device: [device], directory, emulated: None })
    }

    fn volumes(
        &mut self,
        cell: &PlannedCell,
        setup: &Setup,
        folder: &Path,
        directory: PathBuf,
    ) -> Result<Rig> {
        let class = fill(setup.class.as_deref().unwrap_or_default(), &cell.levels)?;
        let text = fill(setup.volumes.as_deref().unwrap_or_default(), &cell.levels)?;
        let (count, _) = volumes(&class, &text)?;
        let options = Options::new(setup.device_mib << 20);
        let volumes = match &setup.stripe {
            Some(chunk) => {
                let chunk_bytes = bytes(&fill(chunk, &cell.levels)?)?;
                let stripe = Stripe { count: count as usize, chunk_bytes };
                vec![Options { stripe: Some(stripe), ..options }]
            }
            None => vec![options; count as usize],
        };
        let setup = emulate::Setup { volumes, machine: None, daemon: Daemon::this_program()? };
        let emulated = Emulated::attach_all(&mut self.ledger, folder, &setup)?;
        Ok(Rig::Volumes { emulated, directory })
    }

    /// Runs the commands that make the file system, and keeps what they and the result say.
    fn make(&self, cell: &PlannedCell, rig: &Rig, raw: &Path) -> Result<()> {
        let values = self.values(cell, rig, 0);
        for (at, template) in self.setup(cell).make.iter().enumerate() {
            let line = fill(template, &values)?;
            let mut words = line.split_whitespace();
            let Some(program) = words.next() else { continue };
            let mut command = self.ledger.command(program);
            command.args(words);
            let stem = raw.with_file_name(format!("{}-make{at}", file_name(raw)));
            run_tool(command, &stem, PREPARE_MAX, self.stop)?;
        }
        let features = match (self.setup(cell).file_system.as_deref(), rig.devices().first()) {
            (Some("ext4"), Some(device)) => {
                let mut command = self.ledger.command("dumpe2fs");
                command.arg("-h").arg(device);
                run_short(&mut command)?
            }
            _ => return Ok(()),
        };
        let path = raw.with_file_name(format!("{}-features.txt", file_name(raw)));
        fs::write(&path, features).map_err(|e| io(e, "cannot write", &path))
    }

    fn lay_out(&self, cell: &PlannedCell, rig: &Rig, raw: &Path) -> Result<()> {
        let workload = self.workload(cell);
        let Some(layout) = &workload.layout else { return Ok(()) };
        let values = self.values(cell, rig, 0);
        let mut command = workload::command(workload, layout, &values, &self.ledger)?;
        command.current_dir(rig.directory());
        let stem = raw.with_file_name(format!("{}-layout", file_name(raw)));
        run_tool(command, &stem, PREPARE_MAX, self.stop)?;
        // What is still in memory would be written into the first sample's time.
        let directory = fs::File::open(rig.directory()).map_err(|e| io(e, "cannot open", rig.directory()))?;
        rustix::fs::syncfs(&directory).map_err(|e| io(e.into(), "cannot sync", rig.directory()))
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Mounts `device` at `directory`, which the ledger learns first.
pub(super) fn mount(
    ledger: &mut Ledger,
    setup: &Setup,
    device: &Path,
    directory: &Path,
    options: &str,
) -> Result<()> {
    let name = setup
        .file_system
        .as_deref()
        .ok_or_else(|| Error::invalid("a setup with devices names its file_system"))?;
    ledger.note(Thing::Mount(directory.to_path_buf()))?;
    let mut command = ledger.command("mount");
    command.args(["-t", name]);
    if !options.is_empty() {
        command.args(["-o", options]);
    }
    run_short(command.arg(device).arg(directory)).map(drop)
}
