use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Input, Inputs};
use crate::pipeline::Cancel;

#[test]
fn directories_in_sorted_order_without_hidden_files() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b.log", "a/z.log", "a/.hidden", ".git/config", "c.log"] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
    let inputs = Inputs::from_arguments(&[folder.path().to_owned()]).unwrap();
    let names: Vec<&str> = inputs.inputs.iter().map(|input| input.name()).collect();
    let ends = ["a/z.log", "b.log", "c.log"];
    assert_eq!(names.len(), ends.len());
    assert!(names.iter().zip(ends).all(|(name, end)| name.ends_with(end)), "{names:?}");
    assert_eq!(inputs.bytes(), 7 + 5 + 5);
    let mut reasons: Vec<&str> = inputs.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["a symbolic link to a directory", "hidden", "hidden"]);
}

#[test]
fn identity_is_the_content_and_not_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        Input::file(&path).unwrap().identity().unwrap().to_owned()
    };
    let long = vec![b'x'; 300_000];
    let mut other_end = long.clone();
    other_end[299_999] = b'y';
    assert_eq!(write("a", &long), write("b", &long));
    assert_ne!(write("a", &long), write("c", &other_end));
    assert_ne!(write("a", b""), write("d", b"\n"));
}

#[test]
fn what_cannot_be_read_says_so() {
    let missing = Inputs::from_arguments(&["/no/such/file.log".into()]).unwrap_err();
    assert_eq!(missing.kind(), frostline_base::ErrorKind::NotFound);
    assert!(missing.what().contains("/no/such/file.log"));
}

#[test]
fn reading_counts_the_stored_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.log");
    fs::write(&path, b"one\ntwo\n").unwrap();
    let read = Arc::new(AtomicU64::new(0));
    let mut text = String::new();
    Input::file(&path)
        .unwrap()
        .open(Arc::clone(&read), &Cancel::default())
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!((text.as_str(), read.load(Ordering::Relaxed)), ("one\ntwo\n", 8));
}

#[test]
fn a_silent_stream_is_not_waited_for_after_a_cancel() {
    struct Silent(std::sync::mpsc::Receiver<u8>);
    impl Read for Silent {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            self.0.recv().map(usize::from).map_err(std::io::Error::other)
        }
    }
    // The sender lives on, so the stream would wait for ever.
    let (_sender, receiver) = std::sync::mpsc::channel();
    let cancel = Cancel::default();
    let input = Input::stream("silent", Silent(receiver));
    cancel.cancel();
    assert!(input.open(Arc::default(), &cancel).is_err());
    let mut text = String::new();
    let input = Input::stream("short", &b"one\n"[..]);
    input.open(Arc::default(), &Cancel::default()).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "one\n");
}
