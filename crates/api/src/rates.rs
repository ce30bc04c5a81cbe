//! What each client may ask for in a second, over all its connections.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use command::Caller;
use control::yaml::ClientRate;
use http_body::Body as _;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Request;

use crate::layers::{Answering, Before, Inner, Polled, Through, through};
use crate::limits::DOCUMENT;
use crate::status;
use crate::who::Who;

/// Of so many clients it is known what they have used; of those that have used nothing lately it need not be.
const KNOWN: usize = 128;
/// A message that has begun is taken, be it as large as it may: so many bytes may be owed.
const CREDIT: f64 = DOCUMENT as f64;

/// What is left of a second's worth. It may be owed.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: f64, now: Instant) -> Bucket {
        Bucket { left: rate, at: now }
    }

    fn fill(&mut self, rate: f64, now: Instant) {
        let since = now.saturating_duration_since(self.at);
        self.at = now;
        self.left = (self.left + since.as_secs_f64() * rate).min(rate);
    }

    /// How long until there is more than this.
    fn until(&self, more: f64, rate: f64) -> Duration {
        Duration::try_from_secs_f64((more - self.left) / rate).unwrap_or(Duration::MAX)
    }
}

/// A client.
#[derive(Debug)]
struct Used {
    calls: Bucket,
    bytes: Bucket,
}

#[derive(Debug)]
struct Client {
    rate: ClientRate,
    used: Mutex<Used>,
}

impl Client {
    fn new(rate: ClientRate, now: Instant) -> Client {
        let calls = Bucket::full(rate.calls.into(), now);
        let used = Used { calls, bytes: Bucket::full(rate.bytes as f64, now) };
        Client { rate, used: Mutex::new(used) }
    }

    fn used(&self, now: Instant) -> MutexGuard<'_, Used> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.calls.fill(self.rate.calls.into(), now);
        used.bytes.fill(self.rate.bytes as f64, now);
        used
    }

    fn is_full(&self, now: Instant) -> bool {
        let used = self.used(now);
        used.calls.left >= self.rate.calls.into() && used.bytes.left >= self.rate.bytes as f64
    }

    /// A call begins.
    fn call(&self, now: Instant) -> Result<(), Status> {
        let mut used = self.used(now);
        if used.calls.left < 1.0 {
            return Err(self.too_many_calls(used.calls.until(1.0, self.rate.calls.into())));
        }
        if used.bytes.left <= 0.0 {
            return Err(self.too_many_bytes(used.bytes.until(0.0, self.rate.bytes as f64)));
        }
        used.calls.left -= 1.0;
        Ok(())
    }

    /// Bytes of a call have come.
    fn take(&self, bytes: usize, now: Instant) -> Result<(), Status> {
        let mut used = self.used(now);
        used.bytes.left -= bytes as f64;
        if used.bytes.left >= -CREDIT {
            return Ok(());
        }
        Err(self.too_many_bytes(used.bytes.until(0.0, self.rate.bytes as f64)))
    }

    fn too_many_calls(&self, again: Duration) -> Status {
        let most = self.rate.calls;
        status::too_much("rate", &format!("more than {most} calls a second"), &most.to_string(), again)
    }

    fn too_many_bytes(&self, again: Duration) -> Status {
        let most = self.rate.bytes;
        status::too_much("rate", &format!("more than {most} bytes a second"), &most.to_string(), again)
    }
}

/// What clients have used.
#[derive(Clone)]
pub struct Clients {
    rate: ClientRate,
    all: Arc<Mutex<HashMap<command::Client, Arc<Client>>>>,
}

impl Clients {
    /// Nobody yet; each may use so much.
    pub fn new(rate: ClientRate) -> Clients {
        Clients { rate, all: Arc::default() }
    }

    fn of(&self, caller: &Caller, now: Instant) -> Arc<Client> {
        let key = caller.client();
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = all.get(&key) {
            return Arc::clone(client);
        }
        if all.len() >= KNOWN {
            // Those with a call under way count on.
            all.retain(|_, client| Arc::strong_count(client) > 1 || !client.is_full(now));
        }
        let client = Arc::new(Client::new(self.rate, now));
        all.insert(key, Arc::clone(&client));
        client
    }
}

