//! What a container sees of the host.

use std::fs;

use polder_runtime::shim::{Bind, Runtime as _};
use polder_types::ExitStatus;

use super::harness::Harness;

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_its_own_but_the_network_is_the_hosts() {
    let Some(harness) = Harness::new() else { return };
    let spec = harness.spec(1, "hostname; echo pid $$; echo ready; sleep 1000");
    let pid = harness.start(spec.clone()).await;
    harness.says(&spec, "ready").await;
    for kind in ["pid", "mnt", "ipc", "uts"] {
        let own = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        assert_ne!(fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap(), own, "{kind}");
    }
    let net = fs::read_link("/proc/self/ns/net").unwrap();
    assert_eq!(fs::read_link(format!("/proc/{pid}/ns/net")).unwrap(), net);
    assert_eq!(fs::read_to_string(&spec.stdout).unwrap(), "task-1\npid 1\nready\n");
    // The shim's mount of the root is seen by nobody else.
    let host = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!host.contains(harness.root.to_str().unwrap()));
    let inside = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    let root = inside.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap();
    assert!(root.contains(" - overlay "), "{root}");
    assert!(root.contains("layers/top:") && root.contains("layers/base,"), "{root}");
    harness.runtime.kill(&spec.id).await.unwrap();
    harness.wait(&spec.id).await;
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_the_host_can_be_given() {
    let Some(harness) = Harness::new() else { return };
    fs::write(harness.root.join("secret"), "given").unwrap();
    let mut spec = harness.spec(1, "cat /run/secrets/one; echo x > /run/secrets/one || echo refused");
    let bind = Bind { source: harness.root.join("secret"), target: "/run/secrets/one".into(), read_only: true };
    spec.binds = vec![bind];
    let (_, said) = harness.run(spec).await;
    assert_eq!(said, "givenrefused\n");
    assert_eq!(fs::read_to_string(harness.root.join("secret")).unwrap(), "given");
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_shim_is_open_or_set_in_the_container() {
    let Some(harness) = Harness::new() else { return };
    let (_, said) = harness.run(harness.spec(1, "ls /proc/1/fd; env")).await;
    let mut lines: Vec<_> = said.lines().collect();
    lines.sort_unstable();
    // `PWD` and `SHLVL` are the shell's own.
    assert_eq!(lines, ["0", "1", "2", "GREETING=hello there", "HOME=/root", "PATH=/bin", "PWD=/", "SHLVL=1"]);
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileges_can_not_be_gained() {
    let Some(harness) = Harness::new() else { return };
    let script = "grep -E '^(Cap|NoNewPrivs)' /proc/self/status; mount -t tmpfs none /tmp || echo mount refused; \
                  echo 1 > /proc/sys/vm/drop_caches || echo sysctl refused; touch /sys/x || echo sys refused";
    let (status, said) = harness.run(harness.spec(1, script)).await;
    assert_eq!(status, ExitStatus::Code { code: 0 });
    for wanted in ["CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(said.contains(wanted), "{said}");
    }
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, SYS_CHROOT.
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert!(said.contains(&format!("{set}:\t00000000000405fb")), "{said}");
    }
    for wanted in ["mount refused", "sysctl refused", "sys refused"] {
        assert!(said.contains(wanted), "{said}");
    }
    let mut spec = harness.spec(2, "grep -E '^Cap' /proc/self/status");
    spec.user = Some("web".to_owned());
    let (_, said) = harness.run(spec).await;
    assert!(said.contains("CapEff:\t0000000000000000") && said.contains("CapPrm:\t0000000000000000"), "{said}");
    harness.finish();
}
