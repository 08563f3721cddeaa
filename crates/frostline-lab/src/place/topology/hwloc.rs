//! Reads the XML that hwloc 2 and 3 export (`lstopo --of xml`), <https://www.open-mpi.org/projects/hwloc/>.
//!
//! The tree is read as a stream, objects know their ancestors from a stack. Nothing in the file is trusted:
//! depth, set sizes and counts are bounded, entities other than XML's own five are refused, and a
//! contradiction is `Invalid`, never a panic.

use std::collections::BTreeMap;
use std::rc::Rc;

use frostline_base::{Error, Result};
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::{Core, Device, DeviceKind, FORMAT, NODES_MAX, Node, Topology};

/// hwloc's trees are about 15 deep, nested PCI bridges a few more.
const DEPTH_MAX: usize = 128;
/// CPUs in a set; Linux stops at 8192.
const CPUS_MAX: usize = 1 << 16;

/// The topology in `xml`.
pub(super) fn parse(xml: &[u8]) -> Result<Topology> {
    let text = std::str::from_utf8(xml).map_err(|e| Error::invalid("the XML is not UTF-8").with_source(e))?;
    let mut reader = Reader::from_str(text);
    let mut tree = Tree::default();
    loop {
        let at = reader.buffer_position();
        match reader.read_event().map_err(|e| broken(at, e))? {
            Event::Start(tag) => tree.open(&tag).map_err(|e| e.with("byte", at))?,
            Event::Empty(tag) => {
                tree.open(&tag).map_err(|e| e.with("byte", at))?;
                tree.close();
            }
            Event::End(_) => tree.close(),
            Event::Text(text) => tree.text(&text.decode().map_err(|e| broken(at, e))?)?,
            Event::Eof if !tree.open.is_empty() => {
                return Err(Error::invalid("the XML ends in the middle").with("byte", at));
            }
            Event::Eof => return tree.finish(),
            // The document type only names hwloc's; entities that it might define are never expanded.
            Event::Decl(_) | Event::DocType(_) | Event::Comment(_) | Event::PI(_) | Event::CData(_) => {}
            Event::GeneralRef(_) => {}
        }
    }
}

fn broken(at: u64, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::invalid("the XML is damaged").with("byte", at).with_source(error)
}

/// What has been read so far.
#[derive(Default)]
struct Tree {
    /// Major version of the format; 0 before the root.
    major: u32,
    open: Vec<Open>,
    cores: u32,
    l3s: u32,
    pus: Vec<Pu>,
    numa: Vec<Numa>,
    devices: Vec<(String, DeviceKind, Option<Rc<CpuSet>>)>,
    allowed_cpus: Option<CpuSet>,
    allowed_nodes: Option<CpuSet>,
    infos: BTreeMap<String, String>,
    latency: Option<Latency>,
}

/// An element that is not closed yet.
struct Open {
    element: Element,
    core: Option<u32>,
    l3: Option<u32>,
    nodes: Option<Rc<CpuSet>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Element {
    Machine,
    Object,
    Numa,
    Latency,
    Indexes,
    Values,
    Other,
}

struct Pu {
    cpu: u32,
    core: Option<u32>,
    l3: Option<u32>,
}

struct Numa {
    id: u32,
    cpus: CpuSet,
    memory: u64,
    page_kib: Vec<u64>,
}

#[derive(Default)]
struct Latency {
    indexes: Vec<u64>,
    values: Vec<u64>,
}

impl Tree {
    fn open(&mut self, tag: &BytesStart<'_>) -> Result<()> {
        if self.open.len() >= DEPTH_MAX {
            return Err(Error::invalid("the XML is nested too deeply"));
        }
        let name = tag.name();
        if self.open.is_empty() && (self.major != 0 || name.as_ref() != b"topology") {
            return Err(Error::invalid("the XML is not a topology of hwloc"));
        }
        let (core, l3, nodes) =
            self.open.last().map_or((None, None, None), |up| (up.core, up.l3, up.nodes.clone()));
        let mut open = Open { element: Element::Other, core, l3, nodes };
        match name.as_ref() {
            b"topology" => self.root(tag)?,
            b"object" => self.object(tag, &mut open)?,
            b"info" => self.info(tag)?,
            b"page_type" => self.page(tag)?,
            b"distances2" => open.element = self.distances(tag)?,
            b"indexes" if self.inside(Element::Latency) => open.element = Element::Indexes,
            b"u64values" if self.inside(Element::Latency) => open.element = Element::Values,
            _ => {}
        }
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self) {
        self.open.pop();
    }

