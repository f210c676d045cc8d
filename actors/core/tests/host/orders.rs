//! Orders about containers.

use crate::world::{World, forget, id, is_ended, owner, probed, start, start_with, stop};
use polder_core::{
    host::{Effect, Event, FLOOR_KEEP, PREPARING_MAX},
    message::{HostOrder, HostReport, Preparation, Refusal},
};
use polder_types::{ContainerPhase, ContainerSpec, Epoch, ExitStatus, Millis, OwnerEpoch, StopSignal};

#[test]
fn a_container_is_launched_once_it_is_durable_and_reported_on_the_way() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start(&web, 1));
    assert_eq!(world.last_said(&web), Some(ContainerPhase::Preparing));
    assert_eq!(world.launches(), std::slice::from_ref(&web));
    world.launched(&web);
    assert!(matches!(world.last_said(&web), Some(ContainerPhase::Running { ready: true, pid: 101, .. })));
    world.take();

    world.exits(&web, ExitStatus::Code { code: 3 });
    assert!(matches!(world.last_said(&web), Some(ContainerPhase::Running { ready: false, .. })));
    assert!(world.asked(&Effect::Remove { id: web.clone() }));
    world.removed(&web);
    let Some(ContainerPhase::Ended { status, .. }) = world.last_said(&web) else { panic!("{:?}", world.effects) };
    assert_eq!(status, ExitStatus::Code { code: 3 });
}

#[test]
fn repeating_a_start_changes_nothing_and_says_how_it_is() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.take();
    world.order(start(&web, 1));
    assert!(world.launches().is_empty());
    assert!(matches!(world.last_said(&web), Some(ContainerPhase::Running { .. })));
}

#[test]
fn a_stop_signals_and_kills_after_the_grace() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.take();
    world.order(stop(&web, 1));
    let kill_at = world.now + crate::world::GRACE;
    assert_eq!(world.last_said(&web), Some(ContainerPhase::Stopping { kill_at }));
    assert!(world.asked(&Effect::Signal { id: web.clone(), signal: StopSignal::Sigterm.number() }));
    world.take();

    world.pass(Millis(9_999));
    assert!(!world.asked(&Effect::Kill { id: web.clone() }));
    // A repetition does not give it more time, nor a second signal.
    world.order(stop(&web, 1));
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Signal { .. })));
    world.pass(Millis(1));
    assert!(world.asked(&Effect::Kill { id: web.clone() }));
    world.take();
    world.pass(Millis(5_000));
    assert!(world.asked(&Effect::Kill { id: web.clone() }), "one that does not die is killed again");

    world.exits(&web, ExitStatus::Signal { signal: 9, oom: false });
    world.removed(&web);
    assert!(is_ended(world.last_said(&web)));
    world.take();
    world.pass(Millis(20_000));
    assert!(!world.asked(&Effect::Kill { id: web.clone() }));
}

#[test]
fn a_stop_during_the_launch_is_signalled_as_soon_as_there_is_a_process() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start(&web, 1));
    world.order(stop(&web, 1));
    let signal = Effect::Signal { id: web.clone(), signal: StopSignal::Sigterm.number() };
    assert!(!world.asked(&signal));
    world.launched(&web);
    assert!(world.asked(&signal));
    assert!(matches!(world.phase(&web), Some(ContainerPhase::Stopping { .. })));
}

#[test]
fn a_launch_that_takes_longer_than_the_grace_is_killed() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start(&web, 1));
    world.order(stop(&web, 1));
    world.pass(Millis(10_000));
    assert!(world.asked(&Effect::Kill { id: web.clone() }));
    world.launched(&web);
    world.removed(&web);
    assert!(is_ended(world.phase(&web)));
}

#[test]
fn a_failed_launch_is_an_end() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start(&web, 1));
    world.launch_fails(&web);
    world.removed(&web);
    let Some(ContainerPhase::Ended { status: ExitStatus::NotStarted { reason }, .. }) = world.last_said(&web) else {
        panic!("{:?}", world.effects)
    };
    assert_eq!(reason, "no such image");
}

