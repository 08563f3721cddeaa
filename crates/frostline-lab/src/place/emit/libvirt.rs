//! Domain XML, valid by libvirt's own schema (`virt-xml-validate FILE domain`).

use std::io::Cursor;

use frostline_base::{Error, Result};
use quick_xml::events::BytesText;
use quick_xml::writer::Writer;

use super::{DiskIo, Surroundings, disk_path, distance, first_iothread, guest_topology, vcpus_of};
use crate::place::list;
use crate::place::plan::{Cell, Machine, Plan};

type Xml = Writer<Cursor<Vec<u8>>>;
type Written = std::io::Result<()>;

/// The domain of `machine`.
pub(super) fn domain(plan: &Plan, machine: &Machine, around: &Surroundings) -> Result<String> {
    let mut xml = Writer::new_with_indent(Cursor::new(Vec::new()), b' ', 2);
    let wrong = |e: std::io::Error| Error::internal("a domain could not be written").with_source(e);
    xml.create_element("domain")
        .with_attribute(("type", "kvm"))
        .write_inner_content(|xml| {
            basics(xml, machine)?;
            cputune(xml, machine)?;
            numatune(xml, machine)?;
            text(xml, "os", |xml| {
                xml.create_element("type")
                    .with_attributes([("arch", "x86_64"), ("machine", "q35")])
                    .write_text_content(BytesText::new("hvm"))?;
                empty(xml, "boot", &[("dev", "hd")])
            })?;
            text(xml, "features", |xml| {
                empty(xml, "acpi", &[])?;
                empty(xml, "apic", &[])
            })?;
            cpu(xml, plan, machine)?;
            devices(xml, machine, around)
        })
        .map_err(wrong)?;
    let mut bytes = xml.into_inner().into_inner();
    bytes.push(b'\n');
    String::from_utf8(bytes).map_err(|e| Error::internal("a domain is not UTF-8").with_source(e))
}

fn basics(xml: &mut Xml, machine: &Machine) -> Written {
    let kib = (machine.memory_mib() * 1024).to_string();
    leaf(xml, "name", &[], &machine.name)?;
    leaf(xml, "memory", &[("unit", "KiB")], &kib)?;
    leaf(xml, "currentMemory", &[("unit", "KiB")], &kib)?;
    text(xml, "memoryBacking", |xml| {
        if machine.page_kib > 4 {
            text(xml, "hugepages", |xml| {
                empty(xml, "page", &[("size", &machine.page_kib.to_string()), ("unit", "KiB")])
            })?;
        }
        // Neither merged with other machines' pages nor filled at the first touch.
        empty(xml, "nosharepages", &[])?;
        empty(xml, "allocation", &[("mode", "immediate")])
    })?;
    leaf(xml, "vcpu", &[("placement", "static")], &machine.vcpus.to_string())?;
    match machine.disks * machine.iothreads_per_disk {
        0 => Ok(()),
        threads => leaf(xml, "iothreads", &[], &threads.to_string()),
    }
}

fn cputune(xml: &mut Xml, machine: &Machine) -> Written {
    let emulator = list(&machine.emulator_cpus);
    text(xml, "cputune", |xml| {
        for pin in machine.cells.iter().flat_map(|cell| &cell.pins) {
            empty(xml, "vcpupin", &[("vcpu", &pin.vcpu.to_string()), ("cpuset", &pin.cpu.to_string())])?;
        }
        empty(xml, "emulatorpin", &[("cpuset", &emulator)])?;
        for thread in 1..=machine.disks * machine.iothreads_per_disk {
            empty(xml, "iothreadpin", &[("iothread", &thread.to_string()), ("cpuset", &emulator)])?;
        }
        Ok(())
    })
}

fn numatune(xml: &mut Xml, machine: &Machine) -> Written {
    text(xml, "numatune", |xml| {
        empty(xml, "memory", &[("mode", "strict"), ("nodeset", &list(&machine.nodes()))])?;
        for (at, cell) in machine.cells.iter().enumerate() {
            let attributes =
                [("cellid", at.to_string()), ("mode", "strict".into()), ("nodeset", cell.node.to_string())];
            empty(xml, "memnode", &attributes.each_ref().map(|(key, value)| (*key, value.as_str())))?;
        }
        Ok(())
    })
}

