//! What one machine has to say to another, in order and without loss: a bounded queue that waits where a machine
//! may not.

use polder_shell::Port;
use tokio::sync::mpsc;

/// Events that may wait on their way from one machine to another.
pub const OUTBOX_MAX: usize = 65_536;

/// A queue in front of a port.
#[derive(Debug)]
pub(crate) struct Outbox<E>(mpsc::Sender<E>);

impl<E> Clone for Outbox<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Send + 'static> Outbox<E> {
    /// Starts the task that carries events to the port. It ends when the last clone is dropped, or with the actor.
    pub(crate) fn start(port: Port<E>) -> Self {
        let (sender, mut receiver) = mpsc::channel(OUTBOX_MAX);
        actix_web::rt::spawn(async move {
            while let Some(event) = receiver.recv().await {
                if port.send(event).await.is_err() {
                    return;
                }
            }
        });
        Self(sender)
    }

    /// Says something.
    ///
    /// # Panics
    /// When the queue is full: what was to be said must not be lost, so the machine that says it is restored by the
    /// shell, and says afresh all that its durable state says.
    pub(crate) fn say(&self, event: E) {
        match self.0.try_send(event) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                panic!("{OUTBOX_MAX} events wait for an actor that does not take them: restoring the one that speaks")
            }
            Err(mpsc::error::TrySendError::Closed(_)) => tracing::debug!("spoke to an actor that was stopped"),
        }
    }
}
