//! Drains.

use crate::world::{World, drain, end_drain, force, id, is_ended, start, stop};
use polder_core::{host::Effect, message::Refusal};
use polder_types::{ContainerPhase, DrainVersion, ExitStatus, Millis};

#[test]
fn a_drained_host_swears_that_nothing_is_left() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.take();
    world.order(drain(1));
    let oath = world.attested().unwrap();
    assert_eq!((oath.version, &oath.boot, &oath.remaining), (DrainVersion(1), &world.boot, &vec![web.clone()]));
    world.take();

    // No starts, but a container that is here already is not refused.
    world.order(start(&id("shop/web/1@1"), 1));
    world.order(start(&web, 1));
    assert_eq!(world.refusals(), [Refusal::Draining { version: DrainVersion(1) }]);

    world.order(stop(&web, 1));
    world.exits(&web, ExitStatus::Signal { signal: 15, oom: false });
    assert_eq!(world.attested(), None, "its remains are still there");
    world.removed(&web);
    let oath = world.attested().unwrap();
    assert!(oath.remaining.is_empty() && oath.forced.is_empty(), "{oath:?}");

    // It is said again when asked again, and with each new link.
    world.take();
    world.order(drain(1));
    assert!(world.attested().is_some());
    world.take();
    world.link();
    assert!(world.attested().is_some());
    world.take();
    world.pass(Millis(31_000));
    assert!(world.attested().is_some());
}

#[test]
fn a_drain_outlives_the_agent() {
    let mut world = World::new();
    world.order(drain(3));
    world.restart_agent();
    assert_eq!(world.attested().map(|oath| oath.version), Some(DrainVersion(3)));
    world.take();
    world.order(start(&id("shop/web/0@1"), 1));
    assert_eq!(world.refusals(), [Refusal::Draining { version: DrainVersion(3) }]);
}

#[test]
fn what_waits_is_launched_only_when_the_drain_is_over() {
    let mut world = World::new();
    let (old, new) = (id("shop/web/0@1"), id("shop/web/0@2"));
    world.run(&old);
    world.order(start(&new, 1));
    world.order(drain(1));
    world.take();
    world.exits(&old, ExitStatus::Code { code: 0 });
    world.removed(&old);
    assert!(world.launches().is_empty());
    assert_eq!(world.attested().unwrap().remaining, std::slice::from_ref(&new));
    world.order(end_drain(1));
    assert_eq!(world.launches(), [new]);
}

#[test]
fn force_kills_and_lists_what_is_left() {
    let mut world = World::new();
    let (web, late) = (id("shop/web/0@1"), id("shop/web/1@1"));
    world.run(&web);
    world.order(start(&late, 1));
    world.order(drain(1));
    world.take();
    world.order(force(1));
    for id in [&web, &late] {
        assert!(world.asked(&Effect::Kill { id: id.clone() }));
        assert!(matches!(world.phase(id), Some(ContainerPhase::Stopping { .. })));
    }
    assert_eq!(world.attested().unwrap().forced, [web.clone(), late.clone()]);

    world.launched(&late);
    world.removed(&late);
    world.take();
    world.pass(Millis(5_000));
    assert!(world.asked(&Effect::Kill { id: web.clone() }), "one that does not die is killed again");
    world.exits(&web, ExitStatus::Signal { signal: 9, oom: false });
    world.removed(&web);
    let oath = world.attested().unwrap();
    assert!(oath.remaining.is_empty());
    assert_eq!(oath.forced, [web, late]);

    // What was forced is not forgotten by a restart.
    world.restart_agent();
    assert_eq!(world.attested().unwrap().forced.len(), 2);
}

#[test]
fn force_of_a_drain_that_was_lost_on_its_way_is_that_drain_too() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.order(force(2));
    assert!(world.asked(&Effect::Kill { id: web.clone() }));
    assert_eq!(world.attested().unwrap().forced, [web]);
}

#[test]
fn older_drains_are_ignored() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(drain(2));
    world.order(end_drain(2));
    world.order(drain(2));
    world.order(drain(1));
    world.order(force(1));
    world.take();
    world.order(start(&web, 1));
    assert_eq!(world.launches(), [web]);
    // An end that comes before its drain is an end all the same.
    world.order(end_drain(7));
    world.order(drain(7));
    assert_eq!(world.host.drain(), None);
}

#[test]
fn waiting_containers_end_by_force_without_being_counted_as_killed() {
    let mut world = World::new();
    let (old, new) = (id("shop/web/0@1"), id("shop/web/0@2"));
    world.run(&old);
    world.order(start(&new, 1));
    world.order(force(1));
    assert!(is_ended(world.phase(&new)));
    assert_eq!(world.attested().unwrap().forced, [old]);
}
