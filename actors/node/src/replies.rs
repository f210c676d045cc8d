//! Questions that wait for a machine's answer.

use polder_core::message::ReplyId;
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// Questions that may wait at a time; more are refused.
pub const WAITING_MAX: usize = 10_000;
/// How long an answer may take before the one who asks is told that the outcome is not known; and how long, before
/// that, a question may wait for room in the machine's inbox.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Too many questions wait, or the machine takes none now: nothing was asked.
    Busy,
    /// The answer did not come in time, or the machine was restored meanwhile: what was asked may or may not be done.
    Unknown,
}

struct Waiting<A> {
    next: u64,
    senders: BTreeMap<ReplyId, oneshot::Sender<A>>,
}

/// The questions of one kind of machine.
pub struct Replies<A>(Mutex<Waiting<A>>);

impl<A> std::fmt::Debug for Replies<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replies").field("waiting", &self.lock().senders.len()).finish()
    }
}

impl<A> Default for Replies<A> {
    fn default() -> Self {
        Self(Mutex::new(Waiting { next: 1, senders: BTreeMap::new() }))
    }
}

impl<A> Replies<A> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting<A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names a question, asks it through `send`, and waits for its answer.
    ///
    /// # Errors
    /// When too many wait, when `send` fails, or when no answer comes in time.
    pub async fn ask<F>(&self, send: impl FnOnce(ReplyId) -> F) -> Result<A, NoAnswer>
    where
        F: Future<Output = bool>,
    {
        let (id, receiver) = {
            let mut waiting = self.lock();
            if waiting.senders.len() >= WAITING_MAX {
                return Err(NoAnswer::Busy);
            }
            let id = ReplyId(waiting.next);
            waiting.next += 1;
            let (sender, receiver) = oneshot::channel();
            waiting.senders.insert(id, sender);
            (id, receiver)
        };
        let _forget = Forget { replies: self, id };
        // A question that found no room was never asked.
        if !matches!(tokio::time::timeout(ANSWER_TIMEOUT, send(id)).await, Ok(true)) {
            return Err(NoAnswer::Busy);
        }
        match tokio::time::timeout(ANSWER_TIMEOUT, receiver).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(NoAnswer::Unknown),
        }
    }

    /// Gives an answer. One that nobody waits for any more is dropped.
    pub fn answer(&self, id: ReplyId, answer: A) {
        if let Some(sender) = self.lock().senders.remove(&id) {
            // Whoever asked may just have given up.
            let _ = sender.send(answer);
        }
    }
}

/// Takes a question back when the one who asks goes away.
struct Forget<'a, A> {
    replies: &'a Replies<A>,
    id: ReplyId,
}

impl<A> Drop for Forget<'_, A> {
    fn drop(&mut self) {
        self.replies.lock().senders.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_finds_its_question() {
        let replies = Replies::default();
        let answer = replies
            .ask(|id| {
                replies.answer(id, "yes");
                async { true }
            })
            .await;
        assert_eq!(answer, Ok("yes"));
        assert_eq!(replies.lock().senders.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_as_unknown_and_leaves_nothing() {
        let replies = Replies::<()>::default();
        assert_eq!(replies.ask(|_| async { true }).await, Err(NoAnswer::Unknown));
        assert_eq!(replies.ask(|_| async { false }).await, Err(NoAnswer::Busy));
        assert_eq!(replies.ask(|_| std::future::pending()).await, Err(NoAnswer::Busy), "no room was ever found");
        assert_eq!(replies.lock().senders.len(), 0);
    }
}
