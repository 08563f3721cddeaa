use serde_json::{Value, json};

use super::Network;
use crate::tests::{check, fails, refused};

/// The id of a connection as each of the two ends sees it.
fn id_of(source: (&str, u16), destination: (&str, u16), transport: &str, ends: (&str, &str)) -> String {
    let processor = json!({ "community_id": { (format!("{}", ends.0)): "p", (format!("{}", ends.1)): "q", "target_field": "id" } });
    let before = json!({
        "source": { "ip": source.0 }, "destination": { "ip": destination.0 }, "network": { "transport": transport },
        "p": source.1, "q": destination.1,
    });
    let (_, document) = crate::tests::run_all(json!({ "processors": [processor] }), before);
    crate::tests::shown(&document)["id"].as_str().unwrap_or_default().to_owned()
}

/// The ids are those of the specification's own examples.
#[test]
fn flows_have_community_ids() {
    let ports = ("source_port", "destination_port");
    let (web, client) = (("66.35.250.204", 80), ("128.232.110.120", 34855));
    assert_eq!(id_of(web, client, "tcp", ports), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
    assert_eq!(id_of(client, web, "TCP", ports), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
    assert_eq!(
        id_of(("8.8.8.8", 53), ("192.168.1.52", 54585), "17", ports),
        "1:d/FP5EW3wiY1vCndhwleRRKHowQ="
    );
    assert_eq!(
        id_of(("192.168.170.8", 7), ("192.168.170.56", 80), "sctp", ports),
        "1:jQgCxbku+pNGw8WPbEc/TS/uTpQ="
    );
    let icmp = ("icmp_type", "icmp_code");
    let (host, router) = ("192.168.0.89", "192.168.0.1");
    assert_eq!(id_of((host, 8), (router, 0), "icmp", icmp), "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=");
    assert_eq!(id_of((router, 0), (host, 0), "icmp", icmp), "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=");
    assert_eq!(
        id_of(("fe80::260:97ff:fe07:69ea", 134), ("ff02::1", 0), "ipv6-icmp", icmp),
        "1:pkvHqCL88/tg1k4cPigmZXUtL00="
    );
}

#[test]
fn a_community_id_needs_both_ends() {
    let nothing = json!({ "source": { "ip": "1.1.1.1" } });
    check(json!([{ "community_id": {} }]), nothing.clone(), nothing.clone());
    fails(
        json!({ "community_id": { "ignore_missing": false } }),
        nothing.clone(),
        "ip address in the field [destination.ip] is null or empty",
    );
    let broken = json!({ "source": { "ip": "1.1.1" }, "destination": { "ip": "1.1.1.2" } });
    fails(json!({ "community_id": {} }), broken, "'1.1.1' is not an IP string literal");
    // OpenSearch requires the addresses, and what is missing fails.
    let own = json!({ "community_id": { "source_ip_field": "a", "destination_ip_field": "b", "protocol_field": "t" } });
    fails(own.clone(), json!({ "a": "1.1.1.1" }), "ip address in the field [b] is null or empty");
    fails(own, json!({ "a": "1.1.1.1", "b": "1.1.1.2", "t": "carrier" }), "[carrier] to transport protocol");
    refused(
        json!({ "processors": [{ "community_id": { "destination_ip_field": "b" } }] }),
        "processors[0].community_id",
        "[source_ip_field] required property is missing",
    );
    refused(
        json!({ "processors": [{ "community_id": { "seed": 65536 } }] }),
        "processors[0].community_id",
        "[seed] is a number",
    );
}

#[test]
fn connections_have_a_direction() {
    let direction = |networks: Value, source: &str, destination: &str| {
        let processor = json!({ "network_direction": { "internal_networks": networks } });
        let before = json!({ "source": { "ip": source }, "destination": { "ip": destination } });
        let (_, document) = crate::tests::run_all(json!({ "processors": [processor] }), before);
        crate::tests::shown(&document)["network"]["direction"].as_str().unwrap_or_default().to_owned()
    };
    let ours = json!(["private", "203.0.113.0/24"]);
    assert_eq!(direction(ours.clone(), "10.1.1.1", "203.0.113.7"), "internal");
    assert_eq!(direction(ours.clone(), "10.1.1.1", "8.8.8.8"), "outbound");
    assert_eq!(direction(ours.clone(), "8.8.8.8", "fd00::1"), "inbound");
    assert_eq!(direction(ours, "8.8.8.8", "203.0.114.7"), "external");
    let before =
        json!({ "source": { "ip": "::1" }, "destination": { "ip": "1.1.1.1" }, "ours": ["loopback"] });
    let mut after = before.clone();
    after["network"] = json!({ "direction": "outbound" });
    check(json!([{ "network_direction": { "internal_networks_field": "ours" } }]), before, after);
    for wrong in ["10.0.0.0/33", "10.0.0.0", "::/x", "home"] {
        let processor = json!({ "network_direction": { "internal_networks": [wrong] } });
        refused(json!({ "processors": [processor] }), "processors[0].network_direction", "named network");
    }
}

#[test]
fn networks_have_names() {
    for (name, inside, outside) in [
        ("loopback", "127.8.8.8", "128.0.0.1"),
        ("unspecified", "::", "::1"),
        ("multicast", "224.1.1.1", "223.1.1.1"),
        ("link_local_multicast", "224.0.0.9", "224.0.1.9"),
        ("link_local_multicast", "ff02::1", "ff01::1"),
        ("interface_local_multicast", "ff01::1", "ff02::1"),
        ("link_local_unicast", "fe80::1", "fec0::1"),
        ("unicast", "10.0.0.1", "255.255.255.255"),
        ("public", "8.8.8.8", "169.254.1.1"),
        ("private", "172.31.0.1", "172.32.0.1"),
        ("0.0.0.0/0", "9.9.9.9", "::1"),
        ("2001:db8::/32", "2001:db8:1::1", "2001:db9::1"),
        ("::1/128", "::1", "::2"),
    ] {
        let network = Network::parse(name).unwrap();
        assert!(network.has(inside.parse().unwrap()), "{name} {inside}");
        assert!(!network.has(outside.parse().unwrap()), "{name} {outside}");
    }
}
