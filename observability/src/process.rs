//! What every process says of itself. Memory, processor time, files and threads come with the library (`process_*`).

use crate::family::families;

families! {
    /// What every process says of itself.
    pub struct Process {
        /// Always 1: the version that runs, and as what (federation, region or host).
        build_info: Gauges<2> = "polder_build_info" ["version", "role"];
    }
}

impl Process {
    /// Says what runs, as `region`, say.
    pub fn introduce(&self, version: &str, role: &str) {
        self.build_info.set([version, role], 1.0);
    }
}
