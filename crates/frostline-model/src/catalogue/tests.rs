use super::*;

#[test]
fn what_is_built_in_is_whole() {
    for name in Catalogue::built_in_names() {
        let catalogue = Catalogue::built_in(name).unwrap();
        assert_eq!(catalogue.name, name);
        assert_eq!(catalogue.classes.keys().collect::<Vec<_>>(), ["gp2", "gp3", "io2", "sc1", "st1"]);
        for region in ["ap-northeast-2", "us-east-1"] {
            catalogue.region(region).unwrap();
        }
        for size in ["medium", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge"] {
            catalogue.instance(&format!("r7g.{size}")).unwrap();
        }
        for source in catalogue.sources.keys() {
            let used = |constant: &Constant| constant.source == *source;
            let in_classes =
                catalogue.classes.values().any(|class| class.constants().any(|(_, constant)| used(constant)));
            let prices = || catalogue.regions.values().flat_map(BTreeMap::values);
            let in_prices = prices().any(|price| price.constants().any(|(_, constant)| used(constant)));
            let in_instances =
                catalogue.instances.values().any(|instance| instance.constants().any(|(_, c)| used(c)));
            let in_snapshots = catalogue
                .snapshots
                .values()
                .any(|price| price.constants().any(|(_, constant)| used(constant)));
            let in_local = catalogue
                .local
                .as_ref()
                .is_some_and(|local| [&local.source, &local.price_source].contains(&source));
            let is_used = in_classes || in_prices || in_instances || in_snapshots || in_local;
            assert!(is_used, "{name}: nothing is from {source}");
        }
    }
    assert_eq!(Catalogue::latest().name, "ebs-2026-09");
}

#[test]
fn what_changed_in_2025_is_labelled() {
    let gp3 = |name: &str| Catalogue::built_in(name).unwrap().classes["gp3"].clone();
    assert_eq!(gp3("ebs-2023").iops_max.value, 16_000.0);
    assert_eq!(gp3("ebs-2023").iops_max.evidence, Evidence::Documented);
    assert_eq!(gp3("ebs-2025-09").iops_max.value, 80_000.0);
    assert_eq!(gp3("ebs-2025-09").iops_max.evidence, Evidence::Secondary);
}

#[test]
fn an_unknown_price_is_absent() {
    let catalogue = Catalogue::built_in("ebs-2025-09").unwrap();
    assert!(catalogue.region("us-east-1").unwrap()["io2"].iops.is_none());
    assert!(!Catalogue::latest().region("ap-northeast-2").unwrap().contains_key("io2"));
}

#[test]
fn machines_of_one_table_are_types_like_the_others() {
    let catalogue = Catalogue::latest();
    // As many as docs/lab.md says.
    assert_eq!(catalogue.instances.len(), 598);
    let large = catalogue.instance("m7i.large").unwrap();
    let value = |constant: &Option<Constant>| constant.as_ref().unwrap().value;
    assert_eq!((value(&large.base_mb_per_s), value(&large.max_mb_per_s)), (81.25, 1250.0));
    assert_eq!((value(&large.base_iops), value(&large.max_iops)), (3600.0, 40_000.0));
    assert_eq!(value(&large.burst_minutes_per_day), 30.0);
    assert!(catalogue.instance("m7i.24xlarge").unwrap().burst_minutes_per_day.is_none());
    // What the documentation of 2023 says of r7g is what the newer table says.
    let before = Catalogue::built_in("ebs-2023").unwrap();
    for size in ["medium", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge"] {
        let of = |catalogue: &Catalogue| {
            let kind = catalogue.instance(&format!("r7g.{size}")).unwrap();
            kind.constants()
                .map(|(name, constant)| (name, (constant.value * 10.0).round()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&before), of(&catalogue), "{size}");
    }
    let unknown = catalogue.instance("m7i.lrage").unwrap_err().to_string();
    assert!(unknown.contains("did you mean `m7i.large`?"), "{unknown}");
}

#[test]
fn mistakes_in_tables_are_named_with_their_place() {
    let text = BUILT_IN[2].1;
    let refused = |from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "the change must change something");
        Catalogue::parse(&changed, "mine.toml").unwrap_err().to_string()
    };
    let row = text.lines().position(|line| line.starts_with("\"m7i.large\"")).unwrap() + 1;
    assert_eq!(
        refused("\"m7i.large\" = [81.25, 1250,", "\"m7i.large\" = [81.25, 50,"),
        format!(
            "mine.toml: line {row}, column 15: m7i.large: this is [base MB/s, maximum MB/s, base IOPS, maximum IOPS], all above 0"
        )
    );
    assert!(refused("\"i4i.large\" = [1, 468", "\"i4i.large\" = [1, nan").contains("read IOPS, write IOPS"));
    assert!(refused("\"i4i.large\" = 0.172", "\"i4i.lrage\" = 0.172").contains("did you mean `i4i.large`?"));
    assert!(refused("\"i4i.large\" = 0.172", "\"i4i.large\" = -1").contains("a price is a number above 0"));
    assert!(refused("source = \"described\"", "source = \"descrbed\"").contains("did you mean `described`?"));
}

