//! What the kernel asks, and the answers. Nothing that is read here can panic.

use std::os::fd::{AsFd, RawFd};

use rustix::io::Errno;

/// A process opens a file.
pub(in crate::mount) const OPEN: u64 = 0x0001_0000;
/// A process reads, writes, maps, cuts or allocates.
pub(in crate::mount) const PRE_ACCESS: u64 = 0x0010_0000;

const METADATA_BYTES: usize = 24;
const INFO_BYTES: usize = 4;
/// The kind of information that has a range.
const INFO_RANGE: u8 = 6;

const ALLOW: u32 = 1;
const DENY: u32 = 2;
const ERRNO_SHIFT: u32 = 24;

/// Someone waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mount) struct Event {
    /// The file, open in this process. Negative: nobody waits.
    pub(in crate::mount) file: RawFd,
    pub(in crate::mount) mask: u64,
    /// The thread that waits; 0 if this process cannot see it.
    pub(in crate::mount) thread: i32,
    /// Where it starts and how many bytes it has, in pages of the kernel.
    pub(in crate::mount) range: Option<(u64, u64)>,
}

/// The events in what was read from the group. What is cut off is left out: the kernel never cuts.
pub(in crate::mount) fn events(mut bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some((event, rest)) = event(bytes) {
        events.push(event);
        bytes = rest;
    }
    events
}

fn event(bytes: &[u8]) -> Option<(Event, &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let metadata = usize::from(u16_at(bytes, 6)?);
    if length < METADATA_BYTES {
        return None;
    }
    let (one, rest) = bytes.split_at_checked(length)?;
    let event = Event {
        mask: u64_at(one, 8)?,
        file: u32_at(one, 16)? as i32,
        thread: u32_at(one, 20)? as i32,
        range: range(one.get(metadata..)?),
    };
    Some((event, rest))
}

fn range(mut infos: &[u8]) -> Option<(u64, u64)> {
    loop {
        let (kind, length) = (*infos.first()?, usize::from(u16_at(infos, 2)?));
        if length < INFO_BYTES {
            return None;
        }
        let (info, rest) = infos.split_at_checked(length)?;
        if kind == INFO_RANGE {
            return Some((u64_at(info, 8)?, u64_at(info, 16)?));
        }
        infos = rest;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Answers who waits with this file: nothing, to let it go on, or the error that it gets. `NOENT` if nobody waits with it.
pub(in crate::mount) fn answer(
    group: impl AsFd,
    file: RawFd,
    refused: Option<Errno>,
) -> rustix::io::Result<()> {
    let response = match refused {
        None => ALLOW,
        Some(errno) => DENY | (errno.raw_os_error() as u32 & 0xff) << ERRNO_SHIFT,
    };
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&file.to_ne_bytes());
    bytes[4..].copy_from_slice(&response.to_ne_bytes());
    rustix::io::write(group, &bytes).map(drop)
}

/// Closes the file of an event and answers it. In this order, so that who goes on can unmount at once: an open file keeps a
/// mount busy. Between the two the number must not be given to another event: no events are read meanwhile.
pub(in crate::mount) fn close_and_answer(
    group: impl AsFd,
    event: &Event,
    refused: Option<Errno>,
) -> rustix::io::Result<()> {
    // It was opened for this event and is used nowhere else.
    let _ = nix::unistd::close(event.file);
    answer(group, event.file, refused)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(event: &Event, padding: usize) -> Vec<u8> {
        let mut infos = Vec::new();
        if padding > 0 {
            infos.extend([1, 0]);
            infos.extend((padding as u16 + 4).to_ne_bytes());
            infos.extend(vec![0xEE; padding]);
        }
        if let Some((offset, count)) = event.range {
            infos.extend([INFO_RANGE, 0]);
            infos.extend(24_u16.to_ne_bytes());
            infos.extend([0; 4]);
            infos.extend(offset.to_ne_bytes());
            infos.extend(count.to_ne_bytes());
        }
        let mut all = Vec::new();
        all.extend(((METADATA_BYTES + infos.len()) as u32).to_ne_bytes());
        all.extend([3, 0]);
        all.extend((METADATA_BYTES as u16).to_ne_bytes());
        all.extend(event.mask.to_ne_bytes());
        all.extend(event.file.to_ne_bytes());
        all.extend(event.thread.to_ne_bytes());
        all.extend(infos);
        all
    }

    fn an_event() -> impl Strategy<Value = Event> {
        (any::<i32>(), any::<u64>(), any::<i32>(), proptest::option::of(any::<(u64, u64)>()))
            .prop_map(|(file, mask, thread, range)| Event { file, mask, thread, range })
    }

    proptest! {
        #[test]
        fn events_are_read_as_the_kernel_writes_them(written in proptest::collection::vec((an_event(), 0..40_usize), 0..9)) {
            let all: Vec<u8> = written.iter().flat_map(|(event, padding)| bytes(event, *padding)).collect();
            let expected: Vec<Event> = written.into_iter().map(|(event, _)| event).collect();
            prop_assert_eq!(events(&all), expected);
        }

        #[test]
        fn no_bytes_panic(
            written in proptest::collection::vec(an_event(), 0..4),
            changed in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..9),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut all: Vec<u8> = written.iter().flat_map(|event| bytes(event, 0)).collect();
            for (at, byte) in changed {
                if !all.is_empty() {
                    let at = at.index(all.len());
                    all[at] = byte;
                }
            }
            let end = cut.index(all.len() + 1);
            prop_assert!(events(&all[..end]).len() <= end / METADATA_BYTES);
        }
    }
}
