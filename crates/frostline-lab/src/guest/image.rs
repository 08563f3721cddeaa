//! Guest images: built from Debian packages by `mmdebstrap`, cached by their inputs.
//!
//! A build has two steps. The *kernel step* fetches a kernel package and, if the recipe includes OpenZFS,
//! compiles its modules in a separate folder with headers and a compiler, which takes minutes. It is
//! cached separately, so that other packages in the image do not need another compilation. The *root step* installs
//! the packages of the image, adds modules and the agent, and writes a file system, a kernel and an
//! initramfs. Both are built in a temporary folder that is in the ledger and renamed when done: a folder
//! with a manifest is complete.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use frostline_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::sources::{self, Source};
use super::{io, last_lines, need_root};
use crate::host::ledger::{Ledger, Thing};
use crate::host::{tools, write_json};

/// Part of every key: raise it when the same recipe is built in another way.
const BUILDER: u32 = 1;

/// The first program of the initramfs, and the first of the root.
const INITRAMFS: &str = include_str!("initramfs.sh");
const INIT: &str = include_str!("init.sh");

/// What mounting the root and talking to the owner needs; what the kernel has built in is left out.
const BOOT_MODULES: &[&str] = &["virtio_pci", "virtio_blk", "virtio_console", "ext4"];

/// Free space that a build needs: the compiler's folder, a root and an image at once.
const BUILD_BYTES: u64 = 5 << 30;

/// What an image consists of. The same recipe gives the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// Its name, such as `bookworm-zfs`.
    pub name: String,
    /// Suite of Debian, such as `bookworm`.
    pub suite: String,
    /// Whether kernel and OpenZFS come from the suite's backports.
    pub backports: bool,
    /// Flavour of the kernel package, such as `cloud-amd64`.
    pub kernel: String,
    /// Whether OpenZFS is compiled for it.
    pub zfs: bool,
    /// Debian packages beside those that every guest has.
    pub packages: Vec<String>,
}

/// What every guest has: what the agent calls, and something to make and look at disks and networks with.
const BASE_PACKAGES: &[&str] =
    &["busybox-static", "ethtool", "iproute2", "iputils-ping", "kmod", "procps", "udev", "util-linux"];

/// What the studies use inside a guest.
const STUDY_PACKAGES: &[&str] = &[
    "btrfs-progs",
    "dmsetup",
    "e2fsprogs",
    "fio",
    "iperf3",
    "lvm2",
    "mdadm",
    "nbd-client",
    "numactl",
    "nvme-cli",
    "sysbench",
    "xfsprogs",
];

impl Recipe {
    /// The recipes that come with the lab: Linux 6.1 with OpenZFS 2.1; the backports of both (at the time of
    /// writing Linux 6.12 with OpenZFS 2.3, where direct I/O goes to the disks); and the first without
    /// OpenZFS, which has nothing to compile.
    pub fn known() -> Vec<Recipe> {
        let recipe = |name: &str, backports, zfs| Recipe {
            name: name.to_owned(),
            suite: "bookworm".to_owned(),
            backports,
            kernel: "cloud-amd64".to_owned(),
            zfs,
            packages: STUDY_PACKAGES.iter().map(|name| (*name).to_owned()).collect(),
        };
        vec![
            recipe("bookworm", false, true),
            recipe("bookworm-backports", true, true),
            recipe("bookworm-plain", false, false),
        ]
    }

    /// The recipe called `name`.
    ///
    /// # Errors
    ///
    /// `NotFound` lists the names.
    pub fn named(name: &str) -> Result<Recipe> {
        let known = Recipe::known();
        let names: Vec<&str> = known.iter().map(|recipe| recipe.name.as_str()).collect();
        let error = Error::not_found(format!("no recipe is called `{name}`; there are {}", names.join(", ")));
        known.into_iter().find(|recipe| recipe.name == name).ok_or(error)
    }

    /// 16 hexadecimal digits that change with everything an image consists of, the agent included.
    pub fn key(&self) -> String {
        let mut packages: Vec<&String> = self.packages.iter().collect();
        packages.sort_unstable();
        packages.dedup();
        digest(&(BUILDER, INITRAMFS, INIT, BASE_PACKAGES, &self.kernel_parts(), packages))
    }

