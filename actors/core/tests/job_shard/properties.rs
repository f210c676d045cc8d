//! Whatever happens, in whatever order: first that nothing goes wrong that must not, then that all comes right once the
//! world is well again.

use std::collections::BTreeMap;

use polder_types::{Millis, SliceVersion};
use proptest::prelude::*;

use crate::{
    fixtures::{job, slice},
    world::{Crash, World},
};

const HOSTS: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Apply { job: usize, tasks: u32, image: u8, max_unavailable: u32 },
    Stop { job: usize },
    Allocate,
    AllocatorReads,
    Grants,
    Hear,
    LoseAnswers,
    RestartAllocator,
    Obey(usize),
    Work(usize),
    Report(usize),
    LoseOrders(usize),
    LoseReports(usize),
    Fail { host: usize, which: usize, ends: bool },
    Cut(usize),
    Silent(usize),
    Heal(usize),
    Reboot(usize),
    Drain(usize),
    Lack { host: usize, image: u8, lacks: bool },
    Undrain(usize),
    Restart,
    Crash(u8),
    Pass(u64),
    Round,
}

fn op() -> impl Strategy<Value = Op> {
    let host = || 0..HOSTS;
    prop_oneof![
        4 => (0..2_usize, 0..6_u32, 0..3_u8, 1..3_u32)
            .prop_map(|(job, tasks, image, max_unavailable)| Op::Apply { job, tasks, image, max_unavailable }),
        1 => (0..2_usize).prop_map(|job| Op::Stop { job }),
        6 => Just(Op::Allocate),
        1 => Just(Op::AllocatorReads),
        1 => Just(Op::Grants),
        1 => Just(Op::Hear),
        1 => Just(Op::LoseAnswers),
        1 => Just(Op::RestartAllocator),
        4 => host().prop_map(Op::Obey),
        4 => host().prop_map(Op::Work),
        4 => host().prop_map(Op::Report),
        1 => host().prop_map(Op::LoseOrders),
        1 => host().prop_map(Op::LoseReports),
        3 => (host(), 0..8_usize, any::<bool>()).prop_map(|(host, which, ends)| Op::Fail { host, which, ends }),
        2 => host().prop_map(Op::Cut),
        2 => host().prop_map(Op::Silent),
        2 => host().prop_map(Op::Heal),
        1 => host().prop_map(Op::Reboot),
        2 => host().prop_map(Op::Drain),
        2 => (host(), 0..3_u8, any::<bool>()).prop_map(|(host, image, lacks)| Op::Lack { host, image, lacks }),
        2 => host().prop_map(Op::Undrain),
        1 => Just(Op::Restart),
        2 => (0..3_u8).prop_map(Op::Crash),
        4 => (1..40_u64).prop_map(Op::Pass),
        8 => Just(Op::Round),
    ]
}

fn run(ops: Vec<Op>) {
    let mut world = World::new(HOSTS);
    let mut jobs = BTreeMap::new();
    for (number, op) in ops.into_iter().enumerate() {
        match op {
            Op::Apply { job: which, tasks, image, max_unavailable } => {
                let name = ["web", "api"][which];
                let mut wanted = slice(name, tasks);
                wanted.spec.image = format!("oci:web:v{image}");
                wanted.spec.update.max_unavailable = max_unavailable;
                world.apply(number as u64, wanted.clone());
                jobs.insert(job(name), wanted);
            }
            Op::Stop { job: which } => {
                let name = ["web", "api"][which];
                if let Some(wanted) = jobs.get_mut(&job(name)) {
                    wanted.stopped = true;
                    world.apply(number as u64, wanted.clone());
                }
            }
            Op::Allocate => {
                world.allocator_reads();
                world.allocator_grants();
                world.hear_allocator();
            }
            Op::AllocatorReads => world.allocator_reads(),
            Op::Grants => world.allocator_grants(),
            Op::Hear => world.hear_allocator(),
            Op::LoseAnswers => world.lose_answers(),
            Op::RestartAllocator => world.restart_allocator(),
            Op::Obey(host) => world.host_obeys(host),
            Op::Work(host) => world.host_works(host),
            Op::Report(host) => world.host_reports(host),
            Op::LoseOrders(host) => world.lose_orders(host),
            Op::LoseReports(host) => world.lose_reports(host),
            Op::Fail { host, which, ends } => world.container_fails(host, which, ends),
            Op::Cut(host) => world.cut(host),
            Op::Silent(host) => world.silent(host),
            Op::Heal(host) => world.heal(host),
            Op::Reboot(host) => world.reboot(host),
            Op::Lack { host, image, lacks } => world.lack(host, &format!("oci:web:v{image}"), lacks),
            Op::Drain(host) => world.drain(host, true),
            Op::Undrain(host) => world.drain(host, false),
            Op::Restart => world.restart(),
            Op::Crash(kind) => world.crash = Some([Crash::Before, Crash::Partly, Crash::After][usize::from(kind)]),
            Op::Pass(secs) => world.pass(Millis::from_secs(secs)),
            Op::Round => {
                for host in 0..HOSTS {
                    world.host_obeys(host);
                    world.host_works(host);
                    world.host_reports(host);
                }
            }
        }
    }
    // What was applied last may have been lost with a commit that failed: whoever asked asks again.
    world.crash = None;
    for (number, wanted) in jobs.values_mut().enumerate() {
        wanted.version = SliceVersion(0);
        world.apply(1_000_000 + number as u64, wanted.clone());
    }
    world.recover(&jobs);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_goes_wrong_and_all_comes_right(ops in prop::collection::vec(op(), 0..120)) {
        run(ops);
    }
}
