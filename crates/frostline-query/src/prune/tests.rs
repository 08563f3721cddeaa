use frostline_base::{ObjectRef, SplitId};
use frostline_split::Mapping;

use super::*;
use crate::filter::{Edge, FieldRef, Scalar};

fn split(times: Option<(i64, i64)>, rows_without_time: u64) -> Arc<SplitEntry> {
    let object = ObjectRef { key: "logs/01/x.parquet".to_owned(), bytes: 100 };
    let id = SplitId::from_random(1);
    Arc::new(SplitEntry {
        id,
        object,
        footer: 10..20,
        rows: 10,
        times,
        rows_without_time,
        unpacked_bytes: None,
        is_merged: false,
    })
}

fn time(start_us: i64, end_us: i64) -> Filter {
    let at = |time| Edge { time_us: Some(time), ..Edge::default() };
    let (lower, upper) = (Bound::Included(at(start_us)), Bound::Excluded(at(end_us)));
    Filter::Range { field: FieldRef::resolve(&Mapping::dynamic(), "@timestamp"), lower, upper }
}

fn check(filter: &Filter, split: &Arc<SplitEntry>, left: Option<Filter>) {
    let targets = targets(std::iter::once((0, split)), filter);
    assert_eq!(targets.first().map(|t| t.filter.as_ref().clone()), left, "{filter:?}");
}

#[test]
fn a_range_that_covers_a_split_disappears_and_one_that_misses_it_prunes() {
    let inside = split(Some((100, 199)), 0);
    check(&time(100, 200), &inside, Some(Filter::All));
    check(&time(100, 199), &inside, Some(time(100, 199)));
    check(&time(200, 300), &inside, None);
    check(&time(0, 100), &inside, None);
    check(&time(150, 150), &inside, None);
    check(&time(0, 300), &split(Some((100, 199)), 1), Some(time(0, 300)));
    check(&time(0, 300), &split(None, 10), None);
    check(&Filter::Not(Box::new(time(0, 300))), &inside, None);
    check(&Filter::Not(Box::new(time(0, 50))), &inside, Some(Filter::All));
}

#[test]
fn compound_filters_keep_only_what_is_open() {
    let entry = split(Some((100, 199)), 0);
    let term = {
        let field = FieldRef::resolve(&Mapping::dynamic(), "a");
        Filter::Equals { field, values: vec![Scalar::Long(1)] }
    };
    check(&Filter::And(vec![time(0, 300), term.clone()]), &entry, Some(term.clone()));
    check(&Filter::And(vec![time(300, 400), term.clone()]), &entry, None);
    let either =
        |minimum| Filter::AtLeast { minimum, parts: vec![time(0, 300), time(300, 400), term.clone()] };
    check(&either(1), &entry, Some(Filter::All));
    check(&either(2), &entry, Some(term.clone()));
    check(&either(3), &entry, None);
}

#[test]
fn bounds_are_half_open_microseconds() {
    let at = |time| Edge { time_us: Some(time), ..Edge::default() };
    assert_eq!(
        bounds(&Bound::Excluded(at(1)), &Bound::Included(at(5))),
        TimeRange { start_us: 2, end_us: 6 }
    );
    assert_eq!(bounds(&Bound::Open, &Bound::Open), TimeRange::ALL);
    assert!(bounds(&Bound::Included(Edge::default()), &Bound::Open).is_empty());
}

#[test]
fn dates_are_between_bounds_where_their_microseconds_are_possible() {
    let edge = |us, nanos| Edge { time_us: Some(us), nanos, ..Edge::default() };
    let edges = [edge(1, None), edge(2, Some(0)), edge(2, Some(500)), edge(2, None), Edge::default()];
    let of = |edge: &Edge| [Bound::Included(edge.clone()), Bound::Excluded(edge.clone())];
    let ends: Vec<Bound> = edges.iter().flat_map(of).chain([Bound::Open]).collect();
    for (lower, upper) in ends.iter().flat_map(|lower| ends.iter().map(move |upper| (lower, upper))) {
        let TimeBounds { possible, certain } = TimeBounds::new(lower, upper);
        for time_us in 0..4 {
            let inside = |nanos: &u16| is_between(Moment { time_us, nanos: *nanos }, lower, upper);
            let found = [0, 499, 500, 501, 999].iter().filter(|nanos| inside(nanos)).count();
            assert!(found == 0 || possible.contains(time_us), "{time_us} {lower:?} {upper:?}");
            assert!(found == 5 || !certain.contains(time_us), "{time_us} {lower:?} {upper:?}");
        }
    }
    let no_date = Bound::Included(Edge::default());
    assert!(TimeBounds::new(&no_date, &Bound::Excluded(edge(2, Some(500)))).possible.is_empty());
}

#[test]
fn splits_of_which_the_times_say_the_same_share_one_filter() {
    let splits: Vec<_> = (0..100).map(|n| split(Some((n * 10, n * 10 + 9)), 0)).collect();
    let values = (0..1_000).map(Scalar::Long).collect();
    let wide = Filter::Equals { field: FieldRef::resolve(&Mapping::dynamic(), "a"), values };
    let filter = and([time(5, 995), wide].into_iter());
    let targets = targets((0..).zip(&splits), &filter);
    assert_eq!(targets.len(), 100);
    let different: std::collections::HashSet<_> = targets.iter().map(|t| Arc::as_ptr(&t.filter)).collect();
    assert_eq!(different.len(), 2);
}
