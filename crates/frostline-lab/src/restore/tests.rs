use super::*;

const TRIAL: &str = "work=scan way=mount scale=140 mib_per_s=28.4 first_touch_ms=35 clients=4 seconds=60";

#[test]
fn a_trial_is_read_from_its_words() {
    let trial = Trial::parse(TRIAL).unwrap();
    assert_eq!((trial.way, trial.work, trial.scale, trial.seconds), (Way::Mount, Work::Scan, 140, 60));
    assert_eq!((trial.mib_per_s, trial.first_touch_ms, trial.clients), (28.4, 35.0, 4));
    for (from, to, says) in [
        ("way=mount", "way=mounted", "`mounted`"),
        ("work=scan", "work=", "no work"),
        ("scale=140", "", "scale=… is missing"),
        ("scale=140", "scale=0", "above 0"),
        ("scale=140", "scale=0.5", "at least 1"),
        ("seconds=60", "seconds=NaN", "`NaN`"),
        ("seconds=60", "seconds=60 rate=1", "`rate`"),
        ("clients=4", "clients", "`clients` has no value"),
    ] {
        let refused = Trial::parse(&TRIAL.replace(from, to)).unwrap_err();
        assert!(refused.to_string().contains(says), "{to}: {refused}");
    }
}

#[test]
fn every_cell_of_the_study_is_a_trial() {
    let study = crate::study::Study::find("restore").unwrap();
    for cell in &study.cells {
        let workload = &study.workloads[&study.groups[cell.group].workload];
        let mut values = cell.levels.clone();
        values.insert("seconds".to_owned(), "60".to_owned());
        let trial = crate::study::fill(&workload.arguments, &values).unwrap();
        Trial::parse(&trial).unwrap();
    }
}

#[test]
fn the_user_is_read_from_the_list_of_users() {
    let user = PostgresUser::of("root:x:0:0::/root:/bin/sh\npostgres:x:101:103:PostgreSQL:/var:/bin/bash\n");
    assert_eq!(format!("{user:?}"), "Some(PostgresUser { user: 101, group: 103 })");
    assert!(PostgresUser::of("postgres-exporter:x:1:1::/:/bin/sh\n").is_none());
    assert!(PostgresUser::of("postgres:x:one:1::/:/bin/sh\n").is_none());
}
