//! Which file system a path is on, without a question to it: one that never answers must not be asked even that.
//!
//! The kernel's own table tells; links are followed only where the file system that they stand on is a local one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// As the kernel follows at most.
const LINKS: usize = 40;

/// File systems on another machine, or behind a program: no event tells what others write there.
const FAR: [&str; 18] = [
    "9p", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "fuse", "fuseblk", "gpfs", "lustre",
    "ncpfs", "nfs", "nfs4", "panfs", "smb3", "smbfs", "virtiofs",
];

/// The mounts as they were when they were read: where, and of what type.
#[derive(Debug, Default)]
pub(super) struct Mounts(HashMap<PathBuf, String>);

/// Where a path is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mount {
    /// Where its file system is mounted.
    pub(super) at: PathBuf,
    /// The type of it, if it is a far one.
    pub(super) far: Option<String>,
}

impl Mounts {
    /// Those of this process; all is one where they cannot be read.
    pub(super) fn read() -> Self {
        Self::parse(&fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(table: &[u8]) -> Self {
        let mounts = table.split(|&byte| byte == b'\n').filter_map(|line| {
            let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
            let end = fields.iter().position(|field| *field == b"-")?;
            let kind = String::from_utf8_lossy(fields.get(end + 1)?).into_owned();
            Some((plain(fields.get(4)?), kind))
        });
        // A later one covers an earlier one in the same place.
        Self(mounts.collect())
    }

    /// Where this absolute path is, as far as that can be told without a question to a far file system.
    pub(super) fn of(&self, path: &Path) -> Mount {
        let mut at = PathBuf::from("/");
        let mut rest = words(path);
        let mut links = 0;
        while let Some(word) = rest.pop() {
            if word == ".." {
                at.pop();
                continue;
            }
            at.push(word);
            let mount = self.covering(&at);
            if mount.far.is_some() {
                return mount;
            }
            if links < LINKS
                && let Ok(target) = fs::read_link(&at)
            {
                links += 1;
                at.pop();
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                rest.extend(words(&target));
            }
        }
        self.covering(&at)
    }

    fn covering(&self, path: &Path) -> Mount {
        let found = path.ancestors().find_map(|at| Some((at, self.0.get(at)?)));
        found.map_or_else(Mount::default, |(at, kind)| {
            let family = kind.split('.').next().unwrap_or_default();
            Mount {
                at: at.to_owned(),
                far: FAR.contains(&family).then(|| kind.clone()),
            }
        })
    }
}

/// The words of a path, the last one first.
fn words(path: &Path) -> Vec<std::ffi::OsString> {
    let words = path.components().rev().filter_map(|part| match part {
        Component::Normal(word) => Some(word.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    words.collect()
}

/// The kernel writes blanks and the like as a backslash and three octal digits.
fn plain(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| byte == b'\\');
        let code =
            code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_on_the_nearest_mount_and_far_ones_are_known() {
        let mounts = Mounts::parse(
            b"22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
              30 22 0:40 / /mnt/my\\040data rw - nfs4 server:/x rw\n\
              31 22 0:41 / /mnt/my\\040data/local rw - xfs /dev/sdb rw\n\
              32 22 0:42 / /mnt/fuse rw shared:3 master:1 - fuse.sshfs host:/ rw\n\
              33 22 0:43 / /gone rw - ext4 /dev/sdc rw\n\
              34 33 0:44 / /gone rw - lustre mgs:/x rw\n",
        );
        for (path, at, far) in [
            ("/mnt/other/train.log", "/", None),
            ("/mnt/my data/a/train.log", "/mnt/my data", Some("nfs4")),
            // What is below a far one is not looked at any nearer.
            ("/mnt/my data/local/train.log", "/mnt/my data", Some("nfs4")),
            ("/mnt/fuse", "/mnt/fuse", Some("fuse.sshfs")),
            ("/mnt/fuse/../train.log", "/mnt/fuse", Some("fuse.sshfs")),
            ("/gone/train.log", "/gone", Some("lustre")),
        ] {
            let mount = mounts.of(Path::new(path));
            assert_eq!(
                (mount.at.as_path(), mount.far.as_deref()),
                (Path::new(at), far),
                "{path}"
            );
        }
    }

    #[test]
    fn a_link_leads_to_where_it_points() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = fs::canonicalize(folder.path()).expect("there");
        std::os::unix::fs::symlink("there/deep", real.join("link")).expect("a link");
        std::os::unix::fs::symlink("loop", real.join("loop")).expect("a link");
        let far = real.join("there").display().to_string();
        let table = format!("1 0 8:1 / / rw - ext4 x rw\n2 1 0:9 / {far} rw - nfs x rw\n");
        let mounts = Mounts::parse(table.as_bytes());
        assert_eq!(mounts.of(&real.join("link/train.log")).at, Path::new(&far));
        assert_eq!(mounts.of(&real.join("loop")).at, Path::new("/"));
    }
}
