use super::*;

fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
    let system = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = system.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    system
}

fn share(cpus: impl IntoIterator<Item = u32>, node: Option<u32>) -> Share {
    Share { cpus: cpus.into_iter().collect(), node }
}

#[test]
fn guests_get_nodes_where_there_are_enough() {
    let system = system(&[
        ("cpu/online", "0-39\n"),
        ("node/online", "0-2\n"),
        ("node/node0/cpulist", "0-9,20-29\n"),
        ("node/node1/cpulist", "10-19,30-39\n"),
        ("node/node2/cpulist", "\n"),
    ]);
    let two = [share((0..10).chain(20..30), Some(0)), share((10..20).chain(30..40), Some(1))];
    assert_eq!(shares_of(system.path(), 2), two);
    let four = shares_of(system.path(), 4);
    assert_eq!(four[0], share(0..10, Some(0)));
    assert_eq!(four[3], share(30..40, Some(1)));
}

#[test]
fn one_node_is_divided() {
    let system = system(&[("cpu/online", "0-1\n"), ("node/online", "0\n"), ("node/node0/cpulist", "0-1\n")]);
    assert_eq!(shares_of(system.path(), 1), [share(0..2, Some(0))]);
    assert_eq!(shares_of(system.path(), 2), [share([0], Some(0)), share([1], Some(0))]);
    let three = [share([0], Some(0)), share([0], Some(0)), share([1], Some(0))];
    assert_eq!(shares_of(system.path(), 3), three);
}

#[test]
fn a_kernel_without_nodes_has_cpus() {
    let system = system(&[("cpu/online", "0-3\n")]);
    assert_eq!(shares_of(system.path(), 2), [share([0, 1], None), share([2, 3], None)]);
    let nothing = tempfile::tempdir().unwrap();
    assert_eq!(shares_of(nothing.path(), 1), [share([0], None)]);
}
