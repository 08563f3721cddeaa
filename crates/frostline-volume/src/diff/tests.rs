use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};

use crate::Change;
use crate::testing::{Bench, noise, snapshot};

#[tokio::test]
async fn what_differs_is_listed_with_its_new_bytes() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let root = folder.path();
    for name in ["changed", "gone", "kept", "mode", "moved"] {
        fs::write(root.join(name), noise(name.len() as u64, 600_000)).unwrap();
    }
    let first = snapshot(&bench.volumes(), root).await.snapshot;
    fs::File::options()
        .write(true)
        .open(root.join("changed"))
        .unwrap()
        .write_all_at(b"new", 550_000)
        .unwrap();
    fs::remove_file(root.join("gone")).unwrap();
    fs::write(root.join("new"), noise(99, 5_000)).unwrap();
    fs::set_permissions(root.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    let second = snapshot(&bench.volumes(), root).await.snapshot;
    let found = bench.volumes().diff(&first, &second).await.unwrap();
    let found: Vec<_> = found.iter().map(|d| (d.path.as_str(), d.change, d.bytes)).collect();
    assert_eq!(
        found,
        [
            (".", Change::Metadata, 0),
            ("changed", Change::Modified, 600_000 - 524_288),
            ("gone", Change::Removed, 0),
            ("mode", Change::Metadata, 0),
            ("new", Change::Added, 5_000),
        ]
    );
    assert_eq!(bench.volumes().diff(&second, &second).await.unwrap(), []);
}