#[test]
fn an_unknown_container_that_is_stopped_has_ended_and_never_starts() {
    let mut world = World::new();
    let web = id("shop/web/0@4");
    world.order(stop(&web, 1));
    assert!(is_ended(world.last_said(&web)));
    world.take();
    world.order(start(&web, 1));
    assert_eq!(world.refusals(), [Refusal::StaleContainer { seen: Epoch(4) }]);
    assert!(world.launches().is_empty());

    // Nor after a restart.
    world.restart_agent();
    world.take();
    world.order(start(&web, 1));
    assert_eq!(world.refusals(), [Refusal::StaleContainer { seen: Epoch(4) }]);
    // The next one does.
    world.order(start(&id("shop/web/0@5"), 1));
    assert_eq!(world.launches(), [id("shop/web/0@5")]);
}

#[test]
fn a_forgotten_container_never_starts_again() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.order(forget(&web, 1));
    assert!(matches!(world.phase(&web), Some(ContainerPhase::Running { .. })), "what runs is not forgotten");
    world.exits(&web, ExitStatus::Code { code: 0 });
    world.removed(&web);
    world.order(forget(&web, 1));
    assert_eq!(world.phase(&web), None);
    assert!(world.disk.containers.is_empty());
    world.take();
    world.order(start(&web, 1));
    assert_eq!(world.refusals(), [Refusal::StaleContainer { seen: Epoch(1) }]);
    world.order(stop(&web, 1));
    assert!(is_ended(world.last_said(&web)), "its end is said again to whoever missed it");
}

#[test]
fn older_owners_are_refused_whatever_they_order() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start(&web, 5));
    world.launched(&web);
    world.take();
    world.order(stop(&web, 4));
    world.order(start(&id("shop/web/0@2"), 4));
    world.order(forget(&web, 4));
    assert_eq!(world.refusals(), vec![Refusal::StaleOwner { seen: OwnerEpoch(5) }; 3]);
    assert!(matches!(world.phase(&web), Some(ContainerPhase::Running { .. })));

    // Also after a restart, and a newer owner may do all of it.
    world.restart_agent();
    world.take();
    world.order(stop(&web, 4));
    assert_eq!(world.refusals(), [Refusal::StaleOwner { seen: OwnerEpoch(5) }]);
    world.order(stop(&web, 6));
    assert!(matches!(world.phase(&web), Some(ContainerPhase::Stopping { .. })));
}

#[test]
fn a_newer_container_of_a_task_waits_for_the_older_one() {
    let mut world = World::new();
    let (old, new) = (id("shop/web/0@1"), id("shop/web/0@2"));
    world.run(&old);
    world.take();
    world.order(start(&new, 1));
    assert_eq!(world.phase(&new), Some(ContainerPhase::Preparing));
    assert!(world.launches().is_empty());
    world.order(stop(&old, 1));
    world.exits(&old, ExitStatus::Signal { signal: 15, oom: false });
    assert!(world.launches().is_empty(), "its remains are not removed yet");
    world.removed(&old);
    assert_eq!(world.launches(), [new]);
}

#[test]
fn a_waiting_container_gives_way_to_a_newer_one() {
    let mut world = World::new();
    let old = id("shop/web/0@1");
    world.run(&old);
    let (second, third) = (id("shop/web/0@2"), id("shop/web/0@3"));
    world.order(start(&second, 1));
    world.order(start(&third, 1));
    assert!(is_ended(world.last_said(&second)));
    world.take();
    world.order(start(&second, 1));
    assert!(is_ended(world.last_said(&second)));
    world.exits(&old, ExitStatus::Code { code: 0 });
    world.removed(&old);
    assert_eq!(world.launches(), [third]);
}

