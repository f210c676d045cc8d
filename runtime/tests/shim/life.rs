//! From create to remove.

use std::{collections::BTreeSet, fs};

use polder_runtime::shim::{Runtime as _, RuntimeError};
use polder_types::ExitStatus;

use super::harness::{Harness, id, kill, lives, until};

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_come_through() {
    let Some(mut harness) = Harness::new() else { return };
    for (number, code) in [(0, 0), (1, 1), (2, 42), (3, 255)] {
        let spec = harness.spec(number, &format!("echo $GREETING; exit {code}"));
        let (status, said) = harness.run(spec).await;
        assert_eq!(status, ExitStatus::Code { code });
        assert_eq!(said, "hello there\n");
        assert_eq!(harness.exits.recv().await.unwrap().id, id(number), "each end is told once");
    }
    assert!(harness.exits.try_recv().is_err());
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_is_the_images_layers_and_keeps_them_untouched() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "cat /data/which; echo mine > /data/which; cat /data/which; ls /data");
    let (status, said) = harness.run(spec).await;
    assert_eq!((status, said.as_str()), (ExitStatus::Code { code: 0 }, "topmine\nwhich\n"));
    assert_eq!(fs::read_to_string(harness.root.join("layers/top/data/which")).unwrap(), "top");
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_error_has_its_own_log_and_both_are_appended_to() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "echo out; echo err >&2");
    fs::write(&spec.stdout, "before\n").unwrap();
    let stderr = spec.stderr.clone();
    let (_, said) = harness.run(spec).await;
    assert_eq!(said, "before\nout\n");
    assert_eq!(fs::read_to_string(stderr).unwrap(), "err\n");
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_those_of_the_image() {
    let Some(harness) = Harness::new() else { return };
    let script = "echo $(id -u) $(id -g) $(id -G) $HOME; pwd";
    for (number, user, workdir, wanted) in [
        (1, None, "/", "0 0 0 /root\n/\n"),
        (2, Some("web"), "/", "1000 1000 1000 1001 /home/web\n/\n"),
        (3, Some("web:logs"), "/", "1000 1001 1001 /home/web\n/\n"),
        (4, Some("77:88"), "/made/for/this", "77 88 88 /\n/made/for/this\n"),
    ] {
        let mut spec = harness.spec(number, script);
        spec.user = user.map(str::to_owned);
        spec.workdir = workdir.into();
        let (_, said) = harness.run(spec).await;
        assert_eq!(said, wanted, "{user:?}");
    }
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_created_says_why_and_leaves_nothing() {
    let Some(mut harness) = Harness::new() else { return };
    let mut no_command = harness.spec(1, "");
    no_command.args = vec!["/bin/nonsense".to_owned()];
    let mut no_user = harness.spec(2, "");
    no_user.user = Some("nobody-here".to_owned());
    let mut no_layer = harness.spec(3, "");
    no_layer.layers.push(harness.root.join("layers/gone"));
    for (spec, wanted) in [(no_command, "/bin/nonsense"), (no_user, "no user `nobody-here`"), (no_layer, "layers/gone")]
    {
        let error = harness.runtime.create(spec.clone()).await.unwrap_err();
        assert!(matches!(error, RuntimeError::Failed { .. }), "{error:?}");
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(!harness.state(&spec.id).exists());
        let missing = harness.runtime.wait(&spec.id).await.unwrap_err();
        assert!(matches!(missing, RuntimeError::NotFound { .. }));
    }
    assert!(harness.exits.try_recv().is_err(), "what was never created has no end");
    // The last one has had its parents' cgroups made.
    harness.runtime.adopt().await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_used_once_at_a_time_and_again_after_removal() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "sleep 1000");
    harness.start(spec.clone()).await;
    let again = harness.runtime.create(spec.clone()).await.unwrap_err();
    assert!(matches!(again, RuntimeError::Exists { .. }), "{again:?}");
    let running = harness.runtime.remove(&spec.id).await.unwrap_err();
    assert!(matches!(running, RuntimeError::WrongState { .. }), "{running:?}");
    let started = harness.runtime.start(&spec.id).await.unwrap_err();
    assert!(matches!(started, RuntimeError::WrongState { .. }), "{started:?}");
    harness.runtime.kill(&spec.id).await.unwrap();
    assert_eq!(harness.wait(&spec.id).await.status, ExitStatus::Signal { signal: 9, oom: false });
    harness.runtime.remove(&spec.id).await.unwrap();
    let (status, _) = harness.run(harness.spec(1, "exit 3")).await;
    assert_eq!(status, ExitStatus::Code { code: 3 });
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_reach_the_first_process() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done");
    harness.start(spec.clone()).await;
    harness.says(&spec, "ready").await;
    harness.runtime.signal(&spec.id, 15).await.unwrap();
    assert_eq!(harness.wait(&spec.id).await.status, ExitStatus::Code { code: 7 });
    // One that comes too late is no error.
    harness.runtime.signal(&spec.id, 15).await.unwrap();
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ignores_the_stop_signal_is_killed() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "trap '' TERM; echo ready; while :; do sleep 0.05; done");
    let pid = harness.start(spec.clone()).await;
    harness.says(&spec, "ready").await;
    harness.runtime.signal(&spec.id, 15).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(lives(pid));
    assert!(!harness.runtime.processes(&spec.id).await.unwrap().is_empty());
    harness.runtime.kill(&spec.id).await.unwrap();
    assert_eq!(harness.wait(&spec.id).await.status, ExitStatus::Signal { signal: 9, oom: false });
    assert!(harness.runtime.processes(&spec.id).await.unwrap().is_empty());
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn children_that_fled_to_a_session_of_their_own_die_with_the_container() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "(setsid sh -c 'sleep 1000 & sleep 1000 & exit' &); sleep 0.2; echo ready; sleep 1000");
    harness.start(spec.clone()).await;
    harness.says(&spec, "ready").await;
    let pids = harness.runtime.processes(&spec.id).await.unwrap();
    assert!(pids.len() >= 3, "{pids:?}");
    harness.runtime.kill(&spec.id).await.unwrap();
    harness.wait(&spec.id).await;
    assert!(pids.iter().all(|pid| !lives(*pid)));
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_was_never_started_can_be_killed_and_removed() {
    let Some(mut harness) = Harness::new() else { return };
    let spec = harness.spec(1, "echo ran");
    let created = harness.runtime.create(spec.clone()).await.unwrap();
    assert!(lives(created.pid));
    harness.runtime.kill(&spec.id).await.unwrap();
    let exit = harness.wait(&spec.id).await;
    assert!(matches!(exit.status, ExitStatus::NotStarted { .. }), "{exit:?}");
    assert_eq!(harness.exits.recv().await.unwrap(), exit);
    assert!(!lives(created.pid));
    harness.runtime.remove(&spec.id).await.unwrap();
    assert_eq!(fs::read_to_string(spec.stdout).unwrap(), "");
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_killed_before_the_start_leaves_nothing() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "echo ran");
    let created = harness.runtime.create(spec.clone()).await.unwrap();
    kill(harness.shim(&spec.id), 9);
    let exit = harness.wait(&spec.id).await;
    assert!(matches!(exit.status, ExitStatus::NotStarted { .. }), "{exit:?}");
    let error = harness.runtime.start(&spec.id).await.unwrap_err();
    assert!(matches!(error, RuntimeError::WrongState { .. }), "{error:?}");
    until("the first process is gone", || !lives(created.pid)).await;
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_start_two_at_a_time_and_each_is_told_once() {
    let Some(mut harness) = Harness::new() else { return };
    let mut told = BTreeSet::new();
    for pair in 0..25 {
        let [one, two] = [2 * pair, 2 * pair + 1].map(|number| {
            let spec = harness.spec(number, &format!("exit {}", number % 50));
            let harness = &harness;
            async move {
                let id = spec.id.clone();
                harness.start(spec).await;
                let exit = harness.wait(&id).await;
                assert_eq!(exit.status, ExitStatus::Code { code: i32::try_from(number % 50).unwrap() });
                harness.runtime.remove(&id).await.unwrap();
            }
        });
        tokio::join!(one, two);
    }
    for _ in 0..50 {
        told.insert(harness.exits.recv().await.unwrap().id);
    }
    assert_eq!(told.len(), 50);
    assert!(harness.exits.try_recv().is_err());
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn cgroups_below_the_containers_own_do_not_stop_its_removal() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "echo ready; sleep 1000");
    harness.start(spec.clone()).await;
    harness.says(&spec, "ready").await;
    for dir in harness.cgroups.dirs(&harness.cgroup(&spec.id)) {
        fs::create_dir_all(dir.join("of/its/own")).unwrap();
    }
    harness.runtime.kill(&spec.id).await.unwrap();
    assert_eq!(harness.wait(&spec.id).await.status, ExitStatus::Signal { signal: 9, oom: false });
    assert!(harness.cgroups.dirs(&harness.cgroup(&spec.id)).is_empty(), "the shim itself removes them");
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_container_can_be_killed() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "echo ready; sleep 1000");
    harness.start(spec.clone()).await;
    harness.says(&spec, "ready").await;
    let dir = harness.cgroups.dir("freezer", &harness.cgroup(&spec.id)).unwrap();
    if harness.cgroups.is_unified() {
        fs::write(dir.join("cgroup.freeze"), "1").unwrap();
    } else {
        fs::write(dir.join("freezer.state"), "FROZEN").unwrap();
    }
    harness.runtime.kill(&spec.id).await.unwrap();
    assert_eq!(harness.wait(&spec.id).await.status, ExitStatus::Signal { signal: 9, oom: false });
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shim_ignores_signals_that_are_meant_for_others() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "echo ready; while [ ! -e /tmp/go ]; do sleep 0.05; done; exit 9");
    let pid = harness.start(spec.clone()).await;
    harness.says(&spec, "ready").await;
    let shim = harness.shim(&spec.id);
    // It is the waiter by now, or will be in a moment.
    until("the waiter", || fs::read(format!("/proc/{shim}/cmdline")).unwrap().windows(4).any(|part| part == b"wait"))
        .await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    for signal in [1, 2, 3, 15] {
        kill(shim, signal);
    }
    fs::write(format!("/proc/{pid}/root/tmp/go"), "").unwrap();
    assert_eq!(harness.wait(&spec.id).await.status, ExitStatus::Code { code: 9 });
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

