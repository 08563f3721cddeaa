//! Whether guests run under KVM or are emulated, determined by trying.
//!
//! That `/dev/kvm` can be opened is not enough: on some hosts KVM runs no stock kernel. So the probe
//! boots the kernel of the image up to its first program under KVM. If that fails, the reason
//! is in every report. Emulated CPUs are many times slower than real ones: only
//! ratios between guests are meaningful then, with disks throttled far below what the emulation can handle.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::image::Image;
use crate::host::ledger::Ledger;
use crate::host::tools;

/// What the initramfs prints when it is asked to do nothing else.
const RUNS: &str = "FROSTLINE-KERNEL-RUNS";
/// A kernel that runs is there after one or two seconds.
const PROBE_S: u64 = 20;

/// How guests run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accel {
    /// By the kernel's KVM; otherwise emulated by QEMU (TCG).
    pub kvm: bool,
    /// What decided it.
    pub why: String,
}

impl Accel {
    /// Emulation, because of `why`.
    pub fn emulated(why: impl Into<String>) -> Accel {
        Accel { kvm: false, why: why.into() }
    }

    /// Tries KVM with the kernel of `image`, for at most twenty seconds; once in each boot of the host.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no QEMU. That KVM does not work is no error but the reason for emulation.
    pub fn probe(ledger: &Ledger, image: &Image) -> Result<Accel> {
        tools::check(["qemu-system-x86_64"])?;
        if let Err(error) = std::fs::File::options().read(true).write(true).open("/dev/kvm") {
            return Ok(Accel::emulated(format!("/dev/kvm cannot be opened: {error}")));
        }
        let known = known_file(image);
        let answer = known.as_ref().and_then(|file| std::fs::read(file).ok());
        if let Some(accel) = answer.and_then(|text| serde_json::from_slice(&text).ok()) {
            return Ok(accel);
        }
        let kvm = Accel {
            kvm: true,
            why: format!("the kernel of image `{}` ran under KVM", image.manifest().recipe.name),
        };
        let accel = match boots(ledger, image, &kvm)? {
            Ok(()) => kvm,
            Err(why) => Accel::emulated(format!("/dev/kvm is there but a stock kernel does not run: {why}")),
        };
        if let Some((file, text)) = known.zip(serde_json::to_vec(&accel).ok()) {
            // An answer that is not kept is found again.
            let _ = std::fs::write(file, text);
        }
        Ok(accel)
    }

    /// What is known without booting anything: the answer of an earlier [`Accel::probe`] with an image below
    /// `images`, or what can be said without one.
    pub fn outlook(images: &Path) -> String {
        if let Err(error) = std::fs::File::options().read(true).write(true).open("/dev/kvm") {
            return Accel::emulated(format!("/dev/kvm cannot be opened: {error}")).to_string();
        }
        let known = Image::list(images)
            .iter()
            .find_map(|image| serde_json::from_slice::<Accel>(&std::fs::read(known_file(image)?).ok()?).ok());
        known.map_or_else(
            || "under KVM if a stock kernel runs under it, which is tried when the run begins".to_owned(),
            |accel| accel.to_string(),
        )
    }

    /// The arguments that choose it. An emulated CPU is without `cx16`, with which Linux 6.12 does not
    /// reliably boot under QEMU 7.2.
    pub fn arguments(&self) -> [&'static str; 4] {
        if self.kvm {
            ["-accel", "kvm", "-cpu", "host"]
        } else {
            // Translated code may take 128 MiB; QEMU's own choice is as much as the guest has memory.
            ["-accel", "tcg,thread=multi,tb-size=128", "-cpu", "max,-cx16"]
        }
    }

    /// `KVM` or `TCG`.
    pub fn name(&self) -> &'static str {
        if self.kvm { "KVM" } else { "TCG" }
    }
}

impl std::fmt::Display for Accel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = if self.kvm { "under KVM" } else { "emulated (TCG)" };
        write!(f, "{how}: {}", self.why)
    }
}

/// Where the answer is kept until the host boots again, or gets another image.
fn known_file(image: &Image) -> Option<PathBuf> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(image.folder().join(format!("accel-{}.json", boot.trim())))
}

/// Whether the image's kernel reaches its first program, or what it did instead.
fn boots(ledger: &Ledger, image: &Image, accel: &Accel) -> Result<std::result::Result<(), String>> {
    let mut child = ledger
        .command("qemu-system-x86_64")
        .args(accel.arguments())
        .args(["-m", "512", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"])
        .args(["-serial", "stdio", "-append", "console=ttyS0 quiet panic=-1 frostline.probe"])
        .arg("-kernel")
        .arg(image.kernel())
        .arg("-initrd")
        .arg(image.initrd())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| Error::unavailable("cannot run qemu-system-x86_64").with_source(e))?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let deadline = Instant::now() + Duration::from_secs(PROBE_S);
    let in_time = super::boot::wait_for_end(&child, deadline)?;
    let _ = child.kill();
    let status = child.wait().map_err(|e| Error::unavailable("cannot wait for QEMU").with_source(e))?;
    let (mut printed, mut complained) = (Vec::new(), Vec::new());
    let _ = out.as_mut().map(|pipe| pipe.read_to_end(&mut printed));
    let _ = err.as_mut().map(|pipe| pipe.read_to_end(&mut complained));
    if String::from_utf8_lossy(&printed).contains(RUNS) {
        return Ok(Ok(()));
    }
    let complained = String::from_utf8_lossy(&complained);
    let said = complained.lines().find(|line| !line.trim().is_empty()).map(str::trim);
    Ok(Err(match (in_time, said) {
        (_, Some(line)) => line.trim_start_matches("qemu-system-x86_64: ").to_owned(),
        (false, None) => format!("nothing happened in {PROBE_S} s"),
        (true, None) => format!("QEMU ended with {status}"),
    }))
}
