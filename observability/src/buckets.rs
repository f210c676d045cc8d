//! Upper bounds of histograms, in seconds.

/// Steps of machines: mostly microseconds.
pub(crate) const STEPS: &[f64] = &[0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];
/// Requests and store operations.
pub(crate) const CALLS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Placements: milliseconds when there is room.
pub(crate) const PLACEMENTS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0];
/// Starts of containers: with an image to unpack they take their time.
pub(crate) const STARTS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
