//! Agents and shims that die, and agents that come back.

use std::fs;

use polder_runtime::shim::{Adopted, Runtime as _};
use polder_types::ExitStatus;

use super::harness::{Agent, Harness, id, kill, lives, until};

fn running(adopted: &[Adopted]) -> Vec<(u32, bool)> {
    adopted
        .iter()
        .filter_map(|one| match one {
            Adopted::Running { pid, shim_alive, .. } => Some((*pid, *shim_alive)),
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_agent_finds_what_runs_what_ended_and_what_never_started() {
    let Some(mut harness) = Harness::new() else { return };
    let agent = Agent::run(
        &harness.root,
        &[
            "1:start:while [ ! -e /tmp/go ]; do sleep 0.05; done; exit 41",
            "2:start:exit 42",
            "3:create:echo must not run",
            "4:start:while [ ! -e /tmp/go ]; do sleep 0.05; done; kill -9 $$; sleep 1000",
        ],
    );
    let before = fs::read_to_string(harness.state(&id(1)).join("shim.json")).unwrap();
    agent.kill();
    let adopted = harness.runtime.adopt().await.unwrap();
    assert_eq!(adopted.len(), 4, "{adopted:?}");
    assert_eq!(running(&adopted).len(), 2, "{adopted:?}");
    assert!(running(&adopted).iter().all(|(pid, shim_alive)| lives(*pid) && *shim_alive));
    assert!(adopted.iter().any(|one| matches!(one, Adopted::Ended(exit) if exit.id == id(2) && exit.status == ExitStatus::Code { code: 42 })), "{adopted:?}");
    assert!(
        adopted.iter().any(|one| matches!(one, Adopted::Cleaned { id: Some(found), .. } if *found == id(3))),
        "{adopted:?}"
    );
    assert_eq!(fs::read_to_string(harness.state(&id(1)).join("shim.json")).unwrap(), before, "the same processes");
    assert!(!harness.state(&id(3)).exists());
    assert_eq!(fs::read_to_string(harness.root.join("logs/3.out")).unwrap(), "");

    for (pid, _) in running(&adopted) {
        fs::write(format!("/proc/{pid}/root/tmp/go"), "").unwrap();
    }
    assert_eq!(harness.wait(&id(1)).await.status, ExitStatus::Code { code: 41 });
    // PID 1 can't kill itself from within its namespace; the host can.
    harness.runtime.kill(&id(4)).await.unwrap();
    assert_eq!(harness.wait(&id(4)).await.status, ExitStatus::Signal { signal: 9, oom: false });
    let mut told = [harness.exits.recv().await.unwrap().id, harness.exits.recv().await.unwrap().id];
    told.sort();
    assert_eq!(told, [id(1), id(4)], "what had ended before is not told again");
    for number in [1, 2, 4] {
        harness.runtime.remove(&id(number)).await.unwrap();
    }
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_outlives_its_shim_and_its_end_is_not_invented() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "echo ready; while [ ! -e /tmp/go ]; do sleep 0.05; done; exit 43");
    let pid = harness.start(spec.clone()).await;
    harness.says(&spec, "ready").await;
    kill(harness.shim(&spec.id), 9);
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(lives(pid), "it runs on");
    fs::write(format!("/proc/{pid}/root/tmp/go"), "").unwrap();
    let exit = harness.wait(&spec.id).await;
    let right = exit.status == ExitStatus::Code { code: 43 };
    assert!(right || matches!(exit.status, ExitStatus::Unknown { .. }), "{exit:?}");
    if kernel_tells() {
        assert!(right, "this kernel keeps exit statuses: {exit:?}");
    }
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

/// 6.15 and later.
fn kernel_tells() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut parts = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(6), Some(15))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_agent_finds_a_container_whose_shim_died_with_the_old_agent() {
    let Some(harness) = Harness::new() else { return };
    let agent = Agent::run(&harness.root, &["1:start:echo ready; sleep 1000", "2:start:sleep 1000"]);
    let shims = [id(1), id(2)].map(|id| harness.shim(&id));
    agent.kill();
    shims.iter().for_each(|shim| kill(*shim, 9));
    until("the shims are gone", || shims.iter().all(|shim| !lives(u32::try_from(*shim).unwrap()))).await;
    // The second one ends while nobody looks.
    let text = fs::read(harness.state(&id(2)).join("shim.json")).unwrap();
    let record: polder_shim::ShimRecord = serde_json::from_slice(&text).unwrap();
    kill(record.init.pid, 9);
    until("the process is gone", || !lives(u32::try_from(record.init.pid).unwrap())).await;
    until("it is reaped", || !record.init.is_current()).await;

    let adopted = harness.runtime.adopt().await.unwrap();
    let [(_, shim_alive)] = running(&adopted)[..] else { panic!("{adopted:?}") };
    assert!(!shim_alive);
    assert!(
        adopted.iter().any(|one| matches!(one, Adopted::Ended(exit) if exit.id == id(2) && matches!(exit.status, ExitStatus::Unknown { .. }))),
        "{adopted:?}"
    );
    harness.runtime.kill(&id(1)).await.unwrap();
    let exit = harness.wait(&id(1)).await;
    assert!(matches!(exit.status, ExitStatus::Signal { signal: 9, .. } | ExitStatus::Unknown { .. }), "{exit:?}");
    for number in [1, 2] {
        harness.runtime.remove(&id(number)).await.unwrap();
    }
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_understood_is_left_alone() {
    let Some(harness) = Harness::new() else { return };
    let state = &harness.config.state_root;
    fs::create_dir(state.join("empty")).unwrap();
    fs::create_dir(state.join(".removing-old")).unwrap();
    fs::create_dir(state.join("newer")).unwrap();
    fs::write(state.join("newer/launch.json"), r#"{"version":99}"#).unwrap();
    fs::create_dir(harness.config.scratch_root.join("orphan")).unwrap();
    fs::create_dir(harness.config.scratch_root.join("newer")).unwrap();
    let adopted = harness.runtime.adopt().await.unwrap();
    assert_eq!(adopted.len(), 2, "{adopted:?}");
    assert!(matches!(&adopted[0], Adopted::Cleaned { id: None, .. }), "{adopted:?}");
    assert!(matches!(&adopted[1], Adopted::Unreadable { dir, .. } if dir.ends_with("newer")), "{adopted:?}");
    assert!(state.join("newer/launch.json").exists());
    assert!(harness.config.scratch_root.join("newer").exists());
    fs::remove_dir_all(state.join("newer")).unwrap();
    fs::remove_dir_all(harness.config.scratch_root.join("newer")).unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_of_another_process_is_not_taken_for_the_container() {
    let Some(harness) = Harness::new() else { return };
    let agent = Agent::run(&harness.root, &["1:start:sleep 1000"]);
    agent.kill();
    let file = harness.state(&id(1)).join("shim.json");
    let mut record: polder_shim::ShimRecord = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let (shim, init) = (record.shim, record.init);
    kill(shim.pid, 9);
    kill(init.pid, 9);
    until("both are reaped", || !shim.is_current() && !init.is_current()).await;
    // The number now means this very process.
    record.init.pid = i32::try_from(std::process::id()).unwrap();
    fs::write(&file, serde_json::to_vec(&record).unwrap()).unwrap();
    let adopted = harness.runtime.adopt().await.unwrap();
    assert!(
        matches!(&adopted[..], [Adopted::Ended(exit)] if matches!(exit.status, ExitStatus::Unknown { .. })),
        "{adopted:?}"
    );
    harness.runtime.kill(&id(1)).await.unwrap();
    harness.runtime.remove(&id(1)).await.unwrap();
    harness.finish();
}

/// Agents that die at many moments between the first instruction and the running containers.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_at_any_moment_loses_and_doubles_nothing() {
    let Some(harness) = Harness::new() else { return };
    for round in 0..25_u64 {
        let agent = Agent::begin(&harness.root, &["1:start:sleep 1000", "2:start:sleep 1000"]);
        tokio::time::sleep(std::time::Duration::from_millis(20 + round * 4)).await;
        agent.kill();
        let adopted = harness.runtime.adopt().await.unwrap();
        let mut here = Vec::new();
        for one in &adopted {
            match one {
                Adopted::Running { id, pid, shim_alive, .. } => {
                    assert!(*shim_alive && lives(*pid), "round {round}: {one:?}");
                    assert_eq!(harness.runtime.processes(id).await.unwrap(), [*pid], "round {round}");
                    here.push(id.clone());
                }
                Adopted::Cleaned { .. } => {}
                _ => panic!("round {round}: {adopted:?}"),
            }
        }
        let known = fs::read_dir(&harness.config.state_root).unwrap().count();
        assert_eq!(known, here.len(), "round {round}: what doesn't run is gone");
        for id in here {
            harness.runtime.kill(&id).await.unwrap();
            let exit = harness.wait(&id).await;
            // The kill may have come between the go and the container's first instruction.
            let right = matches!(exit.status, ExitStatus::Signal { signal: 9, .. } | ExitStatus::NotStarted { .. });
            assert!(right, "round {round}: {exit:?}");
            harness.runtime.remove(&id).await.unwrap();
        }
        // Removes the parents' cgroups if the agent died when there was no container yet.
        harness.runtime.adopt().await.unwrap();
    }
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_of_the_machine_only_what_was_written_down_is_known() {
    let Some(harness) = Harness::new() else { return };
    Agent::run(&harness.root, &["1:start:sleep 1000", "2:start:exit 12"]).kill();
    let shim = harness.shim(&id(1));
    let text = fs::read(harness.state(&id(1)).join("shim.json")).unwrap();
    let record: polder_shim::ShimRecord = serde_json::from_slice(&text).unwrap();
    until("the end of the second", || harness.state(&id(2)).join("exit.json").exists()).await;
    [shim, record.init.pid].into_iter().for_each(|pid| kill(pid, 9));
    until("both are reaped", || !record.shim.is_current() && !record.init.is_current()).await;
    for number in [1, 2] {
        let file = harness.state(&id(number)).join("launch.json");
        let mut launch: polder_shim::Launch = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        launch.boot_id = "of another life".to_owned();
        fs::write(&file, serde_json::to_vec(&launch).unwrap()).unwrap();
    }
    let adopted = harness.runtime.adopt().await.unwrap();
    let [Adopted::Ended(one), Adopted::Ended(two)] = &adopted[..] else { panic!("{adopted:?}") };
    assert!(matches!(one.status, ExitStatus::Unknown { .. }), "{one:?}");
    assert_eq!(two.status, ExitStatus::Code { code: 12 });
    for number in [1, 2] {
        harness.runtime.remove(&id(number)).await.unwrap();
    }
    harness.finish();
}
