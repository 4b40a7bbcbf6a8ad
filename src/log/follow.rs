//! What one path gained since the last look: appended bytes, a rotation, a truncation, or nothing because it is absent.
//!
//! It makes one path look like one endless log. No thread, no clock, no watch: the caller says when to look. The file
//! is opened read-only and never blocks: what is not a regular file (a FIFO, a device) is refused, not opened.
//!
//! A file that was moved or deleted is read on until another one stands under the path and has a first byte: a writer
//! that never opens its log again (`> train.log`) is not lost to a rotation that puts an empty file in its place.
//!
//! A file's beginning of nothing but zeros is a hole that nobody wrote: it is passed over. On another machine zeros may
//! be bytes that are still on their way, behind a size that came before them: they are looked at again before they are
//! believed.
//!
//! What cannot be seen: bytes that were cut before a look; a file that came and went between two looks; what an old
//! writer still writes to a moved file once the new one has bytes; a cut file that was written again to at least its
//! old length with the very same beginning, which looks as if it had been appended to.

use std::cell::RefCell;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The most that is read of one file in one look, so that a log of gigabytes starves no other.
const TURN: usize = 4 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;
/// The attributes and pages of a network file system are kept for some seconds, and a look is made each second.
const DOUBTS: u32 = 4;
/// So many first bytes tell one file from another.
const HEAD: usize = 256;

thread_local! {
    /// For all that a thread follows: thousands of logs need no memory for bytes that are not there.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What a look gave.
#[derive(Debug, PartialEq)]
pub enum Gained<'a> {
    /// These bytes came next.
    Bytes(&'a [u8]),
    /// Another file stands under the path: what follows is its beginning.
    Rotated,
    /// The file was cut: what follows is its new beginning.
    Truncated,
}

/// Follows one path.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    open: Option<Open>,
    /// So many looks in a row a file must be shorter before it is believed to be cut, and zeros must stay.
    doubts: u32,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Device and inode; they cannot be used again while the file is open.
    identity: (u64, u64),
    offset: u64,
    size: u64,
    /// Unix seconds.
    modified: f64,
    /// Nothing but zeros came: the hole that a writer leaves before it where its file was cut.
    hole: bool,
    /// So many looks in a row said that it is shorter than what was read of it, or that it begins otherwise.
    shorter: u32,
    /// Zeros that are not taken yet.
    zeros: Option<Zeros>,
    /// Zeros before this offset are what the writer left.
    believed: u64,
    /// Its first bytes: a file that was cut and filled again beyond `offset` begins otherwise.
    head: Vec<u8>,
}

/// Zeros that may be bytes on their way.
#[derive(Debug)]
struct Zeros {
    at: u64,
    /// Where the file ended when they were first seen: all zeros before that are believed together.
    end: u64,
    looks: u32,
}

/// Opens a file for reading if it is a regular one. Nothing else is opened for longer than it takes to see that, and
/// a FIFO without a writer blocks nobody.
pub fn open(path: &Path) -> io::Result<File> {
    regular(&std::fs::metadata(path)?)?;
    // What stood there a moment ago may be a FIFO by now.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

fn regular(there: &Metadata) -> io::Result<()> {
    let kind = there.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::other(format!("{what}, not a regular file")))
}

