//! Just enough HTTP/1.1: one request to a connection, with limits on everything that a client sends.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

/// Longest request line with all headers, in bytes.
const HEAD_BYTES_MAX: u64 = 8 << 10;
/// Longest body that is read (and forgotten), in bytes.
const BODY_BYTES_MAX: u64 = 64 << 10;
/// How long a client may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// A request, as far as anybody cares.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    query: Vec<(String, String)>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    content_type: &'static str,
    body: String,
}

/// Why a request was not understood.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The client said nothing and left, as port checks do.
    Nothing,
    Bad(&'static str),
    TooLong,
    Io(io::Error),
}

impl Request {
    /// Reads one from a connection, its body included.
    pub(crate) fn read(stream: &TcpStream) -> Result<Self, RequestError> {
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(RequestError::Io)?;
        stream.set_write_timeout(Some(SILENCE_MAX)).map_err(RequestError::Io)?;
        Self::parse(BufReader::new(stream))
    }

    fn parse(mut from: impl BufRead) -> Result<Self, RequestError> {
        let mut head = from.by_ref().take(HEAD_BYTES_MAX);
        let Some(first) = line(&mut head)? else { return Err(RequestError::Nothing) };
        let mut words = first.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(RequestError::Bad("the request line is not `METHOD TARGET VERSION`"));
        };
        if !version.starts_with("HTTP/1.") {
            return Err(RequestError::Bad("the version is not HTTP/1"));
        }
        if !target.starts_with('/') {
            return Err(RequestError::Bad("the target is no path"));
        }
        let mut length = 0;
        loop {
            let header = line(&mut head)?.ok_or(RequestError::Bad("the headers do not end"))?;
            if header.is_empty() {
                break;
            }
            let (name, value) = header.split_once(':').ok_or(RequestError::Bad("a header has no colon"))?;
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(|_| RequestError::Bad("the content length is no number"))?;
            }
            if name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(RequestError::Bad("chunked bodies are not taken"));
            }
        }
        if length > BODY_BYTES_MAX {
            return Err(RequestError::TooLong);
        }
        // What a client still sends when its connection is closed would make it lose the answer.
        io::copy(&mut from.take(length), &mut io::sink()).map_err(RequestError::Io)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.to_owned())
        });
        Ok(Self { method: method.to_owned(), path: path.to_owned(), query: query.collect() })
    }

    /// A number of the query; the given one if it is not there.
    pub(crate) fn number(&self, name: &str, default: u64, largest: u64) -> Result<u64, Response> {
        let Some((_, text)) = self.query.iter().find(|(known, _)| known == name) else { return Ok(default) };
        match text.parse() {
            Ok(number) if number <= largest => Ok(number),
            _ => Err(Response::text(400, format!("`{name}` must be a whole number up to {largest}\n"))),
        }
    }
}

/// One line without its end; none at the end of the stream.
fn line(from: &mut io::Take<impl BufRead>) -> Result<Option<String>, RequestError> {
    let mut bytes = Vec::new();
    from.read_until(b'\n', &mut bytes).map_err(RequestError::Io)?;
    if bytes.pop() != Some(b'\n') {
        return match from.limit() {
            0 => Err(RequestError::TooLong),
            _ if bytes.is_empty() => Ok(None),
            _ => Err(RequestError::Bad("the request ends in the middle of a line")),
        };
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map(Some).map_err(|_| RequestError::Bad("the request is not UTF-8"))
}

impl Response {
    pub(crate) fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    pub(crate) fn json(status: u16, body: String) -> Self {
        Self { status, content_type: "application/json", body }
    }

    pub(crate) fn send(&self, mut to: impl Write, with_body: bool) -> io::Result<()> {
        let reason = match self.status {
            200 => "OK",
            202 => "Accepted",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            413 => "Content Too Large",
            503 => "Service Unavailable",
            507 => "Insufficient Storage",
            _ => "Error",
        };
        let head = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        );
        let body = if with_body { self.body.as_str() } else { "" };
        to.write_all(format!("{head}{body}").as_bytes())?;
        to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Request, RequestError> {
        Request::parse(text.as_bytes())
    }

    #[test]
    fn requests_are_read() {
        let request = parse("GET /memory?mb=12&x HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/memory"));
        assert_eq!(request.number("mb", 0, 100).unwrap(), 12);
        assert_eq!(request.number("gb", 7, 100).unwrap(), 7);
        assert_eq!(request.number("mb", 0, 11).unwrap_err().status, 400);
        assert_eq!(request.number("x", 0, 11).unwrap_err().status, 400);
        assert!(parse("POST / HTTP/1.0\nContent-Length: 3\n\nabc").is_ok());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(matches!(parse(""), Err(RequestError::Nothing)));
        for bad in [
            "GET\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
            "GET x HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1 x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\n",
            "GET / HT",
        ] {
            assert!(matches!(parse(bad), Err(RequestError::Bad(_))), "{bad:?}");
        }
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(10_000));
        assert!(matches!(parse(&long), Err(RequestError::TooLong)));
        let long = "GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n";
        assert!(matches!(parse(long), Err(RequestError::TooLong)));
    }
}
