//! Server-sent events, as they come.

use super::{Client, ClientError, Stream, tokio_timeout};
use crate::limits;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use reqwest::Response;
use serde::de::DeserializeOwned;

/// The pieces of an answer. Ends with an error when nothing comes for longer than a live server would be silent.
pub(super) fn chunks(client: Client, response: Response, silence: Option<core::time::Duration>) -> Stream<Bytes> {
    stream::try_unfold(Some((client, response)), move |state| async move {
        let Some((client, mut response)) = state else { return Ok(None) };
        let next = match silence {
            Some(silence) => match tokio_timeout(silence, response.chunk()).await {
                Some(next) => next,
                None => return Err(ClientError::Timeout { address: client.address().to_owned() }),
            },
            None => response.chunk().await,
        };
        let chunk = next.map_err(|error| client.failed(&error))?;
        Ok(chunk.map(|chunk| (chunk, Some((client, response)))))
    })
    .boxed()
}

/// The events of an answer.
pub(super) fn events<T: DeserializeOwned + Send + 'static>(client: Client, response: Response) -> Stream<T> {
    let address = client.address().to_owned();
    let chunks = chunks(client, response, Some(limits::SILENCE_MAX));
    let state = (chunks, Lines::default(), address);
    stream::try_unfold(state, |(mut chunks, mut lines, address)| async move {
        let bad = |reason: String| ClientError::Answer { address: address.clone(), reason };
        loop {
            if let Some(data) = lines.next_event().map_err(bad)? {
                let event = serde_json::from_str(&data).map_err(|error| bad(format!("an event: {error}")))?;
                return Ok(Some((event, (chunks, lines, address))));
            }
            match chunks.next().await {
                Some(chunk) => lines.push(&chunk?).map_err(bad)?,
                None => return Ok(None),
            }
        }
    })
    .boxed()
}

/// Text that came and was not used yet.
#[derive(Debug, Default)]
struct Lines {
    buffer: Vec<u8>,
    /// The `data` lines of the event that is being read.
    data: String,
}

impl Lines {
    fn push(&mut self, chunk: &[u8]) -> Result<(), String> {
        if self.buffer.len() + chunk.len() > limits::EVENT_BYTES_MAX {
            return Err(format!("a line or a burst of events has more than {} bytes", limits::EVENT_BYTES_MAX));
        }
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    /// The data of the next whole event.
    fn next_event(&mut self) -> Result<Option<String>, String> {
        while let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            let line = String::from_utf8(line).map_err(|_| "a line is not UTF-8".to_owned())?;
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() && !self.data.is_empty() {
                return Ok(Some(core::mem::take(&mut self.data)));
            }
            let Some(data) = line.strip_prefix("data:") else { continue };
            if self.data.len() + data.len() > limits::EVENT_BYTES_MAX {
                return Err(format!("an event has more than {} bytes", limits::EVENT_BYTES_MAX));
            }
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let text = "data: {\"a\":1}\n\n: alive\n\nevent: x\r\ndata: one\r\ndata: two\r\n\r\ndata: half";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut events = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                lines.push(chunk).unwrap();
                while let Some(event) = lines.next_event().unwrap() {
                    events.push(event);
                }
            }
            assert_eq!(events, ["{\"a\":1}", "one\ntwo"]);
        }
    }

    #[test]
    fn endless_lines_are_refused() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; limits::EVENT_BYTES_MAX / 2];
        lines.push(&chunk).unwrap();
        lines.push(&chunk).unwrap();
        assert!(lines.push(&chunk).is_err());
        let mut lines = Lines::default();
        let mut many = || lines.push(b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n").and_then(|()| lines.next_event());
        assert!((0..limits::EVENT_BYTES_MAX).any(|_| many().is_err()));
    }
}