    /// The key of the kernel step alone.
    fn kernel_key(&self) -> String {
        digest(&(BUILDER, self.kernel_parts()))
    }

    fn kernel_parts(&self) -> (&str, bool, &str, bool) {
        (&self.suite, self.backports, &self.kernel, self.zfs)
    }

    fn root_packages(&self) -> Vec<&str> {
        let zfs = self.zfs.then_some("zfsutils-linux");
        let mut packages: Vec<&str> = BASE_PACKAGES
            .iter()
            .copied()
            .chain(self.packages.iter().map(String::as_str))
            .chain(zfs)
            .collect();
        packages.sort_unstable();
        packages.dedup();
        packages
    }
}

fn digest(parts: &impl Serialize) -> String {
    let bytes = serde_json::to_vec(parts).expect("strings and numbers have a JSON form");
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes))
}

/// What is known of a built image; the file `manifest.json` in its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// What it was made of.
    pub recipe: Recipe,
    /// `uname -r` of its kernel.
    pub kernel: String,
    /// Version of OpenZFS, if it has it.
    pub zfs: Option<String>,
    /// Seconds of the kernel step (download, compiling); that of the build which made the cached one.
    pub kernel_seconds: f64,
    /// Seconds of everything else.
    pub root_seconds: f64,
    /// Bytes of the file system, holes included.
    pub bytes: u64,
    /// Version by package.
    pub packages: BTreeMap<String, String>,
}

/// A built image: a root file system, a kernel and an initramfs. Nothing changes it.
#[derive(Clone, Debug)]
pub struct Image {
    folder: PathBuf,
    manifest: Manifest,
}

impl Image {
    /// The image of `recipe` below `folder` (usually `<data>/lab/images`), built if it is not there yet.
    ///
    /// # Errors
    ///
    /// `NotFound` names missing tools with the command that installs them, or a missing package source;
    /// `Denied` if not root; `Exhausted` if the disk is too full to begin; `Unavailable` with the last
    /// lines of the log if a step fails.
    pub fn build(
        ledger: &mut Ledger,
        folder: &Path,
        recipe: &Recipe,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Image> {
        if let Ok(image) = Image::open(folder, recipe) {
            return Ok(image);
        }
        tools::check(["mmdebstrap", "mkfs.ext4", "chroot", "sh"])?;
        need_root("building an image")?;
        fs::create_dir_all(folder).map_err(|e| io(e, "cannot make", folder))?;
        need_space(folder)?;
        let sources = sources::of_host(Path::new("/"))?;
        let work = folder.join(format!("building-{}", ledger.token()));
        ledger.note(Thing::Directory(work.clone()))?;
        fs::create_dir_all(&work).map_err(|e| io(e, "cannot make", &work))?;
        let mut build = Build { ledger, folder, work: work.clone(), recipe, sources, progress };
        let result = build.run();
        ledger.undo_from(&Thing::Directory(work))?;
        result?;
        Image::open(folder, recipe)
    }

    /// The image of `recipe` below `folder`, if it was built.
    ///
    /// # Errors
    ///
    /// `NotFound` says how to build it; `Corrupt` if its manifest cannot be read.
    pub fn open(folder: &Path, recipe: &Recipe) -> Result<Image> {
        let image = folder.join(recipe.key());
        let path = image.join("manifest.json");
        let text = fs::read(&path).map_err(|e| {
            Error::not_found(format!(
                "image `{0}` is not built; run `frostline lab image build {0}`",
                recipe.name
            ))
            .with_source(e)
        })?;
        let manifest = serde_json::from_slice(&text).map_err(|e| {
            Error::corrupt(format!(
                "cannot read {}; run `frostline lab image remove {}`",
                path.display(),
                recipe.name
            ))
            .with_source(e)
        })?;
        Ok(Image { folder: image, manifest })
    }

    /// The images below `folder`, also those whose recipe is not known any more.
    pub fn list(folder: &Path) -> Vec<Image> {
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let mut images: Vec<Image> = entries
            .flatten()
            .filter_map(|entry| {
                let text = fs::read(entry.path().join("manifest.json")).ok()?;
                Some(Image { folder: entry.path(), manifest: serde_json::from_slice(&text).ok()? })
            })
            .collect();
        images.sort_by(|a, b| a.folder.cmp(&b.folder));
        images
    }

    /// Removes the image from disk. Guests that run on it keep their open files.
    pub fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.folder).map_err(|e| io(e, "cannot remove", &self.folder))
    }

    /// What is known of it.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its folder, named by the key of its recipe.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The root file system.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root.ext4")
    }

    /// The kernel.
    pub fn kernel(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// The initramfs.
    pub fn initrd(&self) -> PathBuf {
        self.folder.join("initrd")
    }
}