impl Follower {
    /// Follows `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            open: None,
            doubts: 0,
        }
    }

    /// The file is on another machine: its size may be that of a moment ago, an older one than was told before, or one
    /// whose bytes have not come yet.
    pub fn far(self) -> Self {
        Self {
            doubts: DOUBTS,
            ..self
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hands out all that came since the last look, at most `TURN` bytes of it, and tells whether there may be more.
    /// An absent path is an error while nothing was ever there; later the old file is still read, and may come back.
    pub fn poll(&mut self, gained: &mut dyn FnMut(Gained<'_>)) -> io::Result<bool> {
        // Asked before the old file is read: what was written before the new one came is in the old one by then.
        let named = std::fs::metadata(&self.path).and_then(|there| regular(&there).map(|()| there));
        if let Some(open) = &mut self.open {
            let other = named
                .as_ref()
                .ok()
                .filter(|there| identity(there) != open.identity);
            match open.read(self.doubts, gained) {
                Ok(true) => return Ok(true),
                Ok(false) if open.zeros.is_some() || open.shorter > 0 => return Ok(false),
                Ok(false) => match &named {
                    Ok(_) if other.is_none_or(|there| there.len() == 0) => return Ok(false),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
                    Ok(_) | Err(_) => {}
                },
                // A file that can no longer be read (a stale handle) is given up for the one in its place.
                Err(e) if other.is_none() => return Err(e),
                Err(_) => {}
            }
        }
        named?;
        let file = open(&self.path)?;
        let there = file.metadata()?;
        if self.open.is_some() {
            gained(Gained::Rotated);
        }
        let open = self.open.insert(Open {
            identity: identity(&there),
            file,
            offset: 0,
            size: there.len(),
            modified: modified(&there),
            hole: true,
            shorter: 0,
            zeros: None,
            believed: 0,
            head: Vec::new(),
        });
        open.read(self.doubts, gained)
    }

    /// The newest bytes of the open file, at most so many, without moving on.
    pub fn ending(&self, most: usize) -> io::Result<Vec<u8>> {
        let Some(open) = &self.open else {
            return Ok(Vec::new());
        };
        let from = open.size.saturating_sub(most as u64);
        let mut bytes = vec![0; (open.size - from) as usize];
        open.file.read_exact_at(&mut bytes, from)?;
        Ok(bytes)
    }

    /// Bytes that are in the file and not handed out yet.
    pub fn lag(&self) -> u64 {
        self.open
            .as_ref()
            .map_or(0, |open| open.size.saturating_sub(open.offset))
    }

    /// When the file was last written, in Unix seconds, as its owner's clock says; absent before it was opened.
    pub fn modified(&self) -> Option<f64> {
        self.open.as_ref().map(|open| open.modified)
    }

    /// The file is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Device and inode of the open file.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.open.as_ref().map(|open| open.identity)
    }
}

impl Open {
    fn read(&mut self, doubts: u32, gained: &mut dyn FnMut(Gained<'_>)) -> io::Result<bool> {
        let there = self.file.metadata()?;
        self.modified = modified(&there);
        self.size = there.len();
        let begins = self.beginning()?;
        let otherwise = begins != self.head[..begins.len()];
        let cut = self.size < self.offset || otherwise;
        self.shorter = if cut { self.shorter + 1 } else { 0 };
        let sure = otherwise && !begins.contains(&0);
        if cut && !sure && self.shorter <= doubts {
            return Ok(false);
        }
        if cut {
            self.shorter = 0;
            gained(Gained::Truncated);
            (self.offset, self.hole) = (0, true);
            (self.zeros, self.believed) = (None, 0);
            self.head.clear();
        }
        BUFFER.with_borrow_mut(|buffer| self.read_on(doubts, buffer, gained))
    }

    /// Reads from the offset on.
    fn read_on(
        &mut self,
        doubts: u32,
        buffer: &mut Vec<u8>,
        gained: &mut dyn FnMut(Gained<'_>),
    ) -> io::Result<bool> {
        self.file.seek(SeekFrom::Start(self.offset))?;
        buffer.resize(CHUNK, 0);
        // The first turn is short: a long log is then begun at its end.
        let most = if self.offset == 0 { CHUNK } else { TURN };
        let mut turn = 0;
        while turn < most {
            let n = match self.file.read(buffer) {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let came = n;
            let n = self.firm(&buffer[..n], doubts);
            if n == 0 {
                return Ok(false);
            }
            if self.offset < HEAD as u64 {
                let room = HEAD.saturating_sub(self.head.len());
                self.head.extend_from_slice(&buffer[..n.min(room)]);
            }
            self.offset += n as u64;
            self.size = self.size.max(self.offset);
            turn += n;
            let zeros = buffer[..n]
                .iter()
                .take_while(|&&byte| self.hole && byte == 0);
            let text = &buffer[zeros.count()..n];
            if !text.is_empty() {
                self.hole = false;
                gained(Gained::Bytes(text));
            }
            if n < came {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How many of the next bytes are what the writer left: all, or those before zeros that may still become others.
    fn firm(&mut self, bytes: &[u8], doubts: u32) -> usize {
        let believed = self.believed.saturating_sub(self.offset);
        let from = bytes
            .len()
            .min(usize::try_from(believed).unwrap_or(usize::MAX));
        let zero = memchr::memchr(0, &bytes[from..]).filter(|_| doubts > 0);
        let before = self.zeros.take();
        let Some(zero) = zero else { return bytes.len() };
        let (n, at) = (from + zero, self.offset + (from + zero) as u64);
        let mut zeros = before.filter(|zeros| zeros.at == at).unwrap_or(Zeros {
            at,
            end: self.size,
            looks: 0,
        });
        zeros.looks += 1;
        if zeros.looks > doubts {
            self.believed = zeros.end;
            return bytes.len();
        }
        self.zeros = Some(zeros);
        n
    }

    /// What now stands where the first bytes were read.
    fn beginning(&self) -> io::Result<Vec<u8>> {
        let mut now = vec![0; self.head.len()];
        let length = self.file.read_at(&mut now, 0)?;
        now.truncate(length);
        Ok(now)
    }
}

fn identity(there: &Metadata) -> (u64, u64) {
    (there.dev(), there.ino())
}

/// When a file was last written, in Unix seconds; 0 where nobody knows.
pub fn modified(there: &Metadata) -> f64 {
    there
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map_or(0.0, |since| since.as_secs_f64())
}
