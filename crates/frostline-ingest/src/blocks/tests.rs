use std::io::{self, Read};

use super::{BlockLimits, Blocks, LineEnds, Piece, Upto};
use crate::identity::Prefix;
use crate::lines::{Format, LineParser, Multiline, Runtime};

const SMALL: BlockLimits = BlockLimits { block_bytes: 64, line_bytes_max: 200 };

/// Every line as (offset, number, text), too long ones marked. The input comes in pieces of 7 bytes.
fn lines_of(input: Vec<u8>, line_ends: LineEnds, skip_to: u64) -> Vec<(u64, u64, String)> {
    let mut prefix = Prefix::default();
    prefix.extend(&input[..skip_to as usize]);
    let mut blocks = Blocks::new(SMALL, line_ends.clone(), prefix);
    let mut lines = Vec::new();
    let mut pieces = input[skip_to as usize..].chunks(7);
    loop {
        let bytes = pieces.next();
        blocks.fill(&mut bytes.unwrap_or_default()).unwrap();
        let upto = if bytes.is_some() { Upto::Full } else { Upto::End };
        while let Some(piece) = blocks.next(upto) {
            match piece {
                Piece::Lines(block) => {
                    assert!(block.bytes.len() <= SMALL.line_bytes_max + 2 * SMALL.block_bytes);
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let all = block.lines(&line_ends);
                    lines.extend(all.map(|line| (line.offset, line.number, text(line.bytes))));
                }
                Piece::TooLong(block) => lines.push((block.offset, block.line, "too long".into())),
            }
        }
        if bytes.is_none() {
            let mut whole = Prefix::default();
            whole.extend(&input);
            assert_eq!(blocks.prefix().mark(false), whole.mark(false));
            return lines;
        }
    }
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
fn lines_of_one_message_stay_together() {
    let start = "2024-01-01T00:00:00Z";
    let lines = [
        format!("{start} stdout F a\n"),
        format!("{start} stdout P b\n{start} stderr F c\n{start} stdout F d\n"),
        format!("{start} stderr P e\nno chunk\n"),
        format!("{start} stdout P f\n"),
    ];
    let ends = LineEnds::AfterMessages(Runtime::Cri);
    let found = lines_of(lines.concat().into_bytes(), ends.clone(), 0);
    let texts: Vec<&str> = found.iter().map(|(_, _, text)| text.as_str()).collect();
    assert_eq!(texts, lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>());
    assert_eq!(found.iter().map(|(_, number, _)| *number).collect::<Vec<_>>(), [1, 2, 5, 7]);
    // The last message may go on, and one that never ends is cut.
    let mut blocks = Blocks::new(SMALL, ends.clone(), Prefix::default());
    blocks.fill(&mut lines[3].as_bytes()).unwrap();
    assert_eq!((blocks.next(Upto::Lines), blocks.unfinished()), (None, Some(lines[3].as_bytes())));
    let endless = format!("{start} stdout P {}\n", "x".repeat(1_000)).repeat(1_500);
    let limits = BlockLimits { block_bytes: 64 << 10, line_bytes_max: 16 << 20 };
    let mut blocks = Blocks::new(limits, ends.clone(), Prefix::default());
    let (mut rest, mut messages) = (endless.as_bytes(), 0);
    while blocks.fill(&mut rest).unwrap() > 0 {
        while let Some(Piece::Lines(block)) = blocks.next(Upto::Full) {
            messages += block.lines(&ends).count();
        }
    }
    assert_eq!(messages, 1);
}

#[test]
fn records_span_lines_inside_quotes() {
    let lines = lines_of(b"a,\"x\ny\"\nb,c\n".to_vec(), LineEnds::OutsideQuotes, 0);
    assert_eq!(lines, [(0, 1, "a,\"x\ny\"".into()), (8, 3, "b,c".into())]);
}

#[test]
fn a_line_that_announces_a_document_is_one_with_it() {
    let action = r#"{"index":{"_id":"1"}}"#;
    let (document, lookalike) = (r#"{"index":1}"#, r#"{"index":{"other":"1"}}"#);
    for fill in 0..80 {
        let before = format!("{{\"{}\":1}}", "x".repeat(fill));
        let input = format!("{before}\n{action}\r\n{document}\n{lookalike}\n{{\"delete\":{{}}}}\n{action}");
        let lines = lines_of(input.clone().into_bytes(), LineEnds::AfterActions, 0);
        let texts: Vec<&str> = lines.iter().map(|(_, _, text)| text.as_str()).collect();
        let joined = format!("{action}\r\n{document}");
        assert_eq!(texts, [&before, &joined, lookalike, r#"{"delete":{}}"#, action]);
        assert_eq!(lines.iter().map(|(_, number, _)| *number).collect::<Vec<_>>(), [1, 2, 4, 5, 6]);
        assert!(lines.iter().all(|(offset, _, text)| input[*offset as usize..].starts_with(text)));
    }
}

#[test]
fn a_line_of_100_mb_is_never_held() {
    let long = io::repeat(b'x').take(100 << 20);
    let input =
        io::Cursor::new(b"before\n".to_vec()).chain(long).chain(io::Cursor::new(b"\nafter\n".to_vec()));
    let limits = BlockLimits { block_bytes: 1 << 20, line_bytes_max: 16 << 20 };
    let mut blocks = Blocks::new(limits, LineEnds::All, Prefix::default());
    let mut input = input;
    let mut seen = Vec::new();
    loop {
        let count = blocks.fill(&mut input).unwrap();
        assert!(blocks.pending.capacity() < 64 << 20);
        let upto = if count > 0 { Upto::Full } else { Upto::End };
        while let Some(piece) = blocks.next(upto) {
            match piece {
                Piece::Lines(block) => seen.push((block.line, block.bytes.len())),
                Piece::TooLong(block) => seen.push((block.line, block.bytes.len())),
            }
        }
        if count == 0 {
            break;
        }
    }
    assert_eq!(seen, [(1, 7), (2, 1024), (3, 6)]);
}

fn events(pattern: &str) -> LineEnds {
    let pattern: Multiline = pattern.parse().unwrap();
    let parser = LineParser::for_input(Format::Plain, b"", 0);
    LineEnds::Events(parser.events(&pattern, b"").unwrap())
}

#[test]
fn lines_that_continue_one_are_part_of_it() {
    let text = b"  early\nE one\n  a\n  b\nE two\nE three\n\nlast".to_vec();
    let lines = lines_of(text, events("^E "), 0);
    let expected =
        [(0, 1, "  early"), (8, 2, "E one\n  a\n  b"), (22, 5, "E two"), (28, 6, "E three\n\nlast")];
    assert_eq!(lines, expected.map(|(offset, line, text)| (offset, line, text.to_owned())));
}

#[test]
fn an_event_that_never_ends_is_cut() {
    let limits = BlockLimits { block_bytes: 2 << 20, line_bytes_max: 16 << 20 };
    let line_ends = events("^E ");
    let mut blocks = Blocks::new(limits, line_ends.clone(), Prefix::default());
    let mut text = io::Cursor::new([&b"E one\n"[..], &b"  and more\n".repeat(500_000)].concat());
    while blocks.fill(&mut text).unwrap() > 0 {}
    let (mut bytes, mut longest) = (0, 0);
    for upto in [Upto::Full, Upto::End] {
        while let Some(Piece::Lines(block)) = blocks.next(upto) {
            let all = block.lines(&line_ends).map(|line| line.bytes.len());
            longest = all.max().unwrap().max(longest);
            bytes += block.bytes.len();
        }
    }
    assert_eq!(bytes, 6 + 11 * 500_000);
    assert!(longest <= super::EVENT_BYTES_MAX, "{longest}");
}

#[test]
fn what_has_no_end_yet_is_told_apart() {
    let unfinished = |text: &[u8], line_ends: LineEnds| {
        let mut blocks = Blocks::new(SMALL, line_ends, Prefix::default());
        blocks.fill(&mut &text[..]).unwrap();
        let rest = blocks.unfinished().map(|rest| String::from_utf8_lossy(rest).into_owned());
        while blocks.next(Upto::Whole).is_some() {}
        assert_eq!(blocks.pending(), rest.as_deref().unwrap_or_default().as_bytes());
        rest
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(unfinished(b"a\nb\n", LineEnds::All), None);
    assert_eq!(unfinished(b"a\nb", LineEnds::All), some("b"));
    assert_eq!(unfinished(b"a,\"x\ny", LineEnds::OutsideQuotes), some("a,\"x\ny"));
    assert_eq!(unfinished(b"E one\n  a\n", events("^E ")), None);
    assert_eq!(unfinished(b"E one\n  a", events("^E ")), some("E one\n  a"));
    assert_eq!(unfinished(b"E one\n  a\nE t", events("^E ")), some("E t"));
    assert_eq!(unfinished(b"E one\nE two\n  a\n b", events("^E ")), some("E two\n  a\n b"));
}
