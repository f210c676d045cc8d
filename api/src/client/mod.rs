//! A client of the API: one method for each path.
//!
//! The command line and the federation use it. It never retries by itself: whoever calls knows whether asking twice
//! is harmless, and [`ClientError::is_retryable`] says whether it could help.

mod calls;
mod error;
mod sse;

pub use error::ClientError;

use crate::limits;
use core::time::Duration;
use futures::stream::BoxStream;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;

/// A stream of an answer.
pub type Stream<T> = BoxStream<'static, Result<T, ClientError>>;

/// A client of one address. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    timeout: Duration,
}

impl Client {
    /// A client of this address: `http://HOST:PORT`, or `HOST:PORT`.
    ///
    /// # Errors
    /// When the address can't be understood.
    pub fn new(address: &str) -> Result<Self, ClientError> {
        let bad = |reason: String| ClientError::Address { address: address.to_owned(), reason };
        let full = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let base = Url::parse(&full).map_err(|error| bad(error.to_string()))?;
        if base.scheme() != "http" {
            return Err(bad(format!("`{}` is not supported; only `http` is", base.scheme())));
        }
        if base.cannot_be_a_base() || base.host_str().is_none() {
            return Err(bad("it names no host".to_owned()));
        }
        if !matches!(base.path(), "" | "/") || base.query().is_some() {
            return Err(bad("it has a path: only a host and a port are expected".to_owned()));
        }
        let http = reqwest::Client::builder()
            .connect_timeout(limits::CONNECT_TIMEOUT)
            .user_agent(concat!("polder/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| bad(error.to_string()))?;
        Ok(Self { http, base, timeout: limits::ANSWER_TIMEOUT })
    }

    /// The same client, that waits so long for an answer. Streams are not affected.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The address, as a URL without a slash at the end.
    #[must_use]
    pub fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.address()))
    }

    /// Sends a request and reads its answer whole.
    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let bytes = self.answer_bytes(request).await?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Answer {
            address: self.address().to_owned(),
            reason: format!("it is not what this version of polder expects: {error}"),
        })
    }

    async fn answer_bytes(&self, request: RequestBuilder) -> Result<Vec<u8>, ClientError> {
        let response = request.timeout(self.timeout).send().await.map_err(|error| self.failed(&error))?;
        let response = self.checked(response).await?;
        self.read(response).await
    }

    /// Sends a request whose answer is a stream. Only the wait for its beginning is limited.
    async fn open(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = match tokio_timeout(self.timeout, request.send()).await {
            Some(result) => result.map_err(|error| self.failed(&error))?,
            None => return Err(ClientError::Timeout { address: self.address().to_owned() }),
        };
        self.checked(response).await
    }

    /// Turns an answer that is an error into one.
    async fn checked(&self, response: Response) -> Result<Response, ClientError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.read(response).await?;
        let address = self.address().to_owned();
        Err(match serde_json::from_slice(&body) {
            Ok(problem) => ClientError::Problem { address, problem: Box::new(problem) },
            Err(_) => ClientError::Answer { address, reason: foreign(status, &body) },
        })
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&error))? {
            if body.len() + chunk.len() > limits::ANSWER_BYTES_MAX {
                let reason = format!("it is larger than {} bytes", limits::ANSWER_BYTES_MAX);
                return Err(ClientError::Answer { address: self.address().to_owned(), reason });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn failed(&self, error: &reqwest::Error) -> ClientError {
        ClientError::of(self.address(), error)
    }
}

/// What to say of an error that is not Polder's: some other server is at this address.
fn foreign(status: StatusCode, body: &[u8]) -> String {
    /// Longest piece of such an answer that is repeated.
    const QUOTE_CHARS_MAX: usize = 100;
    let text = String::from_utf8_lossy(body);
    let line: String = text.lines().next().unwrap_or_default().chars().take(QUOTE_CHARS_MAX).collect();
    format!("status {status}, and no error of Polder's: `{}`", line.escape_debug())
}

async fn tokio_timeout<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}
