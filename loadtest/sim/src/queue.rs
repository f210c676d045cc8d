//! Everything that is still to happen, in order of time, and of coming where the time is the same.

use crate::happening::Happening;
use std::{cmp::Reverse, collections::BinaryHeap};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    at: u64,
    ordinal: u64,
    slot: u32,
}

/// The one queue of a world.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    // The values lie aside, so that the heap moves small keys only.
    heap: BinaryHeap<Reverse<Key>>,
    slots: Vec<Option<Happening>>,
    free: Vec<u32>,
    ordinal: u64,
}

impl Queue {
    /// Has something happen at a time.
    pub(crate) fn push(&mut self, at: u64, happening: Happening) {
        self.ordinal += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(happening);
                slot
            }
            None => {
                self.slots.push(Some(happening));
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.heap.push(Reverse(Key { at, ordinal: self.ordinal, slot }));
    }

    /// When the next thing happens.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(key)| key.at)
    }

    /// The next thing, with its time and its place in the order.
    pub(crate) fn pop(&mut self) -> Option<(u64, u64, Happening)> {
        let Reverse(key) = self.heap.pop()?;
        let happening = self.slots[key.slot as usize].take()?;
        self.free.push(key.slot);
        Some((key.at, key.ordinal, happening))
    }
}
