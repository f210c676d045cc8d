//! Content digests and the reader that computes them on the way through.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    fmt,
    io::{self, Read},
    str::FromStr,
};

const HEX_LEN: usize = 64;
const PREFIX: &str = "sha256:";

/// A `sha256` digest of some content; printed and parsed as `sha256:<64 hex digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// A text that is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Another algorithm than `sha256`.
    #[error("`{0}` is not a sha256 digest; images must be addressed by `sha256:` and 64 hex digits")]
    Algorithm(String),
    /// Not 64 lower-case hex digits.
    #[error("`{0}` must be `sha256:` followed by exactly 64 lower-case hex digits")]
    Hex(String),
}

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 64 hex digits, without the algorithm.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(HEX_LEN), |mut text, byte| {
            for nibble in [byte >> 4, byte & 0xf] {
                text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            }
            text
        })
    }

    /// From 64 lower-case hex digits without the algorithm.
    ///
    /// # Errors
    /// When the text is anything else.
    pub fn from_hex(hex: &str) -> Result<Self, DigestError> {
        let wrong = || DigestError::Hex(shortened(hex));
        let digits = hex.as_bytes();
        if digits.len() != HEX_LEN {
            return Err(wrong());
        }
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return Err(wrong()) };
            *byte = value(*high).ok_or_else(wrong)? << 4 | value(*low).ok_or_else(wrong)?;
        }
        Ok(Self(bytes))
    }
}

/// What a person typed or a file held may be very long; an error shows its beginning.
fn shortened(text: &str) -> String {
    text.chars().take(HEX_LEN + 16).collect()
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix(PREFIX).ok_or_else(|| DigestError::Algorithm(shortened(text)))?;
        Self::from_hex(hex)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Hashes and counts what is read through it, and refuses to give out more than a limit.
pub(super) struct HashingReader<R> {
    inner: R,
    hash: Sha256,
    count: u64,
    limit: u64,
    what: &'static str,
}

impl<R: Read> HashingReader<R> {
    pub(super) fn new(inner: R, limit: u64, what: &'static str) -> Self {
        Self { inner, hash: Sha256::new(), count: 0, limit, what }
    }

    /// Reads what is left, so that the digest covers all of it; gives digest, length and what lies beneath.
    pub(super) fn finish(mut self) -> io::Result<(Digest, u64, R)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((Digest(self.hash.finalize().into()), self.count, self.inner))
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count = self.count.saturating_add(read as u64);
        if self.count > self.limit {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{} is larger than {} bytes", self.what, self.limit),
            ));
        }
        self.hash.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_print_and_parse() {
        let digest = Digest::of(b"");
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        for wrong in ["", "sha256:", "sha512:00", "sha256:E3", &text[..70], &text.to_uppercase()] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_reader_hashes_everything_and_stops_at_its_limit() {
        let (digest, count, _) = HashingReader::new(&b"abc"[..], 3, "a text").finish().unwrap();
        assert_eq!((digest, count), (Digest::of(b"abc"), 3));
        assert!(HashingReader::new(&b"abcd"[..], 3, "a text").finish().is_err());
    }
}
