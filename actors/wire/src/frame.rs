//! Frames: batches of messages, each one WebSocket message.

use crate::{
    convert::Wire,
    error::{WireError, within},
    limits::{FRAME_BYTES_MAX, FRAME_MESSAGES_MAX},
    link::{ToHost, ToRegion},
    proto::link as pb,
};
use bytes::{Bytes, BytesMut};
use prost::{Message as _, encoding};

/// A message that travels in frames.
pub trait LinkMessage: Sized + sealed::Framed {}

impl LinkMessage for ToRegion {}
impl LinkMessage for ToHost {}

mod sealed {
    use super::{Bytes, WireError};

    pub trait Framed: Sized {
        /// One message, encoded.
        fn encode(&self) -> Result<Vec<u8>, WireError>;
        /// All messages of a frame, each converted or not.
        fn decode(frame: Bytes) -> Result<Vec<Result<Self, WireError>>, WireError>;
    }
}

macro_rules! framed {
    ($message:ident, $frame:ident, $what:literal) => {
        impl sealed::Framed for $message {
            fn encode(&self) -> Result<Vec<u8>, WireError> {
                Ok(self.to_proto()?.encode_to_vec())
            }

            fn decode(frame: Bytes) -> Result<Vec<Result<Self, WireError>>, WireError> {
                let frame = pb::$frame::decode(frame).map_err(|source| WireError::Malformed { what: $what, source })?;
                within("number of messages in a frame", frame.messages.len(), FRAME_MESSAGES_MAX)?;
                Ok(frame.messages.into_iter().map(Self::from_proto).collect())
            }
        }
    };
}

framed!(ToRegion, RegionFrame, "a frame of a host");
framed!(ToHost, HostFrame, "a frame of a region");

/// The tag of `messages` in both frames.
const MESSAGES_TAG: u32 = 1;

/// Puts messages into as few frames as the limits allow, in order.
///
/// # Errors
/// When one message alone is larger than a frame may be.
pub fn pack<'a, M: LinkMessage + 'a>(messages: impl IntoIterator<Item = &'a M>) -> Result<Vec<Bytes>, WireError> {
    let mut frames = Vec::new();
    let mut frame = BytesMut::new();
    let mut count = 0;
    for message in messages {
        let message = message.encode()?;
        let length = u64::try_from(message.len()).unwrap_or(u64::MAX);
        let bytes = encoding::key_len(MESSAGES_TAG) + encoding::encoded_len_varint(length) + message.len();
        within("a message", bytes, FRAME_BYTES_MAX)?;
        if count == FRAME_MESSAGES_MAX || frame.len() + bytes > FRAME_BYTES_MAX {
            frames.push(frame.split().freeze());
            count = 0;
        }
        encoding::encode_key(MESSAGES_TAG, encoding::WireType::LengthDelimited, &mut frame);
        encoding::encode_varint(length, &mut frame);
        frame.extend_from_slice(&message);
        count += 1;
    }
    if count > 0 {
        frames.push(frame.freeze());
    }
    Ok(frames)
}

/// What was in a frame.
#[derive(Debug)]
pub struct Unpacked<M> {
    /// Its messages, in order.
    pub messages: Vec<M>,
    /// Number of messages of a kind that this version does not know: a newer peer may send some, and does without.
    pub skipped: usize,
}

/// Takes a frame apart.
///
/// # Errors
/// When the frame is too large, is not protobuf, or a message has a field that is missing or not valid. Then the
/// peer can't be understood: the link is to be closed.
pub fn unpack<M: LinkMessage>(frame: Bytes) -> Result<Unpacked<M>, WireError> {
    within("a frame", frame.len(), FRAME_BYTES_MAX)?;
    let mut unpacked = Unpacked { messages: Vec::new(), skipped: 0 };
    for message in M::decode(frame)? {
        match message {
            Ok(message) => unpacked.messages.push(message),
            Err(WireError::UnknownKind { .. }) => unpacked.skipped += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(unpacked)
}
