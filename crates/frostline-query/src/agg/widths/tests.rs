use proptest::prelude::*;

use super::*;

/// The same by looking at all neighbours again for each step.
fn model(cells: &[Mass], wanted: usize) -> Vec<usize> {
    let mut groups: Vec<(Mass, usize)> = cells.iter().map(|mass| (*mass, 1)).collect();
    while groups.len() > wanted.max(1) {
        let by = |at: &usize| Real(groups[at + 1].0.mean - groups[*at].0.mean);
        let Some(at) = (0..groups.len() - 1).min_by_key(by) else { break };
        let (mass, cells) = groups.remove(at + 1);
        groups[at] = (groups[at].0.with(mass), groups[at].1 + cells);
    }
    groups.iter().enumerate().flat_map(|(number, (_, cells))| vec![number; *cells]).collect()
}

proptest! {
    #[test]
    fn the_nearest_neighbours_are_joined_first(
        mut values in prop::collection::vec((-50i32..50, 1u64..5), 0..60),
        wanted in 1usize..12,
    ) {
        values.sort();
        values.dedup_by_key(|(value, _)| *value);
        let cells: Vec<Mass> =
            values.iter().map(|(value, count)| Mass { count: *count, mean: f64::from(*value) }).collect();
        let numbers = joined(&cells, wanted);
        prop_assert_eq!(&numbers, &model(&cells, wanted));
        prop_assert_eq!(numbers.last().map_or(0, |last| last + 1), cells.len().min(wanted));
    }

    #[test]
    fn cells_are_in_the_order_of_their_numbers_and_nest(a: f64, b: f64, from in 0..LEVELS, to in 0..LEVELS) {
        prop_assume!(a.is_finite() && b.is_finite());
        let (a, b) = if a <= b { (a, b) } else { (b, a) };
        prop_assert!(cell(a, from) <= cell(b, from));
        prop_assert_eq!(cell(a, 0) == cell(b, 0), a == b);
        let (from, to) = (from.min(to), from.max(to));
        prop_assert_eq!(coarser(cell(a, from), from, to), cell(a, to));
    }
}

#[test]
fn the_coarsest_cells_are_few_enough() {
    let (low, high) = (cell(f64::MIN, LEVELS - 1), cell(f64::MAX, LEVELS - 1));
    assert!((high - low) as usize <= CELLS_MAX);
}
