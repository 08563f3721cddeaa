use super::*;

/// A sketch in its bucket form, as it is stored.
fn buckets() -> Buckets {
    let mut sketch = Sketch::default();
    (0..=VALUES_MAX).for_each(|value| sketch.add(value as f64 - 10.0, Accuracy::DEFAULT));
    match sketch {
        Sketch::Buckets(buckets) => buckets,
        Sketch::Values(_) => unreachable!("there are more values than are kept"),
    }
}

#[test]
fn what_was_counted_is_sound() {
    assert!(Sketch::default().is_sound());
    assert!(Sketch::Values(vec![f64::NAN]).is_sound(), "values are sorted by a total order");
    assert!(Sketch::Buckets(buckets()).is_sound());
}

#[test]
fn a_stored_sketch_that_nobody_counted_is_not() {
    type Change = fn(&mut Buckets);
    let changes: [(&str, Change); 7] = [
        ("no values", |b| *b = Buckets::default()),
        ("a value more than in its buckets", |b| b.count += 1),
        ("a value less", |b| b.zeros += 1),
        ("ends out of order", |b| std::mem::swap(&mut b.min, &mut b.max)),
        ("an end that is no number", |b| b.min = f64::NAN),
        ("counts whose sum overflows", |b| *b.positive.entry(1).or_default() = u64::MAX),
        ("more values than any index has", |b| {
            b.count = COUNT_MAX + 1;
            b.zeros += COUNT_MAX + 1 - (VALUES_MAX as u64 + 1);
        }),
    ];
    for (what, change) in changes {
        let mut changed = buckets();
        change(&mut changed);
        assert!(!Sketch::Buckets(changed).is_sound(), "{what}");
    }
}
