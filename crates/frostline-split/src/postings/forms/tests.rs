use frostline_base::ErrorKind;

use super::*;

/// About one in `mean` rows, without a pattern.
fn scattered(total: u32, mean: u64) -> Vec<u32> {
    let hash = |row: u32| xxhash_rust::xxh3::xxh3_64(&row.to_le_bytes());
    (0..total).filter(|row| hash(*row).is_multiple_of(mean)).collect()
}

fn form(rows: &[u32], split_rows: u32) -> (u8, usize) {
    let mut out = Vec::new();
    FormWriter::new(split_rows, 3).unwrap().put(&mut out, rows).unwrap();
    let read = read(&mut Cursor::new(&out), split_rows).unwrap();
    assert!(read.iter().eq(rows.iter().copied()));
    (out[0], out.len())
}

#[test]
fn each_form_is_the_smallest_of_some_list() {
    let total = 200_000;
    assert_eq!(form(&[7], total).0, GAPS);
    assert_eq!(form(&scattered(total, 30), total).0, RICE);
    // Every other row: a bit for each, or fewer.
    assert_eq!(form(&scattered(total, 2), total).0, BITMAP);
    let of_runs = |length: u32| (0..total).filter(|row| row / length % 2 == 1).collect::<Vec<_>>();
    assert_eq!(form(&of_runs(60_000), total).0, RUNS);
    assert_eq!(form(&of_runs(13), total).0, PACKED_RUNS);
    let uneven: Vec<u32> = (0..2_000).flat_map(|n| [n * 50, n * 50 + 9, n * 50 + 30]).collect();
    assert_eq!(form(&uneven, total).0, PACKED_GAPS);
    assert_eq!(form(&scattered(3_000_000, 30), 3_000_000).0, SEGMENTS);
    assert_eq!(form(&scattered(SEGMENT_ROWS, 30), SEGMENT_ROWS).0, RICE);
}

#[test]
fn the_ends_of_the_largest_split_are_listed() {
    let split_rows = u32::MAX - 1;
    form(&[0, 1, SEGMENT_ROWS - 1, SEGMENT_ROWS, split_rows - 1], split_rows);
    form(&(split_rows - 70_000..split_rows).collect::<Vec<_>>(), split_rows);
    for rows in [vec![0], vec![SEGMENT_ROWS - 1], (0..SEGMENT_ROWS).collect()] {
        form(&rows, SEGMENT_ROWS);
    }
}

#[test]
fn rice_codes_take_as_many_bytes_as_was_computed() {
    let one_far = [vec![0, 1, 2, 3, 4], vec![900_000]].concat();
    for rows in [scattered(100_000, 3), scattered(100_000, 700), vec![5], vec![0], one_far] {
        let rice = Rice::of(&rows);
        let mut out = Vec::new();
        rice.put(&mut out, &rows);
        assert_eq!(out.len(), rice.bytes());
        assert!(read_rice(&mut Cursor::new(&out), 1 << 20).unwrap().iter().eq(rows.iter().copied()));
        // No other k takes fewer bits.
        let bits = |k: u32| gaps(&rows).map(|gap| u64::from(gap >> k) + 1 + u64::from(k)).sum::<u64>();
        assert_eq!((0..20).map(bits).min(), Some(rice.bits), "{rice:?}");
    }
}

fn refused(bytes: &[u8], split_rows: u32) -> String {
    let error = read(&mut Cursor::new(bytes), split_rows).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{bytes:?}");
    error.to_string()
}

fn varints(numbers: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    numbers.iter().for_each(|number| put_varint(&mut out, *number));
    out
}

fn packed(form: u8, raw: &[u8], raw_bytes: u64) -> Vec<u8> {
    [&[form], &varints(&[raw_bytes])[..], &zstd::bulk::compress(raw, 3).unwrap()[4..]].concat()
}

