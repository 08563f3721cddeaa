use super::*;

fn check(text: &str, expected: &[(u32, u32, Option<u64>)]) {
    let wanted: Wanted = text.parse().expect(text);
    let found: Vec<_> = wanted.groups.iter().map(|g| (g.vcpus, g.count, g.memory_mib)).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn size_comes_first_then_count_then_memory() {
    check("20x2", &[(20, 2, None)]);
    check("20x2,4x6", &[(20, 2, None), (4, 6, None)]);
    check("20x2@180GiB, 4X1@512M,8", &[(20, 2, Some(180 * 1024)), (4, 1, Some(512)), (8, 1, None)]);
}

#[test]
fn what_is_printed_is_read() {
    for text in ["20x2", "4x6@16GiB", "1x1@1500MiB"] {
        assert_eq!(text.parse::<Group>().expect(text).to_string(), text);
    }
}

#[test]
fn nonsense_is_refused() {
    let texts = ["", ",", "x", "x2", "20x", "0x2", "20x0", "20x2@", "20x2@0M", "20x2@5GB", "20x2@5", "-1x2"];
    let large = ["5000x1", "1x2000", "20x600,20x600", "20x2@99999999999999999999G", "20x2@17592186044416T"];
    for text in texts.into_iter().chain(large) {
        assert!(text.parse::<Wanted>().is_err(), "{text:?} was accepted");
    }
    let many = vec!["1x1"; GROUPS_MAX + 1].join(",");
    assert!(many.parse::<Wanted>().is_err());
}

#[test]
fn a_reserve_is_auto_cores_or_cpus() {
    assert_eq!("auto".parse::<Reserve>().expect("auto"), Reserve::Auto);
    assert_eq!("2".parse::<Reserve>().expect("cores"), Reserve::Cores(2));
    assert_eq!("cpus:20-21,0".parse::<Reserve>().expect("list"), Reserve::Cpus(vec![0, 20, 21]));
    for text in ["", "all", "cpus:", "cpus:3-1", "cpus:0-4000000000", "-1"] {
        assert!(text.parse::<Reserve>().is_err(), "{text:?} was accepted");
    }
}
