//! The rules of the API's types against recorded answers, and how long they take.

#![cfg(test)]

mod common;
mod defaults;
mod invalid;
mod speed;
mod work;
