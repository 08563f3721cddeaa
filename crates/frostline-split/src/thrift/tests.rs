use frostline_base::ErrorKind;

use super::*;

static LEAF: Shape = Shape { name: "Leaf", fields: &[(1, Type::Int), (2, Type::Binary)], open: true };
static ROOT: Shape = Shape {
    name: "Root",
    fields: &[
        (1, Type::Int),
        (2, Type::List(&Type::Struct(&LEAF))),
        (3, Type::Bool),
        (20, Type::Double),
        (21, Type::Byte),
        (22, Type::List(&Type::Int)),
    ],
    open: true,
};

fn seen(bytes: &[u8]) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    walk(bytes, &ROOT, &mut |thing| {
        seen.push(thing);
        Ok(())
    })?;
    Ok(seen)
}

#[track_caller]
fn refused(bytes: &[u8]) {
    assert_eq!(seen(bytes).unwrap_err().kind(), ErrorKind::Corrupt, "{bytes:x?}");
}

#[test]
fn known_fields_are_seen_and_what_follows_is_left() {
    let bytes = [
        &[0x15, 0x05][..],                                          // 1: -3
        &[0x19, 0x2c, 0x15, 0x02, 0x18, 0x02, b'a', b'b', 0, 0x00], // 2: two leaves, the second without fields
        &[0x11],                                                    // 3: true
        &[0x07, 0x28, 0, 0, 0, 0, 0, 0, 0, 0],                      // 20, written out: a double
        &[0x13, 0xff],                                              // 21: a byte
        &[0x19, 0xf5, 0x02, 0x02, 0x04],                            // 22: two integers, counted at length
        &[0x00],
    ];
    let bytes = bytes.concat();
    let expected = [
        Seen::Int("Root", 1, -3),
        Seen::Int("Leaf", 1, 1),
        Seen::End("Leaf"),
        Seen::End("Leaf"),
        Seen::End("Root"),
    ];
    assert_eq!(seen(&bytes).unwrap(), expected);
    let followed = [&bytes[..], b"rest"].concat();
    assert_eq!(walk(&followed, &ROOT, &mut |_| Ok(())).unwrap(), b"rest");
    for end in 0..bytes.len() {
        refused(&bytes[..end]);
    }
}

#[test]
fn what_is_unknown_is_skipped_within_bounds() {
    let skipped: [&[u8]; 10] = [
        &[0x71],
        &[0x73, 0xff],
        &[0x76, 0xff, 0x01],
        &[0x77, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0x78, 0x03, 1, 2, 3],
        &[0x79, 0x25, 0x02, 0x04],
        &[0x79, 0x00],
        &[0x7a, 0x18, 0x01, b'x'],
        &[0x7b, 0x02, 0x85, 0x01, b'k', 0x02, 0x01, b'l', 0x04],
        &[0x7c, 0x1c, 0x11, 0x00, 0x00],
    ];
    for field in skipped {
        let bytes = [field, &[0x00]].concat();
        assert_eq!(seen(&bytes).unwrap(), [Seen::End("Root")], "{field:x?}");
        refused(&bytes[..bytes.len() - 1]);
    }
}

#[test]
fn lists_of_nothing_and_fields_of_another_type_are_refused() {
    let billions = [0xff, 0xff, 0xff, 0xff, 0x07];
    for head in [&[0x79, 0xf1][..], &[0x79, 0xf2], &[0x7a, 0xf1], &[0x79, 0xf3], &[0x19, 0xfc], &[0x0b, 0x7e]]
    {
        refused(&[head, &billions, &[0x11; 9]].concat());
    }
    // A list of booleans at all, and maps to and from them.
    refused(&[0x79, 0x11, 0x01, 0x00]);
    refused(&[0x7b, 0x01, 0x15, 0x01, 0x02, 0x00]);
    refused(&[0x7b, 0x01, 0x51, 0x02, 0x01, 0x00]);
    // Known fields: bytes for an integer, integers for structures, a set for a list.
    refused(&[0x18, 0x01, 0x00, 0x00]);
    refused(&[0x19, 0x15, 0x02, 0x00]);
    refused(&[0x1a, 0x1c, 0x00, 0x00]);
    // No such type, a number beyond 16 bits, a number of more than 64.
    refused(&[0x7e, 0x00]);
    refused(&[0x05, 0xff, 0xff, 0xff, 0x0f, 0x02, 0x00]);
    refused(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x00]);
    // Nested without end.
    refused(&[0x7c; 100_000]);
    refused(&[[0x79, 0x19]; 100_000].concat());
}
