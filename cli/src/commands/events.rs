use crate::{
    failure::Failure,
    output::{self, moment, or_dash},
};
use clap::ValueEnum;
use futures::StreamExt as _;
use polder_api::{
    client::Client,
    dto::{EventView, Level},
};

/// Show what happened, newest last
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder events -f")]
pub(crate) struct Events {
    /// Go on with what happens from now on
    #[arg(short, long)]
    follow: bool,
    /// How to print it: `json` prints one event a line
    #[arg(short, long, value_enum, default_value_t)]
    output: EventFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum EventFormat {
    /// A line for people
    #[default]
    Line,
    /// A line of JSON
    Json,
}

impl Events {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        if !self.follow {
            return client.events().await?.events.iter().try_for_each(|event| self.print(event));
        }
        let mut events = client.follow_events().await?;
        loop {
            let why = match events.next().await {
                Some(Ok(event)) => {
                    self.print(&event)?;
                    continue;
                }
                Some(Err(error)) => error.to_string(),
                None => format!("{} ended it", client.address()),
            };
            return Err(Failure::system(format!("the stream of events broke off: {why}")).with_hint(
                "`polder events -f` begins again, with the newest that are kept; \
                 `polder status` shows whether anybody answers",
            ));
        }
    }

    fn print(&self, event: &EventView) -> Result<(), Failure> {
        if self.output == EventFormat::Json {
            let text = serde_json::to_string(event).map_err(|error| Failure::system(error.to_string()))?;
            return output::line(&text);
        }
        let level = match event.level {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        let region = or_dash(event.region.as_ref());
        output::line(&format!(
            "{} {region} {level} {} {}: {}",
            moment(event.at),
            event.kind,
            event.subject,
            event.message
        ))
    }
}
