//! Processors of connections between two addresses: `community_id`, `network_direction`.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use frostline_base::Result;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::document::{Document, Done, Path, shown, text_of, unfit};
use crate::options::{Field, Options};
use crate::pipeline::{Processor, Run};
use crate::value::Value;

/// Reads an option that names a field, by either of its names, else by its default.
fn field(options: &mut Options<'_>, names: [&str; 2], default: &str) -> Result<Field> {
    for name in names {
        if let Some(field) = options.field(name)? {
            return Ok(field);
        }
    }
    Field::parse(default).map_err(|what| options.wrong(names[0], what))
}

/// The text or number at a field; none where it is missing, null or empty.
fn given(document: &Document, path: &Path) -> Option<String> {
    let found = document.find(path)?;
    let is_scalar = matches!(found, Value::String(_) | Value::Number(_));
    Some(text_of(found)).filter(|text| is_scalar && !text.is_empty())
}

/// The address at a field. None where it is missing, if that is allowed.
fn address(document: &Document, field: &Field, ignore_missing: bool) -> Done<Option<IpAddr>> {
    let path = field.path(document)?;
    match given(document, &path) {
        None if ignore_missing => Ok(None),
        None => Err(unfit(format!("ip address in the field [{path}] is null or empty"))),
        Some(text) => match text.parse() {
            Ok(address) => Ok(Some(address)),
            Err(_) => Err(unfit(format!("'{}' is not an IP string literal.", shown(&text)))),
        },
    }
}

#[derive(Debug)]
struct CommunityId {
    source: Field,
    source_port: Field,
    destination: Field,
    destination_port: Field,
    number: Field,
    transport: Field,
    icmp_type: Field,
    icmp_code: Field,
    target: Field,
    seed: u16,
    ignore_missing: bool,
}

/// Reads the processor of Elasticsearch, or that of OpenSearch, whose options end in `_field`.
pub(crate) fn community_id(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let [has_source, has_destination] =
        ["source_ip_field", "destination_ip_field"].map(|name| options.has(name));
    let is_opensearch = has_source || has_destination;
    if is_opensearch {
        options.required("source_ip_field", has_source.then_some(()))?;
        options.required("destination_ip_field", has_destination.then_some(()))?;
    }
    let target = if is_opensearch { "community_id" } else { "network.community_id" };
    let seed = match options.take("seed") {
        None => 0,
        Some(seed) => match seed.as_i64().and_then(|seed| u16::try_from(seed).ok()) {
            Some(seed) => seed,
            None => return Err(options.wrong("seed", "is a number from 0 to 65535")),
        },
    };
    Ok(Box::new(CommunityId {
        source: field(options, ["source_ip", "source_ip_field"], "source.ip")?,
        source_port: field(options, ["source_port", "source_port_field"], "source.port")?,
        destination: field(options, ["destination_ip", "destination_ip_field"], "destination.ip")?,
        destination_port: field(options, ["destination_port", "destination_port_field"], "destination.port")?,
        number: field(options, ["iana_number", "iana_protocol_number_field"], "network.iana_number")?,
        transport: field(options, ["transport", "protocol_field"], "network.transport")?,
        icmp_type: field(options, ["icmp_type", "icmp_type_field"], "icmp.type")?,
        icmp_code: field(options, ["icmp_code", "icmp_code_field"], "icmp.code")?,
        target: field(options, ["target_field", "target_field"], target)?,
        seed,
        ignore_missing: options.flag("ignore_missing", !is_opensearch)?,
    }))
}

/// Protocols by their names in `network.transport`.
const TRANSPORTS: &[(&str, u8)] = &[
    ("eigrp", 88),
    ("gre", 47),
    ("icmp", 1),
    ("icmp-v6", 58),
    ("icmpv6", 58),
    ("igmp", 2),
    ("ipv6-icmp", 58),
    ("ospf", 89),
    ("pim", 103),
    ("sctp", 132),
    ("tcp", 6),
    ("udp", 17),
];

const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// Types of ICMP messages with those of their answers.
const ICMP_ANSWERS: &[(u8, u16, u16)] = &[
    (ICMP, 8, 0),
    (ICMP, 9, 10),
    (ICMP, 13, 14),
    (ICMP, 15, 16),
    (ICMP, 17, 18),
    (ICMP_V6, 128, 129),
    (ICMP_V6, 130, 131),
    (ICMP_V6, 133, 134),
    (ICMP_V6, 135, 136),
    (ICMP_V6, 139, 140),
    (ICMP_V6, 144, 145),
];

