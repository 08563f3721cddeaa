use frostline_model::VolumeSpec;
use frostline_model::catalogue::Catalogue;
use proptest::prelude::*;

use super::*;

fn members(count: usize, chunk_bytes: u64) -> Members {
    let catalogue = Catalogue::latest();
    let spec = VolumeSpec::parse(&catalogue, "st1:2TiB").expect("a volume");
    let model = Model::new(&catalogue, &spec).expect("a model");
    Members::new(&model, Some(Stripe { count, chunk_bytes }), 0.0).expect("members")
}

fn read(offset: u64, bytes: u64) -> Io {
    Io { write: false, offset, bytes }
}

/// Requests of `kib` KiB that a saturated device serves in a second, at strided offsets that never follow
/// each other.
fn per_second(mut members: Members, kib: u64) -> f64 {
    let requests = 4000;
    let done = (0..requests).map(|n| members.admit(0.0, read((n * 7919 % 100_003) << 20, kib << 10)));
    f64::from(requests as u32) / done.fold(0.0, f64::max)
}

#[test]
fn four_volumes_serve_four_times_as_much_unless_chunks_split_requests() {
    let one = per_second(members(1, 1 << 20), 128);
    let ratio = |chunk_kib: u64| per_second(members(4, chunk_kib << 10), 128) / one;
    assert!((one - 500.0).abs() < 10.0, "{one}");
    assert!((ratio(1024) - 4.0).abs() < 0.1, "{}", ratio(1024));
    // Each half of 64 KiB is charged as much as the whole.
    assert!(ratio(64) < 2.1, "{}", ratio(64));
}

#[test]
fn the_account_is_that_of_all_members() {
    let mut members = members(4, 64 << 10);
    members.admit(0.0, read(0, 256 << 10));
    let account = members.account(1.0);
    assert_eq!((account.requests, account.units, account.bytes), (4, 4, 256 << 10));
    assert_eq!(account.bucket, 4.0 * 2_097_152.0);
}

#[test]
fn impossible_stripes_are_invalid() {
    let catalogue = Catalogue::latest();
    let spec = VolumeSpec::parse(&catalogue, "st1:2TiB").expect("a volume");
    let model = Model::new(&catalogue, &spec).expect("a model");
    for (count, chunk_bytes) in [(0, 512), (4, 0), (4, 100)] {
        assert!(Members::new(&model, Some(Stripe { count, chunk_bytes }), 0.0).is_err());
    }
}

proptest! {
    /// Against the plain way: sector by sector.
    #[test]
    fn parts_are_the_sectors_of_each_member(
        offset in 0u64..200, sectors in 1u64..100, count in 1u64..6, chunk in 1u64..20,
    ) {
        let mut plain = vec![Vec::new(); count as usize];
        for sector in offset..offset + sectors {
            let (row, member) = (sector / (chunk * count), sector / chunk % count);
            plain[member as usize].push(row * chunk + sector % chunk);
        }
        for (member, sectors_of) in plain.iter().enumerate() {
            let part = part(read(offset * 512, sectors * 512), member as u64, count, chunk * 512);
            let expected = sectors_of.first().map(|first| read(first * 512, sectors_of.len() as u64 * 512));
            prop_assert_eq!(part, expected);
        }
    }
}
