use super::wait::Deadline;
use crate::{
    failure::Failure,
    output::{count, json, line, note},
    progress::Progress,
};
use polder_api::{
    client::Client,
    dto::{DrainRequest, DrainState, DrainView},
};
use polder_types::{HostId, Millis};

/// How much longer than the drain's own deadline is waited for its end: a silent host is given up only after it.
const PATIENCE: Millis = Millis::from_secs(120);

/// Move everything away from a host
///
/// New tasks stay away at once; those that are there move within their jobs' budgets. What is left at the deadline is
/// stopped by force. With --wait, only a host that has attested that no process is left exits 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder drain eu-host-1 --deadline 10m --reason \"new kernel\" --wait\n  \
                        polder drain eu-host-1 --abort")]
pub(crate) struct Drain {
    /// The host
    host: HostId,
    /// How long tasks have to move
    #[arg(long, value_name = "TIME", default_value = "10m")]
    deadline: Millis,
    /// Why, for those who look later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Wait until it ends; exit 2 unless it ends as `drained`
    #[arg(long)]
    wait: bool,
    /// Call a drain in progress off; a host that was drained is opened again by `polder uncordon`
    #[arg(long, conflicts_with_all = ["wait", "reason", "deadline"])]
    abort: bool,
    /// How to print: `json` is the drain as the API shows it, with --wait as it ended
    #[arg(short, long, value_enum, default_value_t)]
    output: Shape,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Shape {
    /// In words
    #[default]
    Text,
    /// What the API answered
    Json,
}

impl Drain {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        if self.abort {
            let view = client.abort_drain(&self.host).await?;
            return self.tell(&view, &format!("the drain of {} is {}", view.host, view.state.as_str()));
        }
        let owner = std::env::var("USER").unwrap_or_default();
        let request = DrainRequest { deadline: self.deadline, reason: self.reason.clone().unwrap_or_default(), owner };
        let begun = client.begin_drain(&self.host, &request).await?;
        if !self.wait {
            let text =
                format!("{} is being drained; what is left after {} is stopped by force", begun.host, self.deadline);
            return self.tell(&begun, &text);
        }
        let end = self.wait_for_end(&client, begun).await?;
        if self.output == Shape::Json {
            json(&end)?;
        }
        report(&end, self.output)
    }

    /// Prints what became of the request.
    fn tell(&self, view: &DrainView, text: &str) -> Result<(), Failure> {
        match self.output {
            Shape::Text => line(text),
            Shape::Json => json(view),
        }
    }

    async fn wait_for_end(&self, client: &Client, begun: DrainView) -> Result<DrainView, Failure> {
        let deadline = Deadline::after(self.deadline + PATIENCE);
        let version = begun.version;
        let all = u32::try_from(begun.remaining.len() + begun.moved.len()).unwrap_or(u32::MAX);
        let mut progress = Progress::new();
        let mut view = begun;
        loop {
            let left = u32::try_from(view.remaining.len()).unwrap_or(u32::MAX);
            let text = format!("{}, {} left", view.state.as_str(), count(left, "task"));
            progress.show(self.host.as_str(), all.saturating_sub(left), all, &text);
            if view.state != DrainState::Draining {
                break;
            }
            if !deadline.next_look().await {
                progress.finish();
                let message = format!("the drain of {} has not ended {PATIENCE} after its deadline", self.host);
                return Err(Failure::system(message).with_hint("`polder hosts` shows whether the host is heard"));
            }
            match client.drain(&self.host).await {
                Ok(newer) if newer.version < version => {}
                Ok(newer) => view = newer,
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error.into()),
            }
        }
        progress.finish();
        Ok(view)
    }
}

/// Says how a drain ended; data goes to stdout only if it is not there as JSON already.
fn report(view: &DrainView, shape: Shape) -> Result<(), Failure> {
    let say = |text: &str| match shape {
        Shape::Text => line(text),
        Shape::Json => Ok(()),
    };
    for moved in &view.moved {
        say(&format!("{} moved to {}", moved.task, moved.host))?;
    }
    match view.state {
        DrainState::Drained => return say(&format!("{} is drained", view.host)),
        DrainState::Forced => {
            note(&format!("{} is empty, but these were stopped by force at the deadline:", view.host));
            for container in &view.forced {
                note(&format!("  {container}"));
            }
        }
        DrainState::Unattested => {
            note(&format!("the host {} is not heard: nobody knows whether these still run there:", view.host));
            for task in &view.remaining {
                note(&format!("  {task}"));
            }
        }
        DrainState::Aborted => note(&format!("somebody called the drain of {} off", view.host)),
        DrainState::Draining => {}
    }
    Err(Failure::system(format!("the drain of {} ended as `{}`, not `drained`", view.host, view.state.as_str())))
}
