//! A reader of tar streams that never keeps more than a bounded header in memory.
//!
//! The `tar` crate reads long names and extended attributes whole into memory, whatever length the stream gives
//! them, and splits extended headers at newlines, which breaks binary attributes. So this walks the blocks itself
//! and leaves to the crate what it does well: the fields of a header. Where tar readers differ, this does as Go's
//! `archive/tar` does, because that is what wrote and checked the images people have.

use super::limits::{ARCHIVE_ENTRIES_MAX, EXTENSION_BYTES_MAX};
use std::io::{self, Read, Seek, SeekFrom};
use tar::Header;

const BLOCK: u64 = 512;
const XATTR_KEY: &[u8] = b"SCHILY.xattr.";

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Symlink,
    HardLink,
    Device,
    Fifo,
    Other(u8),
}

/// One entry, as the stream gives it; nothing of it has been judged.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) path: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) mtime_secs: i64,
    pub(super) mtime_nanos: u32,
    pub(super) size: u64,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where its content begins in the stream.
    pub(super) offset: u64,
}

/// What a tar stream is read from.
pub(super) trait Source: Read {
    /// Passes over some bytes; an error if there are fewer.
    fn skip(&mut self, count: u64) -> io::Result<()>;
}

/// A source that has to be read to be passed over.
pub(super) struct Stream<R>(pub(super) R);

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Source for Stream<R> {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        if io::copy(&mut self.0.by_ref().take(count), &mut io::sink())? == count { Ok(()) } else { Err(truncated()) }
    }
}

/// A source that can jump, with its length.
pub(super) struct Seekable<R> {
    inner: R,
    length: u64,
    position: u64,
}

impl<R: Read + Seek> Seekable<R> {
    pub(super) fn new(mut inner: R) -> io::Result<Self> {
        let length = inner.seek(SeekFrom::End(0))?;
        inner.seek(SeekFrom::Start(0))?;
        Ok(Self { inner, length, position: 0 })
    }
}

impl<R: Read> Read for Seekable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl<R: Read + Seek> Source for Seekable<R> {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        let target = self.position.checked_add(count).filter(|target| *target <= self.length).ok_or_else(truncated)?;
        self.position = self.inner.seek(SeekFrom::Start(target))?;
        Ok(())
    }
}

fn truncated() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the tar stream ends in the middle of an entry")
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed tar stream: {what}"))
}

/// What extended headers say about the entry that follows them.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    mtime: Option<(i64, u32)>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Walks the entries of a tar stream; after an entry, `read` gives its content.
pub(super) struct TarReader<S> {
    source: S,
    position: u64,
    content_left: u64,
    padding: u64,
    ended: bool,
}

impl<S: Source> TarReader<S> {
    pub(super) const fn new(source: S) -> Self {
        Self { source, position: 0, content_left: 0, padding: 0, ended: false }
    }

    /// The source, wherever it is.
    pub(super) fn into_source(self) -> S {
        self.source
    }

