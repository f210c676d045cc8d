//! Actors as the API shows them.

use polder_api::dto::ActorView;
use polder_shell::ActorStatus;

/// An actor's line of the status table.
#[must_use]
pub fn actor_view(status: ActorStatus) -> ActorView {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    ActorView {
        name: status.name,
        state: status.state.to_string(),
        since: status.since,
        mailbox_depth: count(status.mailbox.depth),
        mailbox_capacity: count(status.mailbox.capacity),
        mailbox_high_water: count(status.mailbox.high_water),
        mailbox_refused: status.mailbox.refused,
        oldest_ms_max: status.mailbox.oldest_ms_max,
        steps: status.counts.steps,
        step_micros_max: status.counts.step_micros_max,
        restarts: status.counts.restarts,
        panics: status.counts.panics,
        last_error: status.last_error,
    }
}
