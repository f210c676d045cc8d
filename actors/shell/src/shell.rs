//! The actix actor.

use crate::{
    Backoff, RestartPolicy,
    driver::{Driver, Exit},
    launch::Home,
    role::Role,
};
use actix::prelude::{Actor, ActorContext as _, ActorFuture, AsyncContext as _, Context, Handler, Message};
use polder_types::Millis;
use std::{
    num::NonZeroU32,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};

/// How one actor is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActorOptions {
    /// Events that can wait for it.
    pub capacity: usize,
    /// When to stop trying after failures.
    pub restarts: RestartPolicy,
    /// A commit that takes longer counts as one of unknown outcome.
    pub commit_timeout: Millis,
    /// A restore that takes longer is begun again.
    pub restore_timeout: Millis,
    /// After how many steps the machine checks itself: every one in debug builds.
    pub check_every: NonZeroU32,
}

const CAPACITY: usize = 1024;
const COMMIT_TIMEOUT: Millis = Millis::from_secs(10);
const RESTORE_TIMEOUT: Millis = Millis::from_secs(60);
const CHECK_EVERY: NonZeroU32 = match NonZeroU32::new(if cfg!(debug_assertions) { 1 } else { 1024 }) {
    Some(steps) => steps,
    None => NonZeroU32::MIN,
};

impl Default for ActorOptions {
    fn default() -> Self {
        Self {
            capacity: CAPACITY,
            restarts: RestartPolicy::default(),
            commit_timeout: COMMIT_TIMEOUT,
            restore_timeout: RESTORE_TIMEOUT,
            check_every: CHECK_EVERY,
        }
    }
}

impl ActorOptions {
    /// The same with another inbox.
    #[must_use]
    pub const fn capacity(mut self, events: usize) -> Self {
        self.capacity = events;
        self
    }

    /// The same with other limits on failures.
    #[must_use]
    pub const fn restarts(mut self, policy: RestartPolicy) -> Self {
        self.restarts = policy;
        self
    }

    /// The same with other pauses between attempts.
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.restarts.backoff = backoff;
        self
    }
}

/// What the tree tells an actor. Rare, so it goes through actix's own mailbox.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) enum Control {
    Stop,
    Replace,
    Release(String),
}

/// One actor around one machine.
#[derive(Debug)]
pub(crate) struct Shell<R: Role> {
    /// Boxed, because actix wants actors that can be moved when pinned, whatever the machine is made of.
    driver: Box<Driver<R>>,
    home: Arc<Home<R>>,
    exit: Exit,
}

impl<R: Role> Shell<R> {
    pub(crate) fn new(driver: Driver<R>, home: Arc<Home<R>>) -> Self {
        Self { driver: Box::new(driver), home, exit: Exit::Died }
    }
}

impl<R: Role> Actor for Shell<R> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.spawn(Drive);
    }
}

impl<R: Role> Handler<Control> for Shell<R> {
    type Result = ();

    // The context polls `Drive` after each message, so that it sees the change at once.
    fn handle(&mut self, control: Control, _: &mut Self::Context) {
        match control {
            Control::Stop => self.driver.stop(Exit::Stopped),
            Control::Replace => self.driver.stop(Exit::Replaced),
            Control::Release(key) => {
                self.driver.release(&key);
            }
        }
    }
}

/// Runs the driver for as long as the actor lives.
struct Drive;

impl<R: Role> ActorFuture<Shell<R>> for Drive {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        shell: &mut Shell<R>,
        context: &mut Context<Shell<R>>,
        cx: &mut task::Context<'_>,
    ) -> Poll<()> {
        match shell.driver.poll(cx) {
            Poll::Ready(exit) => {
                shell.exit = exit;
                context.stop();
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

// Not `Actor::stopped`: actix does not always call that, but it always drops the actor, also when something panics that
// should not.
impl<R: Role> Drop for Shell<R> {
    fn drop(&mut self) {
        let inbox = self.driver.take_inbox();
        self.home.ended(inbox, self.exit.clone());
    }
}
