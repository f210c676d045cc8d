//! The container's root: the image's layers, with a layer of its own on top.
//!
//! It is mounted in a mount namespace that only the shim has, so that nothing has to be unmounted, ever: the mount goes
//! when the last process goes that sees it.

use std::{
    fs::File,
    os::{fd::AsRawFd as _, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use polder_shim::Launch;

/// The kernel takes one page of options.
const OPTION_BYTES_MAX: usize = 4000;

/// Mounts the root at `target`.
pub(crate) fn mount_root(launch: &Launch, target: &Path) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("no mount namespace of its own: {error}"))?;
    // Not private: what the host unmounts later must not be held here.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)
        .map_err(|error| format!("the mount namespace can't be separated from the host's: {error}"))?;

    let layers: Vec<&Path> = launch.lower_layers.iter().map(PathBuf::as_path).collect();
    if layers.is_empty() {
        return Err("the image has no layers".to_owned());
    }
    let fixed = [launch.upper.as_path(), launch.work.as_path()];
    let plain = options(&layers, fixed);
    // Many layers with long names don't fit; names with separators can't be said. Open directories have short names.
    let mut open = Vec::new();
    let text = match plain {
        Some(text) if text.len() <= OPTION_BYTES_MAX => text,
        _ => {
            let short: Vec<PathBuf> =
                layers.iter().map(|layer| by_number(layer, &mut open)).collect::<Result<_, _>>()?;
            let [upper, work] = [by_number(fixed[0], &mut open)?, by_number(fixed[1], &mut open)?];
            let short: Vec<&Path> = short.iter().map(PathBuf::as_path).collect();
            options(&short, [&upper, &work]).unwrap_or_default()
        }
    };
    // `volatile`: what the container writes is not kept over a crash of the machine, so it need not be synced for one.
    mount(Some("overlay"), target, Some("overlay"), MsFlags::empty(), Some(text.as_str())).map_err(|error| match layers
        .iter()
        .find(|layer| !layer.is_dir())
    {
        Some(gone) => format!("the image's layer {} is not there", gone.display()),
        None => format!("the root {} can't be mounted over {} layers: {error}", target.display(), layers.len()),
    })
}

/// None when a path has a character that means something in the options.
fn options(layers: &[&Path], [upper, work]: [&Path; 2]) -> Option<String> {
    let sayable = |path: &Path| !path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b',' | b'\\'));
    if !layers.iter().chain([&upper, &work]).all(|path| sayable(path)) {
        return None;
    }
    let lower: Vec<&str> = layers.iter().map(|layer| layer.to_str()).collect::<Option<_>>()?;
    Some(format!("lowerdir={},upperdir={},workdir={},volatile", lower.join(":"), upper.to_str()?, work.to_str()?))
}

fn by_number(dir: &Path, open: &mut Vec<File>) -> Result<PathBuf, String> {
    let file = File::open(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    open.push(file);
    Ok(path)
}
