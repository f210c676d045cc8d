//! Creating and starting the container.

use std::{
    error::Error,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{fs::OpenOptionsExt as _, net::UnixStream, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use libcontainer::{
    container::{Container, builder::ContainerBuilder},
    oci_spec::runtime::Spec,
    syscall::syscall::SyscallType,
};
use nix::sys::signal::SigSet;
use polder_shim::{
    BYTE_GO, EXIT_FILE, ExitRecord, LAUNCH_FILE, LIBCONTAINER_DIR, Launch, MESSAGE_CREATED, MESSAGE_ERROR,
    MESSAGE_RUNNING, PROTOCOL_VERSION, ProcessMark, ROOTFS_DIR, SHIM_FILE, ShimRecord, Survives, cgroup::Cgroups,
    read_record, write_record,
};
use rustix::process::{getpid, set_child_subreaper, setsid};

use crate::{log, overlay, user::Root};

const OOM_SCORE_FILE: &str = "/proc/self/oom_score_adj";
/// Logs may hold anything: only root and its group read them.
const LOG_MODE: u32 = 0o640;

/// Creates the container of a state directory, starts it on the agent's word, and becomes its waiter.
pub(crate) fn run(dir: &Path) -> Result<(), String> {
    let mut agent = handshake_socket().map_err(|error| format!("no socket to the agent: {error}"))?;
    log::install();
    let launch: Launch = read_record(&dir.join(LAUNCH_FILE)).map_err(|error| error.to_string())?;
    let Err(reason) = create_and_start(dir, &launch, &mut agent);
    let log = log::beyond(&reason, dir);
    let reason = if log.is_empty() { reason } else { format!("{reason} ({log})") };
    let exit = ExitRecord::not_started(&launch.id, reason.clone(), now_ms());
    let written = write_record(&dir.join(EXIT_FILE), &exit, Survives::Reboot);
    // The agent may be gone; it will find the file.
    let _ = agent.write_all(format!("{MESSAGE_ERROR} {}\n", reason.replace('\n', "; ")).as_bytes());
    written.map_err(|error| error.to_string())?;
    Err(reason)
}

/// Doesn't return when it succeeds: the process has become the waiter then.
fn create_and_start(dir: &Path, launch: &Launch, agent: &mut UnixStream) -> Result<std::convert::Infallible, String> {
    let said = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    become_a_clean_parent()?;
    let rootfs = dir.join(ROOTFS_DIR);
    overlay::mount_root(launch, &rootfs)?;
    let spec = complete_spec(launch, &rootfs)?;
    spec.save(dir.join("config.json")).map_err(|error| chain("config.json can't be written", &error))?;
    let cgroup = cgroup_of(&spec)?;

    let score = fs::read(OOM_SCORE_FILE).map_err(said(OOM_SCORE_FILE))?;
    let built = build(dir, launch);
    // libcontainer sets the container's value on this process.
    let _ = fs::write(OOM_SCORE_FILE, score);
    let mut container = match built {
        Ok(container) => container,
        Err(reason) => {
            give_back(&cgroup, None);
            return Err(reason);
        }
    };
    let started = record_and_start(dir, launch, agent, &cgroup, &mut container);
    match started {
        Ok(init) => Err(become_the_waiter(dir, init)),
        Err(reason) => {
            give_back(&cgroup, Some(&mut container));
            Err(reason)
        }
    }
}

fn record_and_start(
    dir: &Path,
    launch: &Launch,
    agent: &mut UnixStream,
    cgroup: &Path,
    container: &mut Container,
) -> Result<i32, String> {
    let said = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let init = container.pid().ok_or("libcontainer gave no process")?.as_raw();
    let mut record = ShimRecord {
        version: PROTOCOL_VERSION,
        id: launch.id.clone(),
        shim: ProcessMark::of(getpid().as_raw_nonzero().get()).map_err(said("this process can't be read"))?,
        init: ProcessMark::of(init).map_err(said("the container's process can't be read"))?,
        cgroup: cgroup.to_owned(),
        started_at_ms: None,
    };
    write_record(&dir.join(SHIM_FILE), &record, Survives::ThisBoot).map_err(said("the record can't be written"))?;
    agent
        .write_all(format!("{MESSAGE_CREATED}\n").as_bytes())
        .map_err(said("the agent went away before the container was created"))?;
    wait_for_go(agent)?;
    // Written before it is so: a container that may have started must never look as if it had not.
    record.started_at_ms = Some(now_ms());
    write_record(&dir.join(SHIM_FILE), &record, Survives::ThisBoot).map_err(said("the record can't be written"))?;
    container.start().map_err(|error| chain("the container can't be started", &error))?;
    // The container runs whether or not the agent is still there to hear it.
    let _ = agent.write_all(format!("{MESSAGE_RUNNING}\n").as_bytes());
    Ok(init)
}

/// The agent gave its end of the handshake as standard input.
fn handshake_socket() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(UnixStream::from(socket))
}

fn become_a_clean_parent() -> Result<(), String> {
    // A session of its own: what a terminal sends to the agent's group doesn't come here. It fails only when this
    // process leads a group already, which is as good.
    let _ = setsid();
    set_child_subreaper(Some(getpid())).map_err(|error| format!("orphans can't be adopted: {error}"))?;
    reset_signals();
    SigSet::empty().thread_set_mask().map_err(|error| format!("the signals can't be unblocked: {error}"))?;
    // libcontainer changes it for moments; nothing must be held by it.
    std::env::set_current_dir("/").map_err(|error| format!("/: {error}"))
}

/// What is ignored is inherited over an exec: SIGPIPE, which Rust programs ignore, and whatever the agent's own parents
/// had ignored. The C library hides two signals from its own call, so the kernel is asked.
fn reset_signals() {
    const SIGNALS: std::ops::RangeInclusive<libc::c_int> = 1..=64;
    /// The kernel's `struct sigaction`: handler, flags, restorer and mask, all zero, which is the default action.
    static DEFAULT: [usize; 4] = [0; 4];
    const MASK_BYTES: usize = 8;
    for signal in SIGNALS {
        // SAFETY: the structure is as large as the kernel reads, and the default action is no code of ours. There is one
        // thread. For the two signals that can't be set it says so, which is as good.
        #[allow(unsafe_code)]
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                &raw const DEFAULT,
                std::ptr::null_mut::<usize>(),
                MASK_BYTES,
            );
        }
    }
}

