//! What `prost` makes of the protobuf files.

#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]

pub(crate) mod polder {
    pub(crate) mod common {
        pub(crate) mod v1 {
            include!(concat!(env!("OUT_DIR"), "/polder.common.v1.rs"));
        }
    }
    pub(crate) mod records {
        pub(crate) mod v1 {
            include!(concat!(env!("OUT_DIR"), "/polder.records.v1.rs"));
        }
    }
    pub(crate) mod link {
        pub(crate) mod v1 {
            include!(concat!(env!("OUT_DIR"), "/polder.link.v1.rs"));
        }
    }
}

pub(crate) use polder::{common::v1 as common, link::v1 as link, records::v1 as records};