fn need_space(folder: &Path) -> Result<()> {
    let space =
        rustix::fs::statvfs(folder).map_err(|e| io(e.into(), "cannot ask for free space of", folder))?;
    let free = space.f_bavail * space.f_frsize;
    if free >= BUILD_BYTES {
        return Ok(());
    }
    Err(Error::exhausted(format!(
        "building an image needs {} GiB below {}, where {:.1} GiB are free",
        BUILD_BYTES >> 30,
        folder.display(),
        free as f64 / (1u64 << 30) as f64
    )))
}

/// The result of the kernel step: `step.json` beside a folder `root` that is copied over the guest's root.
#[derive(Serialize, Deserialize)]
struct KernelStep {
    kernel: String,
    zfs: Option<String>,
    seconds: f64,
}

struct Build<'a> {
    ledger: &'a mut Ledger,
    folder: &'a Path,
    work: PathBuf,
    recipe: &'a Recipe,
    sources: Vec<Source>,
    progress: &'a mut dyn FnMut(&str),
}

impl Build<'_> {
    fn run(&mut self) -> Result<()> {
        let kernel = self.folder.join(format!("kernel-{}", self.recipe.kernel_key()));
        if !kernel.join("step.json").exists() {
            self.kernel_step(&kernel)?;
        }
        let step: KernelStep = fs::read(kernel.join("step.json"))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .ok_or_else(|| Error::corrupt(format!("cannot read {}; remove that folder", kernel.display())))?;
        self.root_step(&kernel, &step)
    }

    /// Fetches the kernel and compiles OpenZFS for it.
    fn kernel_step(&mut self, done: &Path) -> Result<()> {
        let begun = Instant::now();
        let what = if self.recipe.zfs { "kernel, and OpenZFS for it (3 to 10 minutes)" } else { "kernel" };
        (self.progress)(&format!("fetching the {what}"));
        let flavour = &self.recipe.kernel;
        let headers = format!("linux-headers-{flavour}");
        let zfs = ["build-essential", "dkms", "zfs-dkms", headers.as_str()];
        let packages = if self.recipe.zfs { &zfs[..] } else { &[] };
        // The kernel is unpacked, not installed: an installed one would bring an initramfs of its own.
        let fetch = format!(
            r#"set -e; mkdir "$1/frostline"; cd "$1/frostline"; export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
            image=$(apt-cache depends linux-image-{flavour} | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
            apt-get download "$image"; dpkg-deb -x linux-image-*.deb root; rm linux-image-*.deb; echo "${{image#linux-image-}}" >version"#
        );
        let root = self.work.join("compiler");
        self.bootstrap(&root, packages, Some(&fetch))?;
        let fetched = root.join("frostline");
        let kernel = read_line(&fetched.join("version"))?;
        let modules = root.join("lib/modules").join(&kernel).join("updates/dkms");
        if self.recipe.zfs {
            let into = fetched.join("root/lib/modules").join(&kernel).join("updates/dkms");
            fs::create_dir_all(&into).map_err(|e| io(e, "cannot make", &into))?;
            copy_files(&modules, &into).map_err(|e| {
                e.context(format!("OpenZFS was not compiled for {kernel}, see {}", self.log().display()))
            })?;
        }
        let zfs = if self.recipe.zfs { packages_of(&root)?.remove("zfs-dkms") } else { None };
        let step = KernelStep { kernel, zfs, seconds: begun.elapsed().as_secs_f64() };
        write_json(&fetched.join("step.json"), &step)?;
        fs::rename(&fetched, done).map_err(|e| io(e, "cannot keep the kernel step in", done))?;
        fs::remove_dir_all(&root).map_err(|e| io(e, "cannot remove", &root))
    }

    /// Installs packages, writes the file system, the kernel and the initramfs.
    fn root_step(&mut self, kernel: &Path, step: &KernelStep) -> Result<()> {
        let begun = Instant::now();
        (self.progress)(&format!("installing {} packages", self.recipe.root_packages().len()));
        let (root, image) = (self.work.join("root"), self.work.join("image"));
        self.bootstrap(&root, &self.recipe.root_packages(), None)?;
        fs::create_dir_all(&image).map_err(|e| io(e, "cannot make", &image))?;
        // Newer kernel packages keep their modules in /usr/lib.
        self.shell(&format!(
            "for from in {0}/lib {0}/usr/lib; do [ ! -d $from/modules ] || cp -a $from/modules {1}/lib/; done",
            quoted(&kernel.join("root")),
            quoted(&root)
        ))?;
        self.shell(&format!("chroot {} depmod {}", quoted(&root), step.kernel))?;
        write_program(&root.join("sbin/frostline-init"), INIT)?;
        let vmlinuz = kernel.join(format!("root/boot/vmlinuz-{}", step.kernel));
        fs::copy(&vmlinuz, image.join("vmlinuz")).map_err(|e| io(e, "cannot copy", &vmlinuz))?;
        (self.progress)("writing the file system and the initramfs");
        self.initramfs(&root, &step.kernel, &image.join("initrd"))?;
        let packages = packages_of(&root)?;
        let bytes = self.file_system(&root, &image.join("root.ext4"))?;
        let manifest = Manifest {
            recipe: self.recipe.clone(),
            kernel: step.kernel.clone(),
            zfs: step.zfs.clone(),
            kernel_seconds: step.seconds,
            root_seconds: begun.elapsed().as_secs_f64(),
            bytes,
            packages,
        };
        let _ = fs::copy(self.log(), image.join("build.log"));
        write_json(&image.join("manifest.json"), &manifest)?;
        let done = self.folder.join(self.recipe.key());
        // Another process was first and has built the same.
        if !done.join("manifest.json").exists() {
            fs::rename(&image, &done).map_err(|e| io(e, "cannot keep the image in", &done))?;
        }
        Ok(())
    }

    fn bootstrap(&mut self, root: &Path, packages: &[&str], hook: Option<&str>) -> Result<()> {
        let list = sources::list_for(&self.sources, &self.recipe.suite, self.recipe.backports)?;
        let file = self.work.join("sources.list");
        fs::write(&file, list).map_err(|e| io(e, "cannot write", &file))?;
        let arguments = bootstrap_arguments(self.recipe, root, packages, hook, &file);
        let mut command = self.ledger.command("mmdebstrap");
        command.args(arguments);
        self.logged(command, "mmdebstrap")
    }

    fn initramfs(&mut self, root: &Path, kernel: &str, file: &Path) -> Result<()> {
        let tree = self.work.join("initramfs");
        for folder in ["bin", "lib"] {
            let folder = tree.join(folder);
            fs::create_dir_all(&folder).map_err(|e| io(e, "cannot make", &folder))?;
        }
        let modules = root.join("lib/modules").join(kernel);
        let dependencies = modules.join("modules.dep");
        let text = fs::read_to_string(&dependencies).map_err(|e| io(e, "cannot read", &dependencies))?;
        let mut names = Vec::new();
        for path in load_order(&text, BOOT_MODULES) {
            let from = modules.join(&path);
            let name = from.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let plain = name.strip_suffix(".xz").unwrap_or(name).to_owned();
            let unpack = if plain == name { "cat" } else { "xz -dc" };
            self.shell(&format!("{unpack} {} >{}", quoted(&from), quoted(&tree.join("lib").join(&plain))))?;
            names.push(plain);
        }
        fs::write(tree.join("modules"), names.join("\n")).map_err(|e| io(e, "cannot write to", &tree))?;
        let busybox = root.join("bin/busybox");
        fs::copy(&busybox, tree.join("bin/busybox")).map_err(|e| io(e, "cannot copy", &busybox))?;
        write_program(&tree.join("init"), INITRAMFS)?;
        self.shell(&format!(
            "cd {} && find . | bin/busybox cpio -o -H newc | gzip -9 >{}",
            quoted(&tree),
            quoted(file)
        ))
    }

    /// Returns its size: what is used, a third more, and room for logs.
    fn file_system(&mut self, root: &Path, file: &Path) -> Result<u64> {
        let count = self.work.join("size");
        self.shell(&format!("du -s -B 1M --apparent-size {} >{}", quoted(root), quoted(&count)))?;
        let used: u64 = read_line(&count)?
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| Error::internal("du printed no number"))?;
        let mib = used + used / 3 + 256;
        self.shell(&format!(
            "PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F -L frostline -d {} {} {mib}M",
            quoted(root),
            quoted(file)
        ))?;
        Ok(mib << 20)
    }

    fn shell(&mut self, script: &str) -> Result<()> {
        let mut command = self.ledger.command("sh");
        command.args(["-euc", script]);
        self.logged(command, script)
    }

    fn log(&self) -> PathBuf {
        self.work.join("build.log")
    }

    fn logged(&mut self, mut command: Command, what: &str) -> Result<()> {
        let log = self.log();
        let open = || File::options().create(true).append(true).open(&log);
        let (out, err) =
            open().and_then(|out| Ok((out, open()?))).map_err(|e| io(e, "cannot write", &log))?;
        let status = command
            .stdin(std::process::Stdio::null())
            .stdout(out)
            .stderr(err)
            .status()
            .map_err(|e| Error::unavailable(format!("cannot run {what}")).with_source(e))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::unavailable(format!("{what} failed ({status}):\n{}", last_lines(&log, 12))))
    }
}

