use super::*;

/// A sketch in its bucket form, as it is stored.
fn buckets() -> Buckets {
    let mut sketch = Sketch::default();
    (0..=VALUES_MAX).for_each(|value| sketch.add(value as f64 - 10.0, Accuracy::DEFAULT));
    match sketch {
        Sketch::Buckets(buckets) => buckets,
        Sketch::Values(_) | Sketch::Steps(_) => unreachable!("there are more values than are kept"),
    }
}

#[test]
fn what_was_counted_is_sound() {
    assert!(Sketch::default().is_sound(Accuracy::DEFAULT));
    assert!(Sketch::Values(vec![f64::NAN]).is_sound(Accuracy::DEFAULT), "values are sorted by a total order");
    assert!(Sketch::Buckets(buckets()).is_sound(Accuracy::DEFAULT));
}

#[test]
fn a_stored_sketch_that_nobody_counted_is_not() {
    type Change = fn(&mut Buckets);
    let changes: [(&str, Change); 7] = [
        ("no values", |b| *b = Buckets::default()),
        ("a value more than in its buckets", |b| b.ends.count += 1),
        ("a value less", |b| b.zeros += 1),
        ("ends out of order", |b| std::mem::swap(&mut b.ends.min, &mut b.ends.max)),
        ("an end that is no number", |b| b.ends.min = f64::NAN),
        ("counts whose sum overflows", |b| *b.positive.entry(1).or_default() = u64::MAX),
        ("more values than any index has", |b| {
            b.ends.count = COUNT_MAX + 1;
            b.zeros += COUNT_MAX + 1 - (VALUES_MAX as u64 + 1);
        }),
    ];
    for (what, change) in changes {
        let mut changed = buckets();
        change(&mut changed);
        assert!(!Sketch::Buckets(changed).is_sound(Accuracy::DEFAULT), "{what}");
    }
}

/// Two days of times, one each second, in ms.
fn times() -> Vec<f64> {
    (0..172_800).map(|second| 1_431_857_100_000.0 + f64::from(second) * 1_000.0).collect()
}

fn steps(values: &[f64]) -> Sketch {
    let mut sketch = Sketch::default();
    values.iter().for_each(|value| sketch.add(*value, Accuracy::Steps));
    sketch
}

#[test]
fn percentiles_of_times_are_within_half_a_step() {
    let times = times();
    let sketch = steps(&times);
    let Some(Off::Absolute(off)) = sketch.off(Accuracy::Steps) else { unreachable!("it is in steps") };
    let range = times[times.len() - 1] - times[0];
    assert!(off < range / STEPS_MAX as f64, "{off}");
    for percent in 0..=100 {
        let at = (f64::from(percent) / 100.0 * (times.len() - 1) as f64).round() as usize;
        let value = sketch.percentile(f64::from(percent), Accuracy::Steps).unwrap();
        assert!((value - times[at]).abs() <= off, "{percent} %: {value} for {}", times[at]);
        let rank = sketch.rank(times[at], Accuracy::Steps).unwrap();
        assert!((rank - f64::from(percent)).abs() < 0.1, "{rank} for {percent} %");
    }
    assert_eq!(sketch.rank(times[0] - 1.0, Accuracy::Steps), Some(0.0));
}

#[test]
fn steps_depend_on_the_values_alone() {
    let mut values: Vec<f64> = times().into_iter().step_by(7).collect();
    values.extend([-5.5, -0.25, 0.0, 1e13, 1e13]);
    let whole = steps(&values);
    assert!(whole.is_sound(Accuracy::Steps) && !whole.is_sound(Accuracy::DEFAULT));
    for parts in [2, 3, 30] {
        let part = |number| values.iter().skip(number).step_by(parts).copied().collect::<Vec<_>>();
        let mut merged = Sketch::default();
        for number in (0..parts).rev() {
            merged.merge(steps(&part(number)), Accuracy::Steps);
        }
        assert_eq!(merged, whole, "{parts}");
    }
    let (near, far) = values.split_at(values.len() - 5);
    let mut merged = steps(far);
    merged.merge(steps(near), Accuracy::Steps);
    assert_eq!(merged, whole);
}

#[test]
fn stored_steps_that_nobody_counted_are_not_sound() {
    type Change = fn(&mut Steps);
    let changes: [(&str, Change); 4] = [
        ("a value more than in its steps", |s| s.ends.count += 1),
        ("steps without end", |s| s.level = LEVEL_MAX + 1),
        ("ends out of order", |s| std::mem::swap(&mut s.ends.min, &mut s.ends.max)),
        ("more steps than are kept", |s| s.steps.extend((0..=STEPS_MAX as i64).map(|i| (-i, 0)))),
    ];
    for (what, change) in changes {
        let Sketch::Steps(mut changed) = steps(&times()) else { unreachable!("it is in steps") };
        change(&mut changed);
        assert!(!Sketch::Steps(changed).is_sound(Accuracy::Steps), "{what}");
    }
}
