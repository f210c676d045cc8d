//! Handles: what other crates hold of a metric.

use crate::{
    family::{Family, Kind, seconds},
    registry::register,
};
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, core::Collector};
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// # Panics
/// When a declaration is wrong, as in [`register`].
fn made<T: Collector + Clone + 'static>(made: prometheus::Result<T>) -> T {
    match made {
        Ok(vector) => {
            register(vector.clone());
            vector
        }
        Err(error) => panic!("a metric is declared wrongly: {error}"),
    }
}

fn declared<const N: usize>(family: Option<&'static Family>) -> &'static Family {
    match family {
        Some(family) if family.labels.len() == N => family,
        Some(family) => panic!("`{}` is declared with {} labels and used with {N}", family.name, family.labels.len()),
        None => panic!("more handles than families: the macro that makes both is broken"),
    }
}

/// A counter for each set of labels.
#[derive(Debug)]
pub struct Counters<const N: usize>(IntCounterVec);

/// One counter.
#[derive(Clone, Debug)]
pub struct Counter(prometheus::IntCounter);

impl<const N: usize> Counters<N> {
    pub(crate) fn declare(family: Option<&'static Family>) -> Self {
        let family = declared::<N>(family);
        Self(made(IntCounterVec::new(Opts::new(family.name, family.help), family.labels)))
    }

    /// The counter of these values, in the order of the labels. From now on it is shown, with 0 at least.
    #[must_use]
    pub fn of(&self, values: [&str; N]) -> Counter {
        Counter(self.0.with_label_values(&values))
    }

    /// Counts one.
    pub fn count(&self, values: [&str; N]) {
        self.0.with_label_values(&values).inc();
    }
}

impl Counter {
    /// Counts one.
    pub fn count(&self) {
        self.0.inc();
    }

    /// Counts several.
    pub fn add(&self, many: u64) {
        self.0.inc_by(many);
    }

    /// How many there are.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.get()
    }
}

/// A gauge for each set of labels.
#[derive(Debug)]
pub struct Gauges<const N: usize> {
    vector: GaugeVec,
    /// What the last [`show`](Self::show) showed.
    shown: Mutex<BTreeSet<[String; N]>>,
}

/// One gauge.
#[derive(Clone, Debug)]
pub struct Gauge(prometheus::Gauge);

impl<const N: usize> Gauges<N> {
    pub(crate) fn declare(family: Option<&'static Family>) -> Self {
        let family = declared::<N>(family);
        let vector = made(GaugeVec::new(Opts::new(family.name, family.help), family.labels));
        Self { vector, shown: Mutex::default() }
    }

    /// The gauge of these values, in the order of the labels. From now on it is shown.
    #[must_use]
    pub fn of(&self, values: [&str; N]) -> Gauge {
        Gauge(self.vector.with_label_values(&values))
    }

    /// Sets the gauge of these values.
    pub fn set(&self, values: [&str; N], to: f64) {
        self.vector.with_label_values(&values).set(to);
    }

    /// Shows exactly these: what was shown before and is not among them goes.
    pub fn show(&self, all: impl IntoIterator<Item = ([String; N], f64)>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = BTreeSet::new();
        for (values, to) in all {
            self.vector.with_label_values(&values).set(to);
            now.insert(values);
        }
        for gone in shown.difference(&now) {
            // It may only be gone already.
            let _ = self.vector.remove_label_values(gone);
        }
        *shown = now;
    }
}

impl Gauge {
    /// Sets it.
    pub fn set(&self, to: f64) {
        self.0.set(to);
    }
}

/// A histogram of durations for each set of labels.
#[derive(Debug)]
pub struct Timings<const N: usize>(HistogramVec);

/// One histogram of durations.
#[derive(Clone, Debug)]
pub struct Timing(prometheus::Histogram);

impl<const N: usize> Timings<N> {
    pub(crate) fn declare(family: Option<&'static Family>) -> Self {
        let family = declared::<N>(family);
        let Kind::Histogram(buckets) = family.kind else { panic!("`{}` is no histogram", family.name) };
        let options = HistogramOpts::new(family.name, family.help).buckets(buckets.to_vec());
        Self(made(HistogramVec::new(options, family.labels)))
    }

    /// The histogram of these values, in the order of the labels. From now on it is shown.
    #[must_use]
    pub fn of(&self, values: [&str; N]) -> Timing {
        Timing(self.0.with_label_values(&values))
    }

    /// Takes in how long something took.
    pub fn took(&self, values: [&str; N], took: Duration) {
        self.0.with_label_values(&values).observe(seconds(took));
    }
}

impl Timing {
    /// Takes in how long something took.
    pub fn took(&self, took: Duration) {
        self.0.observe(seconds(took));
    }

    /// How many were taken in.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.get_sample_count()
    }
}
