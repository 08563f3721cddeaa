use std::io::{self, Read};

use super::{BlockLimits, Blocks, LineEnds, Piece};

const SMALL: BlockLimits = BlockLimits { block_bytes: 64, line_bytes_max: 200 };

/// Every line as (offset, number, text), too long ones marked.
fn lines_of(input: Vec<u8>, line_ends: LineEnds, skip_to: u64) -> Vec<(u64, u64, String)> {
    let mut blocks = Blocks::new(Box::new(io::Cursor::new(input)), SMALL);
    blocks.sample(16);
    blocks.set_line_ends(line_ends);
    blocks.skip_to(skip_to).unwrap();
    let mut lines = Vec::new();
    while let Some(piece) = blocks.next().unwrap() {
        match piece {
            Piece::Lines(block) => {
                assert!(block.bytes.len() <= SMALL.line_bytes_max + 2 * SMALL.block_bytes);
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                lines.extend(block.lines(line_ends).map(|line| (line.offset, line.number, text(line.bytes))));
            }
            Piece::TooLong(block) => lines.push((block.offset, block.line, "too long".into())),
        }
    }
    lines
}

#[test]
fn lines_keep_their_places() {
    let input: Vec<u8> = (0..500).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
    let lines = lines_of(input.clone(), LineEnds::All, 0);
    assert_eq!(lines.len(), 500);
    for (index, (offset, number, text)) in lines.iter().enumerate() {
        assert_eq!((*number, text.as_str()), (index as u64 + 1, format!("line {index}").as_str()));
        assert!(input[*offset as usize..].starts_with(text.as_bytes()));
    }
    let resumed = lines_of(input, LineEnds::All, lines[300].0);
    assert_eq!(resumed, lines[300..]);
}

#[test]
fn the_last_line_needs_no_end() {
    assert_eq!(lines_of(b"a\nb".to_vec(), LineEnds::All, 0), [(0, 1, "a".into()), (2, 2, "b".into())]);
    assert_eq!(lines_of(Vec::new(), LineEnds::All, 0), []);
}

#[test]
fn records_span_lines_inside_quotes() {
    let lines = lines_of(b"a,\"x\ny\"\nb,c\n".to_vec(), LineEnds::OutsideQuotes, 0);
    assert_eq!(lines, [(0, 1, "a,\"x\ny\"".into()), (8, 3, "b,c".into())]);
}

#[test]
fn a_line_of_100_mb_is_never_held() {
    let long = io::repeat(b'x').take(100 << 20);
    let input =
        io::Cursor::new(b"before\n".to_vec()).chain(long).chain(io::Cursor::new(b"\nafter\n".to_vec()));
    let limits = BlockLimits { block_bytes: 1 << 20, line_bytes_max: 16 << 20 };
    let mut blocks = Blocks::new(Box::new(input), limits);
    let mut seen = Vec::new();
    while let Some(piece) = blocks.next().unwrap() {
        assert!(blocks.pending.capacity() < 64 << 20);
        match piece {
            Piece::Lines(block) => seen.push((block.line, block.bytes.len())),
            Piece::TooLong(block) => seen.push((block.line, block.bytes.len())),
        }
    }
    assert_eq!(seen, [(1, 7), (2, 1024), (3, 6)]);
}

#[test]
fn a_failing_read_comes_after_the_whole_lines() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("torn"))
        }
    }
    let input = io::Cursor::new(b"one\ntwo\nhal".to_vec()).chain(Broken);
    let mut blocks = Blocks::new(Box::new(input), SMALL);
    let Some(Piece::Lines(block)) = blocks.next().unwrap() else { panic!("no lines") };
    assert_eq!(block.bytes, b"one\ntwo\n");
    assert!(blocks.next().is_err());
    assert_eq!(blocks.offset(), 8);
}
