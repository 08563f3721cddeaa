//! Documents of any shape, a line each, written as a split and read back: the same rows come out.
#![no_main]

use arrow::array::AsArray;
use bytes::Bytes;
use frostline_base::SplitId;
use frostline_split::{KeyRange, Mapping, SOURCE_COLUMN, Split, SplitWriter, TextAs, Wanted, WriterOptions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut writer = SplitWriter::new(Mapping::dynamic().with_column_budget(4), WriterOptions::default());
    let mut taken: Vec<&[u8]> =
        bytes.split(|byte| *byte == b'\n').filter(|line| writer.add(line).is_ok()).collect();
    let mut file = Vec::new();
    let Ok(sealed) = writer.seal(SplitId::from_random(1), &mut file) else { return };
    let file = Bytes::from(file);
    let cut = |range: &std::ops::Range<u64>| file.slice(range.start as usize..range.end as usize);
    let split = Split::open(&cut(&sealed.footer)).expect("what was written opens");
    assert_eq!(split.rows() as usize, taken.len());
    assert_eq!(
        split.find(Wanted::All).expect("few fields are in the hot footer").len(),
        split.fields().count()
    );
    let table = split.digest_table();
    let blocks = table.blocks(&KeyRange::all()).expect("a small table has no index blocks");
    let read: Vec<Bytes> = blocks.iter().map(|block| cut(&block.range)).collect();
    split
        .digest(&[0, 1, 2], true, blocks.iter().zip(read.iter().map(|bytes| bytes.as_ref())))
        .expect("a digest that was written is read");
    let names: Vec<&str> = split.column_names().collect();
    let read = split.columns(&names, None, TextAs::Plain).expect("every column can be asked for");
    let pages = read.ranges().iter().map(cut).collect();
    let batches = read.decode(pages).expect("what was written is decoded");
    let sources =
        names.iter().position(|name| *name == SOURCE_COLUMN).expect("every split keeps its documents");
    let mut sources: Vec<&[u8]> =
        batches.iter().flat_map(|batch| batch.column(sources).as_binary::<i32>().iter().flatten()).collect();
    taken.sort_unstable();
    sources.sort_unstable();
    assert_eq!(sources, taken);
});
