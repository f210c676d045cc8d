//! What an image may cost. Everything an image says is said by a stranger, so every size has a limit.

use polder_types::Bytes;

/// Longest image index, in bytes.
pub const INDEX_BYTES_MAX: u64 = 4 << 20;
/// Longest image manifest, in bytes.
pub const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// Longest image configuration, in bytes.
pub const CONFIG_BYTES_MAX: u64 = 4 << 20;
/// Most layers of one image. The kernel takes 500 lower layers; other runtimes stop at 127.
pub const LAYERS_MAX: usize = 127;
/// Deepest chain of indexes that point to indexes.
pub const INDEX_DEPTH_MAX: usize = 3;
/// Most entries in an archive that holds a layout.
pub const ARCHIVE_ENTRIES_MAX: usize = 100_000;
/// Longest path of an entry in a layer, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// Deepest path of an entry in a layer, in components.
pub const PATH_DEPTH_MAX: usize = 128;
/// Longest name of an entry, in bytes; what Linux allows.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest extended header (long names, extended attributes) in front of an entry, in bytes.
pub const EXTENSION_BYTES_MAX: u64 = 1 << 20;
/// Most memory that the metadata of a layer's directories may take until it is set, in bytes.
pub const DIRECTORY_NOTES_BYTES_MAX: usize = 512 << 20;
/// Longest user or group file that is read for finding a user, in bytes.
pub const USER_FILE_BYTES_MAX: u64 = 4 << 20;
/// Most symbolic links that are followed on the way to the user or group file; what Linux allows.
pub const LINKS_FOLLOWED_MAX: usize = 40;
/// Largest window that a zstd layer may ask for, as a power of two: what the decoder keeps in memory.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// The limits of a layer that depend on the size of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerLimits {
    /// Longest layer as it is stored, usually compressed.
    pub stored: Bytes,
    /// Longest layer after decompression: what it takes on disk, and what a small file can be blown up to.
    pub unpacked: Bytes,
    /// Most files, directories and links of a layer.
    pub entries: u64,
}

impl Default for LayerLimits {
    fn default() -> Self {
        Self { stored: Bytes::from_mib(16 << 10), unpacked: Bytes::from_mib(64 << 10), entries: 2_000_000 }
    }
}
