use super::*;

fn recipe() -> Recipe {
    Recipe::named("bookworm").unwrap()
}

#[test]
fn the_key_changes_with_everything_an_image_is_made_of() {
    let base = recipe();
    let changes: [fn(&mut Recipe); 5] = [
        |recipe| recipe.suite = "trixie".to_owned(),
        |recipe| recipe.backports = true,
        |recipe| recipe.kernel = "amd64".to_owned(),
        |recipe| recipe.zfs = false,
        |recipe| recipe.packages.push("postgresql".to_owned()),
    ];
    let mut keys: Vec<String> = changes
        .iter()
        .map(|change| {
            let mut changed = base.clone();
            change(&mut changed);
            changed.key()
        })
        .collect();
    keys.push(base.key());
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count);
    assert!(keys.iter().all(|key| key.len() == 16 && key.bytes().all(|b| b.is_ascii_hexdigit())));
}

#[test]
fn names_and_the_order_of_packages_do_not_change_the_key() {
    let (base, mut other) = (recipe(), recipe());
    other.name = "mine".to_owned();
    other.packages.reverse();
    other.packages.push(other.packages[0].clone());
    assert_eq!(base.key(), other.key());
}

#[test]
fn other_packages_do_not_compile_the_modules_again() {
    let (base, mut other) = (recipe(), recipe());
    other.packages.push("postgresql".to_owned());
    assert_eq!(base.kernel_key(), other.kernel_key());
    other.zfs = false;
    assert_ne!(base.kernel_key(), other.kernel_key());
}

#[test]
fn unknown_recipes_are_answered_with_the_known() {
    let error = Recipe::named("jammy").unwrap_err();
    assert!(error.what().contains("bookworm, bookworm-backports, bookworm-plain"), "{error}");
}

#[test]
fn mmdebstrap_is_told_where_and_what() {
    let arguments = |recipe: &Recipe, packages: &[&str], hook| {
        bootstrap_arguments(recipe, Path::new("/d/root"), packages, hook, Path::new("/d/list"))
    };
    let plain = arguments(&recipe(), &["fio", "udev"], None);
    assert_eq!(
        plain,
        [
            "--variant=minbase",
            "--mode=root",
            "--format=directory",
            "--aptopt=APT::Install-Recommends \"false\"",
            "--aptopt=APT::Sandbox::User \"root\"",
            "--include=fio,udev",
            "bookworm",
            "/d/root",
            "/d/list"
        ]
    );
    let backports = arguments(&Recipe::named("bookworm-backports").unwrap(), &[], Some("true"));
    assert!(!backports.iter().any(|argument| argument.starts_with("--include")));
    assert!(backports.contains(&"--customize-hook=true".to_owned()));
    let pin = backports.iter().find(|argument| argument.starts_with("--setup-hook")).unwrap();
    assert!(pin.contains("Pin: release n=bookworm-backports"), "{pin}");
}

#[test]
fn modules_are_loaded_after_what_they_need() {
    let dependencies = "kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko kernel/fs/mbcache.ko kernel/fs/jbd2/jbd2.ko\n\
                        kernel/fs/jbd2/jbd2.ko:\n\
                        kernel/drivers/virtio/virtio_pci.ko.xz: kernel/drivers/virtio/virtio_ring.ko.xz kernel/drivers/virtio/virtio.ko.xz\n\
                        kernel/drivers/block/virtio-blk.ko: kernel/drivers/virtio/virtio_ring.ko.xz kernel/drivers/virtio/virtio.ko.xz\n";
    let order = load_order(dependencies, &["virtio_pci", "virtio_blk", "virtio_console", "ext4"]);
    let names: Vec<&str> = order.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
    assert_eq!(
        names,
        [
            "virtio.ko.xz",
            "virtio_ring.ko.xz",
            "virtio_pci.ko.xz",
            "virtio-blk.ko",
            "jbd2.ko",
            "mbcache.ko",
            "crc16.ko",
            "ext4.ko"
        ]
    );
}

#[test]
fn an_image_is_there_when_its_manifest_is() {
    let folder = tempfile::tempdir().unwrap();
    let error = Image::open(folder.path(), &recipe()).unwrap_err();
    assert!(error.what().contains("frostline lab image build bookworm"), "{error}");
    let image = folder.path().join(recipe().key());
    fs::create_dir(&image).unwrap();
    fs::write(image.join("manifest.json"), b"{\"recipe\": {}}").unwrap();
    let error = Image::open(folder.path(), &recipe()).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Corrupt);
    assert!(Image::list(folder.path()).is_empty());
    let manifest = Manifest {
        recipe: recipe(),
        kernel: "6.1.0".to_owned(),
        zfs: Some("2.1.11".to_owned()),
        kernel_seconds: 209.0,
        root_seconds: 38.0,
        bytes: 1 << 30,
        packages: BTreeMap::from([("fio".to_owned(), "3.33".to_owned())]),
    };
    write_json(&image.join("manifest.json"), &manifest).unwrap();
    let opened = Image::open(folder.path(), &recipe()).unwrap();
    assert_eq!(opened.manifest(), &manifest);
    assert_eq!(Image::list(folder.path()).len(), 1);
    opened.remove().unwrap();
    assert!(Image::list(folder.path()).is_empty());
}

#[test]
fn paths_are_one_word_of_a_shell() {
    assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
}