#[test]
fn a_waiting_container_that_is_stopped_never_began() {
    let mut world = World::new();
    let (old, new) = (id("shop/web/0@1"), id("shop/web/0@2"));
    world.run(&old);
    world.order(start(&new, 1));
    world.order(stop(&new, 1));
    assert!(matches!(world.last_said(&new), Some(ContainerPhase::Ended { status: ExitStatus::NotStarted { .. }, .. })));
}

#[test]
fn a_health_check_of_a_port_that_is_not_there_is_said_at_once() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start_with(&web, ContainerSpec { ports: vec![], ..probed() }));
    let Some(ContainerPhase::Ended { status, .. }) = world.last_said(&web) else { panic!("{:?}", world.effects) };
    assert!(status.to_string().contains("port `http`"), "{status}");
    assert!(world.launches().is_empty());
}

#[test]
fn what_guards_against_old_orders_is_given_up_when_it_has_done_its_work() {
    let mut world = World::new();
    for index in 0..40 {
        world.order(stop(&id(&format!("shop/web/{index}@1")), 1));
    }
    assert_eq!(world.disk.floors.len(), 40);
    // A newer owner makes those of the older one superfluous.
    for index in 100..200 {
        world.order(stop(&id(&format!("shop/web/{index}@1")), 2));
    }
    assert_eq!(world.disk.floors.len(), 100);
    world.pass(FLOOR_KEEP);
    world.now = world.now + Millis(1);
    for index in 200..300 {
        world.order(stop(&id(&format!("shop/web/{index}@1")), 2));
    }
    assert!(world.disk.floors.len() <= 164, "{}", world.disk.floors.len());
}

fn prepare(by: u64) -> HostOrder {
    HostOrder::Prepare { owner: owner(by), container: id("shop/web/0@2"), image: "oci:/images/web:v2".into() }
}

fn prepared(world: &mut World) -> Vec<Preparation> {
    let of = |effect| match effect {
        Effect::Report(HostReport::Prepared { preparation, .. }) => Some(preparation),
        _ => None,
    };
    world.take().into_iter().filter_map(of).collect()
}

#[test]
fn an_image_is_prepared_once_however_often_it_is_asked_for() {
    let mut world = World::new();
    let web = id("shop/web/0@2");
    world.order(prepare(1));
    let asked = Effect::Prepare { id: web.clone(), image: "oci:/images/web:v2".into() };
    assert!(world.asked(&asked));
    assert_eq!(prepared(&mut world), [Preparation::UnderWay]);
    world.order(prepare(1));
    assert!(!world.asked(&asked), "it is at it");
    assert_eq!(prepared(&mut world), [Preparation::UnderWay]);
    world.step(Event::Prepared { id: web.clone(), failed: Some("no such layout".into()) });
    assert_eq!(prepared(&mut world), [Preparation::Failed { reason: "no such layout".into() }]);

    // Asked again it looks again.
    world.order(prepare(1));
    assert!(world.asked(&asked));
    world.step(Event::Prepared { id: web.clone(), failed: None });
    assert_eq!(prepared(&mut world), [Preparation::UnderWay, Preparation::Done]);
    assert_eq!(world.host.containers(world.now).count(), 0, "nothing is started");
}

#[test]
fn images_are_prepared_for_the_owner_alone_and_not_without_end() {
    let mut world = World::new();
    world.order(start(&id("shop/web/0@1"), 5));
    world.take();
    let order = |epoch, slot: usize| HostOrder::Prepare {
        owner: owner(epoch),
        container: id(&format!("shop/web/{slot}@2")),
        image: "oci:/images/web:v2".into(),
    };
    world.order(order(4, 0));
    let asks =
        |world: &mut World| world.take().iter().filter(|effect| matches!(effect, Effect::Prepare { .. })).count();
    assert_eq!(asks(&mut world), 0, "its owner was deposed");
    for slot in 0..PREPARING_MAX + 5 {
        world.order(order(5, slot));
    }
    assert_eq!(asks(&mut world), PREPARING_MAX);
}