    fn inside(&self, element: Element) -> bool {
        self.open.last().is_some_and(|open| open.element == element)
    }

    fn root(&mut self, tag: &BytesStart<'_>) -> Result<()> {
        let version = attribute(tag, "version")?.unwrap_or_default();
        self.major = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(1);
        match self.major {
            2 | 3 => Ok(()),
            _ => Err(Error::invalid(
                "only the XML of hwloc 2 and 3 is read: export it again with a current `lstopo --of xml`",
            )
            .with("version", quoted(&version))),
        }
    }

    fn object(&mut self, tag: &BytesStart<'_>, open: &mut Open) -> Result<()> {
        open.element = Element::Object;
        if let Some(nodes) = set(tag, "nodeset")? {
            open.nodes = Some(Rc::new(nodes));
        }
        match required(tag, "type")?.as_str() {
            "Machine" => {
                open.element = Element::Machine;
                self.allowed_cpus = set(tag, "allowed_cpuset")?;
                self.allowed_nodes = set(tag, "allowed_nodeset")?;
            }
            "NUMANode" if self.numa.len() >= NODES_MAX => {
                return Err(Error::invalid("the topology has too many NUMA nodes"));
            }
            "PU" if self.pus.len() >= CPUS_MAX => {
                return Err(Error::invalid("the topology has too many CPUs"));
            }
            "NUMANode" => {
                open.element = Element::Numa;
                self.numa.push(Numa {
                    id: number(tag, "os_index")?,
                    cpus: set(tag, "cpuset")?.unwrap_or_default(),
                    memory: attribute(tag, "local_memory")?.map_or(Ok(0), |v| decimal(&v, "local_memory"))?,
                    page_kib: Vec::new(),
                });
            }
            "L3Cache" => {
                open.l3 = Some(self.l3s);
                self.l3s += 1;
            }
            "Core" => {
                open.core = Some(self.cores);
                self.cores += 1;
            }
            "PU" => self.pus.push(Pu { cpu: number(tag, "os_index")?, core: open.core, l3: open.l3 }),
            "OSDev" => self.device(tag, open)?,
            _ => {}
        }
        Ok(())
    }

    fn device(&mut self, tag: &BytesStart<'_>, open: &Open) -> Result<()> {
        // hwloc 2 numbers the types; hwloc 3 gives each a bit (hwloc_obj_osdev_type_e of either).
        let kind = match (self.major, attribute(tag, "osdev_type")?.as_deref()) {
            (2, Some("0")) | (3, Some("1")) => DeviceKind::Block,
            (2, Some("2")) | (3, Some("16")) => DeviceKind::Network,
            _ => return Ok(()),
        };
        let name = required(tag, "name")?;
        if name.len() <= 64 && name.chars().all(|c| c.is_ascii_graphic()) {
            self.devices.push((name, kind, open.nodes.clone()));
        }
        Ok(())
    }

    /// Keeps what describes the machine as a whole; hwloc 3 moved it from the Machine to the root.
    fn info(&mut self, tag: &BytesStart<'_>) -> Result<()> {
        let name = required(tag, "name")?;
        let wanted =
            ["OSName", "OSRelease", "hwlocVersion", "CPUVendor", "Architecture", "SyntheticDescription"];
        if wanted.contains(&name.as_str()) {
            let value: String =
                required(tag, "value")?.chars().filter(|c| !c.is_control()).take(128).collect();
            self.infos.entry(name).or_insert(value);
        }
        Ok(())
    }

    fn page(&mut self, tag: &BytesStart<'_>) -> Result<()> {
        let bytes: u64 = number(tag, "size")?;
        if let (true, Some(numa)) = (self.inside(Element::Numa), self.numa.last_mut())
            && bytes >= 1024
            && bytes.is_power_of_two()
        {
            numa.page_kib.push(bytes / 1024);
        }
        Ok(())
    }

    fn distances(&mut self, tag: &BytesStart<'_>) -> Result<Element> {
        let is = |key: &str, value: &str| Ok::<bool, Error>(attribute(tag, key)?.as_deref() == Some(value));
        if self.latency.is_none()
            && is("type", "NUMANode")?
            && is("name", "NUMALatency")?
            && is("indexing", "os")?
        {
            self.latency = Some(Latency::default());
            return Ok(Element::Latency);
        }
        Ok(Element::Other)
    }