    /// The next entry, or none at the end of the stream.
    pub(super) fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        let mut extensions = Extensions::default();
        let mut headers = 0;
        loop {
            let Some(header) = self.next_header()? else { return Ok(None) };
            // Only extended headers in a row count here; entries are counted by whoever asks for them.
            headers += 1;
            if headers > ARCHIVE_ENTRIES_MAX {
                return Err(malformed("too many extended headers in a row"));
            }
            let size = header.entry_size().map_err(|_| malformed("an entry has a size that is no number"))?;
            match header.entry_type().as_byte() {
                b'x' => {
                    let data = self.extension(size)?;
                    // A newer extended header takes the place of the one before it; long names stay.
                    let (long_path, long_link) = (extensions.long_path.take(), extensions.long_link.take());
                    extensions = parse_pax(&data)?;
                    (extensions.long_path, extensions.long_link) = (long_path, long_link);
                }
                b'g' => {
                    // Defaults for all later entries: nothing in an image's layer depends on them.
                    self.extension(size)?;
                }
                b'L' => extensions.long_path = Some(until_nul(self.extension(size)?)),
                b'K' => extensions.long_link = Some(until_nul(self.extension(size)?)),
                _ => return self.entry(&header, size, extensions).map(Some),
            }
        }
    }

    fn entry(&mut self, header: &Header, size: u64, extensions: Extensions) -> io::Result<Entry> {
        let path = extensions.long_path.or(extensions.path).unwrap_or_else(|| header.path_bytes().into_owned());
        let header_link = || header.link_name_bytes().map(|link| link.into_owned()).unwrap_or_default();
        let link = extensions.long_link.or(extensions.link).unwrap_or_else(header_link);
        let kind = match header.entry_type().as_byte() {
            0 if path.ends_with(b"/") => Kind::Directory,
            b'0' | 0 => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            b'S' => return Err(malformed("sparse files are not supported")),
            other => Kind::Other(other),
        };
        let size = extensions.size.unwrap_or(size);
        // Whatever size the header of such an entry gives, no content follows.
        let has_content = matches!(kind, Kind::File | Kind::Other(_)) || header.entry_type().as_byte() == 0;
        self.begin_content(if has_content { size } else { 0 })?;
        let number = |field: io::Result<u64>, what| field.map_err(|_| malformed(what));
        Ok(Entry {
            kind,
            path,
            link,
            mode: header.mode().map_err(|_| malformed("an entry has a mode that is no number"))?,
            uid: match extensions.uid {
                Some(uid) => uid,
                None => number(header.uid(), "an entry has an owner that is no number")?,
            },
            gid: match extensions.gid {
                Some(gid) => gid,
                None => number(header.gid(), "an entry has a group that is no number")?,
            },
            // Times before 1970 come in an encoding the crate does not read; an old file is no reason to fail.
            mtime_secs: extensions
                .mtime
                .map_or_else(|| header.mtime().ok().and_then(|secs| i64::try_from(secs).ok()).unwrap_or(0), |m| m.0),
            mtime_nanos: extensions.mtime.map_or(0, |mtime| mtime.1),
            size: if has_content { size } else { 0 },
            xattrs: extensions.xattrs,
            offset: self.position,
        })
    }

    fn begin_content(&mut self, size: u64) -> io::Result<()> {
        self.content_left = size;
        self.padding = (BLOCK - size % BLOCK) % BLOCK;
        self.position.checked_add(size).and_then(|end| end.checked_add(self.padding)).map(drop).ok_or_else(truncated)
    }

    fn extension(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > EXTENSION_BYTES_MAX {
            return Err(malformed(&format!(
                "an extended header of {size} bytes is longer than the {EXTENSION_BYTES_MAX} bytes allowed"
            )));
        }
        self.begin_content(size)?;
        let mut data = Vec::new();
        self.read_to_end(&mut data)?;
        Ok(data)
    }

    /// The next block that is a header; none at the end.
    fn next_header(&mut self) -> io::Result<Option<Header>> {
        if self.ended {
            return Ok(None);
        }
        let rest = self.content_left.saturating_add(self.padding);
        if rest > 0 {
            self.source.skip(rest)?;
            self.position += rest;
            (self.content_left, self.padding) = (0, 0);
        }
        let mut block = [0; BLOCK as usize];
        if !self.read_block(&mut block)? {
            self.ended = true;
            return Ok(None);
        }
        if block.iter().all(|byte| *byte == 0) {
            self.ended = true;
            // The end is two blocks of zeros. One, followed by something else, is a hole in the stream.
            if self.read_block(&mut block)? && block.iter().any(|byte| *byte != 0) {
                return Err(malformed("entries follow its end"));
            }
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block).clone();
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(place, byte)| if (148..156).contains(&place) { u32::from(b' ') } else { u32::from(*byte) })
            .sum();
        if header.cksum().ok() != Some(sum) {
            return Err(malformed("the checksum of a header is wrong"));
        }
        Ok(Some(header))
    }

    /// Fills a block; false if the stream ends before it.
    fn read_block(&mut self, block: &mut [u8]) -> io::Result<bool> {
        let mut filled = 0;
        while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.source.read(rest) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(truncated()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.position += filled as u64;
        Ok(true)
    }
}

impl<S: Source> Read for TarReader<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.content_left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..wanted).filter(|buffer| !buffer.is_empty()) else { return Ok(0) };
        let read = self.source.read(buffer)?;
        if read == 0 {
            return Err(truncated());
        }
        self.content_left -= read as u64;
        self.position += read as u64;
        Ok(read)
    }
}

