//! Whatever happens in whatever order: what must never be, and what must come about in the end.

use crate::world::{Played, World, drain, end_drain, force, forget, id, owner, said, spec, start, stop};
use polder_core::{
    host::{Effect, Event},
    message::{HostOrder, HostReport},
};
use polder_types::{ContainerId, ContainerPhase, ExitStatus, Millis};
use proptest::{collection, prelude::*};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Clone, Copy, Debug)]
enum Act {
    Start { task: u8, newer: bool, by: u8 },
    StartOld { task: u8, epoch: u8, by: u8 },
    Stop { task: u8, back: u8, by: u8 },
    Forget { task: u8, back: u8, by: u8 },
    Drain { version: u8 },
    Force { version: u8 },
    EndDrain { version: u8 },
    Progress { which: u8, well: bool },
    Pass { ms: u16 },
    LoseStart { task: u8, durable: bool },
    RestartAgent,
    RestoreMachine,
    Reboot,
    Relink,
}

fn act() -> impl Strategy<Value = Act> {
    let (task, by, version) = (0..3_u8, 1..4_u8, 1..4_u8);
    prop_oneof![
        6 => (task.clone(), any::<bool>(), by.clone()).prop_map(|(task, newer, by)| Act::Start { task, newer, by }),
        1 => (task.clone(), 0..6_u8, by.clone()).prop_map(|(task, epoch, by)| Act::StartOld { task, epoch, by }),
        3 => (task.clone(), 0..3_u8, by.clone()).prop_map(|(task, back, by)| Act::Stop { task, back, by }),
        3 => (task.clone(), 0..3_u8, by).prop_map(|(task, back, by)| Act::Forget { task, back, by }),
        1 => version.clone().prop_map(|version| Act::Drain { version }),
        1 => version.clone().prop_map(|version| Act::Force { version }),
        2 => version.prop_map(|version| Act::EndDrain { version }),
        12 => (any::<u8>(), any::<bool>()).prop_map(|(which, well)| Act::Progress { which, well }),
        4 => (1..12_000_u16).prop_map(|ms| Act::Pass { ms }),
        1 => (task, any::<bool>()).prop_map(|(task, durable)| Act::LoseStart { task, durable }),
        1 => Just(Act::RestartAgent),
        1 => Just(Act::RestoreMachine),
        1 => Just(Act::Reboot),
        1 => Just(Act::Relink),
    ]
}

/// Watches everything that is asked for and said.
#[derive(Debug, Default)]
struct Watch {
    epochs: BTreeMap<u8, u64>,
    /// Containers that have had a process, or may have.
    begun: BTreeSet<ContainerId>,
    ended: BTreeSet<ContainerId>,
    boots: u32,
    owner: u8,
}

impl Watch {
    fn id(&self, task: u8, back: u8) -> ContainerId {
        let epoch = self.epochs.get(&task).copied().unwrap_or(0).saturating_sub(u64::from(back));
        id(&format!("shop/web/{task}@{epoch}"))
    }

    fn next(&mut self, task: u8) -> ContainerId {
        *self.epochs.entry(task).or_default() += 1;
        self.id(task, 0)
    }

    fn look(&mut self, world: &mut World) {
        let effects = world.take();
        for (id, phase) in said(&effects) {
            let ended = matches!(phase, ContainerPhase::Ended { .. });
            assert!(ended || !self.ended.contains(&id), "{id} was said to have ended and is {phase:?} now");
            if ended {
                self.ended.insert(id);
            }
        }
        for effect in effects {
            match effect {
                Effect::Launch { id, .. } => {
                    assert!(!self.ended.contains(&id), "{id} is launched after its end was said");
                    assert!(!self.begun.contains(&id), "{id} is launched though it had a process before");
                    assert!(world.host.drain().is_none(), "{id} is launched in a drain");
                }
                Effect::Report(HostReport::Drain(oath)) if oath.remaining.is_empty() => {
                    assert!(world.runtime.is_empty(), "sworn that nothing is left, but there is {:?}", world.runtime);
                }
                _ => {}
            }
        }
    }

