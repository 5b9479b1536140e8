//! Integration tests: one binary, a module for each contract.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod audit;
mod blind_spots;
mod cache;
mod cli;
mod doctor;
mod examples;
mod golden;
mod home;
mod hooks;
mod install;
mod pieces;
mod places;
mod pollers;
mod remembering;
mod resumed;
mod samples;
mod session_name;
mod ticks;
mod waiting;

// The random transcripts of sessions with names, and their model, are those of the parsers' own tests.
#[path = "../../parsers/tests/naive/name.rs"]
mod naive_name;
#[path = "../../parsers/tests/naive/rows.rs"]
mod naive_rows;
#[path = "../../parsers/tests/transcript/named.rs"]
mod named;
#[path = "../../parsers/tests/spelling/mod.rs"]
mod spelling;
