use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Input, Inputs, Opened, Own, files_of};
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
fn what_cannot_be_read_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let empty = Inputs::from_arguments(&[folder.path().to_owned()]).unwrap_err();
    assert_eq!(empty.kind(), frostline_base::ErrorKind::NotFound);
    assert!(empty.what().contains(folder.path().to_str().unwrap()), "{empty}");
    assert_eq!(Inputs::from_arguments(&[]).unwrap().bytes(), 0);
    let missing = Inputs::from_arguments(&["/no/such/file.log".into()]).unwrap_err();
    assert_eq!(missing.kind(), frostline_base::ErrorKind::NotFound);
    assert!(missing.what().contains("/no/such/file.log"));
    let none = Inputs::from_arguments(&["/no/such/*.log".into()]).unwrap_err();
    assert_eq!(none.what(), "no file matches the pattern /no/such/*.log");
}

fn text_of(mut stream: Box<dyn Read + Send>) -> std::io::Result<String> {
    let mut text = String::new();
    stream.read_to_string(&mut text).map(|_| text)
}

fn stream(name: &str, reader: impl Read + Send + 'static, cancel: &Cancel) -> Box<dyn Read + Send> {
    match Input::stream(name, reader).open(&Arc::default(), cancel).unwrap() {
        Opened::Stream(stream) => stream,
        _ => panic!("a stream"),
    }
}

#[test]
fn a_silent_stream_is_not_waited_for_after_a_cancel() {
    struct Silent(std::sync::mpsc::Receiver<u8>);
    impl Read for Silent {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            buffer[0] = self.0.recv().map_err(std::io::Error::other)?;
            Ok(1)
        }
    }
    // The sender lives on, so the stream would never end.
    let (sender, receiver) = std::sync::mpsc::channel();
    let cancel = Cancel::default();
    let mut silent = stream("silent", Silent(receiver), &cancel);
    assert_eq!(silent.read(&mut [0; 8]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    sender.send(b'x').unwrap();
    cancel.cancel();
    assert!(matches!(text_of(silent).unwrap().as_str(), "x" | ""));
    assert_eq!(text_of(stream("short", &b"one\n"[..], &Cancel::default())).unwrap(), "one\n");
}

#[test]
fn what_a_run_writes_itself_is_no_input_unless_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["a.log", "repo/log/1.json", "data/rejects/logs.ndjson", "data.log"] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), "x\n").unwrap();
    }
    let own = Own::new(vec![at("repo"), at("data"), at("made-later")]);
    let check = |named: &str, expected: &[&str], notes: usize| {
        let inputs = Inputs::without(&own, &[at(named)]).unwrap();
        let names: Vec<&str> = inputs.inputs.iter().map(|input| input.name()).collect();
        let (paths, skipped) = files_of(&own, &[at(named)]);
        assert_eq!(names, expected.iter().map(|name| at(name).display().to_string()).collect::<Vec<_>>());
        assert_eq!(paths, names.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!((inputs.skipped.len(), skipped.len()), (notes, notes), "{named}: {:?}", inputs.skipped);
    };
    check("", &["a.log", "data.log"], 2);
    check("*", &["a.log", "data.log"], 2);
    check("*/*/*", &[], 2);
    check("data", &[], 1);
    check("repo/../data", &[], 1);
    check("data/rejects", &["data/rejects/logs.ndjson"], 0);
    check("data/rejects/*.ndjson", &["data/rejects/logs.ndjson"], 0);
    check("data/rejects/logs.ndjson", &["data/rejects/logs.ndjson"], 0);
}
