//! `polder readmit`.

use polder_api::{client::Client, dto::Note};
use polder_types::HostId;

use crate::{failure::Failure, output};

/// Let a reinstalled or replaced machine take the name of a silent host
///
/// A host's name belongs to the data folder of its agent: only that folder's records know which containers are there. An
/// agent with another folder is refused until somebody vouches, with this command, that nothing of the host's old tasks
/// runs any more.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder readmit eu-host-1 --reason \"new disk, reinstalled\"")]
pub(crate) struct Readmit {
    /// The host
    host: HostId,
    /// Why, for those who look later
    #[arg(long, default_value = "")]
    reason: String,
}

impl Readmit {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        let owner = std::env::var("USER").unwrap_or_default();
        let host = client.readmit(&self.host, &Note { reason: self.reason, owner }).await?;
        output::line(&format!("the next agent that calls itself {} takes over its name", host.id))
    }
}
