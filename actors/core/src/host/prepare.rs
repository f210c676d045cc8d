//! Images that are made ready before the container that needs them is ordered to start.
//!
//! Nothing of it is durable: an image that was asked for and is not needed after all costs its place in the image store,
//! and whoever still wants to know asks again.

use super::{PREPARING_MAX, event::Effect, state::Host, step::cut};
use crate::{
    machine::Effects,
    message::{HostReport, Preparation},
};
use alloc::string::String;
use polder_types::ContainerId;

impl Host {
    pub(super) fn on_prepare(&mut self, fx: &mut Effects<Self>, id: ContainerId, image: String) {
        if !self.preparing.contains(&id) {
            if self.preparing.len() >= PREPARING_MAX {
                return;
            }
            self.preparing.insert(id.clone());
            fx.after(Effect::Prepare { id: id.clone(), image });
        }
        self.say_prepared(fx, id, Preparation::UnderWay);
    }

    pub(super) fn on_prepared(&mut self, fx: &mut Effects<Self>, id: &ContainerId, failed: Option<String>) {
        self.preparing.remove(id);
        let preparation = match failed {
            None => Preparation::Done,
            Some(mut reason) => {
                cut(&mut reason);
                Preparation::Failed { reason }
            }
        };
        self.say_prepared(fx, id.clone(), preparation);
    }

    fn say_prepared(&self, fx: &mut Effects<Self>, container: ContainerId, preparation: Preparation) {
        if self.link.is_some() {
            fx.after(Effect::Report(HostReport::Prepared { container, preparation }));
        }
    }
}
