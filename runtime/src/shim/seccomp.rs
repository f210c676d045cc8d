//! The system calls that a container may make.

use serde_json::{Value, json};

const ALLOWED: &str = include_str!("syscalls.txt");

/// Refused by name, so that an administrator reads "not permitted".
const REFUSED: &[&str] = &[
    "acct",
    "add_key",
    "bpf",
    "clock_settime",
    "clock_settime64",
    "delete_module",
    "finit_module",
    "init_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "quotactl",
    "reboot",
    "request_key",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "syslog",
    "umount",
    "umount2",
    "unshare",
];

/// `CLONE_NEWNS`, `CLONE_NEWCGROUP`, `CLONE_NEWUTS`, `CLONE_NEWIPC`, `CLONE_NEWUSER`, `CLONE_NEWPID`, `CLONE_NEWNET`.
const CLONE_NAMESPACES: u64 = 0x7E02_0000;
/// Sockets to the hypervisor know no network namespace.
const AF_VSOCK: u64 = 40;
/// Linux, Linux with short inode numbers, and the question.
const PERSONALITIES: [u64; 5] = [0x0, 0x0008, 0x2_0000, 0x2_0008, 0xFFFF_FFFF];
const ENOSYS: u32 = 38;
const EPERM: u32 = 1;

/// The names in the list.
fn allowed() -> Vec<&'static str> {
    ALLOWED.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_ascii_whitespace).collect()
}

/// `linux.seccomp` of the OCI spec. Only the host's own architecture: calls of another one end the process.
pub(crate) fn profile() -> Value {
    let allow = |names: Value, args: Value| json!({ "names": names, "action": "SCMP_ACT_ALLOW", "args": args });
    let mut rules = vec![
        json!({ "names": allowed(), "action": "SCMP_ACT_ALLOW" }),
        json!({ "names": REFUSED, "action": "SCMP_ACT_ERRNO", "errnoRet": EPERM }),
        // libcontainer 0.7.0 takes `valueTwo` as the mask and `value` as what is left of it, the reverse of what runc
        // does. A test makes both kinds of call.
        allow(
            json!(["clone"]),
            json!([{ "index": 0, "value": 0, "valueTwo": CLONE_NAMESPACES, "op": "SCMP_CMP_MASKED_EQ" }]),
        ),
        allow(json!(["socket"]), json!([{ "index": 0, "value": AF_VSOCK, "op": "SCMP_CMP_NE" }])),
    ];
    rules.extend(
        PERSONALITIES
            .map(|value| allow(json!(["personality"]), json!([{ "index": 0, "value": value, "op": "SCMP_CMP_EQ" }]))),
    );
    json!({ "defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": ENOSYS, "syscalls": rules })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_call_is_both_allowed_and_refused() {
        let allowed_once: BTreeSet<_> = allowed().into_iter().collect();
        assert_eq!(allowed_once.len(), allowed().len(), "a name is there twice");
        for name in REFUSED.iter().chain(&["clone", "clone3", "socket", "personality", "io_uring_setup", "userfaultfd"])
        {
            assert!(!allowed_once.contains(name), "{name}");
        }
    }
}
