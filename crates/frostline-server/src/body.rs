//! Bodies of requests: read in bounded memory and time, and unpacked.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, Result};
use crate::settings::Settings;

/// Memory of bodies is counted in pieces of so many bytes.
const PIECE: usize = 4_096;
/// How much more memory a body counts for that is read as one tree of JSON values.
pub(crate) const TREE: usize = 16;

/// The memory of all bodies.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    pieces: Arc<Semaphore>,
    bytes_max: usize,
    pause_max: Duration,
}

/// The body of a request, and its share of the memory.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    _held: Option<OwnedSemaphorePermit>,
}

impl Received {
    #[cfg(test)]
    pub(crate) fn of(bytes: Vec<u8>) -> Received {
        Received { bytes: bytes.into(), _held: None }
    }

    /// A part of the same body.
    pub(crate) fn part(self, bytes: Bytes) -> Received {
        Received { bytes, ..self }
    }
}

impl Bodies {
    pub(crate) fn new(settings: &Settings) -> Bodies {
        Bodies {
            pieces: Arc::new(Semaphore::new(settings.bodies_bytes_max.div_ceil(PIECE))),
            bytes_max: settings.body_bytes_max,
            pause_max: settings.body_pause_max,
        }
    }

    /// Reads a body to its end, each byte of which counts for `weight` bytes of memory.
    pub(crate) async fn read<B>(&self, headers: &HeaderMap, mut body: B, weight: usize) -> Result<Received>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let length =
            headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let gathered = Gathered { bodies: self, weight, bytes: BytesMut::new(), held: None, refused: None };
        if length.is_some_and(|length| length > gathered.bytes_max()) {
            return Err(gathered.too_large());
        }
        let mut to = match encoding(headers)? {
            Encoding::Identity => Unpacked::Plain(gathered),
            Encoding::Gzip => Unpacked::Gzip(Box::new(MultiGzDecoder::new(gathered))),
        };
        loop {
            let frame = tokio::time::timeout(self.pause_max, body.frame()).await;
            let Some(frame) = frame.map_err(|_| self.too_slow())? else { break };
            let frame = frame.map_err(|_| ApiError::invalid("the body ended before its end"))?;
            if let Ok(data) = frame.into_data() {
                to.write(&data)?;
            }
        }
        to.finish()
    }

    /// Lets a share be one of so many bytes.
    fn grow(&self, held: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<()> {
        let before = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wanted = bytes.div_ceil(PIECE);
        if let Some(more) = wanted.checked_sub(before).and_then(|more| u32::try_from(more).ok()) {
            let more = Arc::clone(&self.pieces).try_acquire_many_owned(more);
            let more =
                more.map_err(|_| ApiError::busy("the bodies of other requests hold all memory: try again"))?;
            match held {
                Some(held) => held.merge(more),
                held => *held = Some(more),
            }
        }
        Ok(())
    }

    /// Memory for what is made of bodies.
    pub(crate) fn hold(&self) -> Hold {
        Hold { bodies: self.clone(), bytes: 0, held: None }
    }

    fn too_slow(&self) -> ApiError {
        let reason = format!("nothing of the body came for {} s", self.pause_max.as_secs_f64());
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout_exception", reason)
    }
}

/// A share of the memory of bodies that grows.
pub(crate) struct Hold {
    bodies: Bodies,
    bytes: usize,
    held: Option<OwnedSemaphorePermit>,
}

impl Hold {
    /// Takes so many bytes more. An error of status 413 where they are more than one request may hold, and of 429 where
    /// others hold them.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        let bytes_max = self.bodies.bytes_max;
        if self.bytes > bytes_max {
            let reason = format!("what the body brings is larger than {bytes_max} bytes: send it in parts");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "content_too_long_exception", reason));
        }
        self.bodies.grow(&mut self.held, self.bytes)
    }
}

enum Encoding {
    Identity,
    Gzip,
}

fn encoding(headers: &HeaderMap) -> Result<Encoding> {
    let Some(name) = headers.get(CONTENT_ENCODING) else { return Ok(Encoding::Identity) };
    match name.to_str().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Encoding::Identity),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        other => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "illegal_argument_exception",
            format!("Content-Encoding [{other}] is not supported: send gzip or none"),
        )),
    }
}

/// What came, unpacked as far as it came.
enum Unpacked<'a> {
    Plain(Gathered<'a>),
    Gzip(Box<MultiGzDecoder<Gathered<'a>>>),
}

impl Unpacked<'_> {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        match self {
            Unpacked::Plain(to) => to.add(data),
            Unpacked::Gzip(decoder) => {
                let written = decoder.write_all(data);
                written.map_err(|_| decoder.get_mut().refused.take().unwrap_or_else(not_gzip))
            }
        }
    }

    fn finish(self) -> Result<Received> {
        let gathered = match self {
            Unpacked::Plain(gathered) => gathered,
            Unpacked::Gzip(mut decoder) => {
                if decoder.try_finish().is_err() {
                    return Err(decoder.get_mut().refused.take().unwrap_or_else(not_gzip));
                }
                decoder.finish().map_err(|_| not_gzip())?
            }
        };
        Ok(Received { bytes: gathered.bytes.freeze(), _held: gathered.held })
    }
}

