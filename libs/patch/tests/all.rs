//! Patches, applies and their owners against recorded answers, laws and damaged input.

#![cfg(test)]

mod depth;
mod kinds;
mod lists;
mod mutations;
mod ownership;
mod recorded;
mod sets;
mod work;
