//! One document: JSON to values. What is taken must also be taken by the writer of splits or be refused
//! by it, and what a strict mapping takes a dynamic one takes, too.
#![no_main]

use frostline_split::{Document, Limits, Mapping, Mode, SplitWriter, WriterOptions, parse_document};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    let mut document = Document::new();
    let strict = frostline_fuzz::mapping().clone().with_mode(Mode::Strict);
    let fits = parse_document(bytes, &strict, &limits, &mut document).is_ok();
    let taken = parse_document(bytes, &Mapping::dynamic(), &limits, &mut document).is_ok();
    assert!(taken || !fits);
    let values = document.values().len();
    assert!(!taken || document.values().all(|(path, _)| (path.0 as usize) < document.path_count()));
    let mut writer = SplitWriter::new(Mapping::dynamic(), WriterOptions::default());
    // The writer may refuse what has no room in a split, never take what is no document.
    assert!(writer.add(bytes).is_err() || taken);
    assert_eq!(writer.rows() > 0 && values > 0, writer.rows() > 0 && !writer.mapping().fields().is_empty());
});