impl CommunityId {
    /// The number of a protocol: none where it is missing and that is allowed.
    fn protocol(&self, document: &Document) -> Done<Option<u8>> {
        let (number, name) = (self.number.path(document)?, self.transport.path(document)?);
        let text = given(document, &number).or_else(|| given(document, &name));
        let Some(text) = text else {
            return match self.ignore_missing {
                true => Ok(None),
                false => Err(unfit(format!("neither [{number}] nor [{name}] says the protocol"))),
            };
        };
        let lower = text.to_lowercase();
        let known = TRANSPORTS.iter().find(|(name, _)| *name == lower).map(|(_, number)| *number);
        match known.or_else(|| text.parse().ok()) {
            Some(protocol) => Ok(Some(protocol)),
            None => Err(unfit(format!("could not convert string [{}] to transport protocol", shown(&text)))),
        }
    }

    /// A port, or what of a message stands for it.
    fn port(&self, document: &Document, field: &Field) -> Done<Option<u16>> {
        let path = field.path(document)?;
        match given(document, &path) {
            None if self.ignore_missing => Ok(None),
            None => Err(unfit(format!("the field [{path}] is null or empty"))),
            Some(text) => match text.parse() {
                Ok(port) => Ok(Some(port)),
                Err(_) => Err(unfit(format!("[{path}] is no port: [{}]", shown(&text)))),
            },
        }
    }

    /// The ports of the two ends, and whether the connection has a direction all the same.
    fn ports(&self, document: &Document, protocol: u8) -> Done<Option<(u16, u16, bool)>> {
        let (first, second) = match protocol {
            ICMP | ICMP_V6 => (&self.icmp_type, &self.icmp_code),
            _ => (&self.source_port, &self.destination_port),
        };
        let Some(first) = self.port(document, first)? else { return Ok(None) };
        if let ICMP | ICMP_V6 = protocol {
            let answer = ICMP_ANSWERS.iter().find_map(|(of, asks, answers)| match *of == protocol {
                true if *asks == first => Some(*answers),
                true if *answers == first => Some(*asks),
                _ => None,
            });
            return Ok(match answer {
                Some(answer) => Some((first, answer, false)),
                None => Some((first, self.port(document, second)?.unwrap_or(0), true)),
            });
        }
        Ok(self.port(document, second)?.map(|second| (first, second, false)))
    }
}

impl Processor for CommunityId {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let Some(source) = address(document, &self.source, self.ignore_missing)? else { return Ok(()) };
        let Some(destination) = address(document, &self.destination, self.ignore_missing)? else {
            return Ok(());
        };
        let Some(protocol) = self.protocol(document)? else { return Ok(()) };
        let has_ports = matches!(protocol, 6 | 17 | 132 | ICMP | ICMP_V6);
        let ports = match has_ports {
            false => None,
            true => match self.ports(document, protocol)? {
                None => return Ok(()),
                ports => ports,
            },
        };
        let id = flow(self.seed, source, destination, protocol, ports);
        document.put(&*self.target.path(document)?, Value::String(id))
    }
}

/// The Community ID of a flow, in its version 1. Both directions have the same.
fn flow(
    seed: u16,
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    ports: Option<(u16, u16, bool)>,
) -> String {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let (first, second, is_one_way) = ports.unwrap_or_default();
    let mut ends = [(octets(source), first), (octets(destination), second)];
    if !is_one_way && ends[1] < ends[0] {
        ends.swap(0, 1);
    }
    let mut bytes = seed.to_be_bytes().to_vec();
    ends.iter().for_each(|(address, _)| bytes.extend_from_slice(address));
    bytes.extend([protocol, 0]);
    if ports.is_some() {
        ends.iter().for_each(|(_, port)| bytes.extend(port.to_be_bytes()));
    }
    format!("1:{}", STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &bytes)))
}

#[derive(Debug)]
struct NetworkDirection {
    source: Field,
    destination: Field,
    target: Field,
    internal: Internal,
    ignore_missing: bool,
}

/// Which networks are our own.
#[derive(Debug)]
enum Internal {
    Networks(Vec<Network>),
    Field(Field),
}

#[derive(Debug)]
enum Network {
    Named(fn(IpAddr) -> bool),
    Block(IpAddr, u32),
}

