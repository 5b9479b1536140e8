//! A buffer that streams are read through, used again for the next one.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read};

/// Bytes that were read and are still of use. Its memory stays when they go.
#[derive(Debug, Default)]
pub struct Buffer {
    memory: Vec<u8>,
    filled: usize,
}

thread_local! {
    static KEPT: RefCell<Buffer> = RefCell::default();
}

/// A larger one is not kept for the next stream.
const KEPT_AT_MOST: usize = 4 << 20;

/// Does it with this thread's buffer. (What a thread does meanwhile, for want of work, gets another one.)
pub fn lend<T>(with: impl FnOnce(&mut Buffer) -> T) -> T {
    let mut buffer = KEPT.take();
    buffer.clear();
    let done = with(&mut buffer);
    if buffer.memory.len() <= KEPT_AT_MOST {
        KEPT.set(buffer);
    }
    done
}

impl Buffer {
    /// What was read.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.filled]
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Forgets the first bytes.
    pub fn drop_first(&mut self, count: usize) {
        // A row that stays, grown over many blocks, must not be moved onto itself once a block.
        if count > 0 {
            self.memory.copy_within(count..self.filled, 0);
            self.filled -= count;
        }
    }

    /// Reads until there are `wanted` bytes; false when the stream has ended before.
    ///
    /// # Errors
    /// The stream's.
    pub fn fill(&mut self, stream: &mut impl Read, wanted: usize) -> io::Result<bool> {
        if self.memory.len() < wanted {
            self.memory.resize(wanted, 0);
        }
        while self.filled < wanted {
            match stream.read(&mut self.memory[self.filled..wanted]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bytes_are_those_of_the_stream_in_order() {
        let mut stream = (0..=99).collect::<Vec<u8>>();
        stream.extend(0..=99);
        let (mut stream, mut buffer) = (stream.as_slice(), Buffer::default());
        assert!(buffer.fill(&mut stream, 150).unwrap());
        buffer.drop_first(120);
        assert_eq!(buffer.bytes(), (20..50).collect::<Vec<u8>>());
        assert!(!buffer.fill(&mut stream, 100).unwrap());
        assert_eq!(buffer.bytes(), (20..=99).collect::<Vec<u8>>());
        buffer.clear();
        assert!(buffer.bytes().is_empty());
    }
}
