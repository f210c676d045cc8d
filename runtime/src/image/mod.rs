//! Images: from an OCI layout or archive to overlayfs layers on this machine's disk.
