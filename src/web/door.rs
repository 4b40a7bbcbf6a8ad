//! Connections: who gets a seat, how long it may keep it, and how much it may bring.
//!
//! There are `SEATS` seats. When all are taken, the one that has asked for nothing for longest is given to the newcomer,
//! first of all one that has never asked: however many slow connections there are, a scrape gets in. All of it runs on
//! one thread that waits for nobody; the threads that follow trainings do not know of it.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::config::Guard;

/// Connections at one time.
const SEATS: usize = 256;
/// A connection's first request, with the handshake before it, comes within this time.
const FIRST: Duration = Duration::from_secs(10);
/// Each later one comes, whole, so long after the answer before it. Longer than most scrape intervals.
const IDLE: Duration = Duration::from_secs(150);
/// An answer is taken within this time.
const TAKEN: Duration = Duration::from_secs(30);
/// The most bytes of a request's head.
const HEAD: usize = 32 * 1024;
/// The most of an answer that lies ready for a connection, beside the answer itself.
const PIECE: usize = 16 * 1024;
/// After an error that another connection would meet, too (no descriptor is left).
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `end` comes, and then until the requests under way are answered.
pub async fn serve(
    mut listeners: Vec<TcpListener>,
    router: Router,
    guard: Guard,
    end: impl Future<Output = ()>,
) {
    let mut end = std::pin::pin!(end);
    let mut seats = Seats::default();
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = &mut end => break,
            accepted = accept(&mut listeners) => accepted,
        };
        match accepted {
            Ok(stream) => {
                seats.free_one();
                let guest = Guest {
                    seat: Arc::default(),
                    asked: seats.asked.clone(),
                    router: router.clone(),
                };
                let seat = guest.seat.clone();
                let visit = guest.visit(stream, guard.clone(), graceful.watcher());
                seats.taken.push((seat, tokio::spawn(visit).abort_handle()));
            }
            Err(e) => {
                tracing::debug!(error = %e, "a connection was not taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listeners);
    graceful.shutdown().await;
}

/// The next connection to any of the addresses, each in its turn.
async fn accept(listeners: &mut [TcpListener]) -> io::Result<TcpStream> {
    listeners.rotate_left(1);
    poll_fn(|cx| {
        let ready = listeners
            .iter()
            .find_map(|listener| match listener.poll_accept(cx) {
                Poll::Ready(accepted) => Some(accepted),
                Poll::Pending => None,
            });
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
    .map(|(stream, _)| stream)
}

/// The connections, oldest first.
#[derive(Default)]
struct Seats {
    taken: Vec<(Arc<Seat>, AbortHandle)>,
    /// How many requests have come in, over all connections.
    asked: Arc<AtomicU64>,
}

#[derive(Default)]
struct Seat {
    /// Which of all requests was its newest, counted from 1; 0 before the first.
    newest: AtomicU64,
    /// It does not take its answer.
    late: Notify,
}

impl Seats {
    /// Sends away who has asked for nothing for longest, if no seat is free.
    fn free_one(&mut self) {
        self.taken.retain(|(_, visit)| !visit.is_finished());
        let newest = |seat: &Seat| seat.newest.load(Ordering::Relaxed);
        let quietest = (0..self.taken.len()).min_by_key(|&at| newest(&self.taken[at].0));
        if let Some(at) = quietest.filter(|_| self.taken.len() >= SEATS) {
            self.taken.remove(at).1.abort();
        }
    }
}

/// One connection.
struct Guest {
    seat: Arc<Seat>,
    asked: Arc<AtomicU64>,
    router: Router,
}

impl Guest {
    async fn visit(self, stream: TcpStream, guard: Guard, watcher: Watcher) {
        let seat = self.seat.clone();
        let mute = async {
            tokio::time::sleep(FIRST).await;
            if seat.newest.load(Ordering::Relaxed) > 0 {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.converse(stream, guard, watcher) => {}
            () = mute => {}
            () = seat.late.notified() => {}
        }
    }

    async fn converse(self, stream: TcpStream, guard: Guard, watcher: Watcher) {
        let _ = stream.set_nodelay(true);
        let Ok(tls) = guard.tls() else { return };
        let Some(config) = tls else {
            return self.http1(stream, watcher).await;
        };
        match TlsAcceptor::from(config).accept(stream).await {
            Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                self.http2(stream, watcher).await;
            }
            Ok(stream) => self.http1(stream, watcher).await,
            Err(e) => tracing::debug!(error = %e, "no TLS"),
        }
    }

    async fn http1(self, stream: impl Stream, watcher: Watcher) {
        let service = service_fn(move |request| self.answer(request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .max_buf_size(HEAD)
            .serve_connection(TokioIo::new(stream), service);
        told(watcher.watch(connection).await);
    }

    async fn http2(self, stream: impl Stream, watcher: Watcher) {
        let service = service_fn(move |request| self.answer(request));
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(IDLE)
            .keep_alive_timeout(FIRST)
            .max_concurrent_streams(8)
            .max_header_list_size(HEAD as u32)
            .max_send_buf_size(PIECE)
            .serve_connection(TokioIo::new(stream), service);
        told(watcher.watch(connection).await);
    }

    fn answer(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response, Infallible>> + use<> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        self.seat.newest.store(number, Ordering::Relaxed);
        let timer = Timer::start(self.seat.clone());
        let answer = self.router.clone().oneshot(request);
        async move {
            // One request of each connection in turn, however many it has sent at once.
            tokio::task::yield_now().await;
            Ok(answer.await?.map(|body| Answer::body(body, timer)))
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for T {}

fn told(ended: hyper::Result<()>) {
    if let Err(e) = ended {
        tracing::debug!(error = %e, "a connection ended");
    }
}

/// An answer on its way. It is given away piece by piece, so that what it holds is held until nearly all is taken.
pub(super) struct Answer<T> {
    body: Body,
    rest: Bytes,
    _held: T,
}

impl<T: Send + Unpin + 'static> Answer<T> {
    /// A body that holds `held`.
    pub(super) fn body(body: Body, held: T) -> Body {
        Body::new(Self {
            body,
            rest: Bytes::new(),
            _held: held,
        })
    }
}

impl<T: Unpin> HttpBody for Answer<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        let length = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// Ends the connection unless it is dropped in time.
struct Timer(AbortHandle);

impl Timer {
    fn start(seat: Arc<Seat>) -> Self {
        let late = async move {
            tokio::time::sleep(TAKEN).await;
            seat.late.notify_one();
        };
        Self(tokio::spawn(late).abort_handle())
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}
