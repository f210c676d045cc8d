//! Restarts of the machine, the agent and the host.

use crate::world::{Played, World, id, is_ended, probed, start, start_with, stop};
use polder_core::host::{Effect, Event};
use polder_types::{ContainerPhase, ExitStatus, Millis, Timestamp};

#[test]
fn a_restart_of_the_agent_is_a_no_op_for_containers() {
    let mut world = World::new();
    let (web, db) = (id("shop/web/0@1"), id("shop/db/0@1"));
    world.run(&web);
    world.order(start_with(&db, probed()));
    world.launched(&db);
    world.step(Event::Probed { id: db.clone(), ok: true });
    let before = (world.phase(&web), world.phase(&db));
    world.take();
    world.restart_agent();
    assert_eq!((world.phase(&web), world.phase(&db)), before);
    let touched = |effect: &Effect| !matches!(effect, Effect::Report(_) | Effect::Probe { .. });
    assert!(!world.effects.iter().any(touched), "{:?}", world.effects);
}

#[test]
fn nothing_is_launched_or_said_before_the_runtime_was_looked_at() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.take();
    world.restore();
    world.link();
    world.order(start(&id("shop/web/1@1"), 1));
    world.pass(Millis(60_000));
    assert_eq!(world.take(), []);
    world.adopt();
    assert!(matches!(world.last_said(&web), Some(ContainerPhase::Running { .. })));
}

#[test]
fn a_container_that_was_accepted_and_never_begun_is_launched_after_a_restart() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.step_and_lose_effects(Event::Order(start(&web, 1)), true);
    world.restart_agent();
    assert_eq!(world.launches(), [web]);
}

#[test]
fn a_container_that_was_not_durable_never_was() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.step_and_lose_effects(Event::Order(start(&web, 1)), false);
    world.restart_agent();
    assert!(world.launches().is_empty());
    assert_eq!(world.phase(&web), None);
}

#[test]
fn what_ended_meanwhile_is_reported_with_its_status() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.runtime.insert(web.clone(), Played::Ended { status: ExitStatus::Code { code: 7 }, at: Timestamp(5) });
    world.restart_agent();
    assert!(world.asked(&Effect::Remove { id: web.clone() }));
    world.removed(&web);
    let ended = ContainerPhase::Ended { status: ExitStatus::Code { code: 7 }, at: Timestamp(5) };
    assert_eq!(world.last_said(&web), Some(ended));
}

#[test]
fn what_is_gone_without_a_trace_has_ended_as_unknown() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.runtime.clear();
    world.restart_agent();
    assert!(matches!(world.last_said(&web), Some(ContainerPhase::Ended { status: ExitStatus::Unknown { .. }, .. })));
}

#[test]
fn a_reboot_ends_everything_and_starts_nothing_twice() {
    let mut world = World::new();
    let (ran, accepted) = (id("shop/web/0@1"), id("shop/web/1@1"));
    world.run(&ran);
    world.step_and_lose_effects(Event::Order(start(&accepted, 1)), true);
    world.take();
    world.reboot("boot-2");
    assert!(world.launches().is_empty(), "whether it had begun can't be known any more");
    for id in [ran, accepted] {
        let Some(ContainerPhase::Ended { status, .. }) = world.last_said(&id) else { panic!("{:?}", world.effects) };
        assert_eq!(status, ExitStatus::Unknown { reason: "the machine was restarted".to_owned() });
    }
}

#[test]
fn a_stop_goes_on_after_a_restart() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.step_and_lose_effects(Event::Order(stop(&web, 1)), true);
    world.take();
    world.restart_agent();
    assert!(world.asked(&Effect::Signal { id: web.clone(), signal: 15 }));
    world.pass(Millis(10_000));
    assert!(world.asked(&Effect::Kill { id: web.clone() }));
}

#[test]
fn strays_are_killed_and_removed() {
    let mut world = World::new();
    let (stray, other) = (id("shop/web/0@9"), id("shop/old/0@1"));
    world.runtime.insert(stray.clone(), Played::Running { pid: 5, started_at: Timestamp(1) });
    world.runtime.insert(other.clone(), Played::Ended { status: ExitStatus::Code { code: 0 }, at: Timestamp(1) });
    world.restart_agent();
    assert!(world.asked(&Effect::Kill { id: stray.clone() }));
    assert!(world.asked(&Effect::Remove { id: other.clone() }));
    assert!(!world.asked(&Effect::Kill { id: other.clone() }));

    // Nothing of its task is launched beside it.
    let next = id("shop/web/0@10");
    world.order(start(&next, 1));
    assert!(world.launches().is_empty());
    world.exits(&stray, ExitStatus::Signal { signal: 9, oom: false });
    world.removed(&stray);
    world.removed(&other);
    assert_eq!(world.launches(), [next]);
    assert_eq!((world.phase(&stray), world.phase(&other)), (None, None));
}

#[test]
fn an_end_that_comes_while_the_machine_is_restored_is_not_lost() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.restore();
    world.exits(&web, ExitStatus::Code { code: 1 });
    world.adopt();
    world.link();
    world.removed(&web);
    assert!(is_ended(world.last_said(&web)));
    assert!(!world.asked(&Effect::Kill { id: web }));
}

#[test]
fn a_launch_that_succeeds_while_the_machine_is_restored_is_not_lost() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start(&web, 1));
    world.restore();
    world.launched(&web);
    world.runtime.insert(web.clone(), Played::Launching { killed: false });
    world.adopt();
    assert!(matches!(world.phase(&web), Some(ContainerPhase::Running { .. })));
}

#[test]
fn a_launch_goes_on_when_only_the_machine_is_restored() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start(&web, 1));
    world.take();
    world.restore();
    world.adopt();
    assert!(world.launches().is_empty());
    world.launched(&web);
    assert!(matches!(world.phase(&web), Some(ContainerPhase::Running { .. })));
}
