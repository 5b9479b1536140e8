//! Integration tests: one binary, a module for each contract.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

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
mod samples;
mod ticks;
