use super::*;
use crate::nesting::DEPTH_MAX;

/// `levels` stored nodes, each the only one below the one before.
fn nested_nodes(levels: usize) -> Vec<u8> {
    // No document; then one node, of keys, with no key, parent, number or count; then those below it.
    let mut bytes = vec![0];
    bytes.extend([1, 0, 0, 0, 0, 0].repeat(levels));
    bytes.push(0);
    bytes
}

/// A stored node with one key: a tuple of a tuple and so on.
fn nested_tuples(levels: usize) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 1];
    bytes.extend([8, 1].repeat(levels));
    // A missing value; no parent, number, count or node below.
    bytes.extend([0, 0, 0, 0, 0]);
    bytes
}

#[test]
fn nodes_are_read_as_deep_as_requests_nest_and_no_deeper() {
    let read = |levels| postcard::from_bytes::<AggState>(&nested_nodes(levels));
    for levels in [0, 1, DEPTH_MAX] {
        let state = read(levels).unwrap();
        assert_eq!(postcard::to_allocvec(&state).unwrap(), nested_nodes(levels));
    }
    for levels in [DEPTH_MAX + 1, 200_000] {
        assert!(read(levels).is_err());
        // What was refused leaves nothing behind on the thread.
        assert!(read(DEPTH_MAX).is_ok());
    }
}

#[test]
fn a_tuple_of_tuples_is_refused() {
    let read = |levels| postcard::from_bytes::<AggState>(&nested_tuples(levels));
    for levels in [0, 1] {
        let state = read(levels).unwrap();
        assert_eq!(postcard::to_allocvec(&state).unwrap(), nested_tuples(levels));
    }
    for levels in [2, 200_000] {
        assert!(read(levels).is_err());
    }
}

#[test]
fn tuples_of_every_kind_are_read_back() {
    use crate::agg::keys::Real;
    let parts = vec![
        Key::Null,
        Key::Boolean(true),
        Key::Long(-7),
        Key::Big(-(1 << 70)),
        Key::Double(Real(0.5)),
        Key::Time(1),
        Key::Text("a".to_owned()),
    ];
    let tuple = Key::Tuple(parts);
    let stored = postcard::to_allocvec(&tuple).unwrap();
    assert_eq!(postcard::from_bytes::<Key>(&stored).unwrap(), tuple);
    let json = serde_json::to_string(&tuple).unwrap();
    assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), tuple);
}
