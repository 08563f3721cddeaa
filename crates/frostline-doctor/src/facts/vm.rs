//! Virtual machine definitions: libvirt domains, OpenStack flavors and images.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

const EVENTS_MAX: usize = 100_000;

/// A virtual machine as it is defined.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) vcpus: u32,
    pub(crate) memory_mib: f64,
    pub(crate) cpu_mode: String,
    pub(crate) pinned_vcpus: u32,
    pub(crate) emulator_pinned: bool,
    pub(crate) numa_tuned: bool,
    pub(crate) huge_pages: bool,
    pub(crate) io_threads: u32,
    pub(crate) hpet: Option<bool>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) disks: Vec<DiskDevice>,
}

/// A network interface of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Interface {
    pub(crate) model: String,
    pub(crate) driver: String,
    pub(crate) queues: u32,
    pub(crate) passed_through: bool,
}

/// A disk of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DiskDevice {
    pub(crate) target: String,
    pub(crate) bus: String,
    pub(crate) cache: String,
    pub(crate) io: String,
    pub(crate) queues: u32,
    pub(crate) io_thread: bool,
    pub(crate) is_cdrom: bool,
}

/// A libvirt domain, persistent (`<domain>`) or live (`<domstatus>` around it). Err says what is wrong.
pub(crate) fn libvirt(text: &str) -> Result<Machine, String> {
    let mut reader = Reader::from_str(text);
    let mut machine = Machine::default();
    let mut path: Vec<String> = Vec::new();
    let mut seen_domain = false;
    for _ in 0..EVENTS_MAX {
        match reader.read_event() {
            Ok(Event::Start(start)) => {
                path.push(name_of(&start));
                seen_domain |= path.last().is_some_and(|name| name == "domain");
                machine.element(&path, &attributes(&start));
            }
            Ok(Event::Empty(start)) => {
                path.push(name_of(&start));
                machine.element(&path, &attributes(&start));
                path.pop();
            }
            Ok(Event::End(_)) => {
                path.pop();
            }
            Ok(Event::Text(text)) => {
                let text = text.decode().unwrap_or_default();
                machine.text(&path, text.trim());
            }
            Ok(Event::Eof) if !seen_domain => return Err("holds no <domain>".to_owned()),
            Ok(Event::Eof) if path.is_empty() => return Ok(machine),
            Ok(Event::Eof) => return Err("ends in the middle".to_owned()),
            Ok(_) => {}
            Err(e) => return Err(format!("is not XML: {e}")),
        }
    }
    Err("is too long".to_owned())
}

fn name_of(start: &BytesStart<'_>) -> String {
    String::from_utf8_lossy(start.local_name().as_ref()).into_owned()
}

fn attributes(start: &BytesStart<'_>) -> BTreeMap<String, String> {
    let pair = |a: quick_xml::events::attributes::Attribute<'_>| {
        let name = String::from_utf8_lossy(a.key.local_name().as_ref()).into_owned();
        (name, String::from_utf8_lossy(&a.value).into_owned())
    };
    start.attributes().filter_map(Result::ok).take(64).map(pair).collect()
}

