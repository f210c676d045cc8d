//! Amounts with their unit in the type.

use alloc::{format, string::String};
use core::{
    fmt,
    ops::{Add, AddAssign, Sub},
    str::FromStr,
};
use serde::{Deserialize, Serialize};

/// Why a text is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: expected {expected}")]
pub struct UnitError {
    /// What it should have been.
    pub what: &'static str,
    /// The text, cut.
    pub text: String,
    /// Examples of what is right.
    pub expected: &'static str,
}

/// CPU in hundredths of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cpu(u32);

impl Cpu {
    /// No CPU.
    pub const ZERO: Self = Self(0);

    /// From hundredths of a core.
    #[must_use]
    pub const fn from_centi_cores(centi_cores: u32) -> Self {
        Self(centi_cores)
    }

    /// In hundredths of a core.
    #[must_use]
    pub const fn centi_cores(self) -> u32 {
        self.0
    }

    /// What is left after taking `other`, or nothing.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl FromStr for Cpu {
    type Err = UnitError;

    /// Parses `2`, `0.25` (cores) or `250m` (thousandths, a multiple of ten).
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = || UnitError {
            what: "an amount of CPU",
            text: text.chars().take(40).collect(),
            expected: "cores with at most two decimals (`2`, `0.25`) or thousandths in steps of ten (`250m`)",
        };
        if let Some(milli) = text.strip_suffix('m') {
            let milli: u32 = digits(milli).ok_or_else(bad)?;
            return if milli.is_multiple_of(10) { Ok(Self(milli / 10)) } else { Err(bad()) };
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if fraction.is_empty() || fraction.len() > 2 {
            return Err(bad());
        }
        let whole: u32 = digits(whole).ok_or_else(bad)?;
        let hundredths: u32 = digits(fraction).ok_or_else(bad)?;
        let hundredths = if fraction.len() == 1 { hundredths * 10 } else { hundredths };
        whole.checked_mul(100).and_then(|centi| centi.checked_add(hundredths)).map(Self).ok_or_else(bad)
    }
}

/// `str::parse` also takes a sign, which no amount has.
fn digits<N: FromStr>(text: &str) -> Option<N> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        let text = match rest {
            0 => format!("{whole}"),
            rest if rest % 10 == 0 => format!("{whole}.{}", rest / 10),
            rest => format!("{whole}.{rest:02}"),
        };
        f.pad(&text)
    }
}

/// An amount of memory or disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(u64);

const BYTE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// From bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// From mebibytes.
    #[must_use]
    pub const fn from_mib(mib: u32) -> Self {
        Self((mib as u64) << 20)
    }

    /// In bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// What is left after taking `other`, or nothing.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    /// Parses `512MiB`, `2GiB`, `1.5GiB`, `500MB`, `4096B`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = || UnitError {
            what: "an amount of bytes",
            text: text.chars().take(40).collect(),
            expected: "a number and a unit, such as `512MiB`, `1.5GiB` or `500MB`",
        };
        let (number, unit) = BYTE_UNITS
            .iter()
            .find_map(|&(name, unit)| Some((text.strip_suffix(name)?.trim_end(), unit)))
            .ok_or_else(bad)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if fraction.is_empty() || fraction.len() > 3 {
            return Err(bad());
        }
        let thousandths = digits::<u64>(fraction).ok_or_else(bad)? * [100, 10, 1][fraction.len() - 1];
        let whole: u64 = digits(whole).ok_or_else(bad)?;
        let part = unit / 1000 * thousandths + unit % 1000 * thousandths / 1000;
        whole.checked_mul(unit).and_then(|bytes| bytes.checked_add(part)).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, unit) in BYTE_UNITS.iter().filter(|(name, _)| name.ends_with("iB")) {
            if self.0 >= *unit {
                let tenths = self.0 / (unit / 10).max(1) % 10;
                let whole = self.0 / unit;
                let exact = self.0.is_multiple_of(*unit);
                return if exact {
                    f.pad(&format!("{whole}{name}"))
                } else {
                    f.pad(&format!("{whole}.{tenths}{name}"))
                };
            }
        }
        f.pad(&format!("{}B", self.0))
    }
}

/// A length of time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// From whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// As the standard library's type.
    #[must_use]
    pub const fn to_duration(self) -> core::time::Duration {
        core::time::Duration::from_millis(self.0)
    }
}

impl FromStr for Millis {
    type Err = UnitError;

    /// Parses `500ms`, `30s`, `10m`, `2h`, `1d`, and sums such as `1h30m`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = || UnitError {
            what: "a length of time",
            text: text.chars().take(40).collect(),
            expected: "a number and a unit, such as `500ms`, `30s`, `10m`, `2h` or `1h30m`",
        };
        let mut rest = text;
        let mut total = 0_u64;
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let number: u64 = digits(&rest[..end]).ok_or_else(bad)?;
            rest = &rest[end..];
            let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
            let (name, unit) = units.into_iter().find(|(name, _)| rest.starts_with(name)).ok_or_else(bad)?;
            rest = &rest[name.len()..];
            total = number.checked_mul(unit).and_then(|part| total.checked_add(part)).ok_or_else(bad)?;
        }
        Ok(Self(total))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        let text = match ms {
            ms if ms % 1000 != 0 && ms < 10_000 => format!("{ms}ms"),
            ms if ms < 60_000 => format!("{}s", ms / 1000),
            ms if ms < 3_600_000 && ms % 60_000 < 1000 => format!("{}m", ms / 60_000),
            ms if ms < 3_600_000 => format!("{}m{}s", ms / 60_000, ms % 60_000 / 1000),
            ms if ms % 3_600_000 < 60_000 => format!("{}h", ms / 3_600_000),
            ms => format!("{}h{}m", ms / 3_600_000, ms % 3_600_000 / 60_000),
        };
        f.pad(&text)
    }
}

/// A moment: milliseconds since the Unix epoch. It always comes from outside a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// How long ago `earlier` was; nothing if it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;
    fn add(self, length: Millis) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

impl Sub<Millis> for Timestamp {
    type Output = Self;
    fn sub(self, length: Millis) -> Self {
        Self(self.0.saturating_sub(length.0))
    }
}

macro_rules! sums {
    ($($name:ident),*) => {$(
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
    )*};
}

sums!(Cpu, Bytes, Millis);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn cpu_reads_cores_and_thousandths() {
        for (text, centi) in [("2", 200), ("0.25", 25), ("0.5", 50), ("250m", 25), ("0", 0)] {
            assert_eq!(text.parse::<Cpu>().unwrap().centi_cores(), centi, "{text}");
        }
        for text in ["abc", "", "-1", "+1", "0.255", "1.", ".5x", "5m", "99999999999"] {
            assert!(text.parse::<Cpu>().is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_read_units_and_fractions() {
        for (text, bytes) in [("512MiB", 512 << 20), ("1.5GiB", 3 << 29), ("500MB", 500_000_000), ("7B", 7)] {
            assert_eq!(text.parse::<Bytes>().unwrap().get(), bytes, "{text}");
        }
        for text in ["512", "MiB", "-1GiB", "1.2345GiB", "99999999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert_eq!(Bytes::from_mib(1536).to_string(), "1.5GiB");
    }

    #[test]
    fn times_read_and_print() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("1h30m", 5_400_000), ("10m", 600_000)] {
            let parsed: Millis = text.parse().unwrap();
            assert_eq!((parsed.0, parsed.to_string().as_str()), (ms, text));
        }
        for text in ["", "5", "s", "1x", "1.5s"] {
            assert!(text.parse::<Millis>().is_err(), "{text}");
        }
    }
}
