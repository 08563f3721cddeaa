use std::io::{Cursor, Read, Write};

use super::{Compression, decompress};

fn unpack(packed: Vec<u8>) -> (std::io::Result<Vec<u8>>, Compression) {
    let (mut reader, compression) = decompress(Cursor::new(packed)).unwrap();
    let mut unpacked = Vec::new();
    (reader.read_to_end(&mut unpacked).map(|_| unpacked), compression)
}

fn text() -> Vec<u8> {
    (0..20_000).flat_map(|n| format!("line {n} of a log\n").into_bytes()).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
    packer.window_log(27).unwrap();
    packer.long_distance_matching(true).unwrap();
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

fn xz(text: &[u8]) -> Vec<u8> {
    let mut packer = liblzma::write::XzEncoder::new(Vec::new(), 1);
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

fn bzip2(text: &[u8]) -> Vec<u8> {
    let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

type Pack = fn(&[u8]) -> Vec<u8>;
const PACKERS: [(Pack, Compression); 4] = [
    (gzip, Compression::Gzip),
    (zstd, Compression::Zstd),
    (xz, Compression::Xz),
    (bzip2, Compression::Bzip2),
];

#[test]
fn every_kind_with_several_members() {
    let text = text();
    let (first, second) = text.split_at(text.len() / 3);
    for (pack, kind) in PACKERS {
        let (unpacked, found) = unpack([pack(first), pack(second)].concat());
        assert_eq!(found, kind);
        assert!(unpacked.unwrap() == text, "{kind:?}");
    }
}

#[test]
fn cut_or_flipped_input_is_an_error() {
    let text = text();
    for (pack, kind) in PACKERS {
        let mut packed = pack(&text);
        assert!(unpack(packed[..packed.len() / 2].to_vec()).0.is_err(), "{kind:?} cut");
        let middle = packed.len() / 2;
        packed[middle] ^= 0x55;
        let (unpacked, _) = unpack(packed);
        assert!(unpacked.is_err() || kind == Compression::Zstd, "{kind:?} flipped");
    }
}

#[test]
fn what_is_not_packed_comes_as_it_is() {
    for text in [&b""[..], b"B", b"BZh", b"{\"a\":1}\n", b"PK\x03\x04"] {
        let (unpacked, kind) = unpack(text.to_vec());
        assert_eq!((unpacked.unwrap().as_slice(), kind), (text, Compression::None));
    }
}
