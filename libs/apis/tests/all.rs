//! The rules of the API's types against recorded answers, and their speed.

#![cfg(test)]

mod common;
mod config;
mod defaults;
mod ephemeral;
mod gates;
mod invalid;
mod pods;
mod speed;
mod work;