    /// One container of the runtime goes one step on its way.
    fn progress(&mut self, world: &mut World, which: u8, well: bool) {
        let Some((id, played)) = world
            .runtime
            .iter()
            .nth(usize::from(which) % world.runtime.len().max(1))
            .map(|(id, p)| (id.clone(), p.clone()))
        else {
            return;
        };
        match played {
            Played::Launching { .. } if well => {
                self.begun.insert(id.clone());
                world.launched(&id);
            }
            Played::Launching { .. } => {
                world.launch_fails(&id);
                world.removed(&id);
            }
            Played::Running { .. } => world.exits(&id, ExitStatus::Code { code: i32::from(!well) }),
            Played::Ended { .. } if well => world.removed(&id),
            Played::Ended { .. } => world.remove_fails(&id),
        }
    }

    fn act(&mut self, world: &mut World, act: Act) {
        match act {
            Act::Start { task, newer, by } => {
                let id = if newer { self.next(task) } else { self.id(task, 0) };
                self.owner = self.owner.max(by);
                world.order(start(&id, u64::from(by)));
            }
            Act::StartOld { task, epoch, by } => {
                let newest = self.epochs.get(&task).copied().unwrap_or(0);
                let id = id(&format!("shop/web/{task}@{}", u64::from(epoch).min(newest)));
                self.owner = self.owner.max(by);
                world.order(start(&id, u64::from(by)));
            }
            Act::Stop { task, back, by } => {
                self.owner = self.owner.max(by);
                world.order(stop(&self.id(task, back), u64::from(by)));
            }
            Act::Forget { task, back, by } => {
                self.owner = self.owner.max(by);
                world.order(forget(&self.id(task, back), u64::from(by)));
            }
            Act::Drain { version } => world.order(drain(version.into())),
            Act::Force { version } => world.order(force(version.into())),
            Act::EndDrain { version } => world.order(end_drain(version.into())),
            Act::Progress { which, well } => self.progress(world, which, well),
            Act::Pass { ms } => world.pass(Millis(ms.into())),
            Act::LoseStart { task, durable } => {
                let id = self.next(task);
                let order = HostOrder::Start { owner: owner(3), container: id, spec: Arc::new(spec()) };
                self.owner = 3;
                world.step_and_lose_effects(Event::Order(order), durable);
                world.restart_agent();
            }
            Act::RestartAgent => world.restart_agent(),
            Act::RestoreMachine => {
                world.restore();
                world.adopt();
                world.link();
            }
            Act::Reboot => {
                self.boots += 1;
                world.reboot(&format!("boot-{}", self.boots + 1));
            }
            Act::Relink => {
                world.unlink();
                world.link();
            }
        }
        self.look(world);
    }

    /// From here on everything goes well: the runtime does what it is asked, and the region stops and forgets all.
    fn settle(&mut self, world: &mut World) {
        let by = u64::from(self.owner.max(1));
        world.order(end_drain(9));
        for _ in 0..12 {
            for task in 0..3 {
                for back in 0..=self.epochs.get(&task).copied().unwrap_or(0).min(250) {
                    let id = self.id(task, u8::try_from(back).unwrap());
                    if world.phase(&id).is_some_and(|phase| !matches!(phase, ContainerPhase::Ended { .. })) {
                        world.order(stop(&id, by));
                    }
                }
            }
            self.look(world);
            let ids: Vec<ContainerId> = world.runtime.keys().cloned().collect();
            for id in ids {
                match world.runtime.get(&id).cloned() {
                    Some(Played::Launching { .. }) => {
                        self.begun.insert(id.clone());
                        world.launched(&id);
                    }
                    Some(Played::Running { .. }) => world.exits(&id, ExitStatus::Signal { signal: 15, oom: false }),
                    Some(Played::Ended { .. }) => world.removed(&id),
                    None => {}
                }
            }
            world.pass(Millis(60_000));
            self.look(world);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens(acts in collection::vec(act(), 1..80)) {
        let mut world = World::new();
        let mut watch = Watch::default();
        for act in acts {
            watch.act(&mut world, act);
        }
        watch.settle(&mut world);
        prop_assert!(world.runtime.is_empty(), "left behind: {:?}", world.runtime);
        let left: Vec<_> = world.host.containers(world.now).map(|view| view.status).collect();
        prop_assert!(left.iter().all(|status| matches!(status.phase, ContainerPhase::Ended { .. })), "{left:?}");
        for status in left {
            world.order(forget(&status.id, watch.owner.max(1).into()));
        }
        prop_assert_eq!(&world.disk.containers, &vec![]);

        // And it is good for new work.
        let next = watch.next(0);
        world.order(start(&next, watch.owner.max(1).into()));
        world.launched(&next);
        let runs = matches!(world.phase(&next), Some(ContainerPhase::Running { .. }));
        prop_assert!(runs);
    }
}
