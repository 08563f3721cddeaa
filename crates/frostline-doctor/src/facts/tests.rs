use proptest::prelude::*;

use super::interrupts::Interrupts;
use super::*;

#[test]
fn lists_and_masks_of_cpus() {
    assert_eq!(cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
    assert_eq!(cpu_list("0-4294967295").len(), CPUS_MAX as usize);
    assert_eq!(cpu_list("7-3,x,"), Vec::<u32>::new());
    assert_eq!(cpu_mask("00000001,00000005\n"), [0, 2, 32]);
    assert_eq!(cpu_mask("0"), Vec::<u32>::new());
    assert_eq!(mask_of(&[0, 2, 32]), "00000001,00000005");
    assert_eq!(mask_of(&[]), "00000000");
}

#[test]
fn concentration_is_the_inverse_of_the_sum_of_squares() {
    assert!((effective(&[1.0, 1.0, 1.0, 1.0]) - 4.0).abs() < 1e-12);
    assert!((effective(&[9.0, 0.0]) - 1.0).abs() < 1e-12);
    assert_eq!(effective(&[]), 0.0);
}

#[test]
fn interrupts_with_an_offline_cpu_and_a_reset_counter() {
    let before =
        Interrupts::parse("   CPU0 CPU2\n 9: 10 50 GIC eth0-rx-0\nNMI: 1 2 Non-maskable\nERR: 0\n").unwrap();
    let after = Interrupts::parse("   CPU0 CPU1 CPU2\n 9: 5 1 70 GIC eth0-rx-0\n").unwrap();
    assert_eq!(before.cpus, [0, 2]);
    assert_eq!(before.rows[1].what, "Non-maskable");
    // CPU0 went back from 10 to 5: counted from 0 again. CPU1 was offline.
    assert_eq!(after.since(&before).sum(|_| true), [5.0, 1.0, 20.0]);
    assert_eq!(Interrupts::parse("no header\n"), None);
}

#[test]
fn mount_tables_are_unescaped() {
    let mounts = mounts("# c\n/dev/sda1 /a\\040b ext4 rw,data=writeback,nobarrier 0 0\nshort line\n");
    assert_eq!((mounts.len(), mounts[0].point.as_str()), (1, "/a b"));
    assert!(mounts[0].is_nobarrier());
    assert_eq!(mounts[0].value("data"), Some("writeback"));
}

#[test]
fn mountinfo_tells_mounts_from_file_systems() {
    let text = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n\
                28 27 8:2 /a\\040b /srv/a\\040b ro,nosuid shared:2 master:1 - ext4 /dev/sd\\040b rw,sync\n\
                cut 1 8:2\n29 27 8:3 / / rw\n30 27 8:3 / /x rw - ext4\n";
    let mounts = mountinfo(text);
    assert_eq!(mounts.iter().map(|mount| &*mount.point).collect::<Vec<_>>(), ["/proc", "/", "/srv/a b"]);
    let (mount, info) = (&mounts[2], mounts[2].info.clone().unwrap());
    assert_eq!(
        (&*mount.device, &*mount.kind, mount.options.join(",")),
        ("/dev/sd b", "ext4", "ro,nosuid,sync".to_owned())
    );
    assert_eq!(
        (&*info.number, &*info.root, info.flags[0].as_str(), info.shared[0].as_str()),
        ("8:2", r"/a\040b", "ro", "rw")
    );
}

#[test]
fn mounts_that_are_mounted_over_are_hidden() {
    let check = |table: &[(u64, u64, &str)], expected: &[u64]| {
        let line = |(id, parent, point): &(u64, u64, &str)| {
            format!("{id} {parent} 8:1 / {point} rw - ext4 /dev/sda rw\n")
        };
        let text: String = table.iter().map(line).collect();
        let hidden = mountinfo(&text).into_iter().zip(table).filter(|(mount, _)| !mount.is_visible());
        assert_eq!(hidden.map(|(_, (id, ..))| *id).collect::<Vec<_>>(), expected, "{text}");
    };
    check(&[(2, 1, "/"), (3, 2, "/a"), (4, 2, "/ab"), (5, 3, "/a/b")], &[]);
    // The root of a container, its own parent; and one whose parent is not shown.
    check(&[(1, 1, "/"), (2, 1, "/a"), (9, 8, "/z")], &[]);
    check(&[(2, 1, "/"), (3, 2, "/a"), (4, 3, "/a"), (5, 4, "/a/b")], &[3]);
    check(&[(2, 1, "/"), (3, 2, "/a/b"), (4, 3, "/a/b/c"), (5, 2, "/a")], &[3, 4]);
    check(&[(2, 1, "/"), (3, 2, "/a"), (4, 2, "/")], &[2, 3]);
    // Cycles and chains that no kernel writes.
    check(&[(2, 3, "/a"), (3, 2, "/a")], &[2, 3]);
    let chain: Vec<(u64, u64, &str)> = (2..200).map(|id| (id, id - 1, "/")).collect();
    assert!(
        mountinfo(
            &chain
                .iter()
                .map(|(id, parent, point)| format!("{id} {parent} 8:1 / {point} rw - ext4 a rw\n"))
                .collect::<String>()
        )
        .len()
            == 198
    );
}

#[test]
fn softnet_rows_name_their_cpu() {
    let old = softnet("0000000a 1 2 0\nzz\n0000000b 0 0\n");
    assert_eq!(old.iter().map(|row| (row.cpu, row.packets)).collect::<Vec<_>>(), [(0, 10), (2, 11)]);
    assert_eq!((old[0].dropped, old[0].squeezed), (1, 2));
    let new = softnet("0000000a 0 0 0 0 0 0 0 0 0 0 0 00000007 0 0\n");
    assert_eq!(new[0].cpu, 7);
}

#[test]
fn raid_arrays() {
    let text = "Personalities : [raid0] [raid5]\nmd0 : active raid5 sdc[2] sdb[1](F) sda[0]\n      1 blocks level 5 [3/2] [U_U]\n\
                md1 : active raid0 sdd[0] sde[1]\n      2 blocks 512k chunks\n\nunused devices: <none>\n";
    let arrays = mdstat(text);
    assert_eq!(arrays.len(), 2);
    assert!(arrays[0].degraded && !arrays[1].degraded);
    assert_eq!(arrays[1].members, ["sdd", "sde"]);
}

#[test]
fn services() {
    let settings =
        config::postgres("shared_buffers = 4GB # big\nfsync off\n#x=1\nlog_line_prefix = '%m # '\n");
    let settings: std::collections::BTreeMap<_, _> = settings.into_iter().collect();
    assert_eq!(settings["shared_buffers"], "4GB");
    assert_eq!(settings["fsync"], "off");
    assert_eq!(settings["log_line_prefix"], "%m # ");
    assert_eq!(config::postgres_bytes("16384", 8192.0), Some(134_217_728.0));
    assert_eq!(config::postgres_bytes("1 XB", 1.0), None);
    let yaml =
        config::yaml("bootstrap:\n  memory_lock: true # yes\nnode.roles: [ data ]\npath:\n  data: \"/x\"\n");
    assert_eq!(yaml["bootstrap.memory_lock"], "true");
    assert_eq!(yaml["path.data"], "/x");
    let yaml = config::yaml("node.roles:\n- data\n- \"warm\" # slow\npath:\n  data:\n    - /x\n  logs: /y\n");
    assert_eq!(config::items(&yaml["node.roles"]), ["data", "warm"]);
    assert_eq!((config::items(&yaml["path.data"]), yaml["path.logs"].as_str()), (vec!["/x"], "/y"));
    assert_eq!(config::items("[ data_frozen,\"data_hot\" ]"), ["data_frozen", "data_hot"]);
    let heap = config::heap("-Xms1g\n#-Xmx9g\n11-:-Xmx2048m\n".lines()).unwrap();
    assert_eq!(heap, config::Heap { initial: Some(1_073_741_824.0), most: Some(2_147_483_648.0) });
}

#[test]
fn ebs_counters_as_text_and_json() {
    let text = "EBS Volume Performance Exceeded (us)\n  IOPS: 0\n  Throughput: 7\n\
                EC2 Instance EBS Performance Exceeded (us)\n  IOPS: 5\n  Throughput: 6\nQueue Length: 3\n";
    assert_eq!(ebs_exceeded(text), Some((7.0, 11.0)));
    let json =
        "\"ebs_volume_performance_exceeded_iops\": 1,\n\"ec2_instance_ebs_performance_exceeded_iops\": 2,";
    assert_eq!(ebs_exceeded(json), Some((1.0, 2.0)));
    assert_eq!(ebs_exceeded("nothing"), None);
}

#[test]
fn ethtool_tables() {
    let text = "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nCombined:\t8\n\
                Current hardware settings:\nRX:\t\tn/a\nCombined:\t2\n";
    assert_eq!(ethtool_pair(text, "Combined"), Some((8, 2)));
    assert_eq!(ethtool_pair(text, "RX"), None);
    assert_eq!(counters("NIC statistics:\n   rx_no_buffer: 7\n")["rx_no_buffer"], 7.0);
}

#[test]
fn machines() {
    let xml = "<domain><name>a</name><vcpu placement='static'>8</vcpu><devices><interface type='bridge'><model type='virtio'/>\
               <driver name='vhost' queues='4'/></interface><disk device='disk'><driver cache='none' io='native'/>\
               <target dev='vda' bus='virtio'/></disk></devices></domain>";
    let machine = vm::libvirt(xml).unwrap();
    assert_eq!((machine.vcpus, machine.interfaces[0].queues), (8, 4));
    assert_eq!((machine.disks[0].bus.as_str(), machine.disks[0].io.as_str()), ("virtio", "native"));
    for bad in ["", "<domain", "<domain><name>", "<x/>", "<domain></x>"] {
        assert!(vm::libvirt(bad).is_err(), "{bad}");
    }
    let flavor =
        vm::openstack(r#"{"name":"f","vcpus":8,"ram":1024,"properties":"hw:cpu_policy='dedicated', a='b'"}"#)
            .unwrap();
    assert_eq!(flavor.get("hw:cpu_policy"), Some("dedicated"));
    assert!(vm::openstack(r#"{"name":"i","disk_format":"raw","hw_disk_bus":"ide"}"#).unwrap().is_image);
    assert!(vm::openstack("[]").is_err() && vm::openstack("{}").is_err());
}

proptest! {
    /// Any text gives a value: no parser panics, none loops.
    #[test]
    fn parsers_are_total(text in "(?s)[ -~\n\t:0-9a-fé\u{202e}]{0,400}") {
        let _ = (cpu_list(&text), cpu_mask(&text), rows(&text), paired_lines(&text), softnet(&text));
        let _ = (pressure(&text, "some"), diskstats(&text), mounts(&text), chosen(&text), version(&text));
        let _ = mountinfo(&text.replace('é', " - "));
        let _ = (ethtool_pair(&text, "RX"), counters(&text), mdstat(&text), ebs_exceeded(&text));
        let _ = (config::postgres(&text), config::yaml(&text), config::heap(text.lines()), vm::libvirt(&text), vm::openstack(&text));
        let table = Interrupts::parse(&format!("CPU0 CPU1 CPU9\n{text}"));
        let table = table.unwrap_or_default();
        prop_assert_eq!(table.since(&table).sum(|_| true).iter().sum::<f64>(), 0.0);
    }
}
