//! Compressed input, detected by its first bytes and never by its name.
//!
//! All members (gzip, bzip2), frames (Zstandard) or streams (xz) of an input are read.
//! Memory: Zstandard windows up to 2 GiB (`--long=31`) and xz dictionaries up to 1 GiB are allowed, and
//! allocated only if the stream needs them; more is an error.

use std::io::{self, BufRead, BufReader, Cursor, Read};

/// The first bytes of compressed input, except for the skippable frames of Zstandard.
const PACKED: [u8; 4] = [0x1f, 0x28, 0xfd, b'B'];
const XZ_MEMORY_BYTES_MAX: u64 = 1100 << 20;
const ZSTD_WINDOW_LOG_MAX: u32 = 31;
const BUFFER_BYTES: usize = 256 << 10;

/// How an input is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
    /// xz.
    Xz,
    /// bzip2.
    Bzip2,
}

impl Compression {
    /// The compression of input that begins with these bytes. Six bytes distinguish all kinds.
    pub fn of(first: &[u8]) -> Self {
        match first {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            // A skippable frame may come first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bzip2,
            _ => Compression::None,
        }
    }
}

/// Reads `reader` decompressed. Damaged or truncated input is an error of the read that reaches it; everything before
/// was delivered. While the compression is not known yet, a reader that answers [`io::ErrorKind::WouldBlock`] is asked
/// again; later the caller gets that answer and asks again.
pub fn decompress(mut reader: impl Read + Send + 'static) -> io::Result<(Box<dyn Read + Send>, Compression)> {
    let mut first = Vec::with_capacity(6);
    while let Err(error) = reader.by_ref().take(6 - first.len() as u64).read_to_end(&mut first) {
        let is_plain = first.first().is_some_and(|first| !PACKED.contains(first));
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(error);
        } else if is_plain {
            break;
        }
    }
    let compression = Compression::of(&first);
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(first).chain(reader));
    let unpacked: Box<dyn Read + Send> = match compression {
        Compression::None => Box::new(whole),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
        Compression::Zstd => Box::new(zstd_decoder(whole)?),
        Compression::Xz => Box::new(xz_decoder(whole)?),
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(whole)),
    };
    Ok((unpacked, compression))
}

fn zstd_decoder<R: BufRead>(reader: R) -> io::Result<zstd::Decoder<'static, R>> {
    let mut decoder = zstd::Decoder::with_buffer(reader)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn xz_decoder<R: BufRead>(reader: R) -> io::Result<liblzma::bufread::XzDecoder<R>> {
    let stream =
        liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, liblzma::stream::CONCATENATED)?;
    Ok(liblzma::bufread::XzDecoder::new_stream(reader, stream))
}

#[cfg(test)]
mod tests;