/// The arguments of `mmdebstrap`.
fn bootstrap_arguments(
    recipe: &Recipe,
    root: &Path,
    packages: &[&str],
    hook: Option<&str>,
    sources: &Path,
) -> Vec<String> {
    let mut arguments: Vec<String> = ["--variant=minbase", "--mode=root", "--format=directory"]
        .into_iter()
        .chain(["--aptopt=APT::Install-Recommends \"false\"", "--aptopt=APT::Sandbox::User \"root\""])
        .map(str::to_owned)
        .collect();
    if !packages.is_empty() {
        arguments.push(format!("--include={}", packages.join(",")));
    }
    if recipe.backports {
        // Only what must be newer: the kernel, and OpenZFS with its libraries.
        arguments.push(format!(
            "--setup-hook=mkdir -p \"$1/etc/apt/preferences.d\"; printf 'Package: linux-* zfs* libzfs* libzpool* libnvpair* libuutil* dkms\\nPin: release n={}-backports\\nPin-Priority: 900\\n' >\"$1/etc/apt/preferences.d/frostline\"",
            recipe.suite
        ));
    }
    arguments.extend(hook.map(|script| format!("--customize-hook={script}")));
    arguments.extend([recipe.suite.clone(), root.display().to_string(), sources.display().to_string()]);
    arguments
}

