//! What happens because time passes: probes, reports that are said again, removals that are tried again.

use crate::world::{World, id, is_ended, probed, start, start_with};
use polder_core::{
    host::{ALIVE_EVERY, ENDED_EVERY, Effect, Event, FULL_EVERY, PROBE_EAGER, REMOVE_TRIES},
    machine::Machine as _,
    message::HostReport,
};
use polder_types::{ContainerId, ContainerPhase, ExitStatus, Millis};

fn probes(world: &World) -> usize {
    world.effects.iter().filter(|effect| matches!(effect, Effect::Probe { .. })).count()
}

fn ready(world: &World, id: &ContainerId) -> bool {
    matches!(world.phase(id), Some(ContainerPhase::Running { ready: true, .. }))
}

fn answer(world: &mut World, id: &ContainerId, ok: bool) {
    world.step(Event::Probed { id: id.clone(), ok });
}

#[test]
fn a_container_with_a_check_is_ready_once_it_answers() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start_with(&web, probed()));
    world.launched(&web);
    assert!(!ready(&world, &web));
    world.take();

    world.pass(Millis(0));
    assert_eq!(probes(&world), 1, "asked at once");
    world.pass(PROBE_EAGER);
    assert_eq!(probes(&world), 1, "one question at a time");
    answer(&mut world, &web, false);
    world.pass(PROBE_EAGER);
    assert_eq!(probes(&world), 2, "asked often until it is ready for the first time");
    answer(&mut world, &web, true);
    assert!(ready(&world, &web));
    assert!(matches!(world.last_said(&web), Some(ContainerPhase::Running { ready: true, .. })));

    world.take();
    world.pass(Millis(1_999));
    assert_eq!(probes(&world), 0);
    world.pass(Millis(1));
    assert_eq!(probes(&world), 1);

    // Only so many failures in a row count.
    for (ok, expected) in [(false, true), (false, true), (true, true), (false, true), (false, true), (false, false)] {
        answer(&mut world, &web, ok);
        assert_eq!(ready(&world, &web), expected);
        world.pass(Millis(2_000));
    }
    answer(&mut world, &web, true);
    assert!(ready(&world, &web));
}

#[test]
fn a_probe_without_an_answer_is_asked_again() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start_with(&web, probed()));
    world.launched(&web);
    world.pass(Millis(0));
    world.take();
    world.pass(Millis(6_000));
    assert_eq!(probes(&world), 1);
}

#[test]
fn a_host_with_nothing_to_say_says_that_it_is_there() {
    let mut world = World::new();
    world.pass(ALIVE_EVERY);
    assert_eq!(world.take(), [Effect::Report(HostReport::Alive)]);
    world.unlink();
    world.pass(Millis(60_000));
    assert_eq!(world.take(), []);
    assert_eq!(world.host.next_deadline(), None);
}

#[test]
fn a_link_begins_with_everything_and_everything_is_said_again() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.unlink();
    world.take();
    world.link();
    let Some(Effect::Report(HostReport::Inventory { info, boot, containers, drain: None })) = world.effects.first()
    else {
        panic!("{:?}", world.effects)
    };
    assert_eq!((info.id.as_str(), boot, containers.len()), ("h1", &world.boot, 1));
    world.take();
    world.pass(FULL_EVERY);
    assert!(world.last_said(&web).is_some());
}

#[test]
fn ends_are_said_again_until_they_are_forgotten() {
    let mut world = World::new();
    let (web, db) = (id("shop/web/0@1"), id("shop/db/0@1"));
    world.run(&web);
    world.run(&db);
    world.exits(&web, ExitStatus::Code { code: 0 });
    world.removed(&web);
    world.take();
    world.pass(ENDED_EVERY + ALIVE_EVERY);
    assert!(is_ended(world.last_said(&web)));
    assert_eq!(world.last_said(&db), None);
    world.order(crate::world::forget(&web, 1));
    world.take();
    world.pass(ENDED_EVERY + ALIVE_EVERY);
    assert_eq!(world.last_said(&web), None);
}

#[test]
fn an_older_link_does_not_close_a_newer_one() {
    let mut world = World::new();
    world.link();
    world.step(Event::LinkClosed { session: 1 });
    assert!(world.host.is_linked());
    world.take();
    world.step(Event::LinkOpened { session: 1 });
    world.step(Event::LinkOpened { session: 2 });
    assert_eq!(world.take(), []);
    world.step(Event::LinkClosed { session: 1 });
    assert!(world.host.is_linked());
    world.step(Event::LinkClosed { session: 2 });
    assert!(!world.host.is_linked());
}

#[test]
fn remains_that_can_t_be_removed_do_not_hold_up_the_report_for_ever() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.run(&web);
    world.exits(&web, ExitStatus::Code { code: 0 });
    for tried in 1..=REMOVE_TRIES {
        assert!(!is_ended(world.phase(&web)), "after {tried} tries");
        assert!(world.asked(&Effect::Remove { id: web.clone() }));
        world.take();
        world.remove_fails(&web);
        if tried < REMOVE_TRIES {
            world.pass(Millis(16_000));
        }
    }
    assert!(is_ended(world.last_said(&web)));
    // But a drain is not sworn, and the next one of the task does not start on top of it.
    world.order(crate::world::drain(1));
    assert_eq!(world.attested().unwrap().remaining, std::slice::from_ref(&web));
    world.order(crate::world::end_drain(1));
    world.order(start(&id("shop/web/0@2"), 1));
    assert!(world.launches().is_empty());
    // Forgotten or not, it is tried on.
    world.order(crate::world::forget(&web, 1));
    world.take();
    world.pass(Millis(60_000));
    assert!(world.asked(&Effect::Remove { id: web.clone() }));
    world.removed(&web);
    assert_eq!(world.launches(), [id("shop/web/0@2")]);
    assert_eq!(world.phase(&web), None);
}

#[test]
fn a_clock_that_is_set_back_holds_nothing_up() {
    let mut world = World::new();
    let (web, probed_one, stuck) = (id("shop/web/0@1"), id("shop/api/0@1"), id("shop/stuck/0@1"));
    world.run(&web);
    world.run(&stuck);
    world.order(start_with(&probed_one, probed()));
    world.launched(&probed_one);
    world.pass(Millis(0));
    answer(&mut world, &probed_one, true);
    world.order(crate::world::stop(&web, 1));
    world.exits(&stuck, ExitStatus::Code { code: 0 });
    world.remove_fails(&stuck);
    world.take();

    world.now = world.now - Millis(500_000);
    world.step(Event::Ticked);
    world.pass(Millis(60_000));
    assert!(world.asked(&Effect::Report(HostReport::Alive)));
    assert!(world.asked(&Effect::Kill { id: web }));
    assert!(world.asked(&Effect::Remove { id: stuck }));
    assert!(probes(&world) > 0);
}

#[test]
fn long_reasons_are_cut() {
    let mut world = World::new();
    let web = id("shop/web/0@1");
    world.order(start(&web, 1));
    world.step(Event::LaunchFailed { id: web.clone(), reason: "ä".repeat(10_000) });
    world.removed(&web);
    let Some(ContainerPhase::Ended { status: ExitStatus::NotStarted { reason }, .. }) = world.last_said(&web) else {
        panic!("{:?}", world.effects)
    };
    assert_eq!(reason, "ä".repeat(256));
}
