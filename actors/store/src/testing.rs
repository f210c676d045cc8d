//! Real etcd servers for tests.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::File,
    io,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// How long a cluster may take until each member answers.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a cluster is started on other ports when somebody took one between choosing and using it.
const START_ATTEMPTS_MAX: usize = 3;

#[derive(Debug)]
struct Member {
    name: String,
    client: String,
    peer: String,
    child: Option<Child>,
}

/// One or more etcd members on 127.0.0.1, with their data in a temporary directory. Dropping it kills them.
#[derive(Debug)]
pub struct EtcdServer {
    members: Vec<Member>,
    dir: TempDir,
}

fn free_address() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(format!("http://{}", listener.local_addr()?))
}

impl EtcdServer {
    /// Starts a cluster and waits until each member answers.
    ///
    /// # Errors
    /// When the program `etcd` is not in PATH (Debian: `etcd-server`), or the cluster does not come up.
    pub async fn start(members: usize) -> io::Result<Self> {
        let mut last = io::Error::other("no attempt was made");
        for _ in 0..START_ATTEMPTS_MAX {
            match Self::try_start(members).await {
                Ok(server) => return Ok(server),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(io::Error::new(error.kind(), "the program `etcd` is not installed (apt: etcd-server)"));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn try_start(count: usize) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("polder-etcd-").tempdir()?;
        let mut members = Vec::new();
        for index in 0..count {
            let (client, peer) = (free_address()?, free_address()?);
            members.push(Member { name: format!("m{index}"), client, peer, child: None });
        }
        let mut server = Self { members, dir };
        for index in 0..count {
            server.launch(index)?;
        }
        for index in 0..count {
            server.ready(index).await?;
        }
        Ok(server)
    }

    fn launch(&mut self, index: usize) -> io::Result<()> {
        let cluster: Vec<_> = self.members.iter().map(|member| format!("{}={}", member.name, member.peer)).collect();
        let (data, log) = (self.member_dir(index), self.log_path(index));
        let log = File::options().create(true).append(true).open(log)?;
        let member = &mut self.members[index];
        let child = Command::new("etcd")
            .args(["--name", &member.name, "--logger", "zap", "--log-level", "warn"])
            .arg("--data-dir")
            .arg(data)
            .args(["--listen-client-urls", &member.client, "--advertise-client-urls", &member.client])
            .args(["--listen-peer-urls", &member.peer, "--initial-advertise-peer-urls", &member.peer])
            .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500", "--snapshot-count", "10000"])
            .args(["--quota-backend-bytes", "8589934592"])
            // Nothing of the environment may reach it.
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        member.child = Some(child);
        Ok(())
    }

    fn member_dir(&self, index: usize) -> PathBuf {
        self.dir.path().join(&self.members[index].name)
    }

    fn log_path(&self, index: usize) -> PathBuf {
        self.dir.path().join(format!("{}.log", self.members[index].name))
    }

    async fn ready(&mut self, index: usize) -> io::Result<()> {
        let address = self.members[index].client.clone();
        let wait = async {
            loop {
                let exited = self.members[index].child.as_mut().map(Child::try_wait).transpose()?.flatten();
                if let Some(status) = exited {
                    let log = std::fs::read_to_string(self.log_path(index)).unwrap_or_default();
                    return Err(io::Error::other(format!("etcd ended with {status}: {log}")));
                }
                if answers(&address).await {
                    return Ok(());
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(START_TIMEOUT, wait)
            .await
            .unwrap_or_else(|_| Err(io::Error::other(format!("etcd at {address} did not answer"))))
    }

    /// The client addresses of all members.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }

    /// The process of a member that runs.
    #[must_use]
    pub fn pid(&self, index: usize) -> Option<u32> {
        self.members.get(index)?.child.as_ref().map(Child::id)
    }

    fn signal(&self, index: usize, signal: Signal) -> io::Result<()> {
        let pid = self.pid(index).and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other(format!("member {index} does not run")))?;
        Ok(kill_process(pid, signal)?)
    }

    /// Kills a member (SIGKILL) and waits until it is gone.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self, index: usize) -> io::Result<()> {
        self.signal(index, Signal::KILL)?;
        if let Some(mut child) = self.members[index].child.take() {
            child.wait()?;
        }
        Ok(())
    }

    /// Stops a member's clock (SIGSTOP): connections stay open, nothing is answered.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self, index: usize) -> io::Result<()> {
        self.signal(index, Signal::STOP)
    }

    /// Lets a paused member go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self, index: usize) -> io::Result<()> {
        self.signal(index, Signal::CONT)
    }

    /// Starts a killed member again on its data, and waits until it answers.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn restart(&mut self, index: usize) -> io::Result<()> {
        self.launch(index)?;
        self.ready(index).await
    }
}

async fn answers(address: &str) -> bool {
    let ask = async {
        let mut client = etcd_client::Client::connect([address], None).await?;
        client.get("ready", None).await
    };
    matches!(timeout(Duration::from_secs(2), ask).await, Ok(Ok(_)))
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(mut child) = member.child.take() {
                // SIGKILL ends a paused one, too.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}
