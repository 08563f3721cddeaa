use std::fs;
use std::path::{Path, PathBuf};

use super::*;

#[test]
fn a_title_cannot_become_markup() {
    let head = page_head("ko", "a </title><b>", "b{color:red}");
    assert!(head.contains("<html lang=ko>") && head.contains("<title>a &lt;/title&gt;&lt;b&gt;</title>"));
    assert!(head.ends_with("b{color:red}</style></head><body>"));
}

/// Code and styles below a folder.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "css") {
            files.push(path);
        }
    }
}

#[test]
fn no_other_crate_has_a_frame_or_a_theme_of_its_own() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in
        fs::read_dir(&crates).unwrap().flatten().filter(|entry| entry.file_name() != "frostline-show")
    {
        sources(&entry.path().join("src"), &mut files);
    }
    assert!(files.len() > 100, "{}", files.len());
    let own = files.iter().filter(|path| {
        let text = fs::read_to_string(path).unwrap();
        text.contains("width=device-width") || text.contains("system-ui")
    });
    assert_eq!(own.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}