fn refused(change: impl Fn(&str) -> String) -> String {
    let (_, text) = BUILT_IN[0];
    let changed = change(text);
    assert_ne!(changed, text, "the change must change something");
    Catalogue::parse(&changed, "mine.toml").unwrap_err().to_string()
}

fn line_of(what: &str) -> usize {
    BUILT_IN[0].1.lines().position(|line| line.contains(what)).unwrap() + 1
}

#[test]
fn a_mistake_is_named_with_its_place() {
    let line = line_of("burst_iops = ");
    assert_eq!(
        refused(|text| text.replace("burst_iops = ", "brust_iops = ")),
        format!("mine.toml: line {line}, column 1: unknown field `brust_iops`; did you mean `burst_iops`?")
    );
    let line = line_of("bucket_ios = ");
    assert_eq!(
        refused(|text| text.replace(
            "bucket_ios = { value = 5400000, source = \"gp\"",
            "bucket_ios = { value = 5400000, source = \"gp1\""
        )),
        format!(
            "mine.toml: line {line}, column 24: `bucket_ios` names the source `gp1`, which [sources] does not have; did you mean `gp`?"
        )
    );
    assert!(
        refused(|text| text.replace("value = 5400000", "value = -1")).contains("must be a number from 0 up")
    );
    assert!(
        refused(|text| text.replace("value = 5400000", "value = 0"))
            .contains("`bucket_ios` of gp2 must be above 0")
    );
    assert!(
        refused(|text| text.replace("value = 5400000", "value = nan")).contains("must be a number from 0 up")
    );
    assert!(
        refused(|text| text.replace("\"iops-credits\"", "\"iops-credit\""))
            .contains("did you mean `iops-credits`?")
    );
    assert!(refused(|text| text.replace("value = 0.99,", "value = 99,")).contains("is a part of 1"));
    assert!(
        refused(|text| text.replace("[regions.us-east-1.st1]", "[regions.us-east-1.st2]"))
            .contains("prices `st2`")
    );
    assert!(refused(|text| text.replace("base_iops_min = ", "#")).contains("gp2 needs `base_iops_min`"));
    assert!(
        refused(|text| text.replace("base_mb_per_s = { value = 39.38", "base_mb_per_s = { value = 3900"))
            .contains("not above")
    );
    assert!(refused(|text| format!("{text}\n[[")).contains("line "));
}

proptest::proptest! {
    #[test]
    fn no_text_is_a_panic(cut in 0..12_000_usize, put in "[\\[\\]={}\"a-z0-9.\n é-]{0,6}") {
        let text = BUILT_IN[0].1;
        let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let _ = Catalogue::parse(&format!("{}{put}{}", &text[..cut], &text[cut..]), "mine.toml");
    }
}

#[test]
fn a_mistyped_name_is_answered_with_the_nearest() {
    let catalogue = Catalogue::latest();
    assert!(catalogue.class("ts1").unwrap_err().to_string().ends_with("did you mean `st1`?"));
    assert!(
        catalogue
            .region("ap-northeast2")
            .unwrap_err()
            .to_string()
            .ends_with("did you mean `ap-northeast-2`?")
    );
    assert!(catalogue.instance("r7g.xlrge").unwrap_err().to_string().contains("did you mean `r7g.xlarge`?"));
    let unlike = catalogue.instance("r7g-whatever-that-is").unwrap_err().to_string();
    assert!(unlike.contains("; the nearest of ") && unlike.contains(": r7g."), "{unlike}");
    assert_eq!(unlike.matches(", ").count(), SHOWN_MAX - 1, "{unlike}");
    assert!(Catalogue::named("ebs-2024").unwrap_err().to_string().contains("did you mean `ebs-2023`?"));
}

#[test]
fn the_example_of_a_users_own_cloud_works() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/own-cloud.toml");
    let catalogue = Catalogue::named(path.to_str().unwrap()).unwrap();
    let spec = crate::VolumeSpec::parse(&catalogue, "disk:1TiB,iops=2000").unwrap();
    let limits = spec.limits(&catalogue).unwrap();
    assert_eq!((limits.base, limits.mib_per_s), (2000.0, 100.0));
    assert_eq!(catalogue.class("bucketed").unwrap().model, Kind::ThroughputCredits);
    assert!(catalogue.region("here").unwrap()["disk"].iops.is_some());
}