/// Fills in what only the image knows: the user's numbers and home.
fn complete_spec(launch: &Launch, rootfs: &Path) -> Result<Spec, String> {
    let mut spec = launch.spec.clone();
    let root = Root::open(rootfs).map_err(|error| format!("the root can't be opened: {error}"))?;
    let account = root.account(launch.user.as_deref())?;
    let process = spec.get_mut("process").and_then(|value| value.as_object_mut()).ok_or("the spec has no process")?;
    if let Some(cwd) = process.get("cwd").and_then(|value| value.as_str()) {
        root.make_dir(Path::new(cwd))?;
    }
    process.insert(
        "user".to_owned(),
        serde_json::json!({ "uid": account.uid, "gid": account.gid, "additionalGids": account.groups }),
    );
    let env = process.get_mut("env").and_then(|value| value.as_array_mut()).ok_or("the spec has no environment")?;
    // Always set: without it libcontainer asks the C library for the user's home, after the change of root, and a C
    // library may load code of the image to answer that.
    if !env.iter().any(|pair| pair.as_str().is_some_and(|pair| pair.starts_with("HOME="))) {
        env.push(format!("HOME={}", account.home).into());
    }
    serde_json::from_value(spec).map_err(|error| format!("the spec makes no sense: {error}"))
}

fn cgroup_of(spec: &Spec) -> Result<PathBuf, String> {
    let path = spec.linux().as_ref().and_then(|linux| linux.cgroups_path().clone()).ok_or("the spec has no cgroup")?;
    // A relative one would be systemd's or this process's own.
    if path.is_absolute() { Ok(path) } else { Err(format!("the cgroup {} is not absolute", path.display())) }
}

fn build(dir: &Path, launch: &Launch) -> Result<Container, String> {
    let failed = |error: libcontainer::error::LibcontainerError| chain("the container can't be created", &error);
    let (stdout, stderr) = logs(launch)?;
    let null = File::open("/dev/null").map_err(|error| format!("/dev/null: {error}"))?;
    ContainerBuilder::new(launch.name.clone(), SyscallType::default())
        .with_root_path(dir.join(LIBCONTAINER_DIR))
        .map_err(failed)?
        .with_stdin(null)
        .with_stdout(stdout)
        .with_stderr(stderr)
        .validate_id()
        .map_err(failed)?
        .as_init(dir)
        .with_systemd(false)
        .with_detach(true)
        .build()
        .map_err(failed)
}

fn logs(launch: &Launch) -> Result<(OwnedFd, OwnedFd), String> {
    let open = |path: &Path| {
        let file = OpenOptions::new().append(true).create(true).mode(LOG_MODE).open(path);
        file.map(OwnedFd::from).map_err(|error| format!("the log {} can't be opened: {error}", path.display()))
    };
    Ok((open(&launch.stdout)?, open(&launch.stderr)?))
}

fn wait_for_go(agent: &mut UnixStream) -> Result<(), String> {
    let mut byte = [0];
    match agent.read_exact(&mut byte) {
        Ok(()) if byte[0] == BYTE_GO => Ok(()),
        Ok(()) => Err("the agent sent something that is not a go".to_owned()),
        Err(_) => Err("the agent went away before it let the container start".to_owned()),
    }
}

/// After a failure: nothing of the container may be left.
fn give_back(cgroup: &Path, container: Option<&mut Container>) {
    let cgroups = Cgroups::of_host().unwrap_or_default();
    let _ = cgroups.kill(cgroup);
    if let Some(Err(error)) = container.map(|container| container.delete(true)) {
        log::line(&chain("libcontainer could not delete the container", &error));
    }
    if let Err(error) = cgroups.remove(cgroup) {
        log::line(&error.to_string());
    }
}

/// The same program afresh, so that it holds no more memory than waiting needs. Process number and children stay.
fn become_the_waiter(dir: &Path, init: i32) -> String {
    let pid = init.to_string();
    let args = [OsStr::new("wait"), dir.as_os_str(), OsStr::new(&pid)];
    let error = Command::new("/proc/self/exe").args(args).env_clear().exec();
    format!("the shim can't become the waiter: {error}")
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// An error with everything below it. libcontainer repeats some.
pub(crate) fn chain(what: &str, error: &dyn Error) -> String {
    let mut parts = vec![what.to_owned()];
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !parts.last().is_some_and(|last| last.ends_with(&text)) {
            parts.push(text);
        }
        next = error.source();
    }
    parts.join(": ")
}
