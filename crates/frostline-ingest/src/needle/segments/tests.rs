use super::*;

#[test]
fn segments_of_like_size_are_merged() {
    for (splits, merged) in [
        (&[][..], None),
        (&[1], None),
        (&[1, 1], Some(0..2)),
        (&[1, 2], Some(0..2)),
        (&[1, 3], None),
        (&[1, 1, 3], Some(0..3)),
        (&[1, 5, 6, 40], Some(1..3)),
        (&[400, 500], Some(0..2)),
        (&[500, 525], None),
        (&[100, 200, 500, 700], Some(0..3)),
    ] {
        assert_eq!(of_like_size(splits), merged, "{splits:?}");
    }
    assert_eq!(of_like_size(&[1; 1_000]), Some(0..INPUTS_MAX));
    assert_eq!(of_small(&[1; 31]), None);
    assert_eq!(of_small(&[2; 16]), Some(0..16));
    assert_eq!(of_small(&[&[1; 40][..], &[32, 64]].concat()), Some(0..40));
}

/// 20,000 ingests of one split each, or of many: few segments at any time, and each split is written few times.
#[test]
fn few_segments_are_written_few_times() {
    for (ingests, splits, segments_max, written_max) in [(20_000, 1, 30, 10.0), (200, 100, 30, 8.0)] {
        let (mut segments, mut written) = (Vec::new(), 0);
        for _ in 0..ingests {
            segments.extend(vec![1; splits]);
            segments.sort_unstable();
            // What is full is not merged any more.
            while let Some(group) = of_like_size(&segments) {
                let merged: usize = segments.drain(group).sum();
                written += merged;
                segments.insert(segments.partition_point(|splits| *splits < merged), merged);
            }
        }
        let total: usize = segments.iter().sum();
        let least = total.div_ceil(SPLITS_MAX);
        assert!(segments.len() <= 2 * least + segments_max, "{} of {least}", segments.len());
        let times = written as f64 / total as f64;
        assert!(times <= written_max, "{times}");
        println!(
            "{ingests} x {splits}: {} segments ({least} at least), written {times:.1} times",
            segments.len()
        );
    }
}
