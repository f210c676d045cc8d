//! Follows a region: everything it has when the link begins, then each change, and whether it is there at all.

use super::{RegionLink, Sinks};
use futures::{FutureExt as _, StreamExt as _};
use polder_api::{
    client::{ClientError, Stream},
    dto,
};
use polder_core::{intent_router, message::SliceStatus, quota_ledger, quota_ledger::AccountHeard};
use polder_shell::Clock;
use polder_types::{JobId, Millis, Timestamp};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::{self, MissedTickBehavior};

/// How often a region is asked what its accounts use: that also shows whether it is there.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// With a working stream, how many looks there are between two readings of everything.
const LOOKS_PER_READING: u32 = 30;
/// Shortest and longest pause before a region that was not reached is tried again.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Most changes that are passed on together.
const BATCH_MAX: usize = 256;

/// Why a region is not followed any more.
enum End {
    /// It can't be reached.
    Failed(String),
    /// Nobody wants to hear any more.
    Closed,
}

impl From<ClientError> for End {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Follows the region until nobody wants to hear of it any more.
pub(super) async fn follow(link: Arc<RegionLink>, sinks: Sinks, clock: Arc<dyn Clock>, silent_after: Millis) {
    let mut follower = Follower { link, sinks, clock, newest: BTreeMap::new(), heard_at: None, told_silent: false };
    let mut pause = PAUSE_MIN;
    follower.heard_at = Some(follower.clock.now());
    loop {
        let before = follower.link.reach().as_of;
        let trouble = match follower.session().await {
            End::Closed => return,
            End::Failed(trouble) => trouble,
        };
        tracing::debug!(region = %follower.link.region, trouble, "the region can't be followed now");
        follower.link.failed(trouble);
        follower.link.next_address();
        if follower.link.reach().as_of != before {
            pause = PAUSE_MIN;
        }
        if follower.tell_silence(silent_after).await.is_err() {
            return;
        }
        time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

struct Follower {
    link: Arc<RegionLink>,
    sinks: Sinks,
    clock: Arc<dyn Clock>,
    /// When each slice's newest status was made: a reading and the stream may overtake each other.
    newest: BTreeMap<JobId, Timestamp>,
    /// When the region was heard last.
    heard_at: Option<Timestamp>,
    /// Whether its silence was told.
    told_silent: bool,
}

impl Follower {
    /// One connection, from reading everything to losing it.
    async fn session(&mut self) -> End {
        match self.try_session().await {
            Ok(()) => End::Closed,
            Err(end) => end,
        }
    }

    async fn try_session(&mut self) -> Result<(), End> {
        self.read_all().await?;
        let mut stream = self.watch().await;
        let mut looks = time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.tick().await;
        let mut count = 0_u32;
        loop {
            tokio::select! {
                change = next(&mut stream) => match change {
                    Some(Ok(status)) => self.changes(status, &mut stream).await?,
                    // The looks go on without it, and tell whether the region is there.
                    Some(Err(_)) | None => {
                        stream = None;
                        self.look().await?;
                    }
                },
                () = self.link.again.notified() => self.read_all().await?,
                _ = looks.tick() => {
                    count += 1;
                    if stream.is_none() || count.is_multiple_of(LOOKS_PER_READING) {
                        self.read_all().await?;
                    } else {
                        self.look().await?;
                    }
                    if stream.is_none() {
                        stream = self.watch().await;
                    }
                }
            }
        }
    }

    /// The stream of changes; without it everything is read again and again.
    async fn watch(&self) -> Option<Stream<dto::SliceStatus>> {
        match self.link.client().watch_status().await {
            Ok(stream) => Some(stream),
            Err(error) => {
                tracing::debug!(region = %self.link.region, %error, "changes can't be watched; reading all again");
                None
            }
        }
    }

    /// Reads every slice and what accounts use.
    async fn read_all(&mut self) -> Result<(), End> {
        let list = self.link.client().slices().await?;
        if list.region != self.link.region {
            let address = self.link.client().address().to_owned();
            return Err(End::Failed(format!(
                "{address} is region {}, not {}: correct the address in the federation's configuration",
                list.region, self.link.region
            )));
        }
        self.newest = list.slices.iter().map(|slice| (slice.job.clone(), slice.as_of)).collect();
        self.heard();
        let statuses = list.slices.into_iter().map(status).collect();
        self.say(statuses, true).await?;
        self.look().await
    }

    /// Asks what accounts use.
    async fn look(&mut self) -> Result<(), End> {
        let quotas = self.link.client().quotas().await?;
        self.heard();
        let accounts = quotas.quotas.into_iter();
        let accounts = accounts.map(|quota| AccountHeard { account: quota.account, used: quota.used, allotment: None });
        let event = quota_ledger::Event::RegionHeard {
            region: self.link.region.clone(),
            at: self.clock.now(),
            accounts: accounts.collect(),
        };
        self.sinks.ledger.send(event).await.map_err(|_| End::Closed)
    }

    /// Passes on a change, and those that came with it.
    async fn changes(
        &mut self,
        first: dto::SliceStatus,
        stream: &mut Option<Stream<dto::SliceStatus>>,
    ) -> Result<(), End> {
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX {
            match stream.as_mut().and_then(|stream| stream.next().now_or_never()) {
                Some(Some(Ok(status))) => batch.push(status),
                None => break,
                // The next look tells whether the region is there.
                Some(Some(Err(_)) | None) => {
                    *stream = None;
                    break;
                }
            }
        }
        self.heard();
        let mut statuses = Vec::with_capacity(batch.len());
        for change in batch {
            let newest = self.newest.entry(change.job.clone()).or_default();
            if change.as_of >= *newest {
                *newest = change.as_of;
                statuses.push(status(change));
            }
        }
        self.say(statuses, false).await
    }

    async fn say(&self, statuses: Vec<SliceStatus>, complete: bool) -> Result<(), End> {
        let event = intent_router::Event::RegionHeard {
            region: self.link.region.clone(),
            at: self.clock.now(),
            statuses,
            complete,
        };
        self.sinks.router.send(event).await.map_err(|_| End::Closed)
    }

    fn heard(&mut self) {
        let now = self.clock.now();
        self.heard_at = Some(now);
        self.told_silent = false;
        self.link.reached(now);
    }

    /// Says that the region is silent, once it has been for long enough.
    async fn tell_silence(&mut self, silent_after: Millis) -> Result<(), End> {
        let silent = self.heard_at.is_none_or(|at| self.clock.now().since(at) >= silent_after);
        if !silent || self.told_silent {
            return Ok(());
        }
        self.told_silent = true;
        let region = self.link.region.clone();
        let silent = intent_router::Event::RegionSilent { region: region.clone() };
        self.sinks.router.send(silent).await.map_err(|_| End::Closed)?;
        let silent = quota_ledger::Event::RegionSilent { region };
        self.sinks.ledger.send(silent).await.map_err(|_| End::Closed)
    }
}

/// The next change; never without a stream.
async fn next(stream: &mut Option<Stream<dto::SliceStatus>>) -> Option<Result<dto::SliceStatus, ClientError>> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

fn status(status: dto::SliceStatus) -> SliceStatus {
    SliceStatus {
        job: status.job,
        version: status.version,
        stopped: status.stopped,
        wanted: status.wanted,
        running: status.running,
        ready: status.ready,
        updated: status.updated,
        completed: status.completed,
        failed: status.failed,
        leaving: status.leaving,
        stuck: status.stuck,
        waiting: status.waiting.into_iter().map(|wait| (wait.reason, wait.tasks)).collect(),
    }
}
