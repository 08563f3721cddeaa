//! Writes small databases of addresses for tests: MaxMind's format, version 2, with records of 32 bits.

use std::net::IpAddr;

use serde_json::Value;

/// A database of a kind, with the record of each network, such as `10.0.0.0/8`.
pub(crate) fn write(kind: &str, records: &[(&str, Value)]) -> Vec<u8> {
    // Each node has two records: nothing, another node, or where data begins.
    let mut nodes = vec![[None, None]];
    let mut data = Vec::new();
    for (network, record) in records {
        let (address, length) = network.split_once('/').unwrap();
        let (bits, length) = match address.parse().unwrap() {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 96 + length.parse::<usize>().unwrap()),
            IpAddr::V6(address) => (u128::from(address), length.parse().unwrap()),
        };
        let mut at = 0;
        for depth in 0..length {
            let side = usize::from(bits >> (127 - depth) & 1 == 1);
            if depth + 1 == length {
                nodes[at][side] = Some(Next::Data(data.len()));
            } else {
                at = match nodes[at][side] {
                    Some(Next::Node(next)) => next,
                    _ => {
                        let next = nodes.len();
                        nodes.push([None, None]);
                        nodes[at][side] = Some(Next::Node(next));
                        next
                    }
                };
            }
        }
        encode(record, &mut data);
    }
    let count = nodes.len();
    let mut file = Vec::new();
    for side in nodes.iter().flatten() {
        let next = match side {
            None => count,
            Some(Next::Node(node)) => *node,
            Some(Next::Data(offset)) => count + 16 + offset,
        };
        file.extend(u32::try_from(next).unwrap().to_be_bytes());
    }
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    head(MAP, 9, &mut file);
    // Readers want these numbers in these sizes.
    for (name, size, value) in [
        ("binary_format_major_version", U16, 2),
        ("binary_format_minor_version", U16, 0),
        ("build_epoch", U64, 1_700_000_000),
        ("ip_version", U16, 6),
        ("node_count", U32, count as u64),
        ("record_size", U16, 32),
    ] {
        encode(&Value::from(name), &mut file);
        whole(size, value, &mut file);
    }
    for (name, value) in [
        ("database_type", Value::from(kind)),
        ("description", serde_json::json!({ "en": "a test" })),
        ("languages", serde_json::json!(["en"])),
    ] {
        encode(&Value::from(name), &mut file);
        encode(&value, &mut file);
    }
    file
}

const U16: (u8, usize) = (5, 2);
const U32: (u8, usize) = (6, 4);
const MAP: u8 = 7;
const U64: (u8, usize) = (9, 8);

#[derive(Clone, Copy)]
enum Next {
    Node(usize),
    Data(usize),
}

fn head(kind: u8, size: usize, into: &mut Vec<u8>) {
    let (size, more) = match size {
        0..29 => (u8::try_from(size).unwrap(), None),
        29..285 => (29, Some(u8::try_from(size - 29).unwrap())),
        _ => panic!("a test needs no value of {size} bytes"),
    };
    into.push(if kind < 8 { kind << 5 | size } else { size });
    if kind >= 8 {
        into.push(kind - 7);
    }
    into.extend(more);
}

fn whole((kind, size): (u8, usize), value: u64, into: &mut Vec<u8>) {
    head(kind, size, into);
    into.extend(&value.to_be_bytes()[8 - size..]);
}

fn encode(value: &Value, into: &mut Vec<u8>) {
    match value {
        Value::String(text) => {
            head(2, text.len(), into);
            into.extend(text.as_bytes());
        }
        Value::Number(number) if number.is_f64() => {
            head(3, 8, into);
            into.extend(number.as_f64().unwrap().to_be_bytes());
        }
        Value::Number(number) => whole(U32, number.as_u64().unwrap(), into),
        Value::Object(members) => {
            head(MAP, members.len(), into);
            for (name, member) in members {
                encode(&Value::from(name.as_str()), into);
                encode(member, into);
            }
        }
        Value::Array(elements) => {
            head(11, elements.len(), into);
            elements.iter().for_each(|element| encode(element, into));
        }
        Value::Bool(flag) => head(14, usize::from(*flag), into),
        Value::Null => panic!("the format has no null"),
    }
}
