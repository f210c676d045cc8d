//! Compiles the protobuf files.

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=proto");
    prost_build::Config::new()
        .btree_map(["."])
        .bytes([".polder.link.v1.LogChunk.bytes"])
        .compile_protos(&["proto/common.proto", "proto/link.proto", "proto/records.proto"], &["proto"])
}