fn not_gzip() -> ApiError {
    ApiError::invalid("the body is not whole gzip, as its Content-Encoding says")
}

/// Bytes with their share of the memory.
struct Gathered<'a> {
    bodies: &'a Bodies,
    weight: usize,
    bytes: BytesMut,
    held: Option<OwnedSemaphorePermit>,
    /// Why no more was taken.
    refused: Option<ApiError>,
}

impl Gathered<'_> {
    fn bytes_max(&self) -> usize {
        self.bodies.bytes_max / self.weight
    }

    fn too_large(&self) -> ApiError {
        let reason = format!("the body is larger than {} bytes: send it in parts", self.bytes_max());
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "content_too_long_exception", reason)
    }

    fn add(&mut self, data: &[u8]) -> Result<()> {
        let length = self.bytes.len() + data.len();
        if length > self.bytes_max() {
            return Err(self.too_large());
        }
        self.bodies.grow(&mut self.held, length * self.weight)?;
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

impl Write for Gathered<'_> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        match self.add(data) {
            Ok(()) => Ok(data.len()),
            Err(error) => {
                self.refused = Some(error);
                Err(std::io::Error::other("the body is refused"))
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::HeaderValue;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    fn bodies() -> Bodies {
        Bodies::new(&Settings { body_bytes_max: 1 << 20, bodies_bytes_max: 2 << 20, ..Settings::default() })
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn packed() -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))])
    }

    async fn read(
        bodies: &Bodies,
        headers: &HeaderMap,
        bytes: Vec<u8>,
    ) -> std::result::Result<Received, u16> {
        let read = bodies.read(headers, Full::new(Bytes::from(bytes)), 1).await;
        read.map_err(|error| error.status.as_u16())
    }

    #[tokio::test]
    async fn a_body_is_unpacked_and_never_larger_than_the_limit() {
        let bodies = bodies();
        let text = b"{\"a\":1}\n".repeat(1_000);
        let (plain, two) = (HeaderMap::new(), [gzip(&text), gzip(&text)].concat());
        assert_eq!(read(&bodies, &plain, text.clone()).await.unwrap().bytes, text);
        assert_eq!(read(&bodies, &packed(), gzip(&text)).await.unwrap().bytes, text);
        // Several members, as log shippers append them.
        assert_eq!(read(&bodies, &packed(), two).await.unwrap().bytes, text.repeat(2));
        assert_eq!(read(&bodies, &plain, vec![b' '; (1 << 20) + 1]).await.unwrap_err(), 413);
        // A bomb: 8 MiB in 8 KiB.
        assert_eq!(read(&bodies, &packed(), gzip(&vec![0; 8 << 20])).await.unwrap_err(), 413);
        let cut = gzip(&text);
        assert_eq!(read(&bodies, &packed(), cut[..cut.len() - 9].to_vec()).await.unwrap_err(), 400);
        assert_eq!(read(&bodies, &packed(), b"{}".to_vec()).await.unwrap_err(), 400);
        // Nothing of what was refused is still held.
        assert_eq!(bodies.pieces.available_permits(), (2 << 20) / PIECE);
    }

    #[tokio::test]
    async fn bodies_that_hold_all_memory_make_others_wait() {
        let (bodies, headers) = (bodies(), HeaderMap::new());
        let first = read(&bodies, &headers, vec![b' '; 1 << 20]).await.unwrap();
        let second = read(&bodies, &headers, vec![b' '; 1 << 20]).await.unwrap();
        assert_eq!(read(&bodies, &headers, vec![b' ']).await.unwrap_err(), 429);
        drop((first, second));
        assert!(read(&bodies, &headers, vec![b' ']).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_becomes_a_tree_counts_for_what_that_holds() {
        let bodies = bodies();
        let read = async |length: usize| {
            let read = bodies.read(&HeaderMap::new(), Full::from(vec![b' '; length]), TREE).await;
            read.map_err(|error| error.status.as_u16())
        };
        let most = (1 << 20) / TREE;
        assert_eq!(read(most + 1).await.unwrap_err(), 413);
        let both = (read(most).await.unwrap(), read(most).await.unwrap());
        assert_eq!(read(1).await.unwrap_err(), 429);
        drop(both);
        assert!(read(1).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_coming_is_not_waited_for() {
        use futures::stream::{self, StreamExt as _};
        let first = stream::iter([Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(b"{")))]);
        let stalled = StreamBody::new(first.chain(stream::pending()));
        let error = bodies().read(&HeaderMap::new(), stalled, 1).await.unwrap_err();
        assert_eq!(error.status, StatusCode::REQUEST_TIMEOUT);
    }

    #[tokio::test]
    async fn a_length_beyond_the_limit_is_refused_before_anything_is_read() {
        let headers = HeaderMap::from_iter([(CONTENT_LENGTH, HeaderValue::from_static("99999999999"))]);
        assert_eq!(read(&bodies(), &headers, Vec::new()).await.unwrap_err(), 413);
    }
}
