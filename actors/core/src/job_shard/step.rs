//! The machine: takes an event, follows it through, and looks at every task it touched.

use alloc::vec::Vec;
use polder_types::Timestamp;

use super::{
    JobShard,
    event::{Delta, Effect, Event},
    limits::DUE_PER_WAKE,
    shard::Due,
    turn::Turn,
};
use crate::machine::{Effects, Machine, Violation};

/// Rounds after which a step leaves the rest to the next wake. Two are the rule: tasks, then what the budget lets go.
const ROUNDS_MAX: usize = 8;

impl JobShard {
    /// Looks at touched tasks until nothing more follows.
    pub(super) fn settle(&mut self, turn: &mut Turn) {
        for _ in 0..ROUNDS_MAX {
            let touched = core::mem::take(&mut turn.touched);
            if touched.is_empty() {
                return;
            }
            for (job, tasks) in &touched {
                for index in tasks {
                    self.advance(turn, job, *index);
                }
            }
            for job in touched.keys() {
                self.release_pass(turn, job);
            }
        }
        let rest = core::mem::take(&mut turn.touched);
        for (job, tasks) in rest {
            for index in tasks {
                self.set_task_due(&job, index, Some(turn.now));
            }
        }
    }
}

impl Machine for JobShard {
    type Event = Event;
    type Effect = Effect;
    type Delta = Delta;

    fn step(&mut self, now: Timestamp, event: Event) -> Effects<Self> {
        let mut turn = Turn::new(now);
        let mut answer = None;
        match event {
            Event::Apply { reply, slice, origin } => answer = Some((reply, self.apply(&mut turn, *slice, origin))),
            Event::Stop { reply, job, origin } => answer = Some((reply, self.stop(&mut turn, &job, origin))),
            Event::Delete { reply, job, origin } => answer = Some((reply, self.delete(&mut turn, &job, origin))),
            Event::Placement(placement) => self.placement_answered(&mut turn, placement),
            Event::HostReported { host, statuses } => self.host_reported(&mut turn, &host, statuses),
            Event::HostListed { host, boot, statuses } => self.host_listed(&mut turn, &host, boot, statuses),
            Event::HostRefused { host, container, why } => self.host_refused(&mut turn, &host, &container, &why),
            Event::HostPrepared { host, container, preparation } => {
                self.host_prepared(&mut turn, &host, &container, preparation);
            }
            Event::HostNotice(notice) => self.host_noticed(&mut turn, notice),
            Event::Quarantine { job, reason } => self.quarantine(&mut turn, &job, reason),
        }
        self.settle(&mut turn);
        if let Some((reply, result)) = answer {
            turn.reply(reply, result);
        }
        turn.finish(self)
    }

    fn wake(&mut self, now: Timestamp) -> Effects<Self> {
        let mut turn = Turn::new(now);
        let due: Vec<Due> =
            self.due.iter().take_while(|(at, _)| *at <= now).take(DUE_PER_WAKE).map(|(_, due)| due.clone()).collect();
        for due in due {
            match due {
                Due::Task(job, index) => {
                    self.set_task_due(&job, index, None);
                    turn.touch(&job, index);
                }
                Due::Host(host) => self.host_due(&mut turn, &host),
                Due::Request(request) => self.request_due(&mut turn, request),
            }
        }
        self.settle(&mut turn);
        turn.finish(self)
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    fn check(&self) -> Result<(), Violation> {
        self.recount()
    }
}