impl Machine {
    fn element(&mut self, path: &[String], with: &BTreeMap<String, String>) {
        let get = |name: &str| with.get(name).cloned().unwrap_or_default();
        let number = |name: &str| get(name).parse().unwrap_or(0);
        let from = path.iter().rposition(|name| name == "domain").map_or(path.len(), |at| at + 1);
        let below: Vec<&str> = path[from..].iter().map(String::as_str).collect();
        match below.as_slice() {
            ["cpu"] => self.cpu_mode = get("mode"),
            ["cputune", "vcpupin"] => self.pinned_vcpus += 1,
            ["cputune", "emulatorpin"] => self.emulator_pinned = true,
            ["numatune", ..] => self.numa_tuned = true,
            ["memoryBacking", "hugepages"] => self.huge_pages = true,
            ["clock", "timer"] if get("name") == "hpet" => self.hpet = Some(get("present") != "no"),
            ["devices", "interface"] => {
                let passed_through = get("type") == "hostdev";
                self.interfaces.push(Interface { queues: 1, passed_through, ..Interface::default() });
            }
            ["devices", "interface", leaf] => {
                if let Some(interface) = self.interfaces.last_mut() {
                    match *leaf {
                        "model" => interface.model = get("type"),
                        "driver" => {
                            interface.driver = get("name");
                            interface.queues = number("queues").max(1);
                        }
                        _ => {}
                    }
                }
            }
            ["devices", "disk"] => {
                let is_cdrom = matches!(get("device").as_str(), "cdrom" | "floppy");
                self.disks.push(DiskDevice { is_cdrom, ..DiskDevice::default() });
            }
            ["devices", "disk", leaf @ ..] => {
                if let Some(disk) = self.disks.last_mut() {
                    match leaf {
                        ["target"] => (disk.target, disk.bus) = (get("dev"), get("bus")),
                        ["driver"] => {
                            (disk.cache, disk.io, disk.queues) = (get("cache"), get("io"), number("queues"));
                            disk.io_thread |= with.contains_key("iothread");
                        }
                        ["driver", "iothreads", ..] => disk.io_thread = true,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, path: &[String], text: &str) {
        let from = path.iter().rposition(|name| name == "domain").map_or(path.len(), |at| at + 1);
        if text.is_empty() || path.len() != from + 1 {
            return;
        }
        match path[from].as_str() {
            "name" => self.name = text.to_owned(),
            "vcpu" => self.vcpus = text.parse().unwrap_or(0),
            // KiB unless said otherwise; what is said otherwise is rare and only makes a rule silent.
            "memory" => self.memory_mib = text.parse::<f64>().unwrap_or(0.0) / 1024.0,
            "iothreads" => self.io_threads = text.parse().unwrap_or(0),
            _ => {}
        }
    }
}

/// What an OpenStack flavor or image says, as `openstack … show -f json` or the API prints it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Offer {
    pub(crate) name: String,
    pub(crate) is_image: bool,
    pub(crate) vcpus: u32,
    pub(crate) ram_mib: f64,
    pub(crate) properties: BTreeMap<String, String>,
}

impl Offer {
    pub(crate) fn is_true(&self, names: &[&str]) -> bool {
        names.iter().any(|name| {
            self.properties
                .get(*name)
                .is_some_and(|v| matches!(v.to_ascii_lowercase().as_str(), "true" | "yes" | "1"))
        })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str)
    }
}

/// A flavor or an image. Err says what is wrong.
pub(crate) fn openstack(text: &str) -> Result<Offer, String> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|e| format!("is neither libvirt's XML nor JSON of OpenStack: {e}"))?;
    let value = value.get("flavor").or_else(|| value.get("image")).unwrap_or(&value);
    let object = value.as_object().ok_or("is not an object")?;
    let text_of = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let number = |name: &str| object.get(name).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let mut properties = BTreeMap::new();
    for holder in ["properties", "extra_specs"] {
        match object.get(holder) {
            Some(serde_json::Value::Object(pairs)) => {
                properties.extend(pairs.iter().map(|(name, value)| (name.clone(), text_of(value))));
            }
            // Older clients print "a='b', c='d'".
            Some(serde_json::Value::String(pairs)) => {
                let pair = |p: &str| {
                    p.split_once('=').map(|(n, v)| (n.trim().to_owned(), v.trim_matches('\'').to_owned()))
                };
                properties.extend(pairs.split(", ").filter_map(pair));
            }
            _ => {}
        }
    }
    // The image API puts properties beside its own fields.
    for (name, value) in object.iter().filter(|(name, _)| name.starts_with("hw_") || name.starts_with("os_"))
    {
        properties.insert(name.clone(), text_of(value));
    }
    let is_image =
        object.contains_key("disk_format") || properties.keys().any(|name| name.starts_with("hw_"));
    if !is_image && !object.contains_key("vcpus") {
        return Err("is neither a flavor (vcpus) nor an image (disk_format)".to_owned());
    }
    let name = object.get("name").map(text_of).unwrap_or_default();
    Ok(Offer { name, is_image, vcpus: number("vcpus") as u32, ram_mib: number("ram"), properties })
}