pub(crate) fn network_direction(options: &mut Options<'_>) -> Result<Box<dyn Processor>> {
    let internal = match (options.texts("internal_networks")?, options.field("internal_networks_field")?) {
        (Some(names), None) => {
            let networks = names.iter().map(|name| Network::parse(name));
            let networks: std::result::Result<Vec<Network>, String> = networks.collect();
            Internal::Networks(networks.map_err(|what| options.wrong("internal_networks", what))?)
        }
        (None, Some(field)) => Internal::Field(field),
        (None, None) => return Err(options.wrong("internal_networks", "required property is missing")),
        (Some(_), Some(_)) => {
            return Err(options.wrong("internal_networks_field", "cannot be set with [internal_networks]"));
        }
    };
    Ok(Box::new(NetworkDirection {
        source: field(options, ["source_ip", "source_ip"], "source.ip")?,
        destination: field(options, ["destination_ip", "destination_ip"], "destination.ip")?,
        target: field(options, ["target_field", "target_field"], "network.direction")?,
        internal,
        ignore_missing: options.flag("ignore_missing", true)?,
    }))
}

impl Processor for NetworkDirection {
    fn run(&self, document: &mut Document, _: &mut Run<'_>) -> Done {
        let Some(source) = address(document, &self.source, self.ignore_missing)? else { return Ok(()) };
        let Some(destination) = address(document, &self.destination, self.ignore_missing)? else {
            return Ok(());
        };
        let read;
        let networks = match &self.internal {
            Internal::Networks(networks) => networks,
            Internal::Field(field) => {
                let path = field.path(document)?;
                let Some(found) = document.need(&path, self.ignore_missing)? else { return Ok(()) };
                let names = match found {
                    Value::Array(names) => names.as_slice(),
                    name => std::slice::from_ref(name),
                };
                let networks = names.iter().map(|name| Network::parse(&text_of(name)).map_err(unfit));
                read = networks.collect::<Done<Vec<Network>>>()?;
                &read
            }
        };
        let is_ours = |address: IpAddr| networks.iter().any(|network| network.has(address));
        let direction = match (is_ours(source), is_ours(destination)) {
            (true, true) => "internal",
            (true, false) => "outbound",
            (false, true) => "inbound",
            (false, false) => "external",
        };
        document.put(&*self.target.path(document)?, direction.into())
    }
}

impl Network {
    fn parse(text: &str) -> std::result::Result<Network, String> {
        let named: fn(IpAddr) -> bool = match text {
            "global_unicast" | "unicast" => is_unicast,
            "interface_local_multicast" => |address| of_scope(address, 1),
            "link_local_multicast" => |address| match address {
                IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
                v6 => of_scope(v6, 2),
            },
            "link_local_unicast" => is_link_local,
            "loopback" => |address| address.is_loopback(),
            "multicast" => |address| address.is_multicast(),
            "private" => is_private,
            "public" => |address| {
                let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
                !is_special && !is_private(address) && !is_link_local(address)
            },
            "unspecified" => |address| address.is_unspecified(),
            block => {
                let unknown =
                    || format!("'{}' is neither a block of addresses nor a named network", shown(block));
                let (address, length) = block.split_once('/').ok_or_else(unknown)?;
                let address: IpAddr = address.parse().map_err(|_| unknown())?;
                let length: u32 = length.parse().map_err(|_| unknown())?;
                let bits = if address.is_ipv4() { 32 } else { 128 };
                return if length <= bits { Ok(Network::Block(address, length)) } else { Err(unknown()) };
            }
        };
        Ok(Network::Named(named))
    }

    fn has(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Network::Named(is_in), address) => is_in(address),
            (Network::Block(IpAddr::V4(block), length), IpAddr::V4(address)) => {
                let differ = block.to_bits() ^ address.to_bits();
                differ.checked_shr(32 - length).unwrap_or(0) == 0
            }
            (Network::Block(IpAddr::V6(block), length), IpAddr::V6(address)) => {
                let differ = block.to_bits() ^ address.to_bits();
                differ.checked_shr(128 - length).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

fn is_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    let is_local = address.is_unspecified() || address.is_loopback() || is_link_local(address);
    !is_broadcast && !is_local && !address.is_multicast()
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Whether it is a multicast address of a scope of IPv6.
fn of_scope(address: IpAddr, scope: u8) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.octets()[0] == 0xff && v6.octets()[1] & 0xf == scope)
}

#[cfg(test)]
mod tests;
