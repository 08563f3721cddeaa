//! A connection whose client must read what it is sent, and may have to send something now and then.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection that fails where a write waits for longer than `pause_max`: a client that reads nothing holds neither
/// memory nor a place for ever.
pub(crate) struct Patience<C> {
    connection: C,
    writing: Pause,
    reading: Option<Pause>,
}

/// How long one thing may take.
struct Pause {
    max: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<C> Patience<C> {
    pub(crate) fn new(connection: C, pause_max: Duration) -> Patience<C> {
        Patience { connection, writing: Pause::new(pause_max), reading: None }
    }

    /// The same where a read, too, fails that waits for longer than this.
    pub(crate) fn with_reads(self, pause_max: Duration) -> Patience<C> {
        Patience { reading: Some(Pause::new(pause_max)), ..self }
    }
}

impl Pause {
    fn new(max: Duration) -> Pause {
        Pause { max, waiting: None }
    }

    fn check<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let max = self.max;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(max)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Patience<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.connection).poll_read(context, buffer);
        match &mut self.reading {
            Some(reading) => reading.check(context, outcome),
            None => outcome,
        }
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Patience<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.writing.check(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.connection).poll_write_vectored(context, pieces);
        self.writing.check(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.connection).poll_flush(context);
        self.writing.check(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.connection).poll_shutdown(context);
        self.writing.check(context, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (mut client, server) = tokio::io::duplex(16);
        let mut server = Patience::new(server, Duration::from_secs(60));
        server.write_all(&[0; 16]).await.unwrap();
        client.read_exact(&mut [0; 16]).await.unwrap();
        let error = server.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_is_given_up_where_that_is_asked() {
        let (mut client, server) = tokio::io::duplex(16);
        let mut server = Patience::new(server, Duration::from_secs(60)).with_reads(Duration::from_secs(120));
        client.write_all(&[0; 4]).await.unwrap();
        server.read_exact(&mut [0; 4]).await.unwrap();
        let error = server.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