#[test]
fn forged_lists_are_refused_before_room_is_made() {
    let thousand = 1_000;
    // More rows than bits, than the split has, or a remainder of 32 bits.
    assert!(refused(&[&[RICE], &varints(&[900])[..], &[0], &[0; 100]].concat(), thousand).contains("length"));
    assert!(
        refused(&[&[RICE], &varints(&[u32::MAX.into()])[..], &[0], &[0; 9]].concat(), SEGMENT_ROWS)
            .contains("length")
    );
    refused(&[RICE, 1, 32, 0, 0, 0, 0, 0], thousand);
    // A quotient that reaches past the split, and one without an end.
    refused(&[RICE, 1, 9, 0b11, 0], thousand);
    refused(&[&[RICE, 1, 0][..], &[0xff; 300]].concat(), thousand);
    refused(&[&[RICE, 1, 0][..], &[0xff; 3]].concat(), SEGMENT_ROWS);
    // Bytes behind the last code.
    refused(&[RICE, 1, 0, 0, 0], thousand);
    assert!(read(&mut Cursor::new(&[RICE, 1, 0, 0]), thousand).unwrap().iter().eq([0]));
    // Runs past the end, of 2^64 rows, and more of them than rows.
    refused(&[&[RUNS], &varints(&[1, 990, 10])[..]].concat(), thousand);
    refused(&[&[RUNS], &varints(&[1, 1, u64::MAX])[..]].concat(), thousand);
    refused(&[&[RUNS], &varints(&[1, u64::MAX, 1])[..]].concat(), thousand);
    refused(&[&[RUNS], &varints(&[2, 1, 1])[..]].concat(), thousand);
    refused(&[&[RUNS], &varints(&[1, 1, 1, 1, 1])[..]].concat(), thousand);
    assert!(refused(&[&[RUNS], &varints(&[1_001])[..]].concat(), thousand).contains("does not have"));
    // Raw lengths: more than five bytes a row, more than the frame can hold, and another than it holds.
    for form in [PACKED_GAPS, PACKED_RUNS] {
        assert!(read(&mut Cursor::new(&packed(form, &[1, 2, 1, 3], 4)), thousand).is_ok());
        assert!(refused(&packed(form, &[1; 6_000], 6_000), thousand).contains("impossible length"));
        refused(&packed(form, &[1; 90], 5 << 20), SEGMENT_ROWS);
        refused(&packed(form, &[1, 2, 1, 3], 6), thousand);
        refused(&packed(form, &[1, 2, 1, 3], 2), thousand);
        // The last row is past the split's.
        refused(&packed(form, &[200, 3, 200, 3, 200, 3, 200, 3], 8), thousand);
        refused(&packed(form, &[0x80], 1), thousand);
    }
    // A list that is not in segments, and may be large.
    for form in [RICE, RUNS, PACKED_GAPS, PACKED_RUNS] {
        assert!(refused(&[form, 1, 0, 0], SEGMENT_ROWS + 1).contains("no segments"));
    }
    // Segments in a split that has one, segments of segments, and fewer or more of them than rows.
    let three = 3 * SEGMENT_ROWS;
    let one = [GAPS, 1, 0];
    refused(&[&[SEGMENTS, 1, 3], &one[..]].concat(), SEGMENT_ROWS);
    assert!(read(&mut Cursor::new(&[&[SEGMENTS, 3, 3, 0, 0], &one[..]].concat()), three).is_ok());
    refused(&[&[SEGMENTS, 3, 3, 0, 0], &one[..], &[0]].concat(), three);
    refused(&[&[SEGMENTS, 3, 8, 0, 0, SEGMENTS, 3, 3, 0, 0], &one[..]].concat(), three);
    refused(&[&[SEGMENTS, 2, 3, 0], &one[..]].concat(), three);
    refused(&[SEGMENTS, 3, 3, 0, 0], three);
    let far = [&[GAPS], &varints(&[1, SEGMENT_ROWS.into()])[..]].concat();
    refused(&[&[SEGMENTS, 3, far.len() as u8, 0, 0], &far[..]].concat(), three);
    for form in [0, 8, 255] {
        assert!(refused(&[form, 1, 1], thousand).contains("unknown form"));
    }
}
