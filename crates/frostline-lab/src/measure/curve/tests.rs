use super::*;

fn point(iops: f64, p50_ms: f64) -> Point {
    Point { iops, p50_ms, p99_ms: p50_ms * 2.0, ..Point::default() }
}

/// Flat below 3,000 requests a second, 64 outstanding at it.
fn limited() -> Vec<Point> {
    let mut points: Vec<Point> = PARTS.iter().map(|part| point(3000.0 * part, 0.3)).collect();
    points.push(point(3000.0, 64.0 / 3.0));
    points
}

#[test]
fn the_knee_of_a_limit_is_the_last_load_that_it_keeps_up_with() {
    let knee = knee(&limited()).unwrap();
    assert_eq!((knee.iops, knee.p50_ms), (2925.0, 0.3));
    assert!(refined(&limited(), 3000.0).is_empty(), "its neighbours are close enough");
}

#[test]
fn a_slow_point_below_the_knee_does_not_move_it() {
    let mut points = limited();
    points[5].p50_ms = 4.0;
    assert_eq!(knee(&points).unwrap().iops, 2925.0);
}

#[test]
fn scatter_of_the_host_below_the_limit_does_not_move_the_knee() {
    // Medians of a volume of 3,000 requests a second on a host whose CPUs were busy.
    let measured = [
        (300.0, 0.55),
        (751.0, 0.57),
        (1502.0, 0.78),
        (2102.0, 3.02),
        (2403.0, 1.49),
        (2553.0, 2.41),
        (2627.0, 1.66),
        (2704.0, 0.53),
        (2854.0, 2.22),
        (2929.0, 2.9),
        (3005.0, 21.36),
    ];
    let again = [
        (299.0, 0.69),
        (749.0, 0.55),
        (1497.0, 0.5),
        (2095.0, 0.93),
        (2394.0, 0.91),
        (2543.0, 0.73),
        (2614.0, 2.52),
        (2694.0, 0.71),
        (2843.0, 3.68),
        (2916.0, 3.04),
        (2994.0, 21.36),
    ];
    let found = [measured, again].map(|run| knee(&run.map(|(iops, p50_ms)| point(iops, p50_ms))).unwrap());
    assert_eq!(found.map(|knee| (knee.iops, knee.p50_ms)), [(2929.0, 2.9), (2916.0, 3.04)]);
    assert_eq!(rising(&[1.0, 3.0, 2.0, 2.0, 5.0, 4.0]), [1.0, 7.0 / 3.0, 7.0 / 3.0, 7.0 / 3.0, 4.5, 4.5]);
    assert_eq!(rising(&[3.0, 2.0, 1.0]), [2.0; 3]);
    assert!(rising(&[]).is_empty());
}

#[test]
fn a_knee_between_wide_points_is_placed_more_exactly() {
    // Latency rises from half of the limit on.
    let at = |part: f64| point(1000.0 * part, if part <= 0.5 { 1.0 } else { 1.0 + 200.0 * (part - 0.5) });
    let mut points: Vec<Point> = PARTS.iter().map(|part| at(*part)).chain([at(1.0)]).collect();
    for _ in 0..3 {
        points.extend(refined(&points, 1000.0).into_iter().map(at));
    }
    let knee = knee(&points).unwrap();
    assert!((450.0..=560.0).contains(&knee.iops), "{knee:?}");
}

#[test]
fn latency_that_does_not_rise_has_no_knee() {
    let flat: Vec<Point> = PARTS.iter().map(|part| point(1000.0 * part, 0.3)).collect();
    assert_eq!(knee(&flat), None);
    assert!(refined(&flat, 1000.0).is_empty());
    for few in [&[][..], &flat[..2], &[point(f64::NAN, 1.0); 4][..], &[point(1.0, 1.0); 4][..]] {
        assert_eq!(knee(few), None);
    }
}

/// [`limited`] on a host where requests wait for a CPU from `late` of the limit on.
fn on_a_host(late: f64, cpu_pressure: Option<f64>) -> Vec<Point> {
    let seen = |point: &Point| {
        let is_late = point.iops > 3000.0 * late && point.iops < 3000.0;
        Point { p50_ms: if is_late { 16.0 } else { point.p50_ms }, cpu_pressure, ..*point }
    };
    limited().iter().map(seen).collect()
}

#[test]
fn a_knee_that_may_be_the_hosts_is_not_told() {
    // As a busy host recorded it: the median is 16 ms from above 1,500 of 3,000 requests a second on, all of which are done.
    let busy = on_a_host(0.5, Some(94.0));
    assert_eq!(knee(&busy).unwrap().iops, 1500.0);
    assert_eq!(told(&busy).unwrap_err(), Doubt { bends_at_iops: Some(1500.0), cpu_pressure: 94.0 });
    // Nor that there is none.
    let flat: Vec<Point> = busy.iter().map(|point| Point { p50_ms: 9.0, ..*point }).collect();
    assert_eq!(told(&flat).unwrap_err(), Doubt { bends_at_iops: None, cpu_pressure: 94.0 });
}

#[test]
fn a_knee_at_the_limit_or_of_a_quiet_host_is_told() {
    let iops = |points: &[Point]| told(points).unwrap().unwrap().iops;
    assert_eq!(iops(&on_a_host(1.0, Some(97.0))), 2925.0);
    assert_eq!(iops(&on_a_host(0.5, Some(3.0))), 1500.0);
    assert_eq!(iops(&on_a_host(0.5, None)), 1500.0, "a host without pressure information");
    // Busy with other work, for which these requests did not wait; at the limit, fio does not say.
    let mut others = on_a_host(0.5, Some(94.0));
    others[..8].iter_mut().for_each(|point| point.cpu_wait = Some(2.0));
    assert_eq!(iops(&others), 1500.0);
    others[1].cpu_wait = Some(60.0);
    assert_eq!(told(&others).unwrap_err().cpu_pressure, 60.0);
    // Busy only below the knee.
    let mut points = on_a_host(0.5, Some(3.0));
    points.iter_mut().filter(|point| point.iops < 1500.0).for_each(|point| point.cpu_pressure = Some(90.0));
    assert_eq!(iops(&points), 1500.0);
    assert_eq!(told(&[]), Ok(None));
}
