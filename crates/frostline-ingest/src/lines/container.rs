//! The logs of containers: Docker's `json-file` and the text of Kubernetes' runtimes (CRI).
//!
//! Both write a long message in several lines, between which those of the other stream may come. Lines belong together
//! until no stream has an unfinished message.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Refusal, TimeRule};
use crate::json::ObjectWriter;
use crate::times;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    Docker,
    Cri,
}

/// One line.
struct Chunk<'a> {
    time_ns: i128,
    stream: Cow<'a, str>,
    /// Whether the next line of the stream continues the message.
    is_partial: bool,
    text: Cow<'a, str>,
    attributes: Option<&'a RawValue>,
}

/// Streams whose messages are unfinished, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unfinished(u8);

impl Unfinished {
    /// After one more line. A line that is no chunk finishes everything.
    #[must_use]
    pub(crate) fn after(self, runtime: Runtime, line: &[u8]) -> Unfinished {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let chunk = std::str::from_utf8(line).ok().and_then(|line| Chunk::of(runtime, line));
        let Some(chunk) = chunk else { return Unfinished::default() };
        let bit = match chunk.stream.as_ref() {
            "stdout" => 1,
            "stderr" => 2,
            _ => 4,
        };
        Unfinished(if chunk.is_partial { self.0 | bit } else { self.0 & !bit })
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl<'a> Chunk<'a> {
    fn of(runtime: Runtime, line: &'a str) -> Option<Chunk<'a>> {
        match runtime {
            Runtime::Docker => Chunk::docker(line),
            Runtime::Cri => Chunk::cri(line),
        }
    }

    fn docker(line: &'a str) -> Option<Chunk<'a>> {
        // A line with more members is of a program that writes JSON, and keeps them.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Entry<'a> {
            #[serde(borrow)]
            log: Cow<'a, str>,
            #[serde(borrow, default)]
            stream: Cow<'a, str>,
            #[serde(borrow)]
            time: Cow<'a, str>,
            #[serde(borrow)]
            attrs: Option<&'a RawValue>,
        }
        let entry: Entry<'a> = serde_json::from_str(line).ok()?;
        let (time_ns, end) = times::iso(&entry.time)?;
        if end != entry.time.len() {
            return None;
        }
        let is_partial = !entry.log.ends_with('\n');
        Some(Chunk { time_ns, stream: entry.stream, is_partial, text: entry.log, attributes: entry.attrs })
    }

    fn cri(line: &'a str) -> Option<Chunk<'a>> {
        let (time_ns, end) = times::iso(line)?;
        let (stream, rest) = line.get(end..)?.strip_prefix(' ')?.split_once(' ')?;
        if !matches!(stream, "stdout" | "stderr") {
            return None;
        }
        let (tags, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let is_partial = match tags.split(':').next() {
            Some("F") => false,
            Some("P") => true,
            _ => return None,
        };
        Some(Chunk { time_ns, stream: stream.into(), is_partial, text: text.into(), attributes: None })
    }
}

/// Whether a line is one of this runtime.
pub(super) fn fits(runtime: Runtime, line: &str) -> bool {
    Chunk::of(runtime, line).is_some()
}

/// Hands on a document for each message of lines that belong together, in the order in which they end.
pub(super) fn messages(
    runtime: Runtime,
    lines: &str,
    rule: &TimeRule,
    place: &[u8],
    document: &mut Vec<u8>,
    take: &mut dyn FnMut(&[u8]),
) -> Result<(), Refusal> {
    let mut begun: Vec<Chunk<'_>> = Vec::new();
    let mut misfit = false;
    for line in lines.lines() {
        let Some(chunk) = Chunk::of(runtime, line) else {
            misfit |= !line.trim_ascii().is_empty();
            continue;
        };
        let (at, is_partial) =
            (begun.iter().position(|begun| begun.stream == chunk.stream), chunk.is_partial);
        let at = match at {
            Some(at) => {
                begun[at].text.to_mut().push_str(&chunk.text);
                at
            }
            None => {
                begun.push(chunk);
                begun.len() - 1
            }
        };
        if !is_partial {
            begun.remove(at).write(rule, place, document, take);
        }
    }
    begun.iter().for_each(|chunk| chunk.write(rule, place, document, take));
    if misfit { Err(Refusal::new(format!("a line is not of {}", runtime.name()))) } else { Ok(()) }
}

impl Chunk<'_> {
    /// An empty message is no document, as an empty line is none.
    fn write(&self, rule: &TimeRule, place: &[u8], document: &mut Vec<u8>, take: &mut dyn FnMut(&[u8])) {
        let text = self.text.strip_suffix('\n').unwrap_or(&self.text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.trim_ascii().is_empty() {
            return;
        }
        document.clear();
        let mut object = ObjectWriter::new(document);
        object.time(&rule.to, self.time_ns);
        object.text("message", text);
        object.text_if_said("stream", &self.stream);
        if let Some(attributes) = self.attributes.filter(|attributes| attributes.get() != "null") {
            object.raw("attrs", attributes.get().as_bytes());
        }
        object.members(place);
        object.finish();
        take(document);
    }
}

impl Runtime {
    fn name(self) -> &'static str {
        match self {
            Runtime::Docker => "Docker's json-file",
            Runtime::Cri => "Kubernetes' container logs",
        }
    }
}

/// What the path of a container's log says of it, as members of a document.
pub(super) fn place_of(path: &str) -> Vec<u8> {
    let mut parts = path.rsplit('/');
    let (file, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let above = parts.next().unwrap_or_default();
    let mut place = Place::default();
    if let [namespace, pod, uid] = *above.split('_').collect::<Vec<_>>()
        && parts.next() == Some("pods")
    {
        place = Place { namespace, pod, uid, container: folder, id: "" };
    } else if let [pod, namespace, rest] = *file.split('_').collect::<Vec<_>>()
        && folder == "containers"
        && let Some((container, id)) = rest.split('.').next().and_then(|rest| rest.rsplit_once('-'))
        && is_id(id)
    {
        place = Place { namespace, pod, uid: "", container, id };
    } else if is_id(folder) && file.starts_with(folder) {
        place.id = folder;
    }
    place.members()
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[derive(Default)]
struct Place<'a> {
    namespace: &'a str,
    pod: &'a str,
    uid: &'a str,
    container: &'a str,
    id: &'a str,
}

impl Place<'_> {
    fn members(&self) -> Vec<u8> {
        let mut members = Vec::new();
        let mut all = ObjectWriter::after_members(&mut members);
        if !self.pod.is_empty() {
            let mut object = ObjectWriter::new(all.value("kubernetes"));
            object.text("namespace", self.namespace);
            let mut pod = ObjectWriter::new(object.value("pod"));
            pod.text("name", self.pod);
            pod.text_if_said("uid", self.uid);
            pod.finish();
            let mut container = ObjectWriter::new(object.value("container"));
            container.text("name", self.container);
            container.finish();
            object.finish();
        }
        if !self.id.is_empty() {
            let mut container = ObjectWriter::new(all.value("container"));
            container.text("id", self.id);
            container.finish();
        }
        members
    }
}

#[cfg(test)]
mod tests;