    fn text(&mut self, text: &str) -> Result<()> {
        let (Some(open), Some(latency)) = (self.open.last(), self.latency.as_mut()) else { return Ok(()) };
        let (list, most) = match open.element {
            Element::Indexes => (&mut latency.indexes, NODES_MAX),
            Element::Values => (&mut latency.values, NODES_MAX * NODES_MAX),
            _ => return Ok(()),
        };
        for word in text.split_ascii_whitespace() {
            list.push(decimal(word, "a distance")?);
        }
        if list.len() > most {
            return Err(Error::invalid("the table of distances is too large"));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Topology> {
        let mut notes = Vec::new();
        self.numa.sort_by_key(|numa| numa.id);
        if let Some(pair) = self.numa.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(Error::invalid("a NUMA node occurs twice").with("node", pair[0].id));
        }
        let mut cores = self.cores_by_node(&mut notes);
        let uneven_cpus = remove_uneven(&mut cores, &mut notes);
        let mut nodes = Vec::new();
        for (numa, cores) in self.numa.iter().zip(cores) {
            if cores.is_empty() {
                notes.push(format!("node {} has no usable CPU of its own: its memory is left out", numa.id));
            } else {
                let mut page_kib = numa.page_kib.clone();
                page_kib.sort_unstable();
                page_kib.dedup();
                nodes.push(Node { id: numa.id, memory_mib: numa.memory >> 20, page_kib, cores });
            }
        }
        let distances = self.latency.as_ref().and_then(|latency| latency.between(&nodes));
        let devices = self.devices.iter().map(|(name, kind, near)| Device {
            name: name.clone(),
            kind: *kind,
            node: near.as_ref().and_then(|set| only_node(set, &nodes)),
        });
        Ok(Topology {
            format: FORMAT,
            source: self.source(),
            kernel: self.infos.get("OSRelease").cloned(),
            cpu_vendor: self.infos.get("CPUVendor").cloned(),
            architecture: self.infos.get("Architecture").cloned(),
            devices: devices.collect(),
            nodes,
            distances,
            uneven_cpus,
            notes,
        })
    }

    fn source(&self) -> String {
        let of = ["SyntheticDescription", "OSName"].iter().find_map(|key| self.infos.get(*key));
        let version = self.infos.get("hwlocVersion").map_or("", String::as_str);
        format!("hwloc {version}, {}", of.map_or("unknown system", String::as_str))
    }

    /// Usable cores in the order of `self.numa`.
    fn cores_by_node(&self, notes: &mut Vec<String>) -> Vec<Vec<Core>> {
        let mut by_node: Vec<Vec<(u32, Core)>> = self.numa.iter().map(|_| Vec::new()).collect();
        let mut forbidden = 0;
        let mut memoryless = Vec::new();
        for (order, pu) in self.pus.iter().enumerate() {
            if self.allowed_cpus.as_ref().is_some_and(|allowed| !allowed.contains(pu.cpu)) {
                forbidden += 1;
                continue;
            }
            // Where ordinary and other memory (HBM, CXL) belong to the same CPUs, Linux numbers the ordinary
            // memory first.
            let Some(at) = self.numa.iter().position(|numa| numa.cpus.contains(pu.cpu)) else {
                memoryless.push(pu.cpu);
                continue;
            };
            if self.allowed_nodes.as_ref().is_some_and(|allowed| !allowed.contains(self.numa[at].id)) {
                forbidden += 1;
                continue;
            }
            // A PU outside of any core is its own core. Numbers of real cores are smaller than u32::MAX / 2.
            let key = pu.core.unwrap_or(u32::MAX - order as u32);
            let cores = &mut by_node[at];
            match cores.last_mut() {
                Some((last, core)) if *last == key => core.cpus.push(pu.cpu),
                _ => cores.push((key, Core { cpus: vec![pu.cpu], l3: pu.l3.unwrap_or(0) })),
            }
        }
        if forbidden > 0 {
            notes.push(format!("{forbidden} CPUs are not allowed to be used (cgroup) and are left out"));
        }
        if !memoryless.is_empty() {
            memoryless.sort_unstable();
            notes.push(format!(
                "CPUs {} have no memory of their own that may be used: they are left out",
                crate::place::list(&memoryless)
            ));
        }
        let sorted = |(_, mut core): (u32, Core)| {
            core.cpus.sort_unstable();
            core
        };
        by_node.into_iter().map(|cores| cores.into_iter().map(sorted).collect()).collect()
    }
}

impl Latency {
    fn between(&self, nodes: &[Node]) -> Option<Vec<Vec<u32>>> {
        let n = self.indexes.len();
        let at = |node: &Node| self.indexes.iter().position(|index| *index == u64::from(node.id));
        let places: Vec<usize> = nodes.iter().map(at).collect::<Option<_>>()?;
        let cell = |from: &usize, to: &usize| {
            let value = *self.values.get(from.checked_mul(n)?.checked_add(*to)?)?;
            u32::try_from(value).ok().filter(|value| *value > 0)
        };
        (self.values.len() == n * n).then_some(())?;
        places.iter().map(|from| places.iter().map(|to| cell(from, to)).collect()).collect()
    }
}

/// Takes out the cores whose number of threads is not the most common one, and returns their CPUs.
fn remove_uneven(by_node: &mut [Vec<Core>], notes: &mut Vec<String>) -> Vec<u32> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for core in by_node.iter().flatten() {
        *counts.entry(core.cpus.len()).or_default() += 1;
    }
    // Of equally common numbers the larger wins.
    let Some((&threads, _)) = counts.iter().max_by_key(|(threads, count)| (**count, **threads)) else {
        return Vec::new();
    };
    let mut removed = Vec::new();
    for cores in by_node.iter_mut() {
        cores.retain(|core| {
            let even = core.cpus.len() == threads;
            if !even {
                removed.extend(&core.cpus);
            }
            even
        });
    }
    removed.sort_unstable();
    if !removed.is_empty() {
        notes.push(format!(
            "CPUs {} are on cores that do not have {threads} threads: they are left to the host",
            crate::place::list(&removed)
        ));
    }
    removed
}

fn only_node(set: &CpuSet, nodes: &[Node]) -> Option<u32> {
    let mut near = nodes.iter().filter(|node| set.contains(node.id));
    let first = near.next()?;
    // With a single node everything is local, and there is nothing to choose.
    near.next().is_none().then_some(first.id)
}

/// A set of CPUs or nodes as hwloc writes it: words of 32 bits, the highest first.
#[derive(Clone, Debug, Default, PartialEq)]
struct CpuSet(Vec<u32>);

impl CpuSet {
    fn parse(text: &str) -> Result<CpuSet> {
        let bad = || Error::invalid("a set of CPUs or nodes cannot be read").with("set", quoted(text));
        if text.contains("0xf...f") {
            return Err(bad());
        }
        if text.len() > CPUS_MAX / 32 * 11 {
            return Err(Error::invalid("a set of CPUs or nodes is too large"));
        }
        let word = |part: &str| match part.trim().strip_prefix("0x").unwrap_or(part.trim()) {
            "" => Ok(0),
            digits => u32::from_str_radix(digits, 16).map_err(|_| bad()),
        };
        let mut words = text.split(',').map(word).collect::<Result<Vec<u32>>>()?;
        words.reverse();
        Ok(CpuSet(words))
    }

