//! What a watch delivers.

use crate::store::{Entry, Revision};
use futures::{Stream, StreamExt as _, stream::BoxStream};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

/// A change that a watch saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A key was written.
    Put {
        /// What it is now; its `mod_revision` is the revision of the change.
        entry: Entry,
    },
    /// A key was deleted, or its lease ended.
    Delete {
        /// The key.
        key: String,
        /// The revision of the change.
        revision: Revision,
    },
    /// The changes that come next are forgotten: list again, and watch from there. The stream ends with this.
    Compacted {
        /// The oldest revision that can still be watched from.
        revision: Revision,
    },
}

impl WatchEvent {
    /// The revision of the change.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        match self {
            Self::Put { entry } => entry.mod_revision,
            Self::Delete { revision, .. } | Self::Compacted { revision } => *revision,
        }
    }
}

/// Changes in order. It survives lost connections by itself, and ends only behind [`WatchEvent::Compacted`] or when the
/// store is closed.
///
/// A reader that is too slow is not waited for: it is told that what it missed is compacted.
pub struct WatchStream(BoxStream<'static, WatchEvent>);

impl WatchStream {
    pub(crate) fn new(stream: impl Stream<Item = WatchEvent> + Send + 'static) -> Self {
        Self(stream.boxed())
    }

    /// The next change; none when the stream has ended.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        self.0.next().await
    }
}

impl Stream for WatchStream {
    type Item = WatchEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").finish_non_exhaustive()
    }
}
