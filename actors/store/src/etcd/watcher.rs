//! Watches of etcd: opened again wherever they broke off.

use super::{
    Namespace,
    endpoints::{Endpoints, backoff},
    errors,
};
use crate::{
    background::background,
    limits::{ETCD_ANSWER_BYTES_MAX, ETCD_ATTEMPT_TIMEOUT, ETCD_BACKOFF_MIN, WATCH_QUEUE_EVENTS_MAX},
    store::{Entry, Revision},
    watch::{WatchEvent, WatchStream},
};
use bytes::Bytes;
use etcd_client::{Client, Event, EventType, WatchOptions};
use futures::stream;
use std::sync::Arc;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

struct Watcher {
    endpoints: Arc<Endpoints>,
    namespace: Namespace,
    prefix: String,
    /// Every change up to here was delivered.
    seen: Revision,
    to: mpsc::Sender<WatchEvent>,
}

/// Why a watch broke off.
enum Broken {
    /// Nobody listens any more, or the reader was told to list again.
    Ended,
    /// The member failed.
    Failed(String),
    /// Another member is used now.
    Moved,
}

pub(super) fn start(endpoints: Arc<Endpoints>, namespace: Namespace, prefix: String, after: Revision) -> WatchStream {
    let (to, mut events) = mpsc::channel(WATCH_QUEUE_EVENTS_MAX);
    let watcher = Watcher { endpoints, namespace, prefix, seen: after, to };
    match background() {
        // It ends when the reader drops its end of the channel.
        Ok(runtime) => drop(runtime.spawn(watcher.run())),
        Err(error) => tracing::error!(%error, "no thread for a watch; it ends at once"),
    }
    WatchStream::new(stream::poll_fn(move |cx| events.poll_recv(cx)))
}

impl Watcher {
    async fn run(mut self) {
        let mut wait = ETCD_BACKOFF_MIN;
        loop {
            let (member, client) = self.endpoints.current();
            let before = self.seen;
            match self.follow(member, client).await {
                Broken::Ended => return,
                Broken::Moved => {}
                Broken::Failed(why) => {
                    tracing::debug!(prefix = self.prefix, why, "a watch broke off; opening it again");
                    self.endpoints.give_up(member, &why);
                }
            }
            if self.seen > before {
                wait = ETCD_BACKOFF_MIN;
            }
            sleep(backoff(&mut wait)).await;
        }
    }

    async fn follow(&mut self, member: usize, client: Client) -> Broken {
        let start = i64::try_from(self.seen.next().0).unwrap_or(i64::MAX);
        let options = WatchOptions::new().with_prefix().with_start_revision(start);
        let mut watch_client = client.watch_client().max_decoding_message_size(ETCD_ANSWER_BYTES_MAX);
        let open = watch_client.watch(self.namespace.full(&self.prefix), Some(options));
        let mut stream = match timeout(ETCD_ATTEMPT_TIMEOUT, open).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Broken::Failed(errors::describe(&error)),
            Err(_) => return Broken::Failed(format!("no answer within {ETCD_ATTEMPT_TIMEOUT:?}")),
        };
        let mut moves = self.endpoints.moves();
        loop {
            let message = tokio::select! {
                message = stream.message() => message,
                _ = moves.wait_for(|current| *current != member) => return Broken::Moved,
                () = self.to.closed() => return Broken::Ended,
            };
            let message = match message {
                Ok(Some(message)) => message,
                Ok(None) => return Broken::Failed("etcd closed the watch".to_owned()),
                Err(error) => return Broken::Failed(errors::describe(&error)),
            };
            if message.compact_revision() > 0 {
                let revision = Revision(message.compact_revision().try_into().unwrap_or(0));
                let _ = self.to.send(WatchEvent::Compacted { revision }).await;
                return Broken::Ended;
            }
            if message.canceled() {
                return Broken::Failed(format!("etcd ended the watch: {}", message.cancel_reason()));
            }
            // A message never ends within a revision (fragments are not asked for), so a watch can be opened again
            // behind the last change that was delivered.
            for event in message.events() {
                let Some(event) = self.event(event) else { continue };
                let revision = event.revision();
                if self.to.send(event).await.is_err() {
                    return Broken::Ended;
                }
                self.seen = revision;
            }
        }
    }

    fn event(&self, event: &Event) -> Option<WatchEvent> {
        let kv = event.kv()?;
        let revision = Revision(kv.mod_revision().try_into().unwrap_or(0));
        let key = match self.namespace.strip(kv.key()) {
            Ok(key) => key,
            Err(error) => {
                tracing::error!(%error, "a change that Polder did not make was left out");
                return None;
            }
        };
        Some(match event.event_type() {
            EventType::Put => {
                let value = Bytes::copy_from_slice(kv.value());
                WatchEvent::Put { entry: Entry { key, value, mod_revision: revision } }
            }
            EventType::Delete => WatchEvent::Delete { key, revision },
        })
    }
}
