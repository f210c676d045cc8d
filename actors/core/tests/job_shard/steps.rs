//! Single steps that scripts would make too long to read.

use polder_core::{
    job_shard::{Delta, Effect, Event, JobShard, Origin, Refused, limits},
    machine::{Durable, Effects, Machine},
    message::{PlacementAnswer, PlacementNote, PlacementRequest, ReplyId},
};
use polder_types::{
    ContainerPhase, ContainerStatus, HostId, Millis, OwnerEpoch, ShardId, Slice, SliceVersion, Slots, TaskId, Timestamp,
};

use crate::{
    fixtures::{config, job, slice},
    script::grant,
};

fn apply(slice: Slice) -> Event {
    Event::Apply { reply: ReplyId(1), slice: Box::new(slice), origin: Origin::Local }
}

fn empty() -> JobShard {
    JobShard::restore(config(1), Vec::new(), Vec::new(), Timestamp(0)).0
}

fn parts(effects: Effects<JobShard>) -> (Vec<Delta>, Vec<Effect>) {
    let (mut now, persist, after) = effects.split();
    now.extend(after.open(Durable::committed()));
    (persist, now)
}

fn requests(effects: &[Effect]) -> Vec<PlacementRequest> {
    let requests = effects.iter().filter_map(|effect| match effect {
        Effect::Allocator(PlacementNote::Request(request)) => Some(request.clone()),
        _ => None,
    });
    requests.collect()
}

fn refusal(effects: Effects<JobShard>) -> Refused {
    let (persist, all) = parts(effects);
    assert!(persist.is_empty(), "a refusal changes nothing");
    all.into_iter()
        .find_map(|effect| match effect {
            Effect::Reply { result: Err(refused), .. } => Some(refused),
            _ => None,
        })
        .expect("a refusal")
}

#[test]
fn a_job_is_one_request_and_a_grant_is_one_chunk_for_tens_of_tasks() {
    let mut shard = empty();
    let (persist, effects) = parts(shard.step(Timestamp(0), apply(slice("web", 100))));
    assert_eq!(persist.len(), 1, "a job without containers is its record alone");
    let asked = requests(&effects);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].tasks.len(), 100);

    let host: HostId = "h1".parse().unwrap();
    let grants = (0..100).map(|index| grant(&asked[0], index, &host)).collect();
    let answer = PlacementAnswer::Granted { request: asked[0].id, allocator: OwnerEpoch(4), grants };
    let (persist, effects) = parts(shard.step(Timestamp(1), Event::Placement(answer.clone())));
    assert_eq!(persist[0], Delta::FenceAllocator(OwnerEpoch(4)));
    assert_eq!(persist.len(), 1 + 4, "four chunks hold a hundred tasks");
    assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Order { .. })).count(), 100);
    shard.check().unwrap();

    let (persist, effects) = parts(shard.step(Timestamp(2), Event::Placement(answer)));
    assert!(persist.is_empty() && effects.is_empty(), "a grant that comes twice changes nothing: {effects:?}");
}

#[test]
fn nothing_of_a_placement_leaves_before_it_is_durable() {
    let mut shard = empty();
    let (_, effects) = parts(shard.step(Timestamp(0), apply(slice("web", 2))));
    let asked = requests(&effects).remove(0);
    let host: HostId = "h1".parse().unwrap();
    let grants = (0..2).map(|index| grant(&asked, index, &host)).collect();
    let answer = PlacementAnswer::Granted { request: asked.id, allocator: OwnerEpoch(1), grants };
    let (now, persist, after) = shard.step(Timestamp(0), Event::Placement(answer)).split();
    assert!(now.is_empty());
    assert!(!persist.is_empty() && !after.is_empty());
}

#[test]
fn a_grant_that_nobody_wants_any_more_is_given_back() {
    let mut shard = empty();
    let (_, effects) = parts(shard.step(Timestamp(0), apply(slice("web", 1))));
    let asked = requests(&effects).remove(0);
    drop(parts(shard.step(Timestamp(0), Event::Stop { reply: ReplyId(2), job: job("web"), origin: Origin::Local })));
    let host = "h1".parse().unwrap();
    let grants = vec![grant(&asked, 0, &host)];
    let answer = PlacementAnswer::Granted { request: asked.id, allocator: OwnerEpoch(1), grants };
    let (persist, effects) = parts(shard.step(Timestamp(0), Event::Placement(answer)));
    assert!(persist.is_empty());
    let back = PlacementNote::Withdraw { request: asked.id, tasks: vec![0] };
    assert_eq!(effects, vec![Effect::Allocator(back)]);
}

