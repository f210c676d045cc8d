//! Who a container runs as: `user[:group]`, by name or number, looked up in the image.

use super::{error::ImageError, limits::USER_FILE_BYTES_MAX, merged::MergedView};
use std::path::PathBuf;

/// Largest user or group id; what other runtimes take.
const ID_MAX: u32 = i32::MAX.unsigned_abs();
/// Most further groups that are looked at; the kernel takes 65,536.
const GROUPS_MAX: usize = 65_536;

/// A user of an image, as the kernel knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedUser {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Further groups that the user is in.
    pub extra_gids: Vec<u32>,
    /// The user's home directory, if the image knows the user.
    pub home: Option<String>,
}

struct User {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
}

struct Group {
    name: String,
    gid: u32,
    members: Vec<String>,
}

/// Finds the user and group that `wanted` (`user[:group]`; empty means root) names, in the image whose layers these
/// are, the top one first. Reads files, so call it where that may block.
///
/// A user id that the image does not know is taken as it is, with group 0; a name must be known. Without a group, the
/// user's own and all groups that it is a member of are taken; with one, only that.
///
/// # Errors
/// When a name is unknown, a number is too large, or the image's user files can't be read.
pub fn resolve_user(lower_layers: &[PathBuf], wanted: &str) -> Result<ResolvedUser, ImageError> {
    let (user, group) = match wanted.split_once(':') {
        Some((user, group)) => (user, Some(group).filter(|group| !group.is_empty())),
        None => (wanted, None),
    };
    let user = if user.is_empty() { "0" } else { user };
    let view = MergedView::open(lower_layers).map_err(ImageError::io("open the layers of an image"))?;
    let read = |path: &str| {
        let content = view
            .read(path, USER_FILE_BYTES_MAX)
            .map_err(|error| ImageError::User(format!("`/{path}` of the image can't be read: {error}")))?;
        Ok::<_, ImageError>(content.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default())
    };
    let users: Vec<User> = read("etc/passwd")?.lines().filter_map(parse_user).collect();
    // As everywhere, a text that is both a name and a number is the name, if there is one.
    let known = users.iter().find(|known| known.name == user);
    let number = number(user, "user", wanted)?;
    let known = known.or_else(|| users.iter().find(|known| Some(known.uid) == number));
    let mut resolved = match (known, number) {
        (Some(known), _) => ResolvedUser {
            uid: known.uid,
            gid: known.gid,
            extra_gids: Vec::new(),
            home: Some(known.home.clone()).filter(|home| home.starts_with('/') && !home.contains('\0')),
        },
        (None, Some(uid)) => ResolvedUser { uid, ..ResolvedUser::default() },
        (None, None) => {
            return Err(ImageError::User(format!(
                "user `{}` is not in the image's /etc/passwd; name one that is, or use a number",
                user.escape_debug()
            )));
        }
    };
    if known.is_none() && group.is_none() {
        return Ok(resolved);
    }
    let groups: Vec<Group> = read("etc/group")?.lines().filter_map(parse_group).collect();
    match (group, known) {
        (Some(group), _) => {
            let found = groups.iter().find(|known| known.name == group).map(|known| known.gid);
            resolved.gid = found.or(self::number(group, "group", wanted)?).ok_or_else(|| {
                ImageError::User(format!(
                    "group `{}` is not in the image's /etc/group; name one that is, or use a number",
                    group.escape_debug()
                ))
            })?;
        }
        (None, Some(user)) => {
            let member = groups.iter().filter(|group| group.members.contains(&user.name));
            resolved.extra_gids =
                member.map(|group| group.gid).filter(|gid| *gid != user.gid).take(GROUPS_MAX).collect();
            resolved.extra_gids.sort_unstable();
            resolved.extra_gids.dedup();
        }
        (None, None) => {}
    }
    Ok(resolved)
}

/// An id, none if the text is no number.
fn number(text: &str, what: &str, wanted: &str) -> Result<Option<u32>, ImageError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    match text.parse() {
        Ok(id) if id <= ID_MAX => Ok(Some(id)),
        _ => Err(ImageError::User(format!(
            "the {what} in `{}` is too large; the largest is {ID_MAX}",
            wanted.escape_debug()
        ))),
    }
}

fn id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|id| *id <= ID_MAX)
}

/// `name:password:uid:gid:comment:home:shell`
fn parse_user(line: &str) -> Option<User> {
    let mut fields = line.trim().split(':');
    let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let home = fields.nth(1).unwrap_or_default();
    Some(User { name: name.to_owned(), uid: id(uid)?, gid: id(gid)?, home: home.to_owned() })
}

/// `name:password:gid:member,member`
fn parse_group(line: &str) -> Option<Group> {
    let mut fields = line.trim().split(':');
    let (name, _, gid) = (fields.next()?, fields.next()?, fields.next()?);
    let members = fields.next().unwrap_or_default().split(',').filter(|name| !name.is_empty()).map(str::to_owned);
    Some(Group { name: name.to_owned(), gid: id(gid)?, members: members.collect() })
}
