//! Messages a second through a bounded port, from other threads into a running actor.
//!
//! `cargo run --release -p polder-shell --example port_throughput [SENDERS] [MESSAGES]`
#![expect(clippy::print_stdout, reason = "a benchmark prints its figure")]

use futures::future::BoxFuture;
use polder_core::machine::{Effects, Machine, Violation};
use polder_shell::{ActorOptions, Commit, Journal, RestoreError, Restored, Restoring, Role, Tree, TreeOptions};
use polder_types::Timestamp;
use std::{error::Error, sync::Arc, time::Instant};

/// Counts; the least that a machine can do, so that the figure is the port's and the shell's.
#[derive(Debug, Default)]
struct Counter {
    sum: u64,
    seen: u64,
}

impl Machine for Counter {
    type Event = u64;
    type Effect = ();
    type Delta = ();

    fn step(&mut self, _: Timestamp, event: u64) -> Effects<Self> {
        self.sum = self.sum.wrapping_add(event);
        self.seen += 1;
        Effects::none()
    }

    fn wake(&mut self, _: Timestamp) -> Effects<Self> {
        Effects::none()
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    fn check(&self) -> Result<(), Violation> {
        Ok(())
    }
}

struct Nothing;

impl Journal<()> for Nothing {
    fn commit(&self, _: Vec<Vec<()>>) -> BoxFuture<'static, Commit> {
        Box::pin(std::future::ready(Commit::Committed))
    }
}

impl Role for Nothing {
    const KIND: polder_shell::ActorKind = polder_shell::ActorKind::Other;

    type Machine = Counter;
    type Key = u64;

    async fn restore(&mut self, _: Restoring<'_, u64>) -> Result<Restored<Counter>, RestoreError> {
        Ok((Counter::default(), Effects::none()))
    }

    fn journal(&self) -> Arc<dyn Journal<()>> {
        Arc::new(Self)
    }

    fn execute(&mut self, _: Timestamp, (): ()) {}
}

#[tokio::main(flavor = "multi_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let senders: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let messages: u64 = arguments.next().map_or(Ok(5_000_000), |text| text.parse())?;
    let tree = Tree::new(TreeOptions { threads: 1.try_into()?, ..TreeOptions::default() })?;
    let counter = tree.root().spawn("counter", ActorOptions::default().capacity(4096), |_| Nothing)?;
    counter.ready().await;

    let each = messages / senders;
    let begin = Instant::now();
    let tasks: Vec<_> = (0..senders)
        .map(|_| {
            let port = counter.port().clone();
            tokio::spawn(async move {
                for message in 0..each {
                    port.send(message).await?;
                }
                Ok::<(), polder_shell::PortError<u64>>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    while counter.query(|machine| machine.seen).await? < each * senders {
        tokio::task::yield_now().await;
    }
    let took = begin.elapsed();
    let rate = (each * senders) as f64 / took.as_secs_f64();
    println!("{senders} sender(s), {} messages: {rate:.0} messages/s", each * senders);
    println!("{:?}", counter.status().mailbox);
    tree.shutdown().await;
    Ok(())
}
