//! The read side of the stores: every system call on rollouts goes through here.
//!
//! [`folders`] lists a tree of rollouts, [`file`] opens one and reads it: its identity from the first row, or its turns
//! from all rows that matter, mapped or not, on one core or all.
//! [`stops`] is how it finds its way through the bytes as fast as this processor can.

pub mod buffer;
pub mod file;
pub mod folders;
mod stops;