/// Refuses what goes beyond the rate of a client.
#[derive(Clone)]
pub struct Rates(pub Clients);

impl Before for Rates {
    fn call<S: Inner>(&self, inner: &mut S, request: Request<Body>) -> Answering<S::Error> {
        // Whoever has no role is refused for that.
        let Some(Ok(caller)) = request.extensions().get::<Who>().map(|who| who.0.as_ref()) else {
            return Box::pin(inner.call(request));
        };
        let now = Instant::now();
        let client = self.0.of(caller, now);
        if let Err(refused) = client.call(now) {
            return Box::pin(std::future::ready(Ok(refused.into_http())));
        }
        Box::pin(inner.call(request.map(|body| through(body, Counted(client)))))
    }
}

/// What a client sends in a call.
struct Counted(Arc<Client>);

impl Through for Counted {
    fn poll(&mut self, body: Pin<&mut Body>, context: &mut Context<'_>) -> Polled {
        let Some(frame) = ready!(body.poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame?;
        if let Some(data) = frame.data_ref()
            && let Err(refused) = self.0.take(data.len(), Instant::now())
        {
            return Poll::Ready(Some(Err(refused.into())));
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::{Access, NOBODY, Remote};
    use tonic::Code;

    const MIB: usize = 1 << 20;

    fn caller(user: u32, name: Option<&str>) -> Caller {
        let remote = name.map(|n| Remote { name: n.into(), address: [192, 0, 2, 1].into() });
        Caller { access: Access::Read, user, group: user, groups: vec![], process: None, ssh: None, remote }
    }

    #[test]
    fn a_second_and_what_is_beyond_it() {
        let clients = Clients::new(ClientRate { calls: 10, bytes: MIB as u64 });
        let now = Instant::now();
        let ann = clients.of(&caller(7, None), now);
        for _ in 0..10 {
            ann.call(now).unwrap();
        }
        let refused = ann.call(now).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_eq!(refused.message(), "more than 10 calls a second; come again in 101 ms");
        // It is so over all connections of a user, and of no other one.
        assert!(clients.of(&caller(7, None), now).call(now).is_err());
        clients.of(&caller(8, None), now).call(now).unwrap();
        clients.of(&caller(NOBODY, Some("7")), now).call(now).unwrap();
        let later = now + Duration::from_millis(101);
        ann.call(later).unwrap();
        assert!(ann.call(later).is_err());
        // Not more than a second's worth is kept.
        let later = now + Duration::from_secs(1000);
        assert_eq!((0..100).filter(|_| ann.call(later).is_ok()).count(), 10);
    }

    #[test]
    fn a_large_message_is_taken_and_paid_for() {
        let clients = Clients::new(ClientRate { calls: 1000, bytes: MIB as u64 });
        let now = Instant::now();
        let ann = clients.of(&caller(7, None), now);
        ann.call(now).unwrap();
        for _ in 0..33 {
            ann.take(MIB, now).unwrap();
        }
        assert_eq!(ann.take(1, now).unwrap_err().code(), Code::ResourceExhausted);
        let refused = ann.call(now).unwrap_err();
        assert_eq!(refused.message(), "more than 1048576 bytes a second; come again in 32001 ms");
        ann.call(now + Duration::from_millis(32_001)).unwrap();
    }

    #[test]
    fn who_has_used_nothing_lately_is_forgotten() {
        let clients = Clients::new(ClientRate { calls: 1, bytes: MIB as u64 });
        let now = Instant::now();
        for user in 0..KNOWN as u32 {
            clients.of(&caller(user, None), now).call(now).unwrap();
        }
        let held = clients.of(&caller(3, None), now);
        let known = || clients.all.lock().unwrap().len();
        clients.of(&caller(1000, None), now);
        assert_eq!(known(), KNOWN + 1);
        clients.of(&caller(1001, None), now + Duration::from_secs(2));
        assert_eq!(known(), 2);
        drop(held);
    }
}
