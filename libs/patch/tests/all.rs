//! Patches, apply and field ownership against recorded answers, general laws and damaged input.

#![cfg(test)]

mod depth;
mod kinds;
mod lists;
mod mutations;
mod ownership;
mod recorded;
mod sets;
mod work;
