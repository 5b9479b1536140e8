//! The read side of the stores: every system call on rollouts goes through here.
//!
//! [`folders`] lists a tree of rollouts, [`root`] looks at what is in it, of much of it on two cores ([`looks`]), and
//! [`mod@file`] opens one and reads it: its identity from the first row, or its turns from all rows that matter. A large file
//! is mapped and read in `parts` by all cores, any other as a `stream` through a [`buffer`]; both find their way by `stops`,
//! as fast as the processor can, and give the rows to a [`reading`]. What was read is remembered as a [`checkpoint`]. A
//! [`transcript`] of Claude is read as a stream, and [`followed`] on. Where every row is to be counted, [`counted`] reads.
//! That the bytes in front of a place are still those that were read, a [`proof`] tells.

pub mod buffer;
pub mod checkpoint;
pub mod counted;
pub mod file;
pub mod folders;
pub mod followed;
pub mod looks;
mod parts;
pub mod proof;
pub mod reading;
pub mod root;
pub mod rows;
pub mod stamps;
pub mod stops;
mod stream;
pub mod transcript;
pub mod tree;
