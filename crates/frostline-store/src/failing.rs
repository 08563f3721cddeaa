//! A store that injects faults, for tests: by a script, or by seed.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::fault::Fault;
use crate::ranges::ranges_by_get;

/// The fault that is injected into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Nothing.
    None,
    /// Rejected with 503 and not executed.
    SlowDown,
    /// Not executed, and no response.
    Lost,
    /// Executed, but no response.
    AnswerLost,
    /// Executed after this delay.
    Late(u64),
    /// Half of the body arrives, then the connection breaks. Only reads are affected.
    Truncated,
    /// Only the body comes after this delay. Only reads are affected.
    Stalled(u64),
    /// Executed twice; the second response is returned. Only puts are affected.
    Twice,
    /// Rejected permanently.
    Denied,
    /// Not executed; the server answers with this status and code, as S3 would.
    Answered(u16, &'static str),
    /// Executed, but the server answers with this status and code. 412 is for conditional puts, as when a
    /// proxy repeats one that succeeded; other requests are not affected.
    Landed(u16, &'static str),
}

/// A store that injects faults into requests.
#[derive(Debug)]
pub struct Failing {
    inner: Arc<dyn ObjectStore>,
    next: Arc<Mutex<Next>>,
}

#[derive(Debug)]
struct Next {
    script: VecDeque<Mishap>,
    random: Option<Random>,
}

/// Random faults.
#[derive(Debug)]
struct Random {
    dice: SmallRng,
    share: f64,
    /// The faults to draw from; all transient ones if empty.
    among: Vec<Mishap>,
}

impl Failing {
    /// The first requests to `inner` get these faults, one each; later ones get none.
    pub fn scripted(inner: Arc<dyn ObjectStore>, script: impl IntoIterator<Item = Mishap>) -> Self {
        Failing {
            inner,
            next: Arc::new(Mutex::new(Next { script: script.into_iter().collect(), random: None })),
        }
    }

    /// This share of the requests to `inner` gets a transient fault, drawn from `seed`.
    pub fn seeded(inner: Arc<dyn ObjectStore>, seed: u64, share: f64) -> Self {
        Failing::drawing(inner, seed, share, Vec::new())
    }

    /// This share of the requests to `inner` gets one of these faults, drawn from `seed`.
    pub fn drawing(inner: Arc<dyn ObjectStore>, seed: u64, share: f64, among: Vec<Mishap>) -> Self {
        let random = Some(Random { dice: SmallRng::seed_from_u64(seed), share, among });
        Failing { inner, next: Arc::new(Mutex::new(Next { script: VecDeque::new(), random })) }
    }

    /// From now on this share of the requests gets a random fault.
    pub fn set_share(&self, share: f64) {
        if let Some(random) = &mut self.next.lock().random {
            random.share = share;
        }
    }

    /// Adds to the script.
    pub fn then(&self, mishaps: impl IntoIterator<Item = Mishap>) {
        self.next.lock().script.extend(mishaps);
    }

    fn draw(&self) -> Mishap {
        draw(&self.next)
    }
}

fn draw(next: &Mutex<Next>) -> Mishap {
    let mut next = next.lock();
    if let Some(mishap) = next.script.pop_front() {
        return mishap;
    }
    let Some(Random { dice, share, among }) = &mut next.random else { return Mishap::None };
    if dice.random::<f64>() >= *share {
        return Mishap::None;
    }
    if !among.is_empty() {
        return among[dice.random_range(0..among.len())];
    }
    match dice.random_range(0..6) {
        0 => Mishap::SlowDown,
        1 => Mishap::Lost,
        2 => Mishap::AnswerLost,
        3 => Mishap::Late(dice.random_range(1..2_000)),
        4 => Mishap::Truncated,
        _ => Mishap::Twice,
    }
}

/// Does `work` with this fault.
async fn suffer<T>(mishap: Mishap, key: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    match mishap {
        Mishap::None | Mishap::Truncated | Mishap::Stalled(_) | Mishap::Twice | Mishap::Landed(412, _) => {
            work.await
        }
        Mishap::SlowDown => Err(Fault::SlowDown.into()),
        Mishap::Lost => Err(Fault::Timeout.into()),
        Mishap::Answered(status, code) => Err(Fault::Answered(status, code).into()),
        Mishap::Landed(status, code) => {
            let _ = work.await;
            Err(Fault::Answered(status, code).into())
        }
        Mishap::AnswerLost => {
            // The response is dropped, whatever it was.
            let _ = work.await;
            Err(Fault::Timeout.into())
        }
        Mishap::Late(ms) => {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            work.await
        }
        Mishap::Denied => {
            Err(object_store::Error::PermissionDenied { path: key.to_owned(), source: "AccessDenied".into() })
        }
    }
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failing({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Failing {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let mishap = self.draw();
        if mishap == Mishap::Twice {
            let _ = self.inner.put_opts(location, payload.clone(), opts.clone()).await;
            // The sender learns of the first delivery only that its response was lost.
            let second = self.inner.put_opts(location, payload, opts).await;
            return second.map_err(|_| Fault::Timeout.into());
        }
        if let (Mishap::Landed(412, code), PutMode::Create) = (mishap, &opts.mode) {
            let _ = self.inner.put_opts(location, payload, opts).await;
            return Err(Fault::Answered(412, code).into());
        }
        suffer(mishap, location.as_ref(), self.inner.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner =
            suffer(self.draw(), location.as_ref(), self.inner.put_multipart_opts(location, opts)).await?;
        Ok(Box::new(FailingUpload { inner, next: Arc::clone(&self.next), key: location.to_string() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mishap = self.draw();
        let result = suffer(mishap, location.as_ref(), self.inner.get_opts(location, options)).await?;
        if !matches!(mishap, Mishap::Truncated | Mishap::Stalled(_)) {
            return Ok(result);
        }
        let (meta, range, attributes) =
            (result.meta.clone(), result.range.clone(), result.attributes.clone());
        let bytes = result.bytes().await?;
        let body = match mishap {
            Mishap::Stalled(ms) => stream::once(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(bytes)
            })
            .boxed(),
            _ => stream::iter([Ok(bytes.slice(..bytes.len() / 2)), Err(Fault::Broken.into())]).boxed(),
        };
        Ok(GetResult { payload: GetResultPayload::Stream(body), meta, range, attributes })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges_by_get(self, location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, next) = (Arc::clone(&self.inner), Arc::clone(&self.next));
        let done = locations.then(move |location| {
            let (inner, next) = (Arc::clone(&inner), Arc::clone(&next));
            async move {
                let location = location?;
                let mut one = inner.delete_stream(stream::iter([Ok(location.clone())]).boxed());
                suffer(draw(&next), location.as_ref(), async {
                    one.next().await.unwrap_or_else(|| Ok(location.clone()))
                })
                .await
            }
        });
        done.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        broken_off(self.draw(), self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        broken_off(self.draw(), self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        suffer(self.draw(), "", self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        suffer(self.draw(), from.as_ref(), self.inner.copy_opts(from, to, options)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        suffer(self.draw(), from.as_ref(), self.inner.rename_opts(from, to, options)).await
    }
}

fn broken_off(
    mishap: Mishap,
    keys: BoxStream<'static, Result<ObjectMeta>>,
) -> BoxStream<'static, Result<ObjectMeta>> {
    match mishap {
        Mishap::SlowDown => stream::iter([Err(Fault::SlowDown.into())]).boxed(),
        Mishap::Lost => stream::iter([Err(Fault::Timeout.into())]).boxed(),
        Mishap::Landed(412, _) => keys,
        Mishap::Answered(status, code) | Mishap::Landed(status, code) => {
            stream::iter([Err(Fault::Answered(status, code).into())]).boxed()
        }
        Mishap::AnswerLost | Mishap::Truncated => {
            keys.take(3).chain(stream::iter([Err(Fault::Broken.into())])).boxed()
        }
        _ => keys,
    }
}

#[derive(Debug)]
struct FailingUpload {
    inner: Box<dyn MultipartUpload>,
    next: Arc<Mutex<Next>>,
    key: String,
}

#[async_trait]
impl MultipartUpload for FailingUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (mishap, key) = (draw(&self.next), self.key.clone());
        let stored = self.inner.put_part(data);
        Box::pin(async move { suffer(mishap, &key, stored).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        suffer(draw(&self.next), &self.key, self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        suffer(draw(&self.next), &self.key, self.inner.abort()).await
    }
}
