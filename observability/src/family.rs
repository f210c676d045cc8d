//! How a metric is declared.

use std::time::Duration;

/// What a family measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How long things took, in seconds, by upper bounds.
    Histogram(&'static [f64]),
}

impl Kind {
    /// Its name in Prometheus.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// A metric with all its label sets.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it is, for people.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it measures.
    pub kind: Kind,
}

pub(crate) fn seconds(took: Duration) -> f64 {
    took.as_secs_f64()
}

/// Declares the families of one part: a struct of handles, the list of what is declared, and the one instance that a
/// process has. A family's help is the text of its comment.
macro_rules! families {
    (
        $(#[$about:meta])*
        pub struct $part:ident {
            $(
                #[doc = $help:literal]
                $field:ident: $handles:ident<$count:literal> = $name:literal [$($label:literal),*] $(in $buckets:path)?;
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        #[non_exhaustive]
        pub struct $part {
            $(
                #[doc = $help]
                pub $field: $crate::values::$handles<$count>,
            )+
        }

        impl $part {
            /// What is declared here, in this order.
            pub const FAMILIES: &'static [$crate::family::Family] = &[
                $(
                    $crate::family::Family {
                        name: $name,
                        help: $help.trim_ascii(),
                        labels: &[$($label),*],
                        kind: $crate::family::families!(@kind $handles $($buckets)?),
                    },
                )+
            ];

            /// The one that this process has. The first call registers it.
            pub fn shared() -> &'static Self {
                static SHARED: std::sync::LazyLock<$part> = std::sync::LazyLock::new(|| {
                    let mut families = $part::FAMILIES.iter();
                    $part {
                        $($field: $crate::values::$handles::declare(families.next()),)+
                    }
                });
                &SHARED
            }
        }
    };
    (@kind Counters) => { $crate::family::Kind::Counter };
    (@kind Gauges) => { $crate::family::Kind::Gauge };
    (@kind Timings $buckets:path) => { $crate::family::Kind::Histogram($buckets) };
}

pub(crate) use families;
