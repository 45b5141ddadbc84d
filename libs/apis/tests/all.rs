//! The rules of the API's types against recorded answers, and how long they take.

#![cfg(test)]

mod common;
mod defaults;
mod gates;
mod invalid;
mod speed;
