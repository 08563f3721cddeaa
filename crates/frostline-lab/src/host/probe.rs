//! The host's capabilities, which decide which cells of a study can run here.
//!
//! Probing changes nothing, and never loads a module.

use std::path::Path;

use frostline_base::{Error, Result};

use super::cpus::online;
use super::{facts, tools};
use crate::guest::Accel;
use frostline_show::suggestion;

/// What a cell needs of the host, as a study file writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// `root`: making block devices and mounts.
    Root,
    /// `fuse`: emulated volumes.
    Fuse,
    /// `loop`: block devices on files.
    Loop,
    /// `guest`: an emulated machine with its own kernel.
    Guest,
    /// `vhost`: the kernel moves packets of guests.
    Vhost,
    /// `fs:NAME`: the kernel has the file system.
    FileSystem(String),
    /// `tool:NAME`.
    Tool(String),
}

impl Need {
    /// Reads what a study file says.
    ///
    /// # Errors
    /// Invalid, with the nearest known need or tool.
    pub fn parse(text: &str) -> Result<Need> {
        match text.split_once(':') {
            Some(("fs", name)) => Ok(Need::FileSystem(name.to_owned())),
            Some(("tool", name)) if tools::is_known(name) => Ok(Need::Tool(name.to_owned())),
            Some(("tool", name)) => {
                Err(Error::invalid(format!("no tool `{name}`{}", suggestion(name, tools::names()))))
            }
            _ => match text {
                "root" => Ok(Need::Root),
                "fuse" => Ok(Need::Fuse),
                "loop" => Ok(Need::Loop),
                "guest" => Ok(Need::Guest),
                "vhost" => Ok(Need::Vhost),
                _ => Err(Error::invalid(format!(
                    "nothing is called `{text}` that a cell could require{}",
                    suggestion(text, ["root", "fuse", "loop", "guest", "vhost", "fs:", "tool:"])
                ))),
            },
        }
    }
}

/// What the host has. Taken once for a plan, and made up by tests.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Whether this is root.
    pub is_root: bool,
    /// Whether /dev/fuse is there.
    pub has_fuse: bool,
    /// Whether /dev/loop-control is there.
    pub has_loop: bool,
    /// Whether /dev/vhost-net is there.
    pub has_vhost: bool,
    /// Its CPUs.
    pub cpus: u32,
    /// File systems of the kernel.
    pub file_systems: Vec<String>,
    /// Install commands of tools that are missing, by tool.
    pub missing_tools: std::collections::BTreeMap<String, String>,
    /// Bytes that may be written to the data folder.
    pub free_bytes: u64,
    /// Whether guests run under KVM or are emulated, and why, as far as is known before one was booted.
    pub guests: String,
}

impl Host {
    /// This host; the lab's files go below `data`.
    pub fn probe(data: &Path) -> Host {
        let missing = |name: &'static str| {
            let command = tools::missing(name).ok().flatten()?;
            Some((name.to_owned(), command))
        };
        Host {
            is_root: rustix::process::geteuid().is_root(),
            has_fuse: Path::new("/dev/fuse").exists(),
            has_loop: Path::new("/dev/loop-control").exists(),
            has_vhost: Path::new("/dev/vhost-net").exists(),
            cpus: online(),
            file_systems: facts::file_systems(),
            missing_tools: tools::names().filter_map(missing).collect(),
            free_bytes: data.ancestors().find_map(|f| facts::free_bytes(f).ok()).unwrap_or(0),
            guests: Accel::outlook(&crate::guest::cli::images_folder(data)),
        }
    }

    /// Why `need` is not met here, or nothing if it is.
    pub fn lacks(&self, need: &Need) -> Option<String> {
        match need {
            Need::Root if !self.is_root => {
                Some("needs root (block devices and mounts): run it with sudo".into())
            }
            Need::Fuse if !self.has_fuse => Some("needs /dev/fuse (kernel option FUSE_FS)".into()),
            Need::Loop if !self.has_loop => {
                Some("needs /dev/loop-control (kernel option BLK_DEV_LOOP)".into())
            }
            Need::Vhost if !self.has_vhost => Some("needs /dev/vhost-net: `modprobe vhost_net`".into()),
            Need::FileSystem(name) if !self.file_systems.contains(name) => {
                Some(format!("the kernel has no {name} (`modprobe {name}` if it is a module)"))
            }
            Need::Tool(name) => self.missing_tools.get(name).cloned(),
            Need::Guest => self.missing_tools.get("qemu-system-x86_64").cloned(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