/// Not at a chosen moment, but at many: from the first instruction of the shim to the running container.
#[tokio::test(flavor = "multi_thread")]
async fn a_shim_killed_at_any_moment_leaves_nothing() {
    let Some(harness) = Harness::new() else { return };
    for round in 0..30_u64 {
        let spec = harness.spec(1, "sleep 1000");
        let (id, dir) = (spec.id.clone(), harness.state(&spec.id));
        let killer = tokio::task::spawn_blocking(move || {
            let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
            let shim = loop {
                let found = super::harness::processes_with(dir.to_str().unwrap());
                if let Some(pid) = found.first() {
                    break *pid;
                }
                if std::time::Instant::now() > until {
                    return;
                }
            };
            std::thread::sleep(std::time::Duration::from_micros(round * 300));
            kill(shim, 9);
        });
        let created = harness.runtime.create(spec).await;
        let ended = match created {
            Err(error) => {
                assert!(matches!(error, RuntimeError::Failed { .. }), "{error:?}");
                None
            }
            Ok(_) => {
                let started = harness.runtime.start(&id).await.is_ok();
                killer.await.unwrap();
                if started {
                    harness.runtime.kill(&id).await.unwrap();
                }
                let exit = harness.wait(&id).await;
                harness.runtime.remove(&id).await.unwrap();
                Some((started, exit))
            }
        };
        if let Some((started, exit)) = ended {
            let right = match exit.status {
                ExitStatus::NotStarted { .. } => !started,
                ExitStatus::Signal { signal: 9, .. } | ExitStatus::Unknown { .. } => true,
                _ => false,
            };
            assert!(right, "round {round}: started {started}, {exit:?}");
        }
    }
    harness.runtime.adopt().await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_that_hangs_is_killed_and_cleaned_up() {
    let Some(harness) = Harness::new() else { return };
    let limit = std::time::Duration::from_secs(1);
    let (runtime, _exits) = super::harness::runtime(&harness.config);
    let runtime = runtime.with_limits(limit, limit);
    let spec = harness.spec(1, "echo ran");
    let dir = harness.state(&spec.id);
    let stopper = tokio::task::spawn_blocking(move || {
        loop {
            if let Some(shim) = super::harness::processes_with(dir.to_str().unwrap()).first() {
                return kill(*shim, 19);
            }
        }
    });
    let error = runtime.create(spec.clone()).await;
    stopper.await.unwrap();
    // The stop may have come after the answer; then it is the start that hangs.
    let error = match error {
        Err(error) => error,
        Ok(_) => {
            let error = runtime.start(&spec.id).await.unwrap_err();
            assert!(matches!(runtime.wait(&spec.id).await.unwrap().status, ExitStatus::NotStarted { .. }));
            runtime.remove(&spec.id).await.unwrap();
            error
        }
    };
    assert!(matches!(error, RuntimeError::TimedOut { .. }), "{error:?}");
    assert!(error.to_string().contains("within 1s"), "{error}");
    assert!(!harness.state(&spec.id).exists());
    runtime.adopt().await.unwrap();
    harness.finish();
}