/// The files of `wanted` and of what they depend on, in an order in which they can be loaded.
/// `dependencies` is the text of `modules.dep`, whose lines name last what must be loaded first.
fn load_order(dependencies: &str, wanted: &[&str]) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    for module in wanted {
        let line = dependencies.lines().filter_map(|line| line.split_once(':')).find(|(path, _)| {
            let name = path.rsplit('/').next().unwrap_or(path);
            name.split(".ko").next().unwrap_or(name).replace('-', "_") == *module
        });
        // What is not listed is built in.
        let Some((path, needs)) = line else { continue };
        for path in needs.split_whitespace().rev().chain([path]) {
            if !order.iter().any(|known| known == path) {
                order.push(path.to_owned());
            }
        }
    }
    order
}

fn packages_of(root: &Path) -> Result<BTreeMap<String, String>> {
    let output = Command::new("chroot")
        .arg(root)
        .args(["dpkg-query", "-W", "-f", "${Package} ${Version}\n"])
        .output()
        .map_err(|e| Error::unavailable("cannot run chroot").with_source(e))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.map(|(name, version)| (name.to_owned(), version.to_owned())).collect())
}

fn copy_files(from: &Path, into: &Path) -> Result<()> {
    let entries = fs::read_dir(from).map_err(|e| io(e, "cannot list", from))?;
    for entry in entries.flatten() {
        fs::copy(entry.path(), into.join(entry.file_name()))
            .map_err(|e| io(e, "cannot copy", &entry.path()))?;
    }
    Ok(())
}

fn write_program(file: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(file, text)
        .and_then(|()| fs::set_permissions(file, fs::Permissions::from_mode(0o755)))
        .map_err(|e| io(e, "cannot write", file))
}

fn read_line(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).map_err(|e| io(e, "cannot read", file))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
