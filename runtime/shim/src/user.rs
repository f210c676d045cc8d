//! Who the container runs as, by the image's own `/etc/passwd` and `/etc/group`.
//!
//! The image is not trusted: a link in it must not lead out of it, a file must not be a device or endless.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path},
};

use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, open, openat2},
    io::Errno,
};

/// The longest account file that is read.
const ACCOUNTS_BYTES_MAX: u64 = 1 << 20;
/// The most groups that a process may be in.
const GROUPS_MAX: usize = 1024;

/// Who.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) home: String,
}

/// The root of the container as a place to look things up in.
pub(crate) struct Root(OwnedFd);

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    fn look(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(self.0.as_fd(), path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    /// An account file; one that isn't there is empty.
    fn read(&self, path: &str) -> Result<String, String> {
        let fail = |error: &dyn std::fmt::Display| format!("the image's {path} can't be read: {error}");
        // Without waiting: it might be a pipe.
        let file = match self.look(Path::new(path), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(String::new()),
            Err(error) => return Err(fail(&error)),
        };
        let stat = fstat(&file).map_err(|error| fail(&error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(fail(&"it is not a file"));
        }
        let mut text = Vec::new();
        File::from(file).take(ACCOUNTS_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| fail(&error))?;
        if text.len() as u64 > ACCOUNTS_BYTES_MAX {
            return Err(fail(&"it is too long"));
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Makes a directory and those above it, where they are missing.
    pub(crate) fn make_dir(&self, path: &Path) -> Result<(), String> {
        let fail = |error: Errno| format!("the working directory {} can't be made: {error}", path.display());
        let mut done = std::path::PathBuf::from("/");
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            let next = done.join(name);
            match self.look(&next, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(_) => {}
                Err(Errno::NOENT) => {
                    let parent = self.look(&done, OFlags::PATH | OFlags::DIRECTORY).map_err(fail)?;
                    mkdirat(&parent, name, Mode::from_raw_mode(0o755)).map_err(fail)?;
                }
                Err(error) => return Err(fail(error)),
            }
            done = next;
        }
        Ok(())
    }

    /// Who `user[:group]` is.
    pub(crate) fn account(&self, user: Option<&str>) -> Result<Account, String> {
        resolve(user.unwrap_or("0"), &self.read("/etc/passwd")?, || self.read("/etc/group"))
    }
}

struct Entry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

fn entries(passwd: &str) -> impl Iterator<Item = Entry<'_>> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _) = (fields.next()?, fields.next()?);
        let (uid, gid, _, home) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        Some(Entry { name, uid: uid.parse().ok()?, gid: gid.parse().ok()?, home })
    })
}

struct Group<'a> {
    name: &'a str,
    gid: u32,
    members: &'a str,
}

fn groups(group: &str) -> impl Iterator<Item = Group<'_>> {
    group.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _, gid) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Group { name, gid: gid.parse().ok()?, members: fields.next().unwrap_or("") })
    })
}

fn resolve(user: &str, passwd: &str, group: impl FnOnce() -> Result<String, String>) -> Result<Account, String> {
    let (name, group_name) = match user.split_once(':') {
        Some((name, group_name)) => (name, Some(group_name).filter(|text| !text.is_empty())),
        None => (user, None),
    };
    let name = if name.is_empty() { "0" } else { name };
    let number: Option<u32> = name.parse().ok();
    let entry = entries(passwd)
        .find(|entry| entry.name == name)
        .or_else(|| number.and_then(|uid| entries(passwd).find(|entry| entry.uid == uid)));
    let uid = match (&entry, number) {
        (Some(entry), _) => entry.uid,
        (None, Some(uid)) => uid,
        (None, None) => return Err(format!("the image has no user `{name}` in its /etc/passwd")),
    };
    let needs_groups = group_name.is_some() || entry.is_some();
    let group = if needs_groups { group()? } else { String::new() };
    let gid = match group_name {
        None => entry.as_ref().map_or(0, |entry| entry.gid),
        Some(wanted) => match groups(&group).find(|one| one.name == wanted) {
            Some(one) => one.gid,
            None => wanted.parse().map_err(|_| format!("the image has no group `{wanted}` in its /etc/group"))?,
        },
    };
    let mut more: Vec<u32> = match (&entry, group_name) {
        // Who names a group gets that one alone.
        (Some(entry), None) => groups(&group)
            .filter(|one| one.members.split(',').any(|who| who == entry.name))
            .map(|one| one.gid)
            .collect(),
        _ => Vec::new(),
    };
    more.retain(|&one| one != gid);
    more.sort_unstable();
    more.dedup();
    if more.len() > GROUPS_MAX {
        return Err(format!("user `{name}` of the image is in {} groups, {GROUPS_MAX} at most", more.len()));
    }
    let home = entry.map(|entry| entry.home).filter(|home| home.starts_with('/')).map(str::to_owned);
    let home = home.unwrap_or_else(|| if uid == 0 { "/root".to_owned() } else { "/".to_owned() });
    Ok(Account { uid, gid, groups: more, home })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:33::/var/www:/bin/false\nbroken\n7:x:9:9::/x:\n";
    const GROUP: &str = "root:x:0:\nweb:x:33:\nlogs:x:4:web,other\nmail:x:8:other\nextra:x:50:web\n";

    fn who(user: &str) -> Result<Account, String> {
        resolve(user, PASSWD, || Ok(GROUP.to_owned()))
    }

    fn account(uid: u32, gid: u32, groups: &[u32], home: &str) -> Account {
        Account { uid, gid, groups: groups.to_vec(), home: home.to_owned() }
    }

    #[test]
    fn names_and_numbers_are_found() {
        assert_eq!(who("web").unwrap(), account(33, 33, &[4, 50], "/var/www"));
        assert_eq!(who("33").unwrap(), account(33, 33, &[4, 50], "/var/www"));
        assert_eq!(who("web:mail").unwrap(), account(33, 8, &[], "/var/www"));
        assert_eq!(who("1000").unwrap(), account(1000, 0, &[], "/"));
        assert_eq!(who("1000:1001").unwrap(), account(1000, 1001, &[], "/"));
        assert_eq!(who("").unwrap(), account(0, 0, &[], "/root"));
        assert_eq!(who("7").unwrap(), account(9, 9, &[], "/x"), "a name goes before a number");
    }

    #[test]
    fn unknown_names_are_errors() {
        assert!(who("nobody").unwrap_err().contains("no user `nobody`"));
        assert!(who("web:nogroup").unwrap_err().contains("no group `nogroup`"));
        assert!(who("99999999999").is_err());
        assert!(who("-1").is_err());
    }

    #[test]
    fn an_image_without_files_has_root() {
        let found = resolve("0", "", || Ok(String::new())).unwrap();
        assert_eq!(found, account(0, 0, &[], "/root"));
    }

    #[test]
    fn links_do_not_lead_out_of_the_image() {
        let dir = std::env::temp_dir().join(format!("polder-shim-user-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("etc")).unwrap();
        std::os::unix::fs::symlink("../../../../../../etc/passwd", dir.join("etc/passwd")).unwrap();
        std::os::unix::fs::symlink("/outside", dir.join("link")).unwrap();
        let root = Root::open(&dir).unwrap();
        // The link leads to itself within the image.
        assert!(root.account(Some("root")).is_err());
        root.make_dir(Path::new("/a/../b/c")).unwrap();
        assert!(dir.join("a/b/c").is_dir() || dir.join("b/c").is_dir());
        assert!(root.make_dir(Path::new("/link/x")).is_err());
        assert!(!Path::new("/outside").exists());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
