use super::*;

fn pool() -> Kept {
    Kept { name: "fs0".into(), stack: Stack::Zfs, volumes: vec!["fs0-0".into(), "fs0-1".into()] }
}

fn data(aged: bool) -> Data {
    Data { record_kib: 32, compression: "lz4".into(), compressible_percent: 0, aged }
}

#[test]
fn a_pool_is_on_disks_that_do_not_rotate_and_aged_data_is_written_record_by_record() {
    let make = pool().make().unwrap();
    assert!(make.contains("zpool create -f -o ashift=12"), "{make}");
    assert!(make.contains("/dev/disk/by-id/virtio-fs0-0 /dev/disk/by-id/virtio-fs0-1\n"), "{make}");
    assert!(make.find("queue/rotational").unwrap() < make.find("zpool create").unwrap(), "{make}");
    let (fresh, aged) = (pool().lay_out(&data(false)), pool().lay_out(&data(true)));
    assert!(fresh.contains("--file_service_type=sequential") && !fresh.contains("randwrite"), "{fresh}");
    assert!(aged.contains("--rw=randwrite") && aged.contains("--bs=32k"), "{aged}");
    assert!(!aged.contains("--runtime"), "every record once: {aged}");
    let (create, set) =
        (aged.find("compression=off").unwrap(), aged.find("zfs set compression=lz4").unwrap());
    assert!(create < set, "{aged}");
    assert!(make.find("zfs_dirty_data_max").unwrap() < make.find("zpool create").unwrap(), "{make}");
    assert_ne!(data(true).name(), data(false).name());
}

#[test]
fn ext4_is_on_one_disk() {
    let ext4 = |count: usize| Kept { stack: Stack::Ext4, volumes: vec!["a".into(); count], ..pool() }.make();
    assert!(ext4(1).unwrap().contains("mkfs.ext4"));
    let refused = ext4(2).unwrap_err();
    assert!(refused.what().contains("ext4 on 2 disks"), "{refused}");
}

#[test]
fn every_process_uses_every_file_and_finds_nothing_cached() {
    let ready = pool().ready();
    assert!(ready.starts_with("zpool sync fs0\n") && ready.contains("drop_caches"), "{ready}");
    let sample = pool().sample(&data(true), 16, 20, 1);
    assert!(
        sample.contains("--filename=f.0:f.1:") && sample.contains("f.15 --file_service_type=random"),
        "{sample}"
    );
}

#[test]
fn a_sample_begins_after_a_transaction_group() {
    let script = pool().sample(&data(true), 512, 20, 7);
    for part in
        ["--ramp_time=5", "--runtime=20", "--bs=512k", "--randseed=7", "--directory=/mnt/fs0/r32-lz4-c0-aged"]
    {
        assert!(script.contains(part), "{part}: {script}");
    }
}

#[test]
fn seconds_of_a_log_count_requests_also_where_there_are_none() {
    // Two requests in each second but the fifth, in which nothing is done.
    let log: String =
        [0, 1, 2, 3, 5, 6, 7].iter().map(|s| format!("{}\n{}\n", s * 1000 + 900, s * 1000 + 20)).collect();
    assert_eq!(seconds_of_log(&log), [2.0, 2.0, 0.0, 2.0]);
    assert_eq!(seconds_of_log("fio: something else\n"), Vec::<f64>::new());
    assert_eq!(seconds_of_log("1\n99999999999\n"), Vec::<f64>::new());
}

#[test]
fn the_interval_is_of_stretches() {
    assert_eq!(interval_of_means(&[5.0; 20]), Some((5.0, 5.0)));
    assert_eq!(interval_of_means(&[5.0; 11]), None);
    // Means of 4, 6, 4 and 6: 5 more or less 3.182 x 1.1547 / 2.
    let values: Vec<f64> = (0..20).map(|at| if at / 5 % 2 == 0 { 4.0 } else { 6.0 }).collect();
    let (low, high) = interval_of_means(&values).unwrap();
    assert!((low - 3.163).abs() < 0.001 && (high - 6.837).abs() < 0.001, "{low} {high}");
}

#[test]
fn busy_is_what_was_not_idle() {
    let before = "arc x\ncpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1\n";
    let after = "cpu  150 0 120 820 10 0 0 0 0 0\n";
    // 70 of 100 ticks were work.
    assert!((busy_part(before, after).unwrap() - 0.7).abs() < 1e-9);
    assert_eq!(busy_part(before, before), None);
}

#[test]
fn what_a_sample_prints_is_read_part_by_part() {
    let marks = |idle: u32, hits: u32| format!("cpu  100 0 0 {idle} 0 0 0 0 0 0\nhits 5{hits}\nmisses 70\n");
    let text = format!(
        "{}+++\n{}+++\n{{}}\n+++\n{}+++\nrecordsize\t32K\n",
        marks(0, 0),
        marks(100, 0).replace("misses 70", "misses 100").replace("hits 50", "hits 60"),
        "1000\n2000\n3000\n3500\n4000\n5000\n"
    );
    let said = Said::parse(&text).unwrap();
    assert_eq!((said.by_second, said.busy, said.arc_hit_rate), (vec![2.0], 0.0, Some(0.25)));
    assert_eq!(said.described, "recordsize\t32K\n");
    assert!(Said::parse("+++\n+++\n").is_err());
}