fn cpu(xml: &mut Xml, plan: &Plan, machine: &Machine) -> Written {
    let (sockets, cores, threads) = guest_topology(machine);
    xml.create_element("cpu")
        .with_attributes([("mode", "host-passthrough"), ("check", "none")])
        .write_inner_content(|xml| {
            let parts = [
                ("sockets", sockets.to_string()),
                ("cores", cores.to_string()),
                ("threads", threads.to_string()),
            ];
            empty(xml, "topology", &parts.each_ref().map(|(key, value)| (*key, value.as_str())))?;
            empty(xml, "cache", &[("mode", "passthrough")])?;
            // AMD's processors hide siblings from a guest without it.
            if threads > 1 && plan.host.cpu_vendor.as_deref() == Some("AuthenticAMD") {
                empty(xml, "feature", &[("policy", "require"), ("name", "topoext")])?;
            }
            text(xml, "numa", |xml| {
                for (at, cell) in machine.cells.iter().enumerate() {
                    numa_cell(xml, plan, machine, at, cell)?;
                }
                Ok(())
            })
        })
        .map(drop)
}

fn numa_cell(xml: &mut Xml, plan: &Plan, machine: &Machine, at: usize, cell: &Cell) -> Written {
    let attributes = [
        ("id", at.to_string()),
        ("cpus", vcpus_of(cell)),
        ("memory", (cell.memory_mib * 1024).to_string()),
        ("unit", "KiB".to_owned()),
    ];
    let attributes = attributes.each_ref().map(|(key, value)| (*key, value.as_str()));
    let siblings: Option<Vec<u32>> =
        machine.cells.iter().map(|other| distance(plan, cell.node, other.node)).collect();
    let Some(siblings) = siblings.filter(|distances| distances.len() > 1) else {
        return empty(xml, "cell", &attributes);
    };
    xml.create_element("cell")
        .with_attributes(attributes)
        .write_inner_content(|xml| {
            text(xml, "distances", |xml| {
                for (id, value) in siblings.iter().enumerate() {
                    empty(xml, "sibling", &[("id", &id.to_string()), ("value", &value.to_string())])?;
                }
                Ok(())
            })
        })
        .map(drop)
}

fn devices(xml: &mut Xml, machine: &Machine, around: &Surroundings) -> Written {
    text(xml, "devices", |xml| {
        for disk in 0..machine.disks {
            block(xml, machine, disk, around)?;
        }
        xml.create_element("interface").with_attribute(("type", "bridge")).write_inner_content(|xml| {
            empty(xml, "source", &[("bridge", &around.bridge)])?;
            empty(xml, "model", &[("type", "virtio")])?;
            let queues = machine.queues.to_string();
            empty(xml, "driver", &[("name", "vhost"), ("queues", &queues)])
        })?;
        xml.create_element("console").with_attribute(("type", "pty")).write_empty()?;
        // A balloon would give memory back that is meant to stay; huge pages cannot be returned at all.
        empty(xml, "memballoon", &[("model", "none")])
    })
}

fn block(xml: &mut Xml, machine: &Machine, disk: u32, around: &Surroundings) -> Written {
    let io = match around.io {
        DiskIo::Native => "native",
        DiskIo::IoUring => "io_uring",
    };
    let queues = machine.vcpus.min(256).to_string();
    let first = first_iothread(machine, disk);
    let thread = first.to_string();
    let mut driver =
        vec![("name", "qemu"), ("type", "raw"), ("cache", "none"), ("io", io), ("queues", queues.as_str())];
    if machine.iothreads_per_disk == 1 {
        driver.push(("iothread", thread.as_str()));
    }
    xml.create_element("disk")
        .with_attributes([("type", "file"), ("device", "disk")])
        .write_inner_content(|xml| {
            let element = xml.create_element("driver").with_attributes(driver.iter().copied());
            if machine.iothreads_per_disk > 1 {
                // Without a list of queues libvirt deals them out evenly (since 10.0, QEMU 9.0).
                element.write_inner_content(|xml| {
                    text(xml, "iothreads", |xml| {
                        (first..first + machine.iothreads_per_disk)
                            .try_for_each(|id| empty(xml, "iothread", &[("id", &id.to_string())]))
                    })
                })?;
            } else {
                element.write_empty()?;
            }
            empty(xml, "source", &[("file", &disk_path(machine, disk + 1))])?;
            let letter = char::from(b'a' + (disk % 26) as u8);
            empty(xml, "target", &[("dev", &format!("vd{letter}")), ("bus", "virtio")])
        })
        .map(drop)
}

fn text(xml: &mut Xml, name: &str, inside: impl FnOnce(&mut Xml) -> Written) -> Written {
    xml.create_element(name).write_inner_content(inside).map(drop)
}

fn leaf(xml: &mut Xml, name: &str, attributes: &[(&str, &str)], content: &str) -> Written {
    let element = xml.create_element(name).with_attributes(attributes.iter().copied());
    element.write_text_content(BytesText::new(content)).map(drop)
}

fn empty(xml: &mut Xml, name: &str, attributes: &[(&str, &str)]) -> Written {
    xml.create_element(name).with_attributes(attributes.iter().copied()).write_empty().map(drop)
}