    fn contains(&self, bit: u32) -> bool {
        self.0.get(bit as usize / 32).is_some_and(|word| word >> (bit % 32) & 1 == 1)
    }
}

fn attribute(tag: &BytesStart<'_>, key: &str) -> Result<Option<String>> {
    let found =
        tag.try_get_attribute(key).map_err(|e| Error::invalid("an attribute is damaged").with_source(e))?;
    let Some(found) = found else { return Ok(None) };
    let value = found
        .unescape_value()
        .map_err(|e| Error::invalid("an attribute cannot be read").with("attribute", key).with_source(e))?;
    Ok(Some(value.into_owned()))
}

fn required(tag: &BytesStart<'_>, key: &str) -> Result<String> {
    attribute(tag, key)?.ok_or_else(|| Error::invalid("an attribute is missing").with("attribute", key))
}

fn number<N: std::str::FromStr>(tag: &BytesStart<'_>, key: &'static str) -> Result<N> {
    decimal(&required(tag, key)?, key)
}

fn decimal<N: std::str::FromStr>(text: &str, key: &'static str) -> Result<N> {
    text.parse().map_err(|_| Error::invalid("not a number").with(key, quoted(text)))
}

/// The beginning of a text of the file, with whatever could upset a terminal escaped.
fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}

fn set(tag: &BytesStart<'_>, key: &str) -> Result<Option<CpuSet>> {
    attribute(tag, key)?.map(|text| CpuSet::parse(&text)).transpose()
}
