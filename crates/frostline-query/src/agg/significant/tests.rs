use super::*;

const SETS: Sets = Sets { is_superset: true, negatives: false };

#[track_caller]
fn check(heuristic: Heuristic, front: (u64, u64), back: (u64, u64), expected: f64) {
    let share = |(with, all)| Share { with, all };
    let score = heuristic.score(share(front), share(back));
    assert!((score - expected).abs() < 1e-12, "{heuristic:?}: {score} instead of {expected}");
}

#[test]
fn jlh_is_the_change_times_the_factor() {
    check(Heuristic::Jlh, (10, 100), (20, 1_000), (0.1 - 0.02) * (0.1 / 0.02));
    check(Heuristic::Jlh, (2, 100), (20, 1_000), 0.0);
    check(Heuristic::Jlh, (1, 100), (20, 1_000), 0.0);
    check(Heuristic::Jlh, (10, 100), (0, 1_000), (0.1 - 0.001) * (0.1 / 0.001));
    check(Heuristic::Jlh, (0, 0), (0, 0), 0.0);
}

/// The textbook's example: 49 documents have both, 27,652 the term alone, 141 the class alone, 774,106 neither.
#[test]
fn mutual_information_and_chi_square_are_those_of_the_textbook() {
    let (front, back) = ((49, 190), (27_701, 801_948));
    let score = |heuristic: Heuristic| {
        heuristic.score(Share { with: front.0, all: front.1 }, Share { with: back.0, all: back.1 })
    };
    assert!((score(Heuristic::MutualInformation(SETS)) - 0.000_110_5).abs() < 5e-8);
    assert!((score(Heuristic::ChiSquare(SETS)) - 284.0).abs() < 0.5);
    // The same documents, where the background does not have those of the foreground.
    let apart = Sets { is_superset: false, ..SETS };
    check(Heuristic::ChiSquare(apart), front, (27_652, 801_758), score(Heuristic::ChiSquare(SETS)));
}

#[test]
fn what_is_rarer_in_the_foreground_counts_only_if_asked_for() {
    let negatives = Sets { negatives: true, ..SETS };
    for heuristic in [Heuristic::MutualInformation, Heuristic::ChiSquare] {
        check(heuristic(SETS), (1, 100), (500, 1_000), 0.0);
        let score = heuristic(negatives).score(Share { with: 1, all: 100 }, Share { with: 500, all: 1_000 });
        assert!(score > 0.0);
    }
}

#[test]
fn the_distance_is_normalized_and_inverted() {
    let gnd = Heuristic::Distance { is_superset: true };
    check(gnd, (10, 10), (10, 1_000), 1.0);
    check(gnd, (0, 10), (10, 1_000), 0.0);
    let (term, class, both, all) = (20_f64.ln(), 100_f64.ln(), 10_f64.ln(), 1_000_f64.ln());
    check(gnd, (10, 100), (20, 1_000), (-(class - both) / (all - term)).exp());
    check(Heuristic::Percentage, (10, 100), (20, 1_000), 0.5);
    check(Heuristic::Percentage, (10, 100), (0, 1_000), 0.0);
}

/// No counts, however odd, make a score that is no number.
#[test]
fn every_score_is_a_number() {
    let counts = [0, 1, 7, u64::MAX];
    let apart = Sets { is_superset: false, negatives: true };
    for heuristic in [
        Heuristic::Jlh,
        Heuristic::MutualInformation(SETS),
        Heuristic::MutualInformation(apart),
        Heuristic::ChiSquare(SETS),
        Heuristic::ChiSquare(apart),
        Heuristic::Distance { is_superset: true },
        Heuristic::Distance { is_superset: false },
        Heuristic::Percentage,
    ] {
        for (with, all) in counts.into_iter().flat_map(|with| counts.map(|all| (with, all))) {
            for (back_with, back_all) in counts.into_iter().flat_map(|with| counts.map(|all| (with, all))) {
                let back = Share { with: back_with, all: back_all };
                assert!(heuristic.score(Share { with, all }, back).is_finite());
            }
        }
    }
}