#[test]
fn limits_are_kept_and_say_what_to_do() {
    let mut shard = empty();
    let mut many = slice("web", 1);
    many.slots = Slots::first(limits::TASKS_PER_JOB_MAX + 1);
    let refused = refusal(shard.step(Timestamp(0), apply(many)));
    assert!(matches!(refused, Refused::TooManyTasks { .. }));
    assert!(refused.to_string().contains("split the job"), "{refused}");

    let (mut other, _) = {
        let mut config = config(1);
        config.shards = 2;
        config.shard = ShardId(1 - ShardId::of(&job("web"), 2).0);
        JobShard::restore(config, Vec::new(), Vec::new(), Timestamp(0))
    };
    let refused = refusal(other.step(Timestamp(0), apply(slice("web", 1))));
    assert_eq!(refused, Refused::WrongShard { owner: ShardId::of(&job("web"), 2) });
}

#[test]
fn a_template_too_old_to_be_kept_gives_way_to_the_newest() {
    let mut shard = empty();
    let (_, effects) = parts(shard.step(Timestamp(0), apply(slice("web", 1))));
    let asked = requests(&effects).remove(0);
    let host: HostId = "h1".parse().unwrap();
    let answer =
        PlacementAnswer::Granted { request: asked.id, allocator: OwnerEpoch(1), grants: vec![grant(&asked, 0, &host)] };
    drop(parts(shard.step(Timestamp(0), Event::Placement(answer))));
    // A budget of nothing: no release reaches the task, whatever is applied.
    let newest = u32::try_from(limits::OLDER_TEMPLATES_MAX).unwrap() + 3;
    for version in 0..newest {
        let mut next = slice("web", 1);
        next.spec.image = format!("oci:web:next{version}");
        next.spec.update.max_unavailable = 0;
        drop(parts(shard.step(Timestamp(0), apply(next))));
        shard.check().unwrap();
    }
    let record = shard.job_record(&job("web")).unwrap();
    assert!(record.older.len() <= limits::OLDER_TEMPLATES_MAX);
    let view = shard.task_view(&TaskId { job: job("web"), index: 0 }).unwrap();
    assert_eq!(view.current.unwrap().host, host, "it is left where it is");
}

#[test]
fn the_longest_job_is_handled_in_one_piece() {
    let tasks = 20_000;
    let mut shard = empty();
    let (_, effects) = parts(shard.step(Timestamp(0), apply(slice("web", tasks))));
    let asked = requests(&effects).remove(0);
    let hosts: Vec<HostId> = (0..100).map(|number| format!("h{number}").parse().unwrap()).collect();
    let mut request = asked.clone();
    for (at, host) in hosts.iter().enumerate() {
        let range = u32::try_from(at).unwrap() * 200..u32::try_from(at + 1).unwrap() * 200;
        request.tasks = asked.tasks[range.start as usize..range.end as usize].to_vec();
        let grants = range.clone().map(|index| grant(&request, index, host)).collect();
        let answer = PlacementAnswer::Granted { request: asked.id, allocator: OwnerEpoch(1), grants };
        drop(parts(shard.step(Timestamp(1), Event::Placement(answer))));
        let statuses = range
            .map(|index| ContainerStatus {
                id: format!("shop/web/{index}@1").parse().unwrap(),
                phase: ContainerPhase::Running { started_at: Timestamp(1), pid: 1, ready: true },
            })
            .collect();
        drop(parts(shard.step(Timestamp(1), Event::HostReported { host: host.clone(), statuses })));
    }
    shard.check().unwrap();
    let status = shard.slice_status(&job("web")).unwrap();
    assert_eq!((status.running, status.ready, status.waiting.len()), (tasks, tasks, 0));
}

#[test]
fn tasks_without_a_word_of_their_own_are_made_up_from_the_job() {
    let mut shard = empty();
    let (persist, _) = parts(shard.step(Timestamp(0), apply(slice("web", 3))));
    let Delta::PutJob(record) = persist.into_iter().next().unwrap() else { panic!("a job is put") };
    let (restored, effects) = JobShard::restore(config(2), vec![*record], Vec::new(), Timestamp(9));
    restored.check().unwrap();
    let (_, effects) = parts(effects);
    assert_eq!(requests(&effects)[0].tasks.len(), 3);
    assert_eq!(requests(&effects)[0].id.owner, OwnerEpoch(2), "numbers of two owners never meet");
}

#[test]
fn waking_early_does_nothing() {
    let mut shard = empty();
    drop(parts(shard.step(Timestamp(0), apply(slice("web", 3)))));
    let at = shard.next_deadline().unwrap();
    assert!(shard.wake(at - Millis(1)).is_empty());
    assert!(!shard.wake(at).is_empty());
}

#[test]
fn a_version_of_the_federation_counts_and_a_local_one_is_counted() {
    let mut shard = empty();
    let mut first = slice("web", 1);
    first.version = SliceVersion(77);
    drop(parts(shard.step(Timestamp(0), apply(first))));
    assert_eq!(shard.job_record(&job("web")).unwrap().slice.version, SliceVersion(1));
}