fn until_nul(mut name: Vec<u8>) -> Vec<u8> {
    if let Some(end) = name.iter().position(|byte| *byte == 0) {
        name.truncate(end);
    }
    name
}

/// Records of the form `length key=value\n`, where the length counts the whole record.
fn parse_pax(mut data: &[u8]) -> io::Result<Extensions> {
    let wrong = || malformed("an extended header is not made of `length key=value` records");
    let mut extensions = Extensions::default();
    while !data.is_empty() {
        let space = data.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
        let (digits, _) = data.split_at_checked(space).ok_or_else(wrong)?;
        let length = usize::try_from(decimal(digits).ok_or_else(wrong)?).map_err(|_| wrong())?;
        let (record, rest) = data.split_at_checked(length).ok_or_else(wrong)?;
        let record = record.get(space + 1..).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(wrong)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
        let (key, value) = record.split_at_checked(equals).ok_or_else(wrong)?;
        let value = value.get(1..).unwrap_or_default();
        data = rest;
        if let Some(name) = key.strip_prefix(XATTR_KEY) {
            extensions.xattrs.retain(|(known, _)| known != name);
            extensions.xattrs.push((name.to_vec(), value.to_vec()));
            continue;
        }
        let number = |what| decimal(value).ok_or_else(|| malformed(what));
        match key {
            // An empty value takes an earlier one back.
            b"path" => extensions.path = Some(value.to_vec()).filter(|value| !value.is_empty()),
            b"linkpath" => extensions.link = Some(value.to_vec()).filter(|value| !value.is_empty()),
            b"size" => extensions.size = Some(number("an extended size is no number")?),
            b"uid" => extensions.uid = Some(number("an extended owner is no number")?),
            b"gid" => extensions.gid = Some(number("an extended group is no number")?),
            b"mtime" => extensions.mtime = Some(time(value).ok_or_else(|| malformed("an extended time is wrong"))?),
            key if key.starts_with(b"GNU.sparse.") => return Err(malformed("sparse files are not supported")),
            _ => {}
        }
    }
    Ok(extensions)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Seconds since 1970 with a fraction, possibly negative.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let secs: i64 = whole.parse().ok()?;
    let mut nanos = 0;
    for place in 0..9 {
        let digit = fraction.as_bytes().get(place).copied().unwrap_or(b'0');
        nanos = nanos * 10 + u32::from(digit.checked_sub(b'0').filter(|digit| *digit <= 9)?);
    }
    if whole.starts_with('-') && nanos > 0 {
        Some((secs.checked_sub(1)?, 1_000_000_000 - nanos))
    } else {
        Some((secs, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_headers_keep_binary_values() {
        let value = b"\x01\n\x00=\n";
        let mut data = format!("{} SCHILY.xattr.user.x=", 3 + 20 + value.len() + 1).into_bytes();
        data.extend_from_slice(value);
        data.push(b'\n');
        data.extend_from_slice(b"12 uid=1234\n22 mtime=-1.250000000\n");
        let extensions = parse_pax(&data).unwrap();
        assert_eq!(extensions.xattrs, [(b"user.x".to_vec(), value.to_vec())]);
        assert_eq!(extensions.uid, Some(1234));
        assert_eq!(extensions.mtime, Some((-2, 750_000_000)));
    }

    #[test]
    fn broken_extended_headers_are_errors() {
        for data in
            [&b"x"[..], b"5 a=b", b"99 a=b\n", b"6 a b\n\n", b"0 a=b\n", b"1 ", b" a=b\n", b"18446744073709551616 a=\n"]
        {
            assert!(parse_pax(data).is_err(), "{data:?}");
        }
    }

    #[test]
    fn a_stream_may_end_without_its_end_mark_but_not_in_a_header() {
        let mut header = Header::new_ustar();
        header.set_path("a").unwrap();
        header.set_size(0);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        let whole = header.as_bytes().as_slice();
        let mut reader = TarReader::new(Stream(whole));
        assert_eq!(reader.next_entry().unwrap().unwrap().path, b"a");
        assert!(reader.next_entry().unwrap().is_none());
        let mut reader = TarReader::new(Stream(&whole[..300]));
        assert!(reader.next_entry().is_err());
    }
}
